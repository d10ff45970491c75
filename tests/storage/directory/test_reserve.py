"""The reserve of a log directory: when it is made, how large, and what is done in its room."""

from __future__ import annotations

import errno
from unittest.mock import Mock

import pytest

from pyspark_commitlog.storage.directory import admin, reserve
from pyspark_commitlog.storage.directory.admin import delete_records, delete_topic
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.reserve import RESERVE_FILE, is_disk_full, keep_reserve, release_reserve
from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.filesystem.operations import size_of
from pyspark_commitlog.storage.format.files.file_names import RECOVERY_POINT_CHECKPOINT, TopicPartition
from tests.support.disk.disks import put
from tests.support.disk.faulty_filesystem import FaultyFileSystem, OperationName, Rule, fail, tear
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import append

RESERVE = f"/log/{RESERVE_FILE}"
LEAST = 64 * 1024


@pytest.fixture
def disk() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    disk.make_directory("/log")
    return disk


def test_it_is_made_with_the_first_topic_and_again_with_another_one_once_it_was_removed(disk: MemoryFileSystem) -> None:
    with LogManager.open("/log", create=True, filesystem=disk) as manager:
        assert size_of(disk, RESERVE) == 0
        for name in ("a", "b"):
            manager.create_topic(name, partitions=1)
            assert size_of(disk, RESERVE) >= LEAST
            release_reserve(disk, "/log")
            assert disk.status(RESERVE) is None


def test_it_grows_with_the_checkpoints(disk: MemoryFileSystem) -> None:
    keep_reserve(disk, "/log")
    put(disk, f"/log/{RECOVERY_POINT_CHECKPOINT}", bytes(2 * LEAST))
    keep_reserve(disk, "/log")
    assert size_of(disk, RESERVE) >= 9 * LEAST


def test_a_full_disk_gets_what_fits_and_the_rest_when_there_is_space(disk: MemoryFileSystem) -> None:
    faulty = FaultyFileSystem(disk, [tear(RESERVE, after=100)])
    keep_reserve(faulty, "/log")
    assert size_of(disk, RESERVE) == 100
    keep_reserve(faulty, "/log")
    assert size_of(disk, RESERVE) >= LEAST


def test_a_disk_that_fails_otherwise_is_an_error(disk: MemoryFileSystem) -> None:
    with pytest.raises(OSError, match="sync"):
        keep_reserve(FaultyFileSystem(disk, [fail("sync", RESERVE, error=errno.EIO)]), "/log")


def test_a_full_disk_is_known_by_the_error_or_by_what_caused_it() -> None:
    caused = StorageError("/log/t-0: nothing was written")
    caused.__cause__ = OSError(errno.EDQUOT, "Quota exceeded")
    assert is_disk_full(caused)
    assert is_disk_full(OSError(errno.ENOSPC, "No space left on device"))
    assert not is_disk_full(OSError(errno.EIO, "Input/output error"))
    assert not is_disk_full(StorageError("/log/t-0: nothing was written"))


class FullDisk(FaultyFileSystem):
    """A disk whose only room is what the reserve takes."""

    def meet(self, operation: OperationName, *paths: str) -> Rule | None:
        if operation == "write" and self.inner.status(RESERVE) is not None:
            raise OSError(errno.ENOSPC, "No space left on device", paths[0])
        return super().meet(operation, *paths)


@pytest.fixture
def full(disk: MemoryFileSystem) -> FullDisk:
    """A full disk with topics orders, of two partitions with three records each, and other."""
    with LogManager.open("/log", create=True, filesystem=disk, clock=disk.clock) as manager:
        manager.create_topic("orders", partitions=2)
        manager.create_topic("other", partitions=1)
        for number in range(2):
            append(manager.open_log("orders", number), b"a", b"b", b"c")
    return FullDisk(disk)


def test_records_are_deleted_in_its_room(full: FullDisk) -> None:
    before = {TopicPartition("orders", 0): 2, TopicPartition("orders", 1): -1}
    with LogManager.open("/log", filesystem=full) as manager:
        deleted = [*delete_records(manager, before)]
    assert [(each.log_start_offset, each.error) for each in deleted] == [(2, None), (3, None)]
    with LogManager.open("/log", filesystem=full.inner) as manager:
        assert [manager.open_reader("orders", number).log_start_offset for number in range(2)] == [2, 3]


def test_a_topic_is_deleted_in_its_room(full: FullDisk) -> None:
    with LogManager.open("/log", filesystem=full) as manager:
        delete_topic(manager, "orders")
        assert [*manager.topics()] == ["other"]
    assert [name for name in full.list("/log") if name.startswith("orders")] == []


def test_a_topic_is_deleted_although_the_first_attempt_ended_half_way(full: FullDisk) -> None:
    full.inner.remove(RESERVE)
    full.rules += [tear("/log/recovery-point-offset-checkpoint.tmp", after=0)]
    with LogManager.open("/log", filesystem=full) as manager:
        delete_topic(manager, "orders")
        assert [*manager.topics()] == ["other"]
    assert full.rules[0].struck
    assert [name for name in full.list("/log") if name.startswith("orders")] == []


def test_a_topic_that_others_make_again_between_two_attempts_stays(
    full: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = full.inner

    def make_again(*_: object) -> None:
        with LogManager.open("/log", filesystem=disk, clock=disk.clock) as others:
            others.create_topic("orders", partitions=3)
            append(others.open_log("orders", 0), b"new")

    monkeypatch.setattr(reserve, "release_reserve", make_again)
    failing = Mock(side_effect=[OSError(errno.ENOSPC, "No space left on device"), None])
    monkeypatch.setattr(admin, "_remove_deleted", failing)
    with LogManager.open("/log", filesystem=disk) as manager:
        delete_topic(manager, "orders")
        assert failing.call_count == 2
        assert manager.topic("orders").partitions == (0, 1, 2)
        assert manager.open_reader("orders", 0).log_end_offset == 1
