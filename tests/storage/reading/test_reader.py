"""What a reader finds: by offset, by time, in transactions, while the log grows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.errors import MissingSegmentError, OffsetOutOfRangeError, StorageError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.index_entries import AbortedTxn, encode_aborted
from pyspark_commitlog.storage.reading.aborted import AbortedTransaction, Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.log import Log
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.logs.building import (
    NOW_MS,
    append,
    batch,
    committed,
    decided,
    end_transaction,
    open_log,
    open_reader,
    records,
    replicated,
    rows,
    write_transactional,
)

# By offset


@pytest.mark.parametrize("compact", [True, False])
def test_every_offset_of_a_log_with_gaps_leads_to_the_next_batch(tmp_path: Path, compact: bool) -> None:
    log = open_log(tmp_path, index_interval_bytes=0, cleanup_policy="compact" if compact else "delete")
    ends = {5: 0, 17: 10, 30: 30}
    for last, base in ends.items():
        values = [b"%d" % n for n in range(base, last + 1)]
        log.append(replicated(*values, base_offset=base), origin=Origin.REPLICATION)
    for offset in range(31):
        data = log.read(offset)
        assert data is not None
        expected = next(last for last in ends if last >= offset)
        assert int(data.window.headers.table["last_offset"][0]) == expected
    assert [offset for offset, _ in rows(log)] == [*range(6), *range(10, 18), 30]


def test_continuing_a_read_where_batches_were_rewritten_finds_them_by_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for size in (10, 20, 30):
        append(log, b"x" * size)
    reader = open_reader(tmp_path)
    assert reader.read(0, max_bytes=1) is not None
    log.truncate_to(0)
    for size in (15, 1, 2):
        append(log, b"y" * size)
    data = reader.read(1, max_bytes=1)
    assert data is not None
    assert data.records(1, 2).values.to_list() == [b"y"]


@pytest.mark.parametrize("fetch_bytes", [1, 200, 10**6])
def test_a_log_with_gaps_is_read_in_fetches_of_any_size(tmp_path: Path, fetch_bytes: int) -> None:
    log = open_log(tmp_path)
    for base in (0, 2, 5, 6, 40, 41):
        log.append(replicated(b"%d" % base, base_offset=base), origin=Origin.REPLICATION)
    found = [offset for piece in log.records(0, 42, fetch_bytes=fetch_bytes) for offset in piece.offsets.tolist()]
    assert found == [0, 2, 5, 6, 40, 41]


def test_a_gap_between_segments_is_skipped_only_in_compacted_topics(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for n in range(3):
        append(log, b"%d" % n)
        log.roll()
    log.close()
    for kind in (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX):
        (tmp_path / file_names.segment_file(1, kind)).unlink()
    with pytest.raises(MissingSegmentError, match="offsets 1 to 1 are in no segment"):
        rows(open_reader(tmp_path))
    assert rows(open_reader(tmp_path, cleanup_policy="compact")) == [(0, b"0"), (2, b"2")]


def test_a_fetch_has_the_requested_size_and_ends_with_a_complete_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(10):
        append(log, b"x" * 32)
    size = log.segments.active.size // 10
    for asked, batches in ((0, 1), (1, 1), (size - 1, 1), (size, 1), (2 * size - 1, 1), (2 * size, 2), (10**9, 10)):
        data = log.read(0, max_bytes=asked)
        assert data is not None
        assert len(data.window.headers) == batches
        without = log.read(0, max_bytes=asked, min_one_message=False)
        assert (without is None) == (asked < size)


def test_a_fetch_stays_within_one_segment_and_the_next_continues(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    for n in range(12):
        append(log, b"%d" % n)
    found, offset = [], 0
    while data := log.read(offset):
        found.append((data.segment.base_offset, offset))
        offset = data.next_offset
    assert found == [(base, base) for base in log.segments.base_offsets]
    assert offset == 12


def test_reading_a_log_keeps_no_more_files_open_than_those_of_a_few_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for n in range(20):
        append(log, b"%d" % n)
        log.roll()
    log.close()
    before = len(os.listdir("/proc/self/fd"))
    opened = set()
    with open_reader(tmp_path) as reader:
        for part in reader.records(0, 20, isolation=Isolation.READ_UNCOMMITTED):
            assert len(part) == 1
            opened.add(len(os.listdir("/proc/self/fd")) - before)
    assert max(opened) <= 3 * 4  # the segment in hand, the one before it, the active one: a log and three indexes each


@pytest.mark.parametrize("start", range(7))
@pytest.mark.parametrize("end", range(7))
def test_exactly_the_requested_records_are_returned(tmp_path: Path, start: int, end: int) -> None:
    log = open_log(tmp_path, segment_bytes=150)
    append(log, b"0", b"1")
    append(log, b"2", b"3", b"4")
    append(log, b"5")
    found = [offset for part in log.records(start, end) for offset in part.offsets.tolist()]
    assert found == list(range(start, min(end, 6)))


def test_a_log_deleted_while_it_is_read_raises(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=100)
    for n in range(4):
        append(log, b"%d" % n * 30)
    reader = open_reader(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    tmp_path.rmdir()
    with pytest.raises(StorageError, match="no such directory"):
        reader.read(1)


def test_a_partition_without_a_directory_raises(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"t-0: no such directory"):
        open_reader(tmp_path / "t-0")


def test_a_file_that_vanishes_between_listing_and_opening_is_looked_for_again(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=100)
    for n in range(3):
        append(log, b"%d" % n * 30)
    faulty = FaultyFileSystem(LocalFileSystem(), [fail("open", "*.log", error=2)])
    assert len(rows(open_reader(tmp_path, filesystem=faulty))) == 3
    faulty.rules.append(fail("open", "*.log", call=1, error=2))
    assert len(rows(open_reader(tmp_path, filesystem=faulty))) == 3


def test_segments_that_retention_removed_are_no_longer_offered(tmp_path: Path) -> None:
    marks = KeptInMemory()
    log = open_log(tmp_path, marks, segment_bytes=100)
    for n in range(4):
        append(log, b"%d" % n * 30)
    reader = open_reader(tmp_path, marks)
    log.delete_records(2)
    for base in (0, 1):
        (tmp_path / file_names.segment_file(base, file_names.LOG)).unlink()
    with pytest.raises(OffsetOutOfRangeError, match="holds 2 to 4"):
        reader.read(0)
    assert [offset for offset, _ in rows(reader)] == [2, 3]


# Transactions


def interleaved(log: Log) -> list[tuple[int, bytes]]:
    """Two producers and plain records, aborts before and after commits; returns what is committed."""
    write_transactional(log, 1, 0, b"aborted 1")
    write_transactional(log, 2, 0, b"kept 2")
    append(log, b"plain")
    write_transactional(log, 1, 1, b"aborted 1 again")
    end_transaction(log, 1, commit=False)
    write_transactional(log, 1, 2, b"kept 1")
    write_transactional(log, 2, 1, b"kept 2 too")
    end_transaction(log, 2, commit=True)
    end_transaction(log, 1, commit=True)
    write_transactional(log, 1, 3, b"aborted in a second run")
    write_transactional(log, 2, 2, b"aborted 2")
    end_transaction(log, 2, commit=False)
    end_transaction(log, 1, commit=False)
    append(log, b"end")
    return [(1, b"kept 2"), (2, b"plain"), (5, b"kept 1"), (6, b"kept 2 too"), (13, b"end")]


@pytest.mark.parametrize("segment_bytes", [150, 250, 400, 10**6])
@pytest.mark.parametrize("fetch_bytes", [1, 200, 10**6])
def test_interleaved_transactions_are_distinguished_however_they_are_split(
    tmp_path: Path, segment_bytes: int, fetch_bytes: int
) -> None:
    log = open_log(tmp_path, segment_bytes=segment_bytes)
    expected = interleaved(log)
    for reader in (log, open_reader(tmp_path)):
        for start in range(15):
            pieces = reader.records(start, 14, isolation=Isolation.READ_COMMITTED, fetch_bytes=fetch_bytes)
            found = [offset for part in pieces for offset in part.offsets.tolist()]
            assert found == [offset for offset, _ in expected if offset >= start]


def test_every_run_of_aborted_records_is_listed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    interleaved(log)
    data = log.read(0)
    assert data is not None
    assert data.aborted == (
        AbortedTransaction(1, 0),
        AbortedTransaction(1, 9),
        AbortedTransaction(2, 10),
    )
    behind = log.read(3)
    assert behind is not None
    assert behind.aborted[0] == AbortedTransaction(1, 3)
    uncommitted = log.read(0, isolation=Isolation.READ_UNCOMMITTED)
    assert uncommitted is not None
    assert uncommitted.aborted == ()


def test_a_fetch_by_the_list_of_aborted_runs_hides_the_same_records(tmp_path: Path) -> None:
    """As a Kafka consumer does with a broker's answer."""
    log = open_log(tmp_path)
    expected = interleaved(log)
    data = log.read(0, isolation=Isolation.READ_COMMITTED)
    assert data is not None
    waiting, aborted, shown = list(data.aborted), set(), []
    table, headers = data.window.headers.table, data.window.headers
    for row in range(len(table)):
        producer_id = int(table["producer_id"][row])
        while waiting and waiting[0].first_offset <= table["last_offset"][row]:
            aborted.add(waiting.pop(0).producer_id)
        if headers.is_control[row]:
            aborted.discard(producer_id)
        elif not (headers.is_transactional[row] and producer_id in aborted):
            shown.append(int(table["base_offset"][row]))
    assert shown == [offset for offset, _ in expected]


def test_outcomes_remembered_between_fetches_stay_correct_as_the_log_grows(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    reader = open_reader(tmp_path)
    for sequence, commits in enumerate((False, True, True, False)):
        write_transactional(log, 1, sequence, b"%d" % sequence)
        for each in (log, reader):
            each.refresh()
            rows(each)
            committed(each)
        end_transaction(log, 1, commit=commits)
        for each in (log, reader):
            if each is reader:
                each.refresh()
            for start in range(each.log_end_offset):
                part = each.records(start, each.log_end_offset, fetch_bytes=1)
                found = [offset for piece in part for offset in piece.offsets.tolist()]
                assert found == [offset for offset in (2, 4) if start <= offset < 2 * sequence + 2]


def test_outcomes_are_forgotten_when_the_log_is_cut(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write_transactional(log, 1, 0, b"x")
    append(log, b"plain")
    end_transaction(log, 1, commit=False)
    assert [part.offsets.tolist() for part in log.records(0, 3, fetch_bytes=1)] == [[1]]
    log.truncate_to(2)
    end_transaction(log, 1, commit=True)
    assert [part.offsets.tolist() for part in log.records(0, 3, fetch_bytes=1)] == [[0], [1]]


@pytest.mark.parametrize("first_offset", [0, 1, 2, 3, 2**40])
def test_the_transaction_index_hides_and_shows_nothing_in_a_compacted_log(tmp_path: Path, first_offset: int) -> None:
    """It has no checksum. Compaction keeps a transaction's marker as long as one of its batches exists."""
    with open_log(tmp_path) as log:
        for n in range(3):
            write_transactional(log, 1, n, b"aborted")
        end_transaction(log, 1, commit=False)
        write_transactional(log, 1, 3, b"committed")
        end_transaction(log, 1, commit=True)
    entry = AbortedTxn(producer_id=1, first_offset=first_offset, last_offset=3, last_stable_offset=4)
    (tmp_path / file_names.segment_file(0, file_names.TXN_INDEX)).write_bytes(encode_aborted([entry]))
    with open_reader(tmp_path, cleanup_policy="compact") as reader:
        assert committed(reader) == [(4, b"committed")]


def test_a_reader_of_decided_records_is_not_blocked_by_an_open_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write_transactional(log, 1, 0, b"open")
    write_transactional(log, 2, 0, b"committed")
    append(log, b"plain")
    end_transaction(log, 2, commit=True)

    def offsets() -> list[int]:
        return [offset for part in decided(open_reader(tmp_path)) for offset in part.offsets.tolist()]

    assert (committed(log), offsets()) == ([], [1, 2])
    end_transaction(log, 1, commit=True)
    assert offsets() == [0, 1, 2]


# Time


def times(log: Log, *timestamps: int) -> None:
    for timestamp in timestamps:
        append(log, b"%d" % timestamp, timestamps=timestamp)


@pytest.mark.parametrize("index_interval_bytes", [0, 10**6])
@pytest.mark.parametrize("segment_bytes", [150, 10**6])
def test_the_first_record_not_older_is_found_among_times_out_of_order(
    tmp_path: Path, index_interval_bytes: int, segment_bytes: int
) -> None:
    settings: dict[str, Any] = {"index_interval_bytes": index_interval_bytes, "segment_bytes": segment_bytes}
    log = open_log(tmp_path, **settings)
    asked_for = (5, 3, 9, 9, 4, 12, 1, 12, 7)
    times(log, *asked_for)
    for reader in (log, open_reader(tmp_path, **settings)):
        for target in range(14):
            found = reader.offset_for_timestamp(target)
            expected = next((n for n, timestamp in enumerate(asked_for) if timestamp >= target), None)
            assert (None if found is None else found.offset) == expected
        largest = reader.offset_of_max_timestamp()
        assert largest is not None
        assert (largest.offset, largest.timestamp, largest.leader_epoch) == (5, 12, 0)


def test_the_record_inside_a_batch_is_found(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b", b"c", timestamps=[10, 30, 20])
    found = log.offset_for_timestamp(15)
    assert found is not None
    assert (found.offset, found.timestamp) == (1, 30)


def test_records_below_the_log_start_are_not_found_by_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b", b"c", timestamps=[30, 20, 40])
    log.delete_records(1)
    found = log.offset_for_timestamp(25)
    assert found is not None
    assert found.offset == 2


def test_records_of_open_transactions_are_not_found_by_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    times(log, 10)
    log.append(batch(b"open", producer_id=1, base_sequence=0, transactional=True, timestamps=20))
    assert log.offset_for_timestamp(15) is None
    found = log.offset_for_timestamp(15, Isolation.READ_UNCOMMITTED)
    assert found is not None
    assert found.offset == 1


def test_segments_without_times_are_skipped(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.offset_of_max_timestamp() is None
    times(log, -1)
    log.roll()
    assert log.offset_of_max_timestamp() is None
    assert log.offset_for_timestamp(0) is None
    times(log, 50)
    found = log.offset_for_timestamp(0)
    assert found is not None
    assert found.offset == 1


@pytest.mark.parametrize("damage", ["missing", "unsorted", "empty index by offset"])
def test_times_are_found_without_the_help_of_a_sound_index(tmp_path: Path, damage: str) -> None:
    log = open_log(tmp_path, index_interval_bytes=0)
    times(log, *range(10, 30))
    log.close()
    path = tmp_path / file_names.segment_file(0, file_names.TIME_INDEX)
    if damage == "missing":
        path.unlink()
    elif damage == "unsorted":
        path.write_bytes(path.read_bytes()[::-1])
    else:
        (tmp_path / file_names.segment_file(0, file_names.INDEX)).write_bytes(b"")
    reader = open_reader(tmp_path, KeptInMemory(recovery_point=20))
    for target in range(10, 30):
        found = reader.offset_for_timestamp(target)
        assert found is not None
        assert found.offset == target - 10


# The tail


def test_a_batch_still_being_written_is_not_seen_yet(tmp_path: Path) -> None:
    """In a preallocated file, the size shows nothing: the checksum does."""
    log = open_log(tmp_path, preallocate=True, segment_bytes=2000)
    append(log, b"a")
    end = log.segments.active.size
    with (tmp_path / file_names.segment_file(0, file_names.LOG)).open("r+b") as file:
        file.seek(end)
        file.write(bytes(replicated(b"b" * 100, base_offset=1))[:120])
    reader = open_reader(tmp_path, preallocate=True, segment_bytes=2000)
    assert (reader.log_end_offset, rows(reader)) == (1, [(0, b"a")])


def test_segments_are_described_for_planners(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=150)
    log.append_records(records([b"x" * 70], timestamps=NOW_MS + 7))
    log.append_records(records([b"y" * 70]))
    described = open_reader(tmp_path).describe_segments()
    assert [(each.base_offset, each.next_offset, each.largest_timestamp) for each in described] == [
        (0, 1, NOW_MS + 7),
        (1, 2, NOW_MS),
    ]
    assert [each.size for each in described] == [segment.size for segment in log.segments]
