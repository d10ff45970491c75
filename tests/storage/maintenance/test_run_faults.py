"""A disk that fails at any call of a compaction or retention, and faults that Kafka's cleaner and retention had."""

from __future__ import annotations

import errno
import itertools
import re
from collections.abc import Callable, Iterator

import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.compaction.dirty import cleanable
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import CleanerConfig, LogConfig
from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import CONTROL_MASK, INT32_MAX
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.retention.apply import retain
from pyspark_commitlog.storage.writing.log import Log
from tests.storage.compaction.test_rounds import Pairs, compacted_topic, end, pairs, transactional, write
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, OperationName, Rule, fail, tear
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import append, config, records, rows

PARTITION = "/p-0"
LOOKING: tuple[OperationName, ...] = ("list", "status", "size", "read", "lock")
NAMING: tuple[OperationName, ...] = ("open", "rename", "remove", "sync_directory")
WRITING: tuple[OperationName, ...] = ("write", "truncate", "sync")
NEED_ROOM: tuple[OperationName, ...] = ("open", "rename", *WRITING)
FAULTS = [
    *(pytest.param(each, errno.EIO, id=f"{each}, input or output error") for each in (*LOOKING, *NAMING, *WRITING)),
    *(pytest.param(each, errno.ENOSPC, id=f"{each}, disk full") for each in NEED_ROOM),
]
SEGMENTS: list[Pairs] = [
    [(b"a", b"1"), (b"b", b"1")],
    [(b"c", b"1"), (b"a", b"2")],
    [(b"b", b"2"), (b"d", b"1")],
]
OLD = [pair for rows_ in SEGMENTS for pair in rows_]
NEW = [(b"c", b"1"), (b"a", b"2"), (b"b", b"2"), (b"d", b"1")]
NOT_KEPT = (file_names.CLEANED, file_names.SWAP)
COMPACTED = compacted_topic(segment_index_bytes=240)
DELETED = config(retention_bytes=0, segment_index_bytes=240, file_delete_delay_ms=0)


def opened(disk: MemoryFileSystem | FaultyFileSystem, settings: LogConfig, marks: KeptInMemory | None = None) -> Log:
    return Log.open(PARTITION, settings, clock=ManualClock(), filesystem=disk, checkpoints=marks or KeptInMemory())


def listing(disk: MemoryFileSystem, *endings: str) -> list[str]:
    return [name for name in disk.list(PARTITION) if name.endswith(endings)]


@pytest.fixture(scope="module")
def compactable() -> MemoryFileSystem:
    disk = MemoryFileSystem(ManualClock())
    with opened(disk, COMPACTED) as log:
        write(log, *SEGMENTS)
    return disk


@pytest.fixture(scope="module")
def deletable() -> MemoryFileSystem:
    """Two segments with a record each; the last one is active."""
    disk = MemoryFileSystem(ManualClock())
    with opened(disk, DELETED) as log:
        append(log, b"0")
        log.roll()
        append(log, b"1")
    return disk


def failures(
    start: MemoryFileSystem, settings: LogConfig, task: Callable[[Log], object], rule: Callable[[int], Rule]
) -> Iterator[tuple[MemoryFileSystem, KeptInMemory, Rule, StorageError | OSError | None]]:
    """Runs ``task`` on a copy of ``start`` each time, with the fault at its first call, its second, and so on."""
    for call in itertools.count(1):
        disk, marks = start.copy(), KeptInMemory()
        faulty = FaultyFileSystem(disk)
        log = opened(faulty, settings, marks)
        fault = rule(call)
        faulty.rules.append(fault)
        error: StorageError | OSError | None = None
        try:
            task(log)
        except (StorageError, OSError) as found:
            error = found
        faulty.rules.clear()
        if not fault.struck:
            assert error is None
            assert call > 1
            return
        log.close()
        yield disk, marks, fault, error


def compact(log: Log) -> None:
    Cleaner().clean(log, None, 0)


@pytest.mark.parametrize(("operation", "error"), FAULTS)
def test_a_disk_that_fails_once_in_a_compaction_loses_nothing(
    compactable: MemoryFileSystem, operation: OperationName, error: int
) -> None:
    at_call = lambda call: fail(operation, f"{PARTITION}*", call=call, error=error)  # noqa: E731
    for disk, marks, _, raised in failures(compactable, COMPACTED, compact, at_call):
        assert_explained(raised, error)
        if operation not in ("remove", "rename", "status"):  # the last two also in the swap, which is not undone
            assert listing(disk, file_names.CLEANED) == []
        with opened(disk, COMPACTED, marks) as log:
            assert pairs(log) in (OLD, NEW)
            assert listing(disk, *NOT_KEPT) == []
            compact(log)
            assert pairs(log) == NEW


@pytest.mark.parametrize("after", [0, 7])
def test_a_disk_that_is_full_from_some_write_on_loses_nothing(compactable: MemoryFileSystem, after: int) -> None:
    full = lambda call: tear(f"{PARTITION}/0*", after=after, call=call, lasting=True)  # noqa: E731
    seen = 0
    for disk, marks, fault, raised in failures(compactable, COMPACTED, compact, full):
        seen += fault.struck
        assert_explained(raised, errno.ENOSPC)
        assert listing(disk, *NOT_KEPT) == []
        with opened(disk, COMPACTED, marks) as log:
            assert pairs(log) == OLD
            compact(log)
            assert pairs(log) == NEW
    assert seen


def test_a_disk_that_refuses_to_remove_leaves_it_to_the_next_run(compactable: MemoryFileSystem) -> None:
    disk = compactable.copy()
    faulty = FaultyFileSystem(disk)
    with opened(faulty, COMPACTED) as log:
        faulty.rules += [
            fail("write", "*.cleaned", error=errno.ENOSPC),
            fail("remove", "*.cleaned", call=5, error=errno.EROFS, lasting=True),  # after those before it begins
        ]
        with pytest.raises(StorageError, match=r"No space left on device.*\.cleaned"):
            compact(log)
        assert faulty.rules[1].struck
        assert listing(disk, file_names.CLEANED)
        faulty.rules.clear()
        compact(log)
        assert pairs(log) == NEW
        assert listing(disk, *NOT_KEPT) == []


@pytest.mark.parametrize(("operation", "error"), FAULTS)
def test_a_disk_that_fails_once_in_a_retention_loses_nothing_that_is_kept(
    deletable: MemoryFileSystem, operation: OperationName, error: int
) -> None:
    at_call = lambda call: fail(operation, f"{PARTITION}*", call=call, error=error)  # noqa: E731
    for disk, marks, _, raised in failures(deletable, DELETED, retain, at_call):
        assert_explained(raised, error)
        with opened(disk, DELETED, marks) as log:
            found = rows(log)
            assert found == [(n, b"%d" % n) for n in range(log.log_start_offset, 2)]
            retain(log)
            assert log.log_start_offset == 2
            assert rows(log) == []


def assert_explained(raised: StorageError | OSError | None, error: int) -> None:
    """Unless the failure was compensated, names the error, the file, and the operation."""
    if raised is not None:
        begun = "" if isinstance(raised, OSError) else rf"{PARTITION}: .*"  # an OSError: before anything was begun
        assert re.search(rf"{begun}\[Errno {error}\].*'{PARTITION}[^']*'", str(raised)), str(raised)


# Faults that Kafka had


def committed(log: Log) -> Pairs:
    return pairs(log, Isolation.READ_COMMITTED)


def batches(log: Log) -> list[tuple[int, int, bool]]:
    """(base offset, records, is control) of every batch of the log."""
    return [
        (int(row["base_offset"]), int(row["count"]), bool(row["attributes"] & CONTROL_MASK))
        for segment in log.segments
        for window in segment.batches()
        for row in window.headers.table
    ]


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem(ManualClock())


def test_kafka_6264_records_more_than_an_int_apart_are_compacted_into_segments_that_can_hold_them(
    disk: MemoryFileSystem,
) -> None:
    far = 2**31 + 7
    with opened(disk, COMPACTED) as log:
        write(log, [(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")])
        for offset, key in ((far, b"b"), (far + 2**31, b"c")):
            batch = v2.encode(records([b"2"], keys=[key]), v2.BatchFields(leader_epoch=0))
            v2.stamp(batch, formats.scan(batch).headers, base_offset=offset, leader_epoch=0)
            log.append(batch, origin=Origin.REPLICATION)
            log.roll()
        log_end = log.log_end_offset
        for _ in range(2):
            compact(log)
            assert pairs(log) == [(b"a", b"2"), (b"b", b"2"), (b"c", b"2")]
        for segment in log.segments:
            assert all(segment.base_offset + INT32_MAX >= base for base, _, _ in batches(log)[:1])
            assert segment.next_offset() - 1 - segment.base_offset <= INT32_MAX
    with opened(disk, COMPACTED) as log:
        assert log.log_end_offset == log_end
        assert pairs(log) == [(b"a", b"2"), (b"b", b"2"), (b"c", b"2")]


def write_transactions(log: Log) -> None:
    """Many transactions in one segment, every second one aborted, with one key each."""
    for n in range(12):
        rows_: Pairs = [(b"key %d" % n, b"%d" % n), (b"same", b"%d" % n)]
        fields = transactional(1, 2 * n)
        log.append(v2.encode(records([v for _, v in rows_], keys=[k for k, _ in rows_]), fields))
        end(log, 1, commit=n % 2 == 0)
    log.roll()


def test_kafka_20036_aborted_data_stays_away_where_the_output_needs_several_segments(disk: MemoryFileSystem) -> None:
    with opened(disk, COMPACTED) as log:
        write_transactions(log)
        before = committed(log)
    in_one = disk.copy()
    with opened(in_one, COMPACTED) as log:
        compact(log)
        expected, whole = pairs(log), batches(log)
        assert len(log.segments) == 2
    with opened(disk, compacted_topic(segment_index_bytes=36, index_interval_bytes=0)) as log:
        compact(log)
        assert len(log.segments) > 3
        assert batches(log) == whole
        assert pairs(log) == committed(log) == expected
        for segment, following in itertools.pairwise(log.segments):
            markers = [entry.last_offset for entry in segment.txn_index.entries]
            assert all(segment.base_offset <= marker < following.base_offset for marker in markers)
    assert dict(expected) == dict(before)


def test_kafka_7401_a_swap_below_the_log_start_does_not_hinder_opening(disk: MemoryFileSystem) -> None:
    settings = config(cleanup_policy="compact,delete", file_delete_delay_ms=0, segment_index_bytes=240)
    faulty = FaultyFileSystem(disk)
    log = opened(faulty, settings)
    write(log, *SEGMENTS)
    log.append(v2.encode(records([b"3"], keys=[b"e"]), v2.BatchFields()))
    faulty.rules.append(fail("rename", "*.log.swap", call=2, lasting=True))  # the first makes it
    with pytest.raises(StorageError):
        compact(log)
    faulty.rules.clear()
    log.close()
    assert listing(disk, ".log.swap")
    with opened(disk, settings, KeptInMemory(log_start_offset=6)) as log:
        assert log.log_start_offset == 6
        assert pairs_from(log) == [(b"e", b"3")]
        assert listing(disk, *NOT_KEPT) == []
        retain(log)
        assert pairs_from(log) == [(b"e", b"3")]


def pairs_from(log: Log) -> Pairs:
    found: Pairs = []
    for part in log.records(log.log_start_offset, log.log_end_offset):
        assert part.keys is not None
        assert part.values is not None
        found += zip(part.keys.to_list(), part.values.to_list(), strict=True)
    return found


@pytest.mark.parametrize("commit", [True, False])
def test_kafka_8351_a_marker_stays_as_long_as_data_of_its_transaction_in_another_group(
    disk: MemoryFileSystem, *, commit: bool
) -> None:
    settings = compacted_topic(segment_bytes=200, segment_index_bytes=240, delete_retention_ms=0)
    with opened(disk, settings) as log:
        for n in range(3):
            write(log, [(b"%d" % n, b"x" * 60)], fields=transactional(1, n))
        end(log, 1, commit=commit)
        log.roll()
        write(log, [(b"z", b"1")])
        before = committed(log)
        compact(log)
        assert committed(log) == before
        markers = [base for base, count, is_control in batches(log) if is_control and count]
        assert markers == [3]
        for _ in range(2):
            compact(log)
        assert committed(log) == pairs(log) == before
        kept = [base for base, count, is_control in batches(log) if is_control and count]
        assert kept == [3]


@pytest.mark.parametrize("keys", [1, 2, 3, 5])
def test_kafka_13727_a_round_that_ends_early_brings_no_aborted_record_back(disk: MemoryFileSystem, keys: int) -> None:
    with opened(disk, COMPACTED) as log:
        write_transactions(log)
        write_transactions_again(log)
        before = dict(committed(log))
        cleaner = Cleaner(CleanerConfig(dedupe_buffer_size=24 * keys, io_buffer_load_factor=1.0))
        reached, rounds = 0, 0
        while cleanable(log, reached, 0).is_dirty:
            following = cleaner.clean(log, reached, 0).next_first_dirty_offset
            assert following > reached
            reached, rounds = following, rounds + 1
            assert dict(committed(log)) == before
        assert rounds > 1
        assert dict(pairs(log)) == before


def write_transactions_again(log: Log) -> None:
    """Two producers with interleaved transactions, which are decided in another segment than they began in."""
    for producer, base in ((2, 0), (3, 0)):
        write(log, [(b"key %d" % producer, b"open")], fields=transactional(producer, base))
    end(log, 3, commit=False)
    end(log, 2, commit=True)
    log.roll()


def test_kafka_8335_emptied_batches_of_a_producer_do_not_pile_up(disk: MemoryFileSystem) -> None:
    with opened(disk, COMPACTED) as log:
        first_dirty = 0
        for n in range(6):
            fields = v2.BatchFields(producer_id=7, producer_epoch=0, base_sequence=n)
            write(log, [(b"a", b"%d" % n)], fields=fields)
            write(log, [(b"a", b"later %d" % n)])
            first_dirty = Cleaner().clean(log, first_dirty, 0).next_first_dirty_offset
            assert sum(count == 0 for _, count, _ in batches(log)) == 1
        assert pairs(log) == [(b"a", b"later 5")]


@pytest.mark.parametrize("first_dirty", range(1, 7))
def test_kafka_8764_a_hole_where_the_dirty_part_begins_does_not_stop_the_rounds(
    disk: MemoryFileSystem, first_dirty: int
) -> None:
    with opened(disk, COMPACTED) as log:
        write(log, [(b"a", b"1"), (b"b", b"1")], [(b"a", b"2"), (b"b", b"2")], [(b"a", b"3"), (b"b", b"3")])
        compact(log)
        assert pairs(log) == [(b"a", b"3"), (b"b", b"3")]
        write(log, [(b"a", b"4")])
        reached = first_dirty
        for _ in range(3):
            if cleanable(log, reached, 0).is_dirty:
                following = Cleaner().clean(log, reached, 0).next_first_dirty_offset
                assert following > reached
                reached = following
        assert reached == 7
        assert pairs(log) == [(b"b", b"3"), (b"a", b"4")]


def test_kafka_6854_a_batch_that_goes_between_others_of_one_buffer_takes_none_of_them_along(
    disk: MemoryFileSystem,
) -> None:
    with opened(disk, COMPACTED) as log:
        for n in range(4):
            log.append(v2.encode(records([b"1"], keys=[b"plain %d" % n]), v2.BatchFields()))
            log.append(v2.encode(records([b"gone"], keys=[b"plain %d" % n]), transactional(1, n)))
            end(log, 1, commit=False)
            log.append(v2.encode(records([b"1", None], keys=[b"x %d" % n, b"y"]), transactional(2, 2 * n)))
            end(log, 2, commit=True)
        log.roll()
        before = dict(committed(log))
        compact(log)
        assert dict(pairs(log)) == dict(committed(log)) == before
        assert [key for key, _ in pairs(log)] == [
            key for n in range(4) for key in (b"plain %d" % n, b"x %d" % n, *([b"y"] if n == 3 else []))
        ]


def test_kafka_7400_segments_below_the_log_start_go_from_a_topic_that_is_only_compacted(
    disk: MemoryFileSystem,
) -> None:
    marks = KeptInMemory()
    with opened(disk, config(cleanup_policy="compact,delete", file_delete_delay_ms=0), marks) as log:
        write(log, *SEGMENTS)
        log.delete_records(4)
    with opened(disk, COMPACTED, marks) as log:
        removed = [fate.segment.base_offset for fate in retain(log).plan.removed]
        assert removed == [0, 2]
        assert log.segments.first.base_offset == 4
        compact(log)
        assert pairs_from(log) == SEGMENTS[2]
