"""What power cuts leave of the file of a registry, and how damage differs from it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from pyspark_commitlog.registry.journal import Journal
from pyspark_commitlog.storage import CorruptionError, FileSystem, StorageError
from tests.support.disk.disks import SEEDS, get, put
from tests.support.disk.faulty_filesystem import FaultyFileSystem, Rule, fail, tear
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points

FILE = "/registry"
LONG = "A" * 400  # a change with it is in one block of a disk or two, and a power cut may lose either


def add(disk: FileSystem, node: str) -> None:
    """Adds a node, as a process of its own that has just read the file."""
    journal = Journal(disk, FILE)
    journal.catch_up()
    journal.append([["create", node, LONG, None]])


def nodes(disk: MemoryFileSystem) -> list[str]:
    journal = Journal(disk, FILE)
    journal.catch_up()
    return journal.tree.children("/")


def written(*names: str) -> MemoryFileSystem:
    disk = MemoryFileSystem()
    for name in names:
        add(disk, name)
    return disk


@pytest.mark.parametrize(
    ("begin", "end"),
    [(0, None), (1, None), (-1, None), (0, -1), (1, -1)],
    ids=["all", "tail", "newline", "text", "amid"],
)
def test_zeros_that_a_whole_change_follows_are_damage_and_nothing_is_cut_off(begin: int, end: int | None) -> None:
    whole = get(written("/a", "/b", "/c"), FILE)
    assert whole is not None
    *_, damaged, last, _ = whole.split(b"\n")
    line = bytearray(damaged + b"\n")
    line[begin:end] = bytes(len(line[begin:end]))
    position = len(whole) - len(damaged) - len(last) - 2
    content = whole[:position] + line + last + b"\n"
    disk = MemoryFileSystem()
    put(disk, FILE, content)
    with pytest.raises(CorruptionError, match="checksum of a change is wrong") as raised:
        add(disk, "/d")
    assert (raised.value.path, raised.value.position) == (FILE, position)
    assert get(disk, FILE) == content


def test_after_a_power_cut_at_any_time_the_file_has_all_acknowledged_changes() -> None:
    acknowledged: list[str] = []

    def program(disk: MemoryFileSystem) -> None:
        acknowledged.clear()
        for node in ("/a", "/b", "/c"):
            add(disk, node)
            acknowledged.append(node[1:])

    for operation, disk in crash_points(program):
        for seed in SEEDS:
            left = disk.crash(seed)
            assert nodes(left)[: len(acknowledged)] == acknowledged, (operation, seed)
            add(left, "/d")
            assert nodes(left.crash(seed))[-1] == "d", (operation, seed)


def test_a_change_whose_writer_was_killed_before_it_synced_is_synced_before_the_next_one() -> None:
    """Else a power cut could leave zeros of it and all of the next one, which would be taken for damage."""

    def program(disk: MemoryFileSystem) -> None:
        killed = Journal(FaultyFileSystem(disk, [fail("sync", FILE, call=2)]), FILE)
        killed.append([["create", "/a", LONG, None]])
        with pytest.raises(StorageError):
            killed.append([["create", "/b", LONG, None]])
        add(disk, "/c")

    for operation, disk in crash_points(program):
        for seed in SEEDS:
            assert nodes(disk.crash(seed)) in ([], ["a"], ["a", "b"], ["a", "b", "c"]), (operation, seed)


def test_the_name_of_a_file_that_a_killed_process_put_there_is_synced_before_the_next_change() -> None:
    """Else a power cut could take the file away, with a change that was acknowledged."""
    disk = MemoryFileSystem()
    killed = Journal(FaultyFileSystem(disk, [fail("sync_directory", "/")]), FILE)
    with pytest.raises(StorageError):
        killed.append([["create", "/b", LONG, None]])
    add(disk, "/c")
    for seed in SEEDS:
        assert "c" in nodes(disk.crash(seed)), seed


def test_a_change_that_was_not_synced_is_written_to_a_new_file_before_others_have_the_lock() -> None:
    """A second sync of the old file may wrongly succeed, so nobody may add a change to it."""
    disk = written("/a")
    old = get(disk, FILE)
    one = Journal(FaultyFileSystem(disk, [fail("sync", FILE, call=2)]), FILE)
    one.catch_up()
    with pytest.raises(StorageError):
        one.append([["create", "/b", LONG, None]])
    new = get(disk, FILE)
    assert old is not None
    assert new is not None
    assert new.partition(b"\n")[0] != old.partition(b"\n")[0]
    add(disk, "/c")
    assert nodes(disk) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(partial(tear, FILE, after=0, call=2), id="nothing of the change was written"),
        pytest.param(partial(tear, FILE, after=100, call=2), id="some of the change was written"),
        pytest.param(partial(fail, "sync", FILE, call=2), id="the change was not synced"),
        pytest.param(partial(fail, "open", FILE, call=3), id="the file could not be opened"),
    ],
)
def test_after_an_error_of_the_disk_the_next_changes_are_acknowledged_and_survive_power_cuts(
    fault: Callable[[], Rule],
) -> None:
    acknowledged: list[str] = []

    def program(disk: MemoryFileSystem) -> None:
        acknowledged.clear()
        journal = Journal(FaultyFileSystem(disk, [fault()]), FILE)
        for node in ("/a", "/b", "/c", "/d"):
            journal.catch_up()
            with suppress(StorageError):
                journal.append([["create", node, LONG, None]])
                acknowledged.append(node[1:])

    program(whole := MemoryFileSystem())
    assert acknowledged == ["a", "c", "d"]
    assert {*nodes(whole)} - {"b"} == {*acknowledged}
    for operation, disk in crash_points(program):
        for seed in SEEDS:
            left = disk.crash(seed)
            assert {*acknowledged} <= {*nodes(left)}, (operation, seed)
            add(left, "/e")
            assert "e" in nodes(left.crash(seed)), (operation, seed)
