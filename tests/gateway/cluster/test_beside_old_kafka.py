"""A real broker of Kafka 2.8.2 and a gateway in one real ZooKeeper, and what real tools see of the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pyspark_commitlog.gateway.cluster.registration import OtherBrokersError
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.registry.operations import tree_of
from pyspark_commitlog.registry.zookeeper import ZooKeeperRegistry
from pyspark_commitlog.storage import LogManager
from tests.support.gateway import LOCAL, serving
from tests.support.kafka.old_kafka import OldBroker, run_tool
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.only_all]


class Both(NamedTuple):
    """The gateway has the chroot ``/ours``, the broker ``/real``."""

    connect: str
    gateway: Gateway
    broker: OldBroker


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    home = tmp_path_factory.mktemp("both")
    with (
        ZooKeeper(home / "zookeeper") as zookeeper,
        OldBroker(home / "broker", f"{zookeeper.connect}/real") as broker,
        serving(home / "log", zookeeper_connect=f"{zookeeper.connect}/ours", node_id=0) as gateway,
    ):
        yield Both(zookeeper.connect, gateway, broker)


def topics(both: Both, *arguments: str, chroot: str = "ours") -> str:
    return run_tool("kafka.admin.TopicCommand", "--zookeeper", f"{both.connect}/{chroot}", *arguments)


def described(both: Both, topic: str, chroot: str) -> list[list[str]]:
    """What the tool prints of a topic, without its id."""
    printed = topics(both, "--describe", "--topic", topic, chroot=chroot).splitlines()
    return [[each for each in line.split("\t") if "TopicId" not in each] for line in printed]


def test_the_real_tool_makes_shows_and_deletes_topics_of_the_gateway_as_those_of_a_broker(both: Both) -> None:
    create = ("--create", "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=1000")
    for chroot in ("ours", "real"):
        topics(both, *create, "--topic", "t", chroot=chroot)
    soon(lambda: both.gateway.context.topics.find("t") is not None)
    with LogManager.open(both.gateway.log_dir) as manager:
        assert manager.topics()["t"].configs == {"retention.ms": "1000"}
    soon(lambda: described(both, "t", "ours") == described(both, "t", "real"))
    assert topics(both, "--list").split() == ["t"]
    topics(both, "--delete", "--topic", "t")
    soon(lambda: both.gateway.context.topics.find("t") is None)
    soon(lambda: topics(both, "--list").split() == [])


def test_both_are_registered_alike(both: Both) -> None:
    with ZooKeeperRegistry(both.connect) as registry:
        ours, real = (tree_of(registry, f"/{chroot}/brokers/ids/0") for chroot in ("ours", "real"))
    assert len(ours) == len(real) == 1


def test_a_gateway_does_not_start_where_the_broker_is_registered(both: Both, tmp_path: Path) -> None:
    config = GatewayConfig(listeners=LOCAL, zookeeper_connect=f"{both.connect}/real", node_id=5)
    with pytest.raises(OtherBrokersError, match="broker 0 is registered here and is no gateway of this kind"):
        Gateway(str(tmp_path / "log"), config, create=True).start()
    with ZooKeeperRegistry(f"{both.connect}/real") as registry:
        assert registry.children("/brokers/ids") == ["0"]
        assert registry.find("/commitlog/nodes/5") is None
