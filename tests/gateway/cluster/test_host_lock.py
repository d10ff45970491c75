"""Nodes whose sessions outlive them, as those in a ZooKeeper do, and the locks that show which of them live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.cluster import host_lock
from pyspark_commitlog.gateway.cluster.cluster import Cluster
from pyspark_commitlog.gateway.cluster.host_lock import HostLock
from pyspark_commitlog.gateway.cluster.registration import NodeIdInUseError
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.kafka_nodes import BROKER_IDS, CONTROLLER, Endpoint
from pyspark_commitlog.storage import LocalFileSystem, SystemClock
from tests.support.waiting import soon


class Member:
    """A node without a server."""

    def __init__(self, directory: Path, node: int) -> None:
        self._ends = ExitStack()
        self.registry = self._ends.enter_context(FileRegistry(str(directory), look_s=0.01))
        self.host_lock = HostLock(LocalFileSystem(), str(directory), node)
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9000 + node)
        config = GatewayConfig(node_id=node)
        self.cluster = Cluster(self.registry, config, [endpoint], SystemClock(), self.host_lock)
        self._ends.callback(self.cluster.stop)
        try:
            self.cluster.start()
        except BaseException:
            self.end()
            raise

    def stop(self) -> None:
        """As SIGSTOP: it keeps its nodes and its lock."""
        self.cluster._worker.stop()

    def kill(self) -> None:
        """As SIGKILL: the session goes on for a while."""
        self.stop()
        self.host_lock.release()

    def end(self) -> None:
        self._ends.close()


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Member]]:
    found = [Member(tmp_path, node) for node in (1, 2, 3)]
    soon(lambda: views(found) == {frozenset({1, 2, 3})})
    yield found
    for each in found:
        each.end()


def views(members: list[Member]) -> set[frozenset[int]]:
    return {each.cluster.view.nodes for each in members}


@pytest.mark.parametrize("number", [0, 2], ids=["the controller", "another"])
def test_a_killed_node_is_gone_though_its_session_is_not(members: list[Member], number: int) -> None:
    killed = members.pop(number)
    killed.kill()
    soon(lambda: views(members) == {frozenset(each.cluster.node for each in members)})
    soon(lambda: sum(each.cluster.is_controller for each in members) == 1)
    killed.end()


def test_a_node_that_is_stopped_keeps_what_it_has(members: list[Member]) -> None:
    members[0].stop()
    assert not members[1].host_lock.remove_ended(members[1].registry, [1])
    assert members[1].registry.children(BROKER_IDS) == ["1", "2", "3"]


def test_a_node_of_another_host_goes_with_its_session(members: list[Member], tmp_path: Path) -> None:
    """Its lock seems to be free, since that file system has none between hosts."""
    (tmp_path / f"{host_lock.FILE}1").write_text("another-host process 7 of root on there")
    members[0].kill()
    assert not members[1].host_lock.remove_ended(members[1].registry, [1])
    found = members[1].registry.find(CONTROLLER)
    assert found is not None
    assert found.owner == members[0].registry.session
    assert "1" in members[1].registry.children(BROKER_IDS)


def test_a_node_that_was_never_there_leaves_no_lock(members: list[Member], tmp_path: Path) -> None:
    assert not members[1].host_lock.remove_ended(members[1].registry, [7])
    assert not (tmp_path / f"{host_lock.FILE}7").exists()


def test_a_killed_node_starts_again_while_its_session_is_still_there(tmp_path: Path) -> None:
    before = Member(tmp_path, 1)
    before.kill()
    after = Member(tmp_path, 1)
    assert after.cluster.view.nodes == {1}
    assert after.cluster.is_controller
    for each in (after, before):
        each.end()


def test_two_processes_do_not_have_one_node_id(
    members: list[Member], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_lock, "TAKE_S", 0.05)
    with pytest.raises(NodeIdInUseError, match=r"node\.id = 2: in use by process \d+ of .*; give each"):
        Member(tmp_path, 2)
    assert views(members) == {frozenset({1, 2, 3})}
