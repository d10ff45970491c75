"""What a gateway writes to a real ZooKeeper, compared with what real Kafka wrote there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.gateway.cluster.cluster import Cluster
from pyspark_commitlog.gateway.cluster.topic_nodes import TopicNodes
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.errors import ConnectionLossError
from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.kafka_nodes import Endpoint
from pyspark_commitlog.registry.operations import put, tree_of
from pyspark_commitlog.registry.port import ANY_VERSION, Registry
from pyspark_commitlog.storage import GROUP_METADATA_TOPIC, LogManager, SystemClock, delete_topic
from tests.support.gateway import serving
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.waiting import soon

RECORDED = json.loads((Path(__file__).parents[2] / "golden/registry/broker_trees.json").read_text())
NO_MATTER = ("host", "port", "timestamp", "endpoints", "id", "topic_id")


def comparable(data: str | None) -> Any:
    """Contents without hosts, times and ids."""
    if data is None or not data.startswith("{"):
        return re.sub(r"\S+-\d+:\S+:\d+", "creator:host:port", data or "")
    return {key: type(value) if key in NO_MATTER else value for key, value in json.loads(data).items()}


def written(registry: Registry) -> dict[str, tuple[bool, Any]]:
    """All nodes but ours: whether each is ephemeral, and what is in it."""
    return {
        path: (node.owner is not None, comparable(None if node.data is None else node.data.decode()))
        for path, node in tree_of(registry).items()
        if not path.startswith("/commitlog") and path != "/"
    }


@pytest.mark.parametrize("version", RECORDED)
def test_a_broker_and_its_topics_look_as_real_kafkas_do(
    version: str, connect: str, registry: Registry, tmp_path: Path
) -> None:
    kafka = kafka_nodes.kafka_version(version)
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("alpha", partitions=2)
        manager.create_topic("beta", partitions=2, configs={"retention.ms": "123456789"} if kafka >= (0, 8) else {})
    wanted = {path: (each["ephemeral"], comparable(each["data"])) for path, each in RECORDED[version].items()}
    settings = {"zookeeper_connect": connect, "inter_broker_protocol_version": version}
    with serving(tmp_path / "log", node_id=0, **settings):
        soon(lambda: wanted.items() <= written(registry).items())
    soon(lambda: not any(is_ephemeral for is_ephemeral, _ in written(registry).values()))


def serving_topic(tmp_path: Path, connect: str, **settings: Any) -> Any:
    return serving(tmp_path / "log", zookeeper_connect=connect, **settings)


def test_topics_that_are_made_and_deleted_later_follow(connect: str, registry: Registry, tmp_path: Path) -> None:
    with serving_topic(tmp_path, connect), LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("later", partitions=3)
        soon(lambda: registry.find(kafka_nodes.state_path("later", 2)) is not None)
        delete_topic(manager, "later")
        soon(lambda: registry.find("/brokers/topics/later") is None)
        soon(lambda: registry.find("/config/topics/later") is None)


def test_a_topic_that_a_tool_makes_or_deletes_by_nodes_is_made_and_deleted(
    connect: str, registry: Registry, tmp_path: Path
) -> None:
    def topics(gateway: Gateway) -> set[str]:
        return set(gateway.context.topics.all())

    with serving_topic(tmp_path, connect) as gateway:
        put(registry, "/config/topics/asked", b'{"version":1,"config":{"retention.ms":"1000"}}')
        put(registry, "/brokers/topics/asked", kafka_nodes.encode_topic({0: [1], 1: [1]}, None, (0, 8, 2)))
        soon(lambda: topics(gateway) == {"asked"})
        with LogManager.open(str(tmp_path / "log")) as manager:
            assert manager.topics()["asked"].configs == {"retention.ms": "1000"}
        soon(lambda: registry.find(kafka_nodes.state_path("asked", 1)) is not None)
        put(registry, "/admin/delete_topics/asked", None)
        soon(lambda: topics(gateway) == set() and registry.find("/brokers/topics/asked") is None)
        soon(lambda: registry.children("/admin/delete_topics") == [])


def test_a_node_whose_session_expired_registers_again(
    zookeeper: ZooKeeper, connect: str, registry: Registry, tmp_path: Path
) -> None:
    from tests.registry.test_zookeeper import expire  # noqa: PLC0415

    with serving_topic(tmp_path, connect, zookeeper_session_timeout_ms=2000) as gateway:
        before = registry.get("/brokers/ids/1").owner
        expire(gateway.context.registry, zookeeper)  # type: ignore[arg-type]
        soon(lambda: (found := registry.find("/brokers/ids/1")) is not None and found.owner != before)
        soon(lambda: gateway.context.cluster.view.nodes == {1} and gateway.context.cluster.is_controller)
        assert registry.get("/commitlog/nodes/1").owner != before


# --- What tools ask for, in a registry of files, which takes the same nodes


class Stalling(FileRegistry):
    """A registry of which one operation fails, once; before that, ``meets`` is called."""

    def __init__(self, log: Path, operation: str = "", path: str = "") -> None:
        super().__init__(str(log), look_s=0.01)
        self.fails_at = (operation, path)
        self.meets: Callable[[], None] = lambda: None

    def _fail(self, *at: str) -> None:
        if self.fails_at == at:
            self.fails_at = ("", "")
            self.meets()
            raise ConnectionLossError(f"{at[1]}: it does not answer")

    def create(self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False) -> str:
        self._fail("create", path)
        return super().create(path, data, ephemeral=ephemeral, sequential=sequential)

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._fail("delete", path)
        super().delete(path, version)


@contextmanager
def writing_nodes(
    log: Path,
    *,
    may_delete: bool = True,
    fails_at: tuple[str, str] = ("", ""),
    meets: Callable[[], None] = lambda: None,
) -> Iterator[Stalling]:
    """The registry of a node that writes the topics of a log directory, and does what tools ask for."""
    with Stalling(log, *fails_at) as registry:
        registry.meets = meets
        endpoints = [Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)]
        cluster = Cluster(registry, GatewayConfig(), endpoints, SystemClock())
        cluster.start()
        nodes = TopicNodes(registry, cluster, lambda: LogManager.open(str(log)), (2, 8), may_delete=may_delete)
        nodes.start()
        nodes.begin()
        try:
            yield registry
        finally:
            nodes.stop()
            cluster.stop()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        for name in ("kept", GROUP_METADATA_TOPIC):
            manager.create_topic(name, partitions=1)
    return tmp_path / "log"


def topics_of(log: Path) -> set[str]:
    with LogManager.open(str(log)) as manager:
        return set(manager.topics())


@pytest.mark.parametrize(("name", "may_delete"), [("kept", False), (GROUP_METADATA_TOPIC, True)])
def test_a_topic_that_clients_may_not_delete_is_not_deleted_by_a_node_of_a_tool_either(
    log: Path, name: str, may_delete: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with writing_nodes(log, may_delete=may_delete) as registry:
        soon(lambda: registry.find(kafka_nodes.state_path(name, 0)) is not None)
        put(registry, f"/admin/delete_topics/{name}", None)
        soon(lambda: registry.children("/admin/delete_topics") == [])
        assert topics_of(log) == {"kept", GROUP_METADATA_TOPIC}
        assert registry.find(kafka_nodes.state_path(name, 0)) is not None
    why = "it is in use by the gateway" if may_delete else "delete.topic.enable is false"
    assert f"topic {name!r} is not deleted, as /admin/delete_topics/{name} asks: {why}" in caplog.messages


def test_a_topic_whose_nodes_could_be_deleted_only_in_part_is_not_made_again(log: Path) -> None:
    path = kafka_nodes.topic_path("kept")
    with writing_nodes(log, fails_at=("delete", path)) as registry:
        soon(lambda: registry.find(kafka_nodes.state_path("kept", 0)) is not None)
        with LogManager.open(str(log)) as manager:
            delete_topic(manager, "kept")
        soon(lambda: registry.fails_at == ("", "") and registry.children("/admin/delete_topics") == [])
        assert registry.find(path) is None
        assert topics_of(log) == {GROUP_METADATA_TOPIC}


def test_a_topic_that_is_made_again_while_the_nodes_of_the_one_before_are_deleted_stays(log: Path) -> None:
    path = kafka_nodes.topic_path("kept")

    def topic_id() -> str | None:
        with LogManager.open(str(log)) as manager:
            return manager.create_topic("kept", partitions=2).topic_id

    made: list[str | None] = []
    with writing_nodes(log, fails_at=("delete", path), meets=lambda: made.append(topic_id())) as registry:
        soon(lambda: registry.find(kafka_nodes.state_path("kept", 0)) is not None)
        with LogManager.open(str(log)) as manager:
            delete_topic(manager, "kept")
        soon(lambda: bool(made) and registry.children("/admin/delete_topics") == [])
        soon(lambda: registry.find(kafka_nodes.state_path("kept", 1)) is not None)
        with LogManager.open(str(log)) as manager:
            assert [manager.topics()["kept"].topic_id] == made


def test_a_topic_that_a_tool_asks_for_is_made_though_an_earlier_one_never_got_its_nodes(log: Path) -> None:
    def delete() -> None:
        with LogManager.open(str(log)) as manager:
            delete_topic(manager, "kept")
            manager.create_topic("later", partitions=1)

    asked = kafka_nodes.encode_topic({0: [1]}, None, (2, 8))
    with writing_nodes(log, fails_at=("create", "/config/topics/kept"), meets=delete) as registry:
        soon(lambda: registry.find(kafka_nodes.state_path("later", 0)) is not None)
        put(registry, kafka_nodes.topic_path("kept"), asked)
        soon(lambda: "kept" in topics_of(log))
        soon(lambda: registry.find(kafka_nodes.state_path("kept", 0)) is not None)


def test_a_topic_that_is_deleted_before_all_its_nodes_are_written_is_not_made_again(log: Path) -> None:
    path = kafka_nodes.topic_path("kept")

    def delete() -> None:
        with LogManager.open(str(log)) as manager:
            delete_topic(manager, "kept")

    with writing_nodes(log, fails_at=("create", kafka_nodes.state_path("kept", 0)), meets=delete) as registry:
        soon(lambda: registry.fails_at == ("", ""))
        soon(lambda: registry.find(path) is None)
        assert topics_of(log) == {GROUP_METADATA_TOPIC}


def test_a_topic_asked_for_with_unreadable_settings_keeps_no_other_from_being_made(log: Path) -> None:
    asked = kafka_nodes.encode_topic({0: [1]}, None, (2, 8))
    with writing_nodes(log) as registry:
        put(registry, "/config/topics/broken", b"no JSON")
        put(registry, "/brokers/topics/broken", asked)
        put(registry, "/brokers/topics/whole", asked)
        soon(lambda: registry.find(kafka_nodes.state_path("whole", 0)) is not None)
    assert topics_of(log) == {"kept", GROUP_METADATA_TOPIC, "whole"}
