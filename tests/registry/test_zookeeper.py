"""What is of ZooKeeper alone: servers that stop and start, and sessions that expire."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pyspark_commitlog.registry.errors import ConnectionLossError, InvalidPathError
from pyspark_commitlog.registry.operations import register
from pyspark_commitlog.registry.port import Change, Node, SessionState
from pyspark_commitlog.registry.zookeeper import ZooKeeperRegistry
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.ports import free_port
from tests.support.waiting import soon

PROGRAM = """
import sys
from pyspark_commitlog.registry.zookeeper import ZooKeeperRegistry
registry = ZooKeeperRegistry(sys.argv[1], session_timeout_ms=1000)
registry.create("/ids/1", b"it", ephemeral=True)
registry.create("/kept")
print(registry.session, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ZooKeeper]:
    """A server that a test may stop."""
    with ZooKeeper(tmp_path / "zookeeper") as started:
        yield started


def expire(registry: ZooKeeperRegistry, server: ZooKeeper) -> None:
    """Ends a session by closing it from another connection."""
    other = KazooClient(server.connect, client_id=registry._client.client_id)
    other.start()
    other.stop()
    other.close()


def test_a_process_that_is_killed_loses_its_nodes_when_its_session_has_expired(zookeeper: ZooKeeper) -> None:
    connect = f"{zookeeper.connect}/killed"
    with ZooKeeperRegistry(connect) as registry:
        command = [sys.executable, "-c", PROGRAM, connect]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            owner = process.stdout.readline().strip()
            assert registry.get("/ids/1").owner == owner
            process.kill()
        soon(lambda: registry.children("/ids") == [])
        assert registry.find("/kept") is not None


def test_an_expired_session_is_said_and_followed_by_another(zookeeper: ZooKeeper) -> None:
    with ZooKeeperRegistry(f"{zookeeper.connect}/expired") as registry:
        states: list[SessionState] = []
        calls: list[Change] = []
        registry.listen(states.append)
        register(registry, "/ids/1", b"it")
        registry.children("/ids", lambda change, _: calls.append(change))
        before = registry.session
        expire(registry, zookeeper)
        soon(lambda: SessionState.EXPIRED in states and states[-1] is SessionState.CONNECTED)
        assert registry.session != before
        soon(lambda: calls == [Change.UNKNOWN])
        assert registry.children("/ids") == []
        register(registry, "/ids/1", b"it")
        assert registry.get("/ids/1").owner == registry.session


def test_a_server_that_starts_again_finds_the_session_and_its_nodes_as_they_were(own_server: ZooKeeper) -> None:
    with ZooKeeperRegistry(own_server.connect) as registry:
        states: list[SessionState] = []
        calls: list[Change] = []
        registry.listen(states.append)
        registry.create("/ids/1", b"it", ephemeral=True)
        registry.get("/ids/1", lambda change, _: calls.append(change))
        before = registry.session
        own_server.kill()
        soon(lambda: calls == [Change.UNKNOWN])
        own_server.start()
        soon(lambda: states == [SessionState.SUSPENDED, SessionState.CONNECTED])
        assert registry.get("/ids/1") == Node(b"it", 0, 0, before)


def test_a_server_that_does_not_answer_is_reported_and_not_waited_for_longer_than_the_session(
    own_server: ZooKeeper,
) -> None:
    with ZooKeeperRegistry(own_server.connect, session_timeout_ms=1000) as registry:
        own_server.pause()
        try:
            with pytest.raises(ConnectionLossError, match=r"/a: ZooKeeper at .* did not answer"):
                registry.create("/a")
        finally:
            own_server.go_on()
        soon(lambda: registry.find("/a") is None or True, ConnectionLossError)


def test_an_address_without_a_server_is_refused() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionLossError, match=f"{address}/kafka: no ZooKeeper answers there within 0.2 s"):
        ZooKeeperRegistry(f"{address}/kafka", connection_timeout_ms=200)


@pytest.mark.parametrize("chroot", ["//a", "/a//b", "/a/"])
def test_a_chroot_that_no_node_can_have_is_refused(zookeeper: ZooKeeper, chroot: str) -> None:
    with pytest.raises(InvalidPathError):
        ZooKeeperRegistry(zookeeper.connect + chroot)


def test_registries_of_two_chroots_do_not_see_each_other(zookeeper: ZooKeeper) -> None:
    with ZooKeeperRegistry(f"{zookeeper.connect}/one") as one, ZooKeeperRegistry(f"{zookeeper.connect}/two/b") as two:
        one.create("/ids/1")
        two.create("/ids/2")
        assert (one.children("/"), one.children("/ids")) == (["ids"], ["1"])
        assert (two.children("/"), two.children("/ids")) == (["ids"], ["2"])
        with ZooKeeperRegistry(zookeeper.connect) as root:
            assert root.children("/two/b") == ["ids"]
