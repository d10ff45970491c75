"""Compaction in detail: what is due, what is grouped, concurrent processes, and faults that Kafka's cleaner had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from pyspark_commitlog.storage.compaction.dirty import cleanable, dirtiest_first, group_segments
from pyspark_commitlog.storage.compaction.rounds import WINDOW_BYTES_MIN, Cleaner
from pyspark_commitlog.storage.config import CleanerConfig, LogConfig
from pyspark_commitlog.storage.errors import (
    CorruptRecordError,
    InvalidConfigError,
    LogDirLockedError,
    StorageError,
    TableSizeError,
)
from pyspark_commitlog.storage.format import decompressed_parts, v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.internal import control_records
from pyspark_commitlog.storage.format.tables import BatchHeaders
from pyspark_commitlog.storage.index_rebuild.log import rebuild_log
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.damaged import salvaged_records
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.reading.watcher import LogWatcher
from pyspark_commitlog.storage.recovery import loader
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.recovery.segment_recovery import LogState, Recovery, recover
from pyspark_commitlog.storage.segment.writer import LogSegment
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import config, records

HOUR_MS = 3_600_000
Pairs = list[tuple[bytes | None, bytes | None]]
ZSTD = v2.BatchFields(codec=Codec.ZSTD)


def compacted_topic(**overrides: object) -> LogConfig:
    return config(cleanup_policy="compact", file_delete_delay_ms=0, **overrides)


@contextmanager
def a_log(
    disk: MemoryFileSystem, settings: LogConfig | None = None, checkpoints: KeptInMemory | None = None
) -> Iterator[Log]:
    chosen = settings or compacted_topic()
    with Log.open("/p-0", chosen, clock=disk.clock, filesystem=disk, checkpoints=checkpoints) as log:
        yield log


def write(log: Log, *segments: Pairs, fields: v2.BatchFields | None = None) -> None:
    """One batch per segment, each segment closed."""
    for rows in segments:
        log.append(v2.encode(records([v for _, v in rows], keys=[k for k, _ in rows]), fields or v2.BatchFields()))
        log.roll()


def end(log: Log, producer_id: int, *, commit: bool, epoch: int = 0) -> None:
    marker = control_records.end_transaction_marker(
        commit=commit,
        offset=0,
        leader_epoch=0,
        timestamp_ms=log.context.clock.now_ms(),
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=0,
    )
    log.append(np.array(marker), origin=Origin.COORDINATOR)


def transactional(producer_id: int, base_sequence: int = 0) -> v2.BatchFields:
    return v2.BatchFields(producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence, transactional=True)


def clean(log: Log, first_dirty: int | None = None) -> int:
    return Cleaner().clean(log, first_dirty, log.context.clock.now_ms()).next_first_dirty_offset


def pairs(log: LogReader, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> Pairs:
    found: Pairs = []
    for part in log.records(0, log.log_end_offset, isolation=isolation):
        assert part.keys is not None
        assert part.values is not None
        found += zip(part.keys.to_list(), part.values.to_list(), strict=True)
    return found


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem(ManualClock())


# What is due


def test_a_log_recovered_at_opening_is_not_recovered_again_by_maintenance(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_log(disk) as log:
        write(log, [(b"k", b"1")], [(b"k", b"2")])
    recovered: list[LogSegment] = []

    def noting(segment: LogSegment, state: LogState, synced_offset: int = 0) -> Recovery:
        recovered.append(segment)
        return recover(segment, state, synced_offset)

    monkeypatch.setattr(loader, "recover", noting)
    with a_log(disk) as log:
        assert len(recovered) == 3
        assert clean(log) == 2
        assert len(recovered) == 3
        assert pairs(log) == [(b"k", b"2")]


def test_the_active_segment_is_never_cleaned(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1")], [(b"a", b"2")])
        log.append(v2.encode(records([b"3"], keys=[b"a"]), v2.BatchFields()))
        assert clean(log) == 2
        assert pairs(log) == [(b"a", b"2"), (b"a", b"3")]


def test_kafka_13194_nothing_undecided_is_cleaned(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1")], [(b"a", b"2")])
        write(log, [(b"b", b"open")], fields=transactional(1))
        write(log, [(b"a", b"3")], [(b"a", b"4")])
        assert clean(log) == 2
        assert pairs(log) == [(b"a", b"2"), (b"b", b"open"), (b"a", b"3"), (b"a", b"4")]


def test_records_within_the_minimum_lag_are_not_cleaned(disk: MemoryFileSystem) -> None:
    with a_log(disk, compacted_topic(min_compaction_lag_ms=HOUR_MS)) as log:
        write(log, [(b"a", b"1")], [(b"a", b"2")])
        assert clean(log) == 0
        assert isinstance(disk.clock, ManualClock)
        disk.clock.advance(HOUR_MS)
        assert clean(log) == 2
        assert pairs(log) == [(b"a", b"2")]


def test_an_overdue_log_is_due_whatever_its_ratio(disk: MemoryFileSystem) -> None:
    with a_log(disk, compacted_topic(max_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio=1)) as log:
        write(log, [(b"a", b"1")])
        now_ms = disk.clock.now_ms()
        assert not cleanable(log, None, now_ms).is_due
        assert not cleanable(log, None, now_ms + HOUR_MS).is_due
        assert cleanable(log, None, now_ms + HOUR_MS + 1).is_due


def test_the_dirtiest_due_log_is_first(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1")], [(b"a", b"2")], [(b"a", b"3")])
        now_ms = disk.clock.now_ms()
        dirty = {checkpoint: cleanable(log, checkpoint, now_ms) for checkpoint in (0, 1, 2, 3)}
    assert [round(each.ratio, 2) for each in dirty.values()] == [1.0, 0.67, 0.33, 0.0]
    assert dirtiest_first(dirty) == [0, 1]
    assert dirtiest_first({2: dirty[2], 1: dirty[1]}) == [1]
    assert dirtiest_first({2: dirty[2], 3: dirty[3]}) == []


@pytest.mark.parametrize("checkpoint", [None, -5, 99], ids=["none", "below the start", "above the end"])
def test_kafka_9826_a_checkpoint_outside_the_log_makes_all_of_it_dirty(
    disk: MemoryFileSystem, checkpoint: int | None
) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1")], [(b"a", b"2")])
        assert cleanable(log, checkpoint, 0).first_dirty_offset == 0
        assert clean(log, checkpoint) == 2


def test_kafka_9133_a_log_start_in_the_active_segment_leaves_nothing_to_clean(disk: MemoryFileSystem) -> None:
    with a_log(disk, config(cleanup_policy="compact,delete", file_delete_delay_ms=0)) as log:
        write(log, [(b"a", b"1")], [(b"a", b"2")])
        log.append(v2.encode(records([b"3", b"4"], keys=[b"a", b"b"]), v2.BatchFields()))
        log.delete_records(3)
        assert not cleanable(log, 0, 0).is_dirty
        assert clean(log, 0) == 3


# Groups


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        pytest.param({}, [4], id="all fit one"),
        pytest.param({"segment_bytes": 160}, [2, 2], id="two logs fit"),
        pytest.param({"segment_bytes": 79}, [1, 1, 1, 1], id="one is always a group"),
    ],
)
def test_neighbours_that_fit_one_segment_are_a_group(
    disk: MemoryFileSystem, settings: dict[str, object], sizes: list[int]
) -> None:
    with a_log(disk) as log:
        rows: Pairs = [(b"k", b"123")]
        write(log, rows, rows, rows, rows)
        groups = group_segments([*log.segments][:-1], 4, compacted_topic(**settings))
        assert [len(group) for group in groups] == sizes


def test_kafka_5413_a_group_spans_no_more_offsets_than_a_segment_can(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1")])
        far = v2.encode(records([b"2"], keys=[b"b"]), v2.BatchFields(leader_epoch=0))
        headers = v2.stamp(far, v2_headers(far), base_offset=2**31 + 5, leader_epoch=0)
        assert len(headers) == 1
        log.append(far, origin=Origin.REPLICATION)
        log.roll()
        bases = log.segments.base_offsets
        assert clean(log) == bases[-1]
        assert pairs(log) == [(b"a", b"1"), (b"b", b"2")]


def v2_headers(buffer: np.ndarray) -> BatchHeaders:
    return BatchHeaders(v2.headers(buffer, np.zeros(1, dtype=np.int64), np.array([len(buffer)])))


# Faults of Kafka's cleaner


def test_kafka_14055_a_user_key_like_a_markers_key_deletes_no_marker(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"gone")], fields=transactional(1))
        end(log, 1, commit=False)
        log.roll()
        write(log, [(b"a", b"1")], fields=transactional(1, 1))
        end(log, 1, commit=True)
        log.roll()
        write(log, [(b"\0\0\0\1", b"x"), (b"\0\0\0\0", b"y")])
        clean(log)
        assert pairs(log) == [(b"a", b"1"), (b"\0\0\0\1", b"x"), (b"\0\0\0\0", b"y")]
        controls = [w.headers.is_control.sum() for segment in log.segments for w in segment.batches()]
        assert sum(controls) == 2


def test_kafka_17076_the_last_batch_of_a_round_keeps_its_header(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1")], [(b"b", b"2")])
        write(log, [(b"a", b"gone")], fields=transactional(1))
        end(log, 1, commit=False)
        log.roll()
        log_end = log.log_end_offset
        clean(log)
        log.refresh()
        assert log.log_end_offset == log_end


def test_kafka_5490_a_producer_whose_records_are_all_gone_cannot_repeat_its_batch(disk: MemoryFileSystem) -> None:
    fields = v2.BatchFields(producer_id=7, producer_epoch=0, base_sequence=0)
    with a_log(disk) as log:
        write(log, [(b"a", b"1"), (b"b", b"1")], fields=fields)
        write(log, [(b"a", b"2"), (b"b", b"2")])
        clean(log)
        log.refresh()
        again = v2.encode(records([b"1", b"1"], keys=[b"a", b"b"]), fields)
        assert log.append(again).duplicate
        assert pairs(log) == [(b"a", b"2"), (b"b", b"2")]


def test_kafka_7385_a_segment_of_empty_batches_only_is_read_and_cleaned_again(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1")], fields=v2.BatchFields(producer_id=7, producer_epoch=0, base_sequence=0))
        write(log, [(b"a", b"2")])
        first_dirty = clean(log)
        write(log, [(b"a", b"3")])
        assert clean(log, first_dirty) == 3
        assert pairs(log) == [(b"a", b"3")]


def test_kafka_6834_a_batch_larger_than_the_buffer_is_cleaned(disk: MemoryFileSystem) -> None:
    large = bytes(2 * WINDOW_BYTES_MIN)
    with a_log(disk, compacted_topic(max_message_bytes=4 * WINDOW_BYTES_MIN)) as log:
        write(log, [(b"a", large), (b"b", b"x")], [(b"b", b"y")])
        Cleaner(CleanerConfig(io_buffer_size=0)).clean(log, None, disk.clock.now_ms())
        assert pairs(log) == [(b"a", large), (b"b", b"y")]


@pytest.mark.parametrize("codec", list(Codec))
def test_kafka_4298_a_batch_that_loses_nothing_keeps_its_bytes(disk: MemoryFileSystem, codec: Codec) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")], fields=v2.BatchFields(codec=codec))
        write(log, [(b"b", b"2"), (b"c", b"2")], fields=v2.BatchFields(codec=codec))
        whole = [bytes(w.buffer) for segment in log.segments for w in segment.batches()][1:]
        clean(log)
        assert [bytes(w.buffer) for segment in log.segments for w in segment.batches()] == [b"".join(whole)]


def test_kafka_5431_preallocated_segments_end_with_their_last_batch(disk: MemoryFileSystem) -> None:
    with a_log(disk, compacted_topic(preallocate=True, segment_bytes=4096)) as log:
        write(log, [(b"a", b"1")], [(b"a", b"2")])
        clean(log)
        assert log.segments.first.file_size == log.segments.first.size > 0


def test_records_without_a_key_are_dropped_and_counted(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        keyless = v2.encode(records([b"1", b"1"], keys=[None, b"a"]), v2.BatchFields(leader_epoch=0))
        log.append(keyless, origin=Origin.REPLICATION)  # from before the topic was compacted
        log.roll()
        assert Cleaner().clean(log, None, 0).counts.records_without_key == 1
        assert pairs(log) == [(b"a", b"1")]


def test_each_byte_counts_once_where_windows_end_within_a_batch(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        for number in range(9):
            log.append(v2.encode(records([b"%d" % number], keys=[b"a"]), v2.BatchFields()))
        log.roll()
        before, cleaner = log.segments.first.size, Cleaner()
        cleaner.window_bytes = 100
        counts = cleaner.clean(log, None, disk.clock.now_ms()).counts
        assert (counts.bytes_read, counts.bytes_written) == (before, log.segments.first.size)


def test_a_second_round_changes_no_byte(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1"), (b"b", b"1")], [(b"a", None)], [(b"b", b"2")])
        clean(log)
        before = [bytes(w.buffer) for segment in log.segments for w in segment.batches()]
        clean(log)
        assert [bytes(w.buffer) for segment in log.segments for w in segment.batches()] == before


@pytest.mark.parametrize("has_passed", [False, True], ids=["not compacted yet", "compacted before"])
def test_a_segment_that_lost_its_end_is_not_compacted_before_somebody_says_so(
    disk: MemoryFileSystem, has_passed: bool
) -> None:
    """A gap is no damage where compaction leaves gaps: once the log is rewritten, nothing shows the loss any more."""
    with a_log(disk, compacted_topic(index_interval_bytes=0)) as log:
        for value in (b"1", b"2", b"3"):
            log.append(v2.encode(records([value], keys=[value]), v2.BatchFields()))
        log.roll()
        first_dirty = clean(log) if has_passed else None
        write(log, [(b"4", b"4")])
        closed = log.segments.first
        last = int(list(closed.batches())[-1].headers.table["position"][-1])
        path = closed.path(file_names.LOG)
        closed.release()
    with disk.open(path, "write") as file:
        file.truncate(last)
    with a_log(disk, compacted_topic(index_interval_bytes=0), KeptInMemory(4)) as log:
        with pytest.raises(CorruptRecordError, match=r"leads to offset 2 .* the end of the log is missing"):
            clean(log, first_dirty)
        assert len(pairs(log)) == 3
        [(changed, reason)] = rebuild_log(log).changes
        assert changed == path.replace(file_names.LOG, file_names.INDEX)
        assert "the log ends with offset 1" in reason
        assert clean(log, first_dirty) == 4
        assert len(pairs(log)) == 3


def test_batches_with_more_bytes_than_a_table_can_have_are_compacted(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompressed_parts, "INT32_MAX", 2**20)
    large = [(b"%d" % number, bytes([number]) * 400_000) for number in range(12)]
    with a_log(disk) as log:
        for number, row in enumerate(large):
            rows = [row, (b"same", b"%d" % number)]
            log.append(v2.encode(records([v for _, v in rows], keys=[k for k, _ in rows]), ZSTD))
        log.roll()
        assert clean(log) == 24
        assert pairs(log) == [*large, (b"same", b"11")]


def test_one_batch_with_more_bytes_than_a_table_can_have_ends_the_compaction(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1")], [(b"a", b"2"), (b"b", bytes(2**19))], fields=ZSTD)
        before = pairs(log)
        monkeypatch.setattr(decompressed_parts, "INT32_MAX", 2**19)
        with pytest.raises(TableSizeError, match=r"position 0: .*decode fewer batches"):
            clean(log)
        monkeypatch.undo()
        assert pairs(log) == before


# Concurrent processes


def test_kafka_12840_a_policy_that_changes_meanwhile_leaves_the_log_as_it_was(disk: MemoryFileSystem) -> None:
    class NoLongerCompactedError(Exception):
        pass

    def refuse_after(calls: int) -> Callable[[], None]:
        remaining = [calls]

        def check() -> None:
            remaining[0] -= 1
            if remaining[0] < 0:
                raise NoLongerCompactedError

        return check

    with a_log(disk) as log:
        write(log, [(b"a", b"1")], [(b"a", b"2")])
        for calls in range(5):
            with pytest.raises(NoLongerCompactedError):
                Cleaner().clean(log, None, 0, check=refuse_after(calls))
            assert pairs(log) == [(b"a", b"1"), (b"a", b"2")]
            assert not [name for name in disk.list("/p-0") if name.endswith((file_names.CLEANED, file_names.SWAP))]


def test_kafka_7322_two_maintenance_jobs_never_work_on_one_log(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log, a_log(disk) as other:
        write(log, [(b"a", b"1")], [(b"a", b"2")])
        with other.maintaining(), pytest.raises(LogDirLockedError, match="works on the partition"):
            clean(log)
        assert clean(log) == 2


def test_a_log_truncated_during_the_round_is_not_swapped(disk: MemoryFileSystem) -> None:
    marks = KeptInMemory()
    with a_log(disk, checkpoints=marks) as log, a_log(disk, checkpoints=marks) as other:
        write(log, [(b"a", b"1")], [(b"a", b"2")])
        other.refresh()
        calls = iter(range(100))

        def cut_late() -> None:
            if next(calls) == 4:
                other.truncate_to(1)

        with pytest.raises(StorageError, match="no segment was replaced"):
            Cleaner().clean(log, None, 0, check=cut_late)
        other.refresh()
        assert pairs(other) == [(b"a", b"1")]


def test_appends_continue_while_a_log_is_cleaned(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log, a_log(disk) as other:
        write(log, [(b"a", b"1")], [(b"a", b"2")])
        other.refresh()
        calls = iter(range(100))

        def append_once() -> None:
            if next(calls) == 2:
                write(other, [(b"a", b"3")])

        Cleaner().clean(log, None, 0, check=append_once)
        assert pairs(log) == [(b"a", b"2"), (b"a", b"3")]


def test_a_roll_by_another_process_between_two_groups_makes_nothing_committed_look_aborted(
    disk: MemoryFileSystem,
) -> None:
    """The second group has a batch after an abort of its producer, and its commit is in the next segment."""
    settings = compacted_topic(segment_bytes=400)
    with a_log(disk, settings) as log, a_log(disk, settings) as other:
        write(log, [(b"large", b"." * 250)])
        log.append(v2.encode(records([b"gone"], keys=[b"a"]), transactional(1)))
        end(log, 1, commit=False)
        log.append(v2.encode(records([b"kept"], keys=[b"b"]), transactional(1, 1)))
        log.roll()
        end(log, 1, commit=True)
        log.roll()
        other.refresh()
        calls = iter(range(100))

        def roll_once() -> None:
            if next(calls) == 0:
                write(other, [(b"c", b"1")])

        Cleaner().clean(log, None, 0, check=roll_once)
        assert pairs(log) == [(b"large", b"." * 250), (b"b", b"kept"), (b"c", b"1")]


def test_a_reader_from_before_a_compaction_reads_the_new_files(disk: MemoryFileSystem) -> None:
    """It closes files as it reads, and finds larger ones under the same names, since tombstones got a horizon."""
    with a_log(disk, compacted_topic(segment_bytes=100)) as log:
        write(log, *([(b"%d" % n, None)] for n in range(4)), [(b"0", b"1" * 20)])
        with LogReader.open("/p-0", log.context.config, clock=disk.clock, filesystem=disk) as reader:
            assert len(pairs(reader)) == 5
            for _ in range(2):
                clean(log)
                assert dict(pairs(reader)) == dict(pairs(log))


def test_a_reader_from_before_a_compaction_reads_what_it_has_joined_to_one_segment(disk: MemoryFileSystem) -> None:
    """The new file reaches beyond the segment of its name, as the reader knows it, into others that are gone."""
    with a_log(disk) as log:
        write(log, *([(b"%d" % n, b"1")] for n in range(4)))
        by_offset, salvaging, by_time = (
            LogReader.open("/p-0", log.context.config, clock=disk.clock, filesystem=disk) for _ in range(3)
        )
        clean(log)
        assert len([*log.segments]) == 2
        assert pairs(by_offset) == pairs(log)
        salvaged = salvaged_records(salvaging, 0, 4, pytest.fail, isolation=Isolation.READ_UNCOMMITTED)
        assert [offset for part in salvaged for offset in part.offsets.tolist()] == [0, 1, 2, 3]
        found = by_time.offset_for_timestamp(0)
        assert found is not None
        assert found.offset == 0


def test_a_reader_that_knows_the_size_of_a_file_notices_that_compaction_replaced_it(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1")], [(b"b", b"2" * 50)], [(b"a", b"3")])
        watcher = LogWatcher.open("/p-0", log.context.config, clock=disk.clock, filesystem=disk)
        assert len([*watcher.records(0, 1)]) == 1
        watcher.rest(0, 1)
        clean(log)
        assert pairs(watcher) == pairs(log) == [(b"b", b"2" * 50), (b"a", b"3")]


def test_a_map_without_room_for_a_key_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match=r"dedupe\.buffer\.size = 20 .* no room for a single key"):
        Cleaner(CleanerConfig(dedupe_buffer_size=20))
