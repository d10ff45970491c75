"""The file system that fails as told, and only then."""

from __future__ import annotations

import errno

import pytest

from pyspark_commitlog.storage.filesystem.operations import read_file, write_atomically
from tests.support.disk.faulty_filesystem import FaultyFileSystem, Rule, fail, shorten, tear
from tests.support.disk.memory_filesystem import MemoryFileSystem


def faulty(*rules: Rule) -> FaultyFileSystem:
    return FaultyFileSystem(MemoryFileSystem(), list(rules))


def test_without_rules_it_is_the_file_system_behind_it() -> None:
    disk = faulty()
    disk.make_directory("/d")
    write_atomically(disk, "/d/a", b"12345")
    disk.link("/d/a", "/d/b")
    disk.remove("/d/a")
    disk.set_modified("/d/b", 5)
    status = disk.status("/d/b")
    assert disk.list("/d") == ["b"]
    assert read_file(disk, "/d/b", 5) == b"12345"
    assert status is not None
    assert status.modified_ms == 5
    for lock in (disk.lock("/d/lock"), disk.lock_shared_with_broker("/d/.lock")):
        assert lock is not None
        lock.release()


def test_the_call_that_was_asked_for_fails_and_no_other() -> None:
    rule = fail("sync", "*.log", call=2, error=errno.ENOSPC)
    disk = faulty(rule)
    with disk.open("/a.log", "create") as log, disk.open("/a.index", "create") as index:
        index.sync()
        log.sync()
        index.sync()
        with pytest.raises(OSError, match=r"No space left on device: '/a\.log'") as raised:
            log.sync()
        log.sync()
    assert raised.value.errno == errno.ENOSPC
    assert rule.struck == 1


def test_a_lasting_fault_stays() -> None:
    rule = fail("status", call=2, lasting=True)
    disk = faulty(rule)
    disk.status("/a")
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output error"):
            disk.status("/a")
    assert rule.struck == 3


def test_a_failed_sync_leaves_the_bytes_to_chance() -> None:
    inner = MemoryFileSystem()
    disk = FaultyFileSystem(inner, [fail("sync")])
    with disk.open("/a", "create") as file:
        inner.sync_directory("/")
        file.write(0, b"x")
        with pytest.raises(OSError, match="/a"):
            file.sync()
    assert {read_file(inner.crash(seed), "/a", 9) for seed in range(50)} == {b"", b"\0", b"x"}


def test_a_rename_matches_by_either_name_and_does_nothing() -> None:
    disk = faulty(fail("rename", "*.swap"))
    disk.open("/a.swap", "create").close()
    with pytest.raises(OSError, match="/a"):
        disk.rename("/a.swap", "/a")
    assert disk.list("/") == ["a.swap"]


def test_a_short_read_lacks_its_end_once() -> None:
    disk = faulty(shorten("/a", by=2))
    write_atomically(disk, "/a", b"12345")
    with disk.open("/a", "read") as file:
        assert [bytes(file.read(0, 5)) for _ in range(2)] == [b"123", b"12345"]


def test_a_torn_write_leaves_its_beginning() -> None:
    disk = faulty(tear("/a", after=3))
    with disk.open("/a", "create") as file:
        with pytest.raises(OSError, match="No space left"):
            file.write(2, b"12345")
        assert bytes(file.read(0, 10)) == b"\0\x00123"


@pytest.mark.parametrize(
    "operation",
    ["list", "make_directory", "remove", "sync_directory", "lock", "lock_shared_with_broker"],
)
def test_operations_on_one_path_fail(operation: str) -> None:
    disk = faulty(fail(operation, "/a"))  # type: ignore[arg-type]
    with pytest.raises(OSError, match="Input/output error: '/a'"):
        getattr(disk, operation)("/a")
    assert disk.status("/a") is None


def test_the_first_rule_that_strikes_counts_and_the_others_have_seen_the_call() -> None:
    first, second = fail("status", error=errno.EIO), fail("status", call=2, error=errno.EACCES)
    disk = faulty(first, second)
    with pytest.raises(OSError, match="Input/output"):
        disk.status("/a")
    with pytest.raises(PermissionError):
        disk.status("/a")
