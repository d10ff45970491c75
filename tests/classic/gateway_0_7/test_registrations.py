"""The gateway of 0.7 in a real ZooKeeper, compared with what a real 0.7.2 wrote there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pyspark_commitlog.classic.gateway_0_7.config import PositionGatewayConfig
from pyspark_commitlog.classic.gateway_0_7.server import PositionGateway
from pyspark_commitlog.classic.log_0_7.entries import encode
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.gateway.cluster.registration import NodeIdInUseError, OtherBrokersError
from pyspark_commitlog.registry.operations import tree_of
from pyspark_commitlog.registry.port import Registry
from tests.classic.gateway_0_7.test_server import produce
from tests.classic.gateway_0_7.test_server_kafka import Client
from tests.registry.test_zookeeper import expire
from tests.support.gateway import serving
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.waiting import soon

RECORDED = json.loads((Path(__file__).parents[2] / "golden/registry/broker_trees.json").read_text())["0.7.2"]


def server(directory: Path, connect: str, broker: int = 0) -> PositionGateway:
    logs = PositionLogSettings(num_partitions=2, flush_interval=1)
    config = PositionGatewayConfig(port=0, threads=1, broker_id=broker, zk_connect=connect, logs=logs)
    return PositionGateway(str(directory), config)


def nodes(registry: Registry) -> dict[str, tuple[bool, str]]:
    """All nodes but ours: whether each is ephemeral, and what is in it without host, port and time."""
    return {
        path: (node.owner is not None, _comparable((node.data or b"").decode()))
        for path, node in tree_of(registry, "/brokers").items()
        if path != "/brokers"
    }


def _comparable(data: str) -> str:
    return re.sub(r"\S+-\d+:\S+:\d+", "creator:host:port", data)


def test_broker_and_topics_look_as_those_of_a_real_broker(connect: str, registry: Registry, tmp_path: Path) -> None:
    wanted = {path: (each["ephemeral"], _comparable(each["data"] or "")) for path, each in RECORDED.items()}
    with server(tmp_path, connect) as gateway:
        client = Client(gateway)
        for topic in ("alpha", "beta"):
            produce(client, topic, encode(b"one"))
        soon(lambda: nodes(registry) == wanted)
        client.close()
    soon(lambda: not any(is_ephemeral for is_ephemeral, _ in nodes(registry).values()))
    with server(tmp_path, connect):  # what is there is registered when it starts
        soon(lambda: nodes(registry) == wanted)


def test_brokers_of_0_7_have_their_own_ids_and_logs(connect: str, registry: Registry, tmp_path: Path) -> None:
    with server(tmp_path / "a", connect), server(tmp_path / "b", connect, 1):
        with pytest.raises(NodeIdInUseError, match=r"= 1: in use by process"):
            server(tmp_path / "c", connect, 1).start()
        assert registry.children("/brokers/ids") == ["0", "1"]


def test_a_broker_of_0_7_and_a_gateway_of_today_do_not_share_a_chroot(
    connect: str, registry: Registry, tmp_path: Path
) -> None:
    with (
        server(tmp_path / "a", connect),
        pytest.raises(OtherBrokersError, match="no gateway of this kind"),
        serving(tmp_path / "log", zookeeper_connect=connect, node_id=5),
    ):
        pass
    assert registry.children("/brokers/ids") == []


def test_a_broker_whose_session_expired_registers_again(
    zookeeper: ZooKeeper, connect: str, registry: Registry, tmp_path: Path
) -> None:
    with server(tmp_path, connect) as gateway:
        client = Client(gateway)
        produce(client, "alpha", encode(b"one"))
        soon(lambda: registry.find("/brokers/topics/alpha/0") is not None)
        before = registry.get("/brokers/ids/0").owner
        assert gateway.registry is not None
        expire(gateway.registry, zookeeper)  # type: ignore[arg-type]
        soon(lambda: (found := registry.find("/brokers/ids/0")) is not None and found.owner != before)
        soon(lambda: (found := registry.find("/brokers/topics/alpha/0")) is not None and found.owner != before)
        client.close()
