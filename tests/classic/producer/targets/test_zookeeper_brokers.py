"""Brokers and topics as a registry has them: what changes there is followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.classic.errors import NoBrokersForPartitionError
from pyspark_commitlog.classic.producer.targets.zookeeper_brokers import ZooKeeperBrokers
from pyspark_commitlog.classic.wire.connection import Address
from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.kafka_nodes import PartitionState, RegisteredBroker
from pyspark_commitlog.registry.operations import put
from pyspark_commitlog.registry.port import Registry
from tests.support.waiting import soon

OLD, NEW = (0, 7, 2), (0, 8, 2)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """What the brokers write to."""
    with FileRegistry(str(tmp_path), look_s=0.01) as opened:
        yield opened


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[ZooKeeperBrokers]:
    with FileRegistry(str(tmp_path), look_s=0.01) as opened:
        yield ZooKeeperBrokers(opened, 3, is_ours=False)


def start(registry: Registry, broker: int, port: int = 9092, kafka: tuple[int, ...] = OLD) -> None:
    plain = RegisteredBroker.plain("h", port, creator=f"h-{broker}")
    registry.create(kafka_nodes.broker_path(broker), kafka_nodes.encode_broker(plain, kafka), ephemeral=True)


def take_up(registry: Registry, topic: str, broker: int, partitions: int) -> None:
    registry.create(kafka_nodes.old_topic_path(topic, broker), b"%d" % partitions, ephemeral=True)


def lead(registry: Registry, topic: str, leaders: dict[int, int]) -> None:
    put(
        registry, kafka_nodes.topic_path(topic), kafka_nodes.encode_topic({each: [0, 1] for each in leaders}, None, NEW)
    )
    for partition, leader in leaders.items():
        state = PartitionState(1, leader, 1, (0, 1))
        put(registry, kafka_nodes.state_path(topic, partition), kafka_nodes.encode_state(state))


def test_partitions_of_0_7_are_sorted_by_broker_then_partition(registry: Registry, brokers: ZooKeeperBrokers) -> None:
    for broker, partitions in ((10, 1), (2, 2), (0, 1)):
        start(registry, broker, 9000 + broker)
        take_up(registry, "t", broker, partitions)
    assert brokers.partitions("t") == [(0, 0), (2, 0), (2, 1), (10, 0)]
    assert brokers.brokers() == {broker: Address("h", 9000 + broker) for broker in (0, 2, 10)}
    assert brokers.is_0_7


def test_a_topic_that_nobody_has_is_partition_0_of_every_broker(registry: Registry, brokers: ZooKeeperBrokers) -> None:
    start(registry, 1)
    start(registry, 0)
    assert brokers.partitions("new") == [(0, 0), (1, 0)]
    take_up(registry, "new", 1, 2)
    soon(lambda: brokers.partitions("new") == [(1, 0), (1, 1)])


def test_without_brokers_there_is_an_error_and_later_ones_are_found(
    registry: Registry, brokers: ZooKeeperBrokers
) -> None:
    with pytest.raises(NoBrokersForPartitionError, match="topic t: the registry has no broker"):
        brokers.partitions("t")
    start(registry, 0)
    assert brokers.partitions("t") == [(0, 0)]  # read again at once, without a watch


def test_brokers_that_come_go_and_move_are_followed(registry: Registry, brokers: ZooKeeperBrokers) -> None:
    for broker in (0, 1):
        start(registry, broker)
        take_up(registry, "t", broker, 1)
    assert brokers.partitions("t") == [(0, 0), (1, 0)]
    registry.delete(kafka_nodes.broker_path(0))  # its node of the topic may stay a moment longer
    soon(lambda: brokers.partitions("t") == [(1, 0)])
    start(registry, 0, 9999)
    soon(lambda: brokers.partitions("t") == [(0, 0), (1, 0)])
    assert brokers.brokers()[0] == Address("h", 9999)
    take_up(registry, "u", 1, 3)
    assert brokers.partitions("u") == [(1, 0), (1, 1), (1, 2)]
    take_up(registry, "u", 0, 1)
    soon(lambda: brokers.partitions("u") == [(0, 0), (1, 0), (1, 1), (1, 2)])


def test_leaders_of_later_brokers_are_followed(registry: Registry, brokers: ZooKeeperBrokers) -> None:
    for broker in (0, 1):
        start(registry, broker, kafka=NEW)
    with pytest.raises(NoBrokersForPartitionError):
        brokers.partitions("t")
    lead(registry, "t", {0: 1, 1: 0, 10: 1, 2: 0})
    soon(lambda: brokers.partitions("t") == [(1, 0), (0, 1), (0, 2), (1, 10)], NoBrokersForPartitionError)
    assert not brokers.is_0_7
    lead(registry, "t", {0: 0, 1: 0, 10: 1, 2: -1})
    soon(lambda: brokers.partitions("t") == [(0, 0), (0, 1), (-1, 2), (1, 10)])
    registry.delete(kafka_nodes.broker_path(1))
    soon(lambda: brokers.partitions("t")[-1] == (-1, 10))


def test_while_no_broker_is_there_they_are_of_the_generation_that_they_were(
    registry: Registry, brokers: ZooKeeperBrokers
) -> None:
    start(registry, 0, kafka=NEW)
    assert not brokers.is_0_7
    registry.delete(kafka_nodes.broker_path(0))
    soon(lambda: not brokers.brokers())
    assert not brokers.is_0_7
