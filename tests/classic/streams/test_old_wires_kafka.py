"""Streams over a real broker of Kafka 0.8.2.2 and a real ZooKeeper, whose session also expires."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import pytest

from pyspark_commitlog.classic.consumer import SimpleConsumer
from pyspark_commitlog.classic.streams import ConsumerConnector
from pyspark_commitlog.classic.wire import calls
from pyspark_commitlog.classic.wire.broker import Broker
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.registry.operations import tree_of
from pyspark_commitlog.registry.zookeeper import ZooKeeperRegistry
from pyspark_commitlog.storage import LogStoreError, TopicPartition
from pyspark_commitlog.storage.format.legacy import v0
from tests.registry.test_zookeeper import expire
from tests.support.classic.streams import QUICK, Collected
from tests.support.kafka.old_kafka import OldBroker, run_tool
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.logs.building import records
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.only_all]


class World(NamedTuple):
    """A broker and its ZooKeeper."""

    zookeeper: ZooKeeper
    address: Address

    def produce(self, topic: str, values: list[bytes], partition: int = 0) -> None:
        with Connection(self.address) as connection:
            broker, place = Broker(connection), TopicPartition(topic, partition)
            soon(lambda: leads(broker, place))
            (found,) = calls.produce(broker, {place: v0.encode(records(values)).tobytes()}).values()
            calls.check(found.error, topic)

    def connect(self, **settings: object) -> ConsumerConnector:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        return ConsumerConnector.create({**QUICK, "zookeeper.connect": self.zookeeper.connect, **given})


def leads(broker: Broker, place: TopicPartition) -> bool:
    found = calls.cluster(broker, [place.topic]).partitions.get(place)
    return found is not None and not found.error


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("world")
    with (
        ZooKeeper(home / "zookeeper") as zookeeper,
        OldBroker(home / "kafka", zookeeper.connect, release="0.8.2.2") as kafka,
    ):
        yield World(zookeeper, Address("127.0.0.1", kafka.port))


def values(stream: Any, count: int) -> list[bytes]:
    return [each.message for each in islice(stream, count)]


def test_kafkas_own_tool_finds_the_offsets_and_the_owner(world: World) -> None:
    world.produce("told", [b"a", b"b", b"c"])
    with world.connect(consumerid="me") as connector:
        (stream,) = connector.create_message_streams({"told": 1})["told"]
        assert values(stream, 2) == [b"a", b"b"]
        connector.commit_offsets()
        arguments = ["--zookeeper", world.zookeeper.connect, "--group", "g", "--topic", "told"]
        shown = run_tool("kafka.tools.ConsumerOffsetChecker", *arguments, release="0.8.2.2")
    line = next(each.split() for each in shown.splitlines() if each.startswith("g "))
    assert line == ["g", "told", "0", "2", "3", "1", "g_me-0"]


def test_offsets_go_from_zookeeper_to_the_coordinator_and_back(world: World) -> None:
    world.produce("moved", [b"%d" % each for each in range(12)])
    read: list[bytes] = []
    for settings in (
        {},
        {"offsets.storage": "kafka"},
        {"offsets.storage": "kafka", "dual.commit.enabled": False},
        {"offsets.storage": "kafka", "dual.commit.enabled": True},
    ):
        with world.connect(groupid="moving", **settings) as connector:
            (stream,) = connector.create_message_streams({"moved": 1})["moved"]
            read += values(stream, 3)
    assert read == [b"%d" % each for each in range(12)]
    place = TopicPartition("moved", 0)
    with SimpleConsumer(*world.address) as consumer:
        assert consumer.fetch_offsets("moving", [place], "kafka") == {place: 12}
        assert consumer.fetch_offsets("moving", [place], "zookeeper") == {place: 12}


def test_a_consumer_whose_session_expired_registers_and_reads_on(world: World) -> None:
    world.produce("expired", [b"a"])
    with world.connect(groupid="expires", consumerid="me") as connector:
        reading = Collected(connector.create_message_streams({"expired": 1})["expired"][0])
        soon(lambda: reading.values == [b"a"])
        registry: Any = connector._wire._registry  # type: ignore[attr-defined]
        before = registry.session
        expire(registry, world.zookeeper)
        with ZooKeeperRegistry(world.zookeeper.connect) as other:
            soon(lambda: is_owned_by_another_session(other, before), LogStoreError)
        world.produce("expired", [b"b", b"c"])
        soon(lambda: reading.values[-2:] == [b"b", b"c"])
        assert reading.values in ([b"a", b"b", b"c"], [b"a", b"a", b"b", b"c"])  # in no session nothing is committed


def is_owned_by_another_session(registry: ZooKeeperRegistry, before: str) -> bool:
    nodes = tree_of(registry, "/consumers/expires")
    owners = {path: node.owner for path, node in nodes.items() if node.owner is not None}
    return before not in owners.values() and {
        "/consumers/expires/ids/expires_me",
        "/consumers/expires/owners/expired/0",
    } <= set(owners)
