"""The disk in memory: crashes and power cuts, and that they find the mistakes they are for."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from pyspark_commitlog.storage.filesystem.operations import write_atomically
from tests.support.disk.disks import SEEDS, disk_with, get, outcomes, put
from tests.support.disk.memory_filesystem import MemoryFileSystem, PowerCut, crash_points

Step = Callable[[MemoryFileSystem], object]


# --- the crash itself


def test_a_seed_says_it_all_and_the_disk_stays_as_it_is() -> None:
    disk = disk_with("/a", b"")
    put(disk, "/a", bytes(range(256)) * 10)
    put(disk, "/b", b"x")
    for seed in range(20):
        first, second = disk.crash(seed), disk.crash(seed)
        assert first.list("/") == second.list("/")
        assert get(first, "/a") == get(second, "/a")
    assert get(disk, "/a") == bytes(range(256)) * 10


def test_all_unsynced_lost_and_all_kept() -> None:
    disk = disk_with("/a", b"old")
    put(disk, "/a", b"new and longer")
    put(disk, "/b", b"x")
    lost, kept = disk.crash(1, unsynced="lost"), disk.crash(1, unsynced="kept")
    assert (get(lost, "/a"), get(lost, "/b")) == (b"old", None)
    assert (get(kept, "/a"), get(kept, "/b")) == (b"new and longer", b"x")


def test_what_a_crash_left_is_sure() -> None:
    disk = MemoryFileSystem()
    put(disk, "/a", b"x" * 5000)
    for seed in range(50):
        left = disk.crash(seed)
        assert outcomes_of_few(left) == {(tuple(left.list("/")), get(left, "/a"))}


def outcomes_of_few(disk: MemoryFileSystem) -> set[object]:
    return {(tuple(left.list("/")), get(left, "/a")) for left in map(disk.crash, range(10))}


def test_locks_do_not_outlive_a_crash() -> None:
    disk = disk_with("/lock", b"")
    assert disk.lock("/lock") is not None
    assert disk.crash(1).lock("/lock", wait=False) is not None


def test_a_copy_goes_its_own_way_and_keeps_what_is_unsynced_unsynced() -> None:
    disk = disk_with("/a", b"old")
    put(disk, "/a", b"new")
    other = disk.copy()
    put(disk, "/b", b"", sync=True)
    assert other.list("/") == ["a"]
    assert outcomes(other, "/a") == {b"old", b"new"}


# --- power cuts


def test_the_power_goes_at_the_change_asked_for_and_stays_away() -> None:
    disk = disk_with("/a", b"old")
    file = disk.open("/a", "write")
    disk.cut_power_at(2)
    file.write(0, b"1")
    file.read(0, 1)
    with pytest.raises(PowerCut, match="write"):
        file.write(1, b"2")
    for use in (file.size, lambda: file.read(0, 1), file.sync, lambda: disk.list("/"), lambda: disk.remove("/a")):
        with pytest.raises(PowerCut):
            use()
    file.close()  # quietly: a with statement must not hide the cut
    assert outcomes(disk, "/a") == {b"old", b"1ld", b"12d"}


def test_an_interrupted_sync_has_not_synced() -> None:
    disk = disk_with("/a", b"old")
    file = disk.open("/a", "write")
    file.write(0, b"new")
    disk.cut_power_at(1)
    with pytest.raises(PowerCut):
        file.sync()
    assert outcomes(disk, "/a") == {b"old", b"new"}


def test_a_power_cut_is_no_exception_that_code_may_catch() -> None:
    assert not issubclass(PowerCut, Exception)


def test_who_waits_for_a_lock_learns_of_the_cut() -> None:
    disk = disk_with("/lock", b"")
    disk.lock("/lock")
    cuts: list[PowerCut] = []

    def wait() -> None:
        try:
            disk.lock("/lock")
        except PowerCut as cut:
            cuts.append(cut)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.05)
    disk.cut_power_at(1)
    with pytest.raises(PowerCut):
        disk.remove("/lock")
    thread.join()
    assert len(cuts) == 1


def test_crash_points_stop_at_every_change_once() -> None:
    kinds = [operation.kind for operation, _ in crash_points(lambda disk: write_atomically(disk, "/a", b"x"))]
    assert kinds == ["create", "truncate", "write", "sync", "rename", "sync_directory"]


# --- that it finds what it is for


def survives(program: Step, path: str, allowed: set[bytes]) -> bool:
    """Whether ``path`` has one of the contents allowed after a cut at every change, by many seeds."""
    return all(
        get(disk.crash(seed), path) in allowed
        for _, disk in crash_points(program, disk_with(path, b"old"))
        for seed in SEEDS
    )


def test_an_atomic_write_survives_every_crash() -> None:
    assert survives(lambda disk: write_atomically(disk, "/a", b"new"), "/a", {b"old", b"new"})


def test_an_atomic_write_that_returned_is_there() -> None:
    disk = disk_with("/a", b"old")
    write_atomically(disk, "/a", b"new")
    assert outcomes(disk, "/a") == {b"new"}


def test_a_file_renamed_before_it_is_synced_is_caught() -> None:
    def careless(disk: MemoryFileSystem) -> None:
        put(disk, "/a.tmp", b"new")
        disk.rename("/a.tmp", "/a")
        disk.sync_directory("/")

    assert not survives(careless, "/a", {b"old", b"new"})


def test_a_file_overwritten_in_place_is_caught() -> None:
    assert not survives(lambda disk: put(disk, "/a", b"newer", sync=True), "/a", {b"old", b"newer"})


# --- locks and errors that only this one has


def test_a_broker_keeps_us_out_and_we_the_broker() -> None:
    disk = MemoryFileSystem()
    ours = disk.lock_shared_with_broker("/.lock")
    assert ours is not None
    assert disk.lock_as_broker("/.lock") is None
    ours.release()
    broker = disk.lock_as_broker("/.lock")
    assert broker is not None
    assert disk.lock_shared_with_broker("/.lock") is None
    with disk.lock("/.lock") or pytest.fail("flock and Java's lock never meet"):
        pass


def test_a_thread_that_would_wait_for_itself_is_told() -> None:
    disk = MemoryFileSystem()
    disk.lock("/lock")
    with pytest.raises(RuntimeError, match="wait for itself"):
        disk.lock("/lock")


def test_lost_locks_are_free_and_their_holders_are_not_told() -> None:
    disk = MemoryFileSystem()
    first = disk.lock("/lock")
    disk.lose_locks()
    second = disk.lock("/lock", wait=False)
    assert first is not None
    assert second is not None
    first.release()
    assert disk.lock("/lock", wait=False) is None, "the release of a lost lock frees nobody's"


def test_operations_are_recorded_in_order() -> None:
    disk = MemoryFileSystem()
    put(disk, "/a", b"12345", position=7, sync=True)
    disk.rename("/a", "/b")
    assert [str(operation) for operation in disk.operations] == ["create /a", "write /a 7 5", "sync /a", "rename /a /b"]


def test_rename_replaces_kind_by_kind() -> None:
    disk = disk_with("/file", b"")
    disk.make_directory("/directory")
    for source, target, code in (("/file", "/directory", errno.EISDIR), ("/directory", "/file", errno.ENOTDIR)):
        with pytest.raises(OSError) as raised:  # noqa: PT011
            disk.rename(source, target)
        assert raised.value.errno == code
