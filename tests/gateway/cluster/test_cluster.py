"""Cluster: nodes in one process, over the registry in files: who is the controller, and what each of them sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.cluster.cluster import Cluster
from pyspark_commitlog.gateway.cluster.cluster_id import InconsistentClusterIdError, check_directory, find_cluster_id
from pyspark_commitlog.gateway.cluster.view import VIEW, View
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.kafka_nodes import Endpoint
from pyspark_commitlog.registry.port import Node, Watch
from pyspark_commitlog.storage import LogManager, SystemClock
from tests.support.waiting import soon


class Member:
    """A node without a server."""

    def __init__(self, directory: Path, node: int) -> None:
        self.registry = FileRegistry(str(directory), look_s=0.01)
        endpoints = [Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9000 + node), Endpoint("IN", "SSL", "in", node)]
        self.cluster = Cluster(self.registry, GatewayConfig(node_id=node), endpoints, SystemClock())
        self.cluster.start()

    def end(self) -> None:
        """As the end of its process."""
        self.registry.close()
        self.cluster.stop()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def members(directory: Path) -> Iterator[list[Member]]:
    found = [Member(directory, node) for node in (1, 2, 3)]
    yield found
    for each in found:
        each.end()


def views(members: list[Member]) -> set[frozenset[int]]:
    return {each.cluster.view.nodes for each in members}


def test_all_see_all_with_the_addresses_of_each_listener(members: list[Member]) -> None:
    soon(lambda: views(members) == {frozenset({1, 2, 3})})
    for each in members:
        assert {node: dict(found) for node, found in each.cluster.addresses.items()} == {
            node: {"PLAINTEXT": ("127.0.0.1", 9000 + node), "IN": ("in", node)} for node in (1, 2, 3)
        }
        assert each.cluster.controller == 1


def test_another_node_becomes_the_controller_with_the_next_epoch(members: list[Member]) -> None:
    first, *others = members
    soon(lambda: views(members) == {frozenset({1, 2, 3})})
    assert first.cluster.is_controller
    first.end()
    soon(lambda: views(others) == {frozenset({2, 3})})
    assert {each.cluster.controller for each in others} <= {2, 3}
    assert sum(each.cluster.is_controller for each in others) == 1
    with FileRegistry(str(others[0].registry._directory)) as registry:
        assert registry.get(kafka_nodes.CONTROLLER_EPOCH).data == b"2"


def test_a_node_that_leaves_waits_until_the_others_know(members: list[Member]) -> None:
    soon(lambda: views(members) == {frozenset({1, 2, 3})})
    seen: list[frozenset[int]] = []
    members[0].cluster.listen(lambda view: seen.append(view.nodes))
    members[0].cluster.leave()
    assert seen == [{2, 3}]
    soon(lambda: views(members) == {frozenset({2, 3})})
    assert members[1].registry.children("/brokers/ids") == ["2", "3"]


@pytest.mark.parametrize("content", [b'{"version":4,"host":"kafka","port":9092,"endpoints":[]}', b"no broker"])
def test_a_broker_that_is_no_gateway_and_comes_later_gets_no_partitions(members: list[Member], content: bytes) -> None:
    soon(lambda: views(members) == {frozenset({1, 2, 3})})
    with FileRegistry(str(members[0].registry._directory)) as registry:
        registry.create("/brokers/ids/9", content, ephemeral=True)
        members.pop().end()  # the other nodes go on following each other
        soon(lambda: views(members) == {frozenset({1, 2})})
        assert [set(each.cluster.addresses) for each in members] == [{1, 2}, {1, 2}]


def test_the_last_node_leaves_at_once(directory: Path) -> None:
    member = Member(directory, 7)
    member.cluster.leave()
    assert member.cluster.leads("t", 0)
    member.end()


def test_while_the_controller_does_nothing_another_node_writes_the_view(members: list[Member]) -> None:
    soon(lambda: views(members) == {frozenset({1, 2, 3})})
    members[0].cluster._worker.stop()  # as a process that is stopped: it keeps its nodes
    members[2].end()
    soon(lambda: members[1].cluster.view.nodes == {1, 2})
    assert members[1].cluster.controller == 1
    with FileRegistry(str(members[1].registry._directory)) as registry:
        assert View.decode(registry.get(VIEW).data) == members[1].cluster.view


def test_a_view_that_was_deleted_is_written_again_with_an_epoch_that_clients_follow(members: list[Member]) -> None:
    soon(lambda: views(members) == {frozenset({1, 2, 3})})
    members.pop().end()
    soon(lambda: views(members) == {frozenset({1, 2})})
    before = members[0].cluster.view
    with FileRegistry(str(members[0].registry._directory)) as registry:
        registry.delete(VIEW)
        soon(lambda: registry.find(VIEW) is not None)
        assert View.decode(registry.get(VIEW).data) == before
    assert {each.cluster.view for each in members} == {before}


def test_a_node_that_starts_again_with_its_id_keeps_what_it_leads(directory: Path) -> None:
    before = Member(directory, 1)
    view = before.cluster.view
    before.end()
    after = Member(directory, 1)
    assert after.cluster.view == view
    after.end()


# --- the cluster's id


def test_the_id_is_made_once_and_is_22_letters(directory: Path) -> None:
    with LogManager.open(str(directory / "log"), create=True) as manager:
        ids = set()
        for _ in range(2):
            with FileRegistry(str(directory / "log")) as registry:
                ids.add(find_cluster_id(registry, manager))
        (found,) = ids
    assert len(found) == 22
    assert found.replace("-", "").replace("_", "").isalnum()


def test_a_broker_s_directory_keeps_its_id_and_is_refused_by_another_cluster(directory: Path) -> None:
    with LogManager.open(str(directory / "log"), create=True) as manager:
        text = "version=0\nbroker.id=0\ncluster.id=bKn9UsJwStiHWb44HRPSYQ\n"
        (directory / "log/meta.properties").write_text(text)
        with FileRegistry(str(directory / "log")) as registry:
            assert find_cluster_id(registry, manager) == "bKn9UsJwStiHWb44HRPSYQ"
        (directory / "log/meta.properties").write_text(text.replace("bKn9", "other"[:4]))
        with (
            FileRegistry(str(directory / "log")) as registry,
            pytest.raises(InconsistentClusterIdError, match="belongs to cluster othe"),
        ):
            find_cluster_id(registry, manager)


# --- the directory's id


class Overtaken(FileRegistry):
    """A registry that is asked for a node just before, or just after, another gateway has started."""

    def __init__(self, directory: Path, start_other: Callable[[], None], *, is_before: bool) -> None:
        super().__init__(str(directory))
        self._starts = [start_other]
        self._is_before = is_before

    def find(self, path: str, watch: Watch | None = None) -> Node | None:
        if self._is_before and self._starts:
            self._starts.pop()()
        found = super().find(path, watch)
        if self._starts:
            self._starts.pop()()
        return found


@pytest.mark.parametrize("is_before", [True, False])
def test_the_first_gateways_of_a_directory_may_start_at_the_same_time(directory: Path, is_before: bool) -> None:
    registries, log = directory / "registries", str(directory / "log")
    registries.mkdir()

    def start_other() -> None:
        with LogManager.open(log, create=True) as manager, FileRegistry(str(registries)) as registry:
            check_directory(registry, manager)

    with LogManager.open(log, create=True) as manager:
        with Overtaken(registries, start_other, is_before=is_before) as registry:
            check_directory(registry, manager)
        start_other()  # a later one finds the same id
