"""What is on disk: syncs beside appends and after them, the high watermark then, and what stops after a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random

import pytest

from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.segment.writer import LogSegment
from pyspark_commitlog.storage.writing.append_info import AppendInfo
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch
from pyspark_commitlog.storage.writing.durability import Durability, FailStop
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.logs.building import NOW_MS, batch, config, end_transaction, open_log, records, rows
from tests.support.waiting import soon

DIRECTORY = "/t-0"


def append(log: Log, *values: bytes, sync: bool = False, **producer: int) -> list[int]:
    """Appends each value in a batch of its own, all in one group; returns their offsets."""
    checked = [check_batch(batch(value, **producer).tobytes(), log.context.config) for value in values]
    found = log.append_checked(checked, sync=sync)
    return [each.first_offset for each in found if isinstance(each, AppendInfo)]


def surviving(disk: MemoryFileSystem) -> int:
    """Records that certainly survive a power cut."""
    return len(rows(open_log(DIRECTORY, filesystem=disk.crash(0, unsynced="lost"))))


def test_the_high_watermark_is_the_end_of_what_was_synced() -> None:
    disk = MemoryFileSystem()
    log = open_log(DIRECTORY, filesystem=disk)
    found = []
    for sync in (True, False, False, True):
        append(log, b"x", sync=sync)
        found.append((log.log_end_offset, log.high_watermark, log.recovery_point, surviving(disk)))
    assert found == [(1, 1, 1, 1), (2, 1, 1, 1), (3, 1, 1, 1), (4, 4, 4, 4)]


def test_a_sync_moves_the_high_watermark_and_reports_it() -> None:
    disk = MemoryFileSystem()
    log = open_log(DIRECTORY, filesystem=disk)
    append(log, b"x", b"y")
    assert log.high_watermark == 0
    assert log.sync_appended() == 2
    assert (log.high_watermark, log.recovery_point, surviving(disk)) == (2, 2, 2)
    disk.operations.clear()
    assert log.sync_appended() == 2
    assert not disk.operations  # nothing was left to sync


@pytest.mark.parametrize("opened_later", [False, True])
def test_what_others_appended_is_below_the_high_watermark_after_a_sync_of_ours(opened_later: bool) -> None:
    disk, marks = MemoryFileSystem(), KeptInMemory()
    other = open_log(DIRECTORY, marks, filesystem=disk)
    log = None if opened_later else open_log(DIRECTORY, marks, filesystem=disk)
    append(other, b"x", b"y")
    if log is None:
        log = open_log(DIRECTORY, marks, filesystem=disk)  # syncs what it finds
        assert (log.high_watermark, surviving(disk)) == (2, 2)
        return
    with log.exclusively():
        assert (log.log_end_offset, log.high_watermark) == (2, 0)
    assert log.sync_appended() == 2
    assert surviving(disk) == 2


def test_what_a_topics_settings_let_wait_is_below_the_high_watermark() -> None:
    disk = MemoryFileSystem()
    log = open_log(DIRECTORY, filesystem=disk, flush_messages=10)
    append(log, b"x", sync=True)
    assert (log.high_watermark, log.recovery_point, surviving(disk)) == (1, 0, 0)


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.GZIP], ids=["as the topic's", "recompressed"])
def test_a_transactional_batch_is_synced_whatever_a_topics_settings_let_wait(codec: Codec) -> None:
    disk = MemoryFileSystem()
    log = open_log(DIRECTORY, filesystem=disk, flush_messages=10, compression_type="zstd")
    producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    fields = v2.BatchFields(codec=codec, transactional=True, **producer)
    checked = check_batch(v2.encode(records([b"x" * 50]), fields).tobytes(), log.context.config)
    assert checked.is_plain == (codec is Codec.ZSTD)
    log.append_checked([checked])
    assert (log.recovery_point, surviving(disk)) == (1, 1)


def test_after_a_truncation_the_high_watermark_is_at_most_the_end() -> None:
    log = open_log(DIRECTORY, filesystem=MemoryFileSystem())
    append(log, b"x", b"y", sync=True)
    log.truncate_to(1)
    assert (log.high_watermark, log.log_end_offset) == (1, 1)
    log.truncate_fully_and_start_at(0)
    assert (log.high_watermark, log.log_end_offset) == (0, 0)
    append(log, b"z")
    assert log.high_watermark == 0


def test_what_is_appended_during_a_sync_waits_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(DIRECTORY, filesystem=MemoryFileSystem())
    append(log, b"before")
    sync = LogSegment.sync

    def slowly(segment: LogSegment) -> None:
        monkeypatch.undo()
        append(log, b"during")
        sync(segment)

    monkeypatch.setattr(LogSegment, "sync", slowly)
    assert log.sync_appended() == 1
    assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (2, 1, 1)
    assert log.sync_appended() == 2


@pytest.mark.parametrize(
    "change",
    [Log.roll, lambda log: log.truncate_to(0), Log.refresh, Log.close],
    ids=["roll", "truncate", "refresh", "close"],
)
def test_no_file_is_closed_while_another_thread_syncs_it(
    change: Callable[[Log], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(DIRECTORY, filesystem=MemoryFileSystem())
    append(log, b"x", sync=True)
    append(log, b"y")
    is_syncing, may_end, sync = threading.Event(), threading.Event(), LogSegment.sync

    def slowly(segment: LogSegment, **options: bool) -> None:
        if threading.current_thread() is syncer:
            is_syncing.set()
            assert may_end.wait(10)
            assert "_file" in vars(segment)
        sync(segment, **options)

    monkeypatch.setattr(LogSegment, "sync", slowly)
    found: list[int] = []
    syncer = threading.Thread(target=lambda: found.append(log.sync_appended()))
    changer = threading.Thread(target=change, args=(log,))
    syncer.start()
    assert is_syncing.wait(10)
    changer.start()
    changer.join(0.05)
    assert changer.is_alive()
    may_end.set()
    syncer.join(10)
    changer.join(10)
    assert found == [2]


def test_threads_append_and_sync_at_once() -> None:
    """What the syncing thread was given as the high watermark was appended, and the last sync covers everything."""
    log = open_log(DIRECTORY, filesystem=MemoryFileSystem(), segment_bytes=700)
    seen, is_over = [0], threading.Event()

    def sync() -> None:
        while not is_over.is_set():
            seen.append(log.sync_appended())

    syncer = threading.Thread(target=sync)
    syncer.start()
    for number in range(100):
        append(log, b"%d" % number, b"again")
    soon(lambda: log.high_watermark == 200)
    is_over.set()
    syncer.join(10)
    assert seen == sorted(seen)
    assert log.failure is None
    assert len(rows(log)) == 200


def test_after_a_failed_sync_nothing_is_appended_or_synced_until_the_log_is_opened_again() -> None:
    faulty = FaultyFileSystem(MemoryFileSystem(), [])
    log = open_log(DIRECTORY, filesystem=faulty)
    append(log, b"x", sync=True)
    append(log, b"y")
    faulty.rules.append(fail("sync", "*.log"))
    for _ in range(2):
        with pytest.raises(StorageError, match="open the log again"):
            log.sync_appended()
    assert (log.high_watermark, log.recovery_point) == (1, 1)
    with pytest.raises(StorageError, match="open the log again"):
        append(log, b"z")


# The parts alone


def context_of(disk: MemoryFileSystem, **settings: object) -> LogContext:
    disk.make_directory(DIRECTORY)
    return LogContext(DIRECTORY, config(**settings), ManualClock(NOW_MS), disk, True)


@pytest.mark.parametrize(
    ("error", "failure"),
    [(OSError("no space"), "no space"), (KeyboardInterrupt(), "a change was interrupted")],
    ids=["failed", "interrupted"],
)
def test_a_change_that_ends_early_stops_all_later_ones(error: BaseException, failure: str) -> None:
    stop = FailStop(context_of(MemoryFileSystem()))
    with pytest.raises((StorageError, KeyboardInterrupt)), stop, stop.changing:
        raise error
    assert stop.failure == failure
    with pytest.raises(StorageError, match=f"earlier failure \\({failure}\\); open the log again"), stop:
        pytest.fail("the block was entered")


def test_an_error_without_a_change_stops_nothing() -> None:
    stop = FailStop(context_of(MemoryFileSystem()))
    with pytest.raises(ValueError, match="refused"), stop:
        raise ValueError("refused")
    with stop:
        pass
    assert stop.failure is None


@pytest.mark.parametrize(
    ("settings", "syncs"),
    [({}, [True, True, True, True]), ({"flush_messages": 3}, [False, False, True, False])],
    ids=["each", "every third"],
)
def test_an_append_is_acknowledged_with_the_syncs_that_its_topic_asks_for(
    settings: dict[str, object], syncs: list[bool]
) -> None:
    disk = MemoryFileSystem()
    context = context_of(disk, **settings)
    segment, durability, found = LogSegment.create(context, 0), Durability(context, FailStop(context)), []
    durability.note_synced(0)
    for end_offset in range(1, 5):
        disk.operations.clear()
        durability.acknowledge(segment, end_offset, transactional=False)
        assert durability.high_watermark == end_offset
        found.append("sync" in [each.kind for each in disk.operations])
        assert (durability.recovery_point == end_offset) == found[-1]
    assert found == syncs


def test_a_lowered_recovery_point_is_never_raised_by_that() -> None:
    context = context_of(MemoryFileSystem())
    durability = Durability(context, FailStop(context))
    durability.note_synced(10)
    for offset, expected in ((12, 10), (4, 4), (6, 4)):
        durability.lower_to(offset)
        assert durability.recovery_point == expected


# Power cuts


def test_a_power_cut_loses_nothing_below_the_high_watermark() -> None:
    """At every change of the disk: the log opens with all that was synced, and a beginning of what was appended."""
    reported = [0]

    def story(disk: MemoryFileSystem) -> None:
        reported[0] = 0
        log = open_log(DIRECTORY, filesystem=disk, segment_bytes=600, index_interval_bytes=0)
        for group in range(5):
            append(log, *(b"%d" % (3 * group + each) for each in range(3)))
            if group != 1:
                reported[0] = log.sync_appended()

    seeds = Random(1)
    for operation, disk in crash_points(story):
        for _ in range(4):
            left = rows(open_log(DIRECTORY, filesystem=disk.crash(seeds.randrange(1 << 30)), segment_bytes=600))
            assert left == [(offset, b"%d" % offset) for offset in range(len(left))], operation
            assert len(left) >= reported[0], operation


def test_a_power_cut_loses_no_sequence_number_below_the_high_watermark() -> None:
    """After the restart, a repetition of what was acknowledged is known as one, and what was lost may come again."""
    reported = [0]

    def story(disk: MemoryFileSystem) -> None:
        reported[0] = 0
        log = open_log(DIRECTORY, filesystem=disk)
        for sequence in range(4):
            append(log, b"v", producer_id=7, base_sequence=sequence)
            if sequence % 2:
                reported[0] = log.sync_appended()
        end_transaction(log, 8, commit=True)

    for operation, disk in crash_points(story):
        for seed in range(3):
            log = open_log(DIRECTORY, filesystem=disk.crash(seed))
            for sequence in range(4):
                append(log, b"v", producer_id=7, base_sequence=sequence, sync=True)
            assert [value for _, value in rows(log)] == [b"v"] * 4, operation


def test_the_clock_of_flush_ms_begins_with_a_sync_apart() -> None:
    disk, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    log = open_log(DIRECTORY, filesystem=disk, clock=clock, flush_ms=1000)
    clock.advance(900)
    append(log, b"x")
    log.sync_appended()
    clock.advance(900)
    append(log, b"y", sync=True)
    assert (log.recovery_point, log.high_watermark) == (1, 2)
