"""Syncs after ``flush.ms`` without a further append: on a clock that tests move, and on the machine's."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import NOW_MS, append, config, open_log, rows
from tests.support.waiting import soon


def surviving(disk: MemoryFileSystem) -> int:
    """Records that certainly survive a power cut."""
    return len(rows(open_log("/log", filesystem=disk.crash(0, unsynced="lost"), segment_index_bytes=1000)))


def waiting_log(disk: MemoryFileSystem, clock: ManualClock, **settings: object) -> Log:
    return open_log("/log", filesystem=disk, clock=clock, flush_ms=1000, segment_index_bytes=1000, **settings)


def test_what_was_appended_is_on_disk_once_the_time_has_passed() -> None:
    disk, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    log = waiting_log(disk, clock)
    kept = []
    for wait_ms in (400, 599, 1, 1000):
        append(log, b"x")
        clock.advance(wait_ms)
        kept.append(surviving(disk))
    assert kept == [0, 0, 3, 4]


def test_nothing_is_synced_again_when_nothing_was_appended() -> None:
    disk, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    log = waiting_log(disk, clock)
    append(log, b"x")
    log.sync()
    disk.operations.clear()
    clock.advance(5000)
    assert [each.kind for each in disk.operations] == []


def test_an_append_right_after_the_alarm_waits_in_turn() -> None:
    disk, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    log = waiting_log(disk, clock)
    kept = []
    append(log, b"x")
    clock.advance(1000)
    append(log, b"y")
    kept.append(surviving(disk))
    clock.advance(999)
    kept.append(surviving(disk))
    clock.advance(1)
    kept.append(surviving(disk))
    assert kept == [1, 1, 2]


def test_after_a_roll_the_new_segment_is_synced() -> None:
    disk, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    log = waiting_log(disk, clock)
    append(log, b"x")
    log.roll()
    append(log, b"y")
    clock.advance(1000)
    assert surviving(disk) == 2


def test_a_failed_sync_stops_the_writer(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    failing = fail("sync", "*.log", call=2**40, error=errno.EIO)
    log = open_log(tmp_path, filesystem=FaultyFileSystem(LocalFileSystem(), [failing]), clock=clock, flush_ms=1000)
    append(log, b"x")
    failing.call = failing.seen + 1
    clock.advance(1000)
    assert log.failure is not None
    with pytest.raises(StorageError, match=r"of an earlier failure \(a sync after flush\.ms failed"):
        append(log, b"y")
    log.close()


def test_a_log_that_was_deleted_or_closed_is_left_alone(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    log = open_log(tmp_path / "t-0", clock=clock, flush_ms=1000)
    append(log, b"x")
    (tmp_path / "t-0/00000000000000000000.log").unlink()
    clock.advance(1000)
    assert log.failure is None
    other = open_log(tmp_path / "u-0", clock=clock, flush_ms=1000)
    append(other, b"x")
    other.close()
    clock.advance(1000)
    assert other.failure is None


def test_on_the_machines_clock_the_disk_is_synced_without_a_further_append(tmp_path: Path) -> None:
    watched = fail("sync", "*.log", call=2**40)  # never strikes, but counts
    disk = FaultyFileSystem(LocalFileSystem(), [watched])
    settings = config(flush_ms=300)
    logs = [
        Log.open(f"{tmp_path}/t-{n}", settings, clock=SystemClock(), filesystem=disk, checkpoints=KeptInMemory())
        for n in range(3)
    ]
    before = watched.seen
    for log in logs:
        append(log, b"x")
    soon(lambda: watched.seen == before + 3)
    append(logs[0], b"y")
    soon(lambda: watched.seen == before + 4)
    for log in logs:
        log.close()
