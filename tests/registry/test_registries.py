"""What every registry does: one suite for files and for a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

import pytest

from pyspark_commitlog.registry.errors import (
    BadVersionError,
    InvalidPathError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RegistryError,
    SessionExpiredError,
)
from pyspark_commitlog.registry.operations import delete_tree, discard, put, register, tree_of
from pyspark_commitlog.registry.port import Change, Registry
from tests.support.waiting import soon

Open = Callable[[], Registry]


class Seen:
    """A watch that remembers its calls."""

    def __init__(self) -> None:
        self.changes: list[tuple[Change, str]] = []

    def __call__(self, change: Change, path: str) -> None:
        self.changes.append((change, path))


@pytest.fixture
def registry(open_registry: Open) -> Registry:
    return open_registry()


@pytest.fixture
def other(open_registry: Open) -> Registry:
    return open_registry()


# --- nodes


@pytest.mark.parametrize("data", [None, b"", b"text", "München".encode(), bytes(range(256)), b"x" * 100_000])
def test_data_is_read_as_it_was_written_by_every_session(registry: Registry, other: Registry, data: bytes) -> None:
    assert registry.create("/a", data) == "/a"
    assert [each.get("/a").data for each in (registry, other)] == [data, data]


def test_parents_are_made_without_data(registry: Registry) -> None:
    registry.create("/consumers/g/offsets/t/0", b"5")
    assert {path: node.data for path, node in tree_of(registry, "/consumers").items()} == {
        "/consumers": None,
        "/consumers/g": None,
        "/consumers/g/offsets": None,
        "/consumers/g/offsets/t": None,
        "/consumers/g/offsets/t/0": b"5",
    }


def test_a_node_cannot_be_created_twice(registry: Registry, other: Registry) -> None:
    registry.create("/a", b"1")
    with pytest.raises(NodeExistsError, match="/a"):
        other.create("/a", b"2")
    assert registry.get("/a").data == b"1"


def test_a_missing_node_is_said_to_be_missing(registry: Registry) -> None:
    assert registry.find("/a") is None
    for ask in (registry.get, registry.children, registry.delete, lambda path: registry.set(path, b"")):
        with pytest.raises(NoNodeError, match="/a"):
            ask("/a")  # type: ignore[operator]


def test_a_version_counts_changes_and_guards_them(registry: Registry, other: Registry) -> None:
    registry.create("/a", b"0")
    assert registry.get("/a").version == 0
    assert [registry.set("/a", b"1"), other.set("/a", b"2", version=1)] == [1, 2]
    for version in (0, 1, 3):
        with pytest.raises(BadVersionError, match="/a"):
            registry.set("/a", b"lost", version=version)
        with pytest.raises(BadVersionError, match="/a"):
            registry.delete("/a", version=version)
    assert registry.get("/a")[:2] == (b"2", 2)
    other.delete("/a", version=2)
    assert registry.find("/a") is None


def test_a_node_created_again_begins_with_version_0(registry: Registry) -> None:
    registry.create("/a", b"0")
    registry.set("/a", b"1")
    registry.delete("/a")
    registry.create("/a", b"2")
    assert registry.get("/a")[:2] == (b"2", 0)


def test_children_are_listed_by_name(registry: Registry, other: Registry) -> None:
    for name in ("b", "a", "ab", "é", "a b"):
        other.create(f"/parent/{name}")
    assert registry.children("/parent") == sorted(["b", "a", "ab", "é", "a b"])
    assert registry.children("/parent/a") == []
    assert "parent" in registry.children("/")


def test_a_node_with_children_is_not_deleted(registry: Registry) -> None:
    registry.create("/a/b")
    with pytest.raises(NotEmptyError, match="/a"):
        registry.delete("/a")
    registry.delete("/a/b")
    registry.delete("/a")
    assert registry.find("/a") is None


def test_the_version_of_children_counts_those_made_and_deleted(registry: Registry) -> None:
    registry.create("/a/b")
    registry.create("/a/c")
    registry.create("/a/c/d")
    registry.delete("/a/b")
    registry.set("/a/c", b"1")
    assert registry.get("/a").children_version == 3


def test_names_that_are_numbered_grow(registry: Registry, other: Registry) -> None:
    made = [each.create("/changes/change-", b"", sequential=True) for each in (registry, other, registry)]
    assert [len(path) for path in made] == [len("/changes/change-0000000000")] * 3
    assert all(before < after for before, after in pairwise(made))
    registry.delete(made[-1])
    assert other.create("/changes/change-", sequential=True) > made[-1]


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/a/./b", "/a/../b", "/a\0", "/a\n", "/\ud800"])
def test_a_path_that_no_node_can_have_is_refused(registry: Registry, path: str) -> None:
    for ask in (registry.create, registry.get, registry.find, registry.children, registry.delete):
        with pytest.raises(InvalidPathError):
            ask(path)
    with pytest.raises(InvalidPathError):
        registry.set(path, b"")


# --- sessions


def test_an_ephemeral_node_belongs_to_its_session_and_goes_with_it(registry: Registry, other: Registry) -> None:
    registry.create("/ids/1", b"here", ephemeral=True)
    registry.create("/ids/kept", b"here")
    assert other.get("/ids/1").owner == registry.session
    assert other.get("/ids/kept").owner is None
    registry.close()
    assert other.children("/ids") == ["kept"]
    assert other.find("/ids/1") is None


def test_an_ephemeral_node_has_no_children(registry: Registry) -> None:
    registry.create("/ids/1", ephemeral=True)
    with pytest.raises(RegistryError, match="ephemeral"):
        registry.create("/ids/1/child")
    assert registry.children("/ids/1") == []


def test_an_ephemeral_node_can_be_numbered(registry: Registry) -> None:
    path = registry.create("/ids/member-", ephemeral=True, sequential=True)
    assert registry.get(path).owner == registry.session


def test_an_id_in_use_is_refused_until_its_session_ends(registry: Registry, other: Registry) -> None:
    register(registry, "/ids/1", b"a:1")
    register(registry, "/ids/1", b"a:1")  # as after a lost connection
    with pytest.raises(NodeExistsError):
        register(other, "/ids/1", b"a:1")
    registry.close()
    register(other, "/ids/1", b"b:1")
    assert other.get("/ids/1").data == b"b:1"


def test_a_closed_session_answers_nothing(registry: Registry) -> None:
    registry.close()
    registry.close()
    with pytest.raises(SessionExpiredError):
        registry.find("/")


# --- watches


def test_a_watch_is_called_once_when_data_changes(registry: Registry, other: Registry) -> None:
    registry.create("/a", b"0")
    seen = Seen()
    registry.get("/a", seen)
    other.set("/a", b"1")
    soon(lambda: seen.changes == [(Change.DATA, "/a")])
    other.set("/a", b"2")
    assert registry.get("/a").data == b"2"
    assert seen.changes == [(Change.DATA, "/a")]


def test_a_watch_that_is_set_again_is_called_once(registry: Registry, other: Registry) -> None:
    registry.create("/a/b", b"0")
    data, children, later = Seen(), Seen(), Seen()
    for _ in range(3):
        registry.find("/a/b", data)
        registry.children("/a", children)
    registry.find("/a/b", later)
    other.set("/a/b", b"1")
    soon(lambda: bool(later.changes))
    other.create("/a/c")
    soon(lambda: bool(children.changes))
    assert (data.changes, children.changes) == ([(Change.DATA, "/a/b")], [(Change.CHILDREN, "/a")])


def test_a_watch_is_called_when_a_node_comes_and_when_it_goes(registry: Registry, other: Registry) -> None:
    comes, goes, childless = Seen(), Seen(), Seen()
    assert registry.find("/a", comes) is None
    other.create("/a")
    soon(lambda: comes.changes == [(Change.CREATED, "/a")])
    registry.find("/a", goes)
    registry.children("/a", childless)
    other.delete("/a")
    soon(lambda: goes.changes == childless.changes == [(Change.DELETED, "/a")])


def test_a_watch_of_children_is_called_when_one_comes_or_goes_and_not_for_data(
    registry: Registry, other: Registry
) -> None:
    registry.create("/ids/1")
    first, second = Seen(), Seen()
    registry.children("/ids", first)
    other.set("/ids", b"data")
    other.set("/ids/1", b"data")
    other.create("/ids/1/below")
    other.create("/ids/2", ephemeral=True)
    soon(lambda: first.changes == [(Change.CHILDREN, "/ids")])
    assert registry.children("/ids", second) == ["1", "2"]
    other.close()
    soon(lambda: second.changes == [(Change.CHILDREN, "/ids")])
    assert registry.children("/ids") == ["1"]


def test_a_watch_sees_the_writes_of_its_own_session(registry: Registry) -> None:
    seen = Seen()
    registry.find("/a", seen)
    registry.create("/a")
    soon(lambda: seen.changes == [(Change.CREATED, "/a")])


def test_nothing_is_missed_by_who_reads_again_after_each_call(registry: Registry, other: Registry) -> None:
    registry.create("/a", b"0")
    read, done = list[int](), threading.Event()

    def look(*_: object) -> None:
        found = int(registry.get("/a", look).data or b"")
        read.append(found)
        if found == 50:
            done.set()

    look()
    for number in range(1, 51):
        other.set("/a", b"%d" % number)
    assert done.wait(60)
    assert read == sorted(read)


def test_more_data_than_a_node_may_have_is_refused(registry: Registry) -> None:
    registry.create("/a", b"x" * 1_000_000)
    for write in (registry.create, registry.set):
        with pytest.raises(RegistryError, match="1000001 bytes"):
            write("/a", b"x" * 1_000_001)  # type: ignore[operator]


# --- several at once


def test_of_many_that_create_a_node_one_succeeds(open_registry: Open) -> None:
    sessions = [open_registry() for _ in range(4)]
    outcomes: list[str] = []

    def create(session: Registry) -> None:
        try:
            session.create("/controller", session.session.encode(), ephemeral=True)
            outcomes.append(session.session)
        except NodeExistsError:
            pass

    threads = [threading.Thread(target=create, args=[session]) for session in sessions for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [name.encode() for name in outcomes] == [sessions[0].get("/controller").data]


def test_a_counter_raised_by_many_with_versions_loses_nothing(open_registry: Open) -> None:
    sessions = [open_registry() for _ in range(3)]
    sessions[0].create("/epoch", b"0")

    def raise_it(session: Registry) -> None:
        raised = 0
        while raised < 20:
            node = session.get("/epoch")
            try:
                session.set("/epoch", b"%d" % (int(node.data or b"") + 1), node.version)
                raised += 1
            except BadVersionError:
                pass

    threads = [threading.Thread(target=raise_it, args=[session]) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sessions[0].get("/epoch")[:2] == (b"60", 60)


# --- operations


def test_put_creates_or_sets(registry: Registry) -> None:
    put(registry, "/a/b", b"1")
    put(registry, "/a/b", b"2")
    assert registry.get("/a/b")[:2] == (b"2", 1)


def test_what_is_missing_is_discarded_without_an_error(registry: Registry) -> None:
    registry.create("/a/b/c")
    registry.create("/a/b-c")
    discard(registry, "/none")
    delete_tree(registry, "/none")
    delete_tree(registry, "/a/b")
    assert list(tree_of(registry, "/a")) == ["/a", "/a/b-c"]
