"""What is on disk when an append returns, and how few file system calls it takes."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import NOW_MS, append, batch, end_transaction, open_log, open_reader, records, rows

SMALL_INDEXES: dict[str, Any] = {"segment_index_bytes": 1000}


def syncs(disk: MemoryFileSystem) -> list[str]:
    return [operation.path.rsplit("/", 1)[1] for operation in disk.operations if operation.kind == "sync"]


def surviving(disk: MemoryFileSystem) -> int:
    """Records that certainly survive a power cut."""
    return len(rows(open_log("/log", filesystem=disk.crash(0, unsynced="lost"))))


def test_an_append_is_on_the_disk_when_it_returns() -> None:
    disk = MemoryFileSystem()
    log = open_log("/log", filesystem=disk, **SMALL_INDEXES)
    for n in range(1, 4):
        append(log, b"x")
        assert surviving(disk) == n


def test_an_append_syncs_the_log_once_and_no_index() -> None:
    disk = MemoryFileSystem()
    log = open_log("/log", filesystem=disk, index_interval_bytes=0, **SMALL_INDEXES)
    append(log, b"first")
    disk.operations.clear()
    append(log, b"x")
    assert syncs(disk) == [file_names.segment_file(0, file_names.LOG)]


def test_flush_messages_lets_so_many_wait() -> None:
    disk = MemoryFileSystem()
    log = open_log("/log", filesystem=disk, flush_messages=3, **SMALL_INDEXES)
    kept = []
    for _ in range(7):
        append(log, b"x")
        kept.append(surviving(disk))
    assert kept == [0, 0, 3, 3, 3, 6, 6]


def test_flush_ms_lets_an_append_wait_so_long() -> None:
    disk, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    log = open_log("/log", filesystem=disk, clock=clock, flush_ms=1000, **SMALL_INDEXES)
    kept = []
    for _ in range(6):
        append(log, b"x")
        kept.append(surviving(disk))
        clock.advance(400)
    assert kept == [0, 0, 0, 3, 3, 3]  # the alarm rang at 1200 ms, before the fourth append


def test_transactions_never_wait() -> None:
    disk = MemoryFileSystem()
    log = open_log("/log", filesystem=disk, flush_messages=10**6, flush_ms=10**9, **SMALL_INDEXES)
    append(log, b"waits")
    assert surviving(disk) == 0
    log.append(batch(b"x", producer_id=1, base_sequence=0, transactional=True))
    assert surviving(disk) == 2
    append(log, b"waits")
    end_transaction(log, 1, commit=True)
    left = open_log("/log", filesystem=disk.crash(0, unsynced="lost"))
    assert (left.log_end_offset, left.last_stable_offset) == (4, 4)


def test_appends_that_ask_for_no_sync_wait_for_the_next_one() -> None:
    disk, marks = MemoryFileSystem(), KeptInMemory()
    log = open_log("/log", marks, filesystem=disk, **SMALL_INDEXES)
    for _ in range(3):
        log.append_records(records([b"x"]), sync=False)
    assert (surviving(disk), log.recovery_point) == (0, 0)
    log.sync()
    assert (surviving(disk), log.recovery_point) == (3, 3)
    assert marks.read().recovery_point == 0  # written by a roll, a checkpoint or a close
    log.checkpoint()
    assert marks.read().recovery_point == 3


def test_a_retry_of_a_killed_writers_unsynced_batch_is_answered_after_a_sync() -> None:
    disk = MemoryFileSystem()
    killed = open_log("/log", filesystem=disk, flush_messages=10**6, **SMALL_INDEXES)
    other = open_log("/log", filesystem=disk, **SMALL_INDEXES)
    data = batch(b"x", producer_id=1, base_sequence=0)
    killed.append(data.copy())
    assert surviving(disk) == 0
    assert other.append(data.copy()).duplicate
    assert surviving(disk) == 1


def test_records_of_a_killed_writer_are_synced_before_the_next_append() -> None:
    disk = MemoryFileSystem()
    killed = open_log("/log", filesystem=disk, flush_messages=10**6, segment_bytes=150, **SMALL_INDEXES)
    for n in range(5):
        append(killed, b"%d" % n)
    append(open_log("/log", filesystem=disk, segment_bytes=150, **SMALL_INDEXES), b"5")
    assert surviving(disk) == 6


def test_opening_after_a_kill_syncs_each_file_once_and_the_directory_twice() -> None:
    disk = MemoryFileSystem()
    killed = open_log("/log", filesystem=disk, index_interval_bytes=0, **SMALL_INDEXES)
    for n in range(3):
        append(killed, b"%d" % n)
    disk.operations.clear()
    open_log("/log", filesystem=disk, index_interval_bytes=0, **SMALL_INDEXES)
    found = [operation for operation in disk.operations if operation.kind in ("sync", "sync_directory")]
    log, index, time_index = (
        f"/log/{file_names.segment_file(0, kind)}"
        for kind in (file_names.LOG, file_names.INDEX + file_names.UNFINISHED, file_names.TIME_INDEX)
    )
    assert [operation.path for operation in found] == ["/log", index, time_index, log, "/log"]


def cost(segments: int, batches: int, **settings: Any) -> tuple[int, int, int]:
    """File system calls for opening, for the next append, and for opening to read, for a log of this many segments."""
    disk, marks = MemoryFileSystem(), KeptInMemory()
    with open_log("/log", marks, filesystem=disk, segment_index_bytes=100, **settings) as log:
        for _ in range(segments):
            for _ in range(batches):
                append(log, b"x")
            log.roll()
        append(log, b"x")
    counts = []
    disk.operations.clear()
    log = open_log("/log", marks, filesystem=disk, segment_index_bytes=100, **settings)
    counts.append(len(disk.operations))
    append(log, b"first")
    disk.operations.clear()
    append(log, b"second")
    counts.append(len(disk.operations))
    disk.operations.clear()
    open_reader("/log", marks, filesystem=disk)
    counts.append(len(disk.operations))
    return counts[0], counts[1], counts[2]


def test_an_append_takes_as_many_calls_in_a_long_log_as_in_a_short_one() -> None:
    assert cost(2, 1)[1] == cost(100, 3)[1] <= 12


@pytest.mark.parametrize("kind", [0, 2], ids=["to write", "to read"])
def test_opening_a_long_log_takes_as_many_calls_as_a_short_one(kind: int) -> None:
    assert cost(2, 1)[kind] == cost(100, 3)[kind] <= 80


def test_ten_thousand_segments_open_with_few_calls() -> None:
    """Made cheaply from empty files: opening a log reads only the last one."""
    disk, marks = MemoryFileSystem(), KeptInMemory()
    with open_log("/log", marks, filesystem=disk, segment_index_bytes=100) as log:
        append(log, b"x")
        log.truncate_fully_and_start_at(10_000)
        append(log, b"y")
    for base in range(10_000):
        for kind in (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX):
            disk.open(f"/log/{file_names.segment_file(base, kind)}", "create").close()
    marks.write(marks.read()._replace(log_start_offset=0))
    disk.operations.clear()
    with open_log("/log", marks, filesystem=disk, segment_index_bytes=100) as log:
        assert len(log.segments) == 10_001
        assert len(disk.operations) <= 80
        disk.operations.clear()
        append(log, b"z")
        assert len(disk.operations) <= 13
        disk.operations.clear()
        append(log, b"z")
        assert len(disk.operations) <= 8
