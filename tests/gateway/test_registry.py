"""Which registry a gateway has."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.cluster.cluster_id import InconsistentClusterIdError
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.registry.errors import ConnectionLossError
from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.zookeeper import ZooKeeperRegistry
from pyspark_commitlog.storage.filesystem.temporary import LOCK
from tests.support.gateway import LOCAL, serving
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.ports import free_port
from tests.support.stores.served import ServedStores


def test_a_gateway_has_a_registry_in_files_and_ends_its_session_when_it_stops(tmp_path: Path) -> None:
    with serving(tmp_path / "log") as gateway, FileRegistry(str(tmp_path / "log")) as other:
        gateway.context.registry.create("/kept")
        gateway.context.registry.create("/gone", ephemeral=True)
        gateway.stop()
        assert other.find("/kept") is not None
        assert other.find("/gone") is None


def test_a_gateway_has_its_registry_in_a_zookeeper(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path / "zookeeper") as server:
        connect = f"{server.connect}/kafka"
        with serving(tmp_path / "log", zookeeper_connect=connect) as gateway, ZooKeeperRegistry(connect) as other:
            gateway.context.registry.create("/kept")
            assert other.find("/kept") is not None


def test_a_gateway_whose_zookeeper_is_not_there_does_not_start(tmp_path: Path) -> None:
    config = GatewayConfig(
        listeners=LOCAL, zookeeper_connect=f"127.0.0.1:{free_port()}", zookeeper_connection_timeout_ms=100
    )
    with pytest.raises(ConnectionLossError, match="no ZooKeeper answers there"):
        Gateway(str(tmp_path / "log"), config, create=True).start()


def test_gateways_with_other_directories_do_not_share_a_chroot(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path / "zookeeper") as server:
        connect = f"{server.connect}/kafka"
        for _ in range(2):
            with serving(tmp_path / "log", zookeeper_connect=connect):
                pass
        config = GatewayConfig(listeners=LOCAL, zookeeper_connect=connect, node_id=2)
        with pytest.raises(InconsistentClusterIdError, match="the log directory has the id none, and the registry is"):
            Gateway(str(tmp_path / "other"), config, create=True).start()


def test_what_a_killed_gateway_over_an_object_store_left_among_temporary_files_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ServedStores(monkeypatch).create("s3://memory/logs")
    left = tmp_path / "commitlog-gateway-left"
    left.mkdir()
    (left / LOCK).touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with serving("s3://memory/logs"):
        assert not left.exists()
        assert len([*tmp_path.glob("commitlog-gateway-*")]) == 1
    assert [*tmp_path.glob("commitlog-gateway-*")] == []
