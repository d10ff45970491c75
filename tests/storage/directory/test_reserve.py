"""The reserve of a log directory: when it is made, and how large."""

from __future__ import annotations

import errno

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.reserve import RESERVE_FILE, is_disk_full, keep_reserve, release_reserve
from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.filesystem.operations import size_of
from pyspark_commitlog.storage.format.files.file_names import RECOVERY_POINT_CHECKPOINT
from tests.support.disk.disks import put
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail, tear
from tests.support.disk.memory_filesystem import MemoryFileSystem

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
