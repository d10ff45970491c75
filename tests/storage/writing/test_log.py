"""A partition's log: appending, reading, rolling, truncating, reopening, by one process and by several."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.storage.errors import (
    CorruptRecordError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    StorageError,
)
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.files.index_entries import AbortedTxn
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.segment.walk import WINDOW_BYTES
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.logs.building import NOW_MS, append, end_transaction, open_log, records, rows, write_transactional

FIRST_LOG = "00000000000000000000.log"


def transactional(producer_id: int, base_sequence: int) -> v2.BatchFields:
    return v2.BatchFields(producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence, transactional=True)


def test_records_are_read_with_the_offsets_they_were_given(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b")
    append(log, b"c", None)
    assert rows(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, None)]
    assert log.log_end_offset == 4


def test_a_log_continues_where_it_was_closed(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        append(log, b"a", b"b")
    with open_log(tmp_path) as log:
        append(log, b"c")
        assert rows(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_reader_sees_what_was_appended_before_it_looked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    reader = LogReader.open(str(tmp_path), clock=ManualClock(NOW_MS))
    append(log, b"b")
    assert rows(reader) == [(0, b"a")]
    reader.refresh()
    assert rows(reader) == [(0, b"a"), (1, b"b")]


def test_reading_changes_no_file(tmp_path: Path) -> None:
    append(open_log(tmp_path), b"a", b"b")
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}
    rows(LogReader.open(str(tmp_path), clock=ManualClock(NOW_MS)))
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()} == before


def test_two_writers_of_one_log_take_turns(tmp_path: Path) -> None:
    first, second = open_log(tmp_path, segment_bytes=500), open_log(tmp_path, segment_bytes=500)
    for turn in range(40):
        append(first if turn % 2 else second, b"%d" % turn)
    expected = [(turn, b"%d" % turn) for turn in range(40)]
    assert rows(first) == expected
    assert rows(LogReader.open(str(tmp_path), clock=ManualClock(NOW_MS))) == expected
    assert len(first.segments) > 3


def test_an_abort_that_another_process_only_indexed_before_it_was_killed_hinders_nobody(tmp_path: Path) -> None:
    killed, log = open_log(tmp_path), open_log(tmp_path)
    for producer_id in (1, 2):
        write_transactional(killed, producer_id, 0, b"aborted")
    index = killed.segments.active.txn_index
    index.append(AbortedTxn(1, 0, 2, 1))  # its marker would follow
    for producer_id in (2, 1):
        end_transaction(log, producer_id, commit=False)
    assert log.segments.active.txn_index.entries == [AbortedTxn(2, 1, 2, 0), AbortedTxn(1, 0, 3, 4)]
    assert rows(log, Isolation.READ_COMMITTED) == []


def test_a_read_in_the_middle_of_a_batch_begins_there(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b", b"c", b"d")
    (part,) = log.records(1, 3)
    assert part.values is not None
    assert part.values.to_list() == [b"b", b"c"]
    assert part.offsets.tolist() == [1, 2]


@pytest.mark.parametrize("offset", [-1, 3], ids=["below the log", "above the log end"])
def test_a_read_outside_the_log_is_refused(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b")
    with pytest.raises(OffsetOutOfRangeError, match=f"offset {offset} .* 0 to 2"):
        log.read(offset)


def test_a_read_at_the_log_end_finds_nothing_yet(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    assert log.read(1) is None


def test_one_batch_is_read_even_where_it_is_larger_than_asked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"x" * 100_000)
    data = log.read(0, max_bytes=10)
    assert data is not None
    assert data.next_offset == 1
    assert log.read(0, max_bytes=10, min_one_message=False) is None


def test_a_torn_tail_is_cut_off_when_a_writer_opens_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    append(log, b"b")
    path = tmp_path / FIRST_LOG
    path.write_bytes(path.read_bytes()[:-3])
    log = open_log(tmp_path)
    assert rows(log) == [(0, b"a")]
    assert log.truncated_bytes > 0
    append(log, b"c")
    assert rows(log) == [(0, b"a"), (1, b"c")]


def test_nothing_after_a_damaged_batch_is_kept_and_the_reason_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The damage ends one window of the walk; the content of the next window is lost as well."""
    settings = {"max_message_bytes": 2 * WINDOW_BYTES}
    log = open_log(tmp_path, **settings)
    append(log, b"a")
    damaged_at = log.segments.active.size
    append(log, b"b" * WINDOW_BYTES)
    append(log, b"c")
    with (tmp_path / FIRST_LOG).open("r+b") as file:
        file.seek(damaged_at + 100)
        file.write(b"x")
    log = open_log(tmp_path, **settings)
    assert rows(log) == [(0, b"a")]
    assert re.search(rf"never acknowledged as synced: .*{FIRST_LOG}, position {damaged_at}: checksum", caplog.text)


def test_a_reader_passes_over_a_torn_tail_and_leaves_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    append(log, b"b")
    path = tmp_path / FIRST_LOG
    path.write_bytes(path.read_bytes()[:-3])
    assert rows(LogReader.open(str(tmp_path), clock=ManualClock(NOW_MS))) == [(0, b"a")]


@pytest.mark.parametrize("kind", [Log, LogReader])
def test_missing_records_that_were_synced_are_reported(tmp_path: Path, kind: type[LogReader]) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    append(log, b"b")
    path = tmp_path / FIRST_LOG
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptRecordError, match=r"only up to offset 1, but everything below 2 was synced"):
        kind.open(str(tmp_path), clock=ManualClock(NOW_MS), checkpoints=KeptInMemory(recovery_point=2))
    assert len(path.read_bytes()) > 0


def test_a_flipped_bit_is_reported_with_path_and_position(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    position = log.segments.active.size
    append(log, b"b")
    append(log, b"c")
    path = tmp_path / FIRST_LOG
    damaged = bytearray(path.read_bytes())
    damaged[position + 63] ^= 1
    path.write_bytes(damaged)
    reader = LogReader.open(str(tmp_path), clock=ManualClock(NOW_MS), checkpoints=KeptInMemory(recovery_point=3))
    with pytest.raises(CorruptRecordError, match=rf"{FIRST_LOG}, position {position}: "):
        rows(reader)


def test_a_failed_sync_stops_the_writer_and_not_the_readers(tmp_path: Path) -> None:
    faulty = FaultyFileSystem(LocalFileSystem(), [])
    log = Log.open(str(tmp_path), clock=ManualClock(NOW_MS), filesystem=faulty)
    append(log, b"a")
    faulty.rules.append(fail("sync", "*.log", error=errno.EIO))
    with pytest.raises(StorageError, match=FIRST_LOG):
        append(log, b"b")
    with pytest.raises(StorageError, match="open the log again"):
        append(log, b"c")
    assert rows(LogReader.open(str(tmp_path), clock=ManualClock(NOW_MS)))[0] == (0, b"a")


def test_aborted_records_are_hidden_from_read_committed_only(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_records(records([b"aborted"]), transactional(1, 0))
    log.append_records(records([b"committed"]), transactional(2, 0))
    end_transaction(log, 1, commit=False)
    end_transaction(log, 2, commit=True)
    assert rows(log, Isolation.READ_COMMITTED) == [(1, b"committed")]
    assert rows(log, Isolation.READ_UNCOMMITTED) == [(0, b"aborted"), (1, b"committed")]


def test_an_open_transaction_holds_back_the_last_stable_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"plain")
    log.append_records(records([b"open"]), transactional(1, 0))
    append(log, b"behind")
    assert (log.last_stable_offset, log.log_end_offset) == (1, 3)
    assert rows(log, Isolation.READ_COMMITTED) == [(0, b"plain")]
    end_transaction(log, 1, commit=True)
    assert log.last_stable_offset == 4


def test_a_reader_sees_transactions_that_ended_after_the_last_snapshot(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_records(records([b"committed"]), transactional(1, 0))
    end_transaction(log, 1, commit=True)
    append(log, b"behind")
    reader = LogReader.open(str(tmp_path), clock=ManualClock(NOW_MS))
    assert reader.last_stable_offset == 3
    assert rows(reader, Isolation.READ_COMMITTED) == [(0, b"committed"), (2, b"behind")]


def test_aborted_records_stay_hidden_without_a_transaction_index(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    for sequence in range(6):
        log.append_records(records([b"aborted" * 10]), transactional(1, sequence))
    end_transaction(log, 1, commit=False)
    append(log, b"plain")
    log.close()
    for path in tmp_path.glob("*.txnindex"):
        path.unlink()
    reader = LogReader.open(str(tmp_path), clock=ManualClock(NOW_MS))
    assert rows(reader, Isolation.READ_COMMITTED) == [(7, b"plain")]


def test_a_retried_batch_is_not_written_twice(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batch = v2.encode(records([b"a", b"b"]), v2.BatchFields(producer_id=5, producer_epoch=0, base_sequence=0))
    first = log.append(batch.copy())
    again = log.append(batch.copy())
    assert (again.first_offset, again.last_offset, again.duplicate) == (first.first_offset, first.last_offset, True)
    assert log.log_end_offset == 2


def test_lookups_by_time_find_the_first_record_not_older(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=400, index_interval_bytes=1)
    for n in range(20):
        log.append_records(records([b"%d" % n], timestamps=NOW_MS + 10 * n))
    for n in range(20):
        found = log.offset_for_timestamp(NOW_MS + 10 * n - 5)
        assert found is not None
        assert (found.offset, found.timestamp) == (n, NOW_MS + 10 * n)
    assert log.offset_for_timestamp(NOW_MS + 1000) is None


def test_a_log_truncated_to_an_offset_ends_there_and_continues(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    for n in range(20):
        append(log, b"%d" % n)
    log.truncate_to(7)
    append(log, b"new")
    assert rows(log) == [(n, b"%d" % n) for n in range(7)] + [(7, b"new")]
    log.close()
    assert rows(open_log(tmp_path, segment_bytes=300)) == [(n, b"%d" % n) for n in range(7)] + [(7, b"new")]


def test_a_restarted_log_begins_at_the_given_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    log.truncate_fully_and_start_at(100)
    append(log, b"b")
    assert rows(log) == [(100, b"b")]
    assert log.log_start_offset == 100


def test_deleted_records_stay_deleted_after_a_restart(tmp_path: Path) -> None:
    checkpoints = KeptInMemory()
    log = open_log(tmp_path, checkpoints)
    append(log, b"a", b"b", b"c")
    assert log.delete_records(2) == 2
    log.close()
    log = open_log(tmp_path, checkpoints)
    assert rows(log) == [(2, b"c")]
    with pytest.raises(OffsetOutOfRangeError):
        log.read(1)


def test_records_of_a_compacted_topic_cannot_be_deleted_by_offset(tmp_path: Path) -> None:
    with pytest.raises(PolicyViolationError):
        open_log(tmp_path, cleanup_policy="compact").delete_records(0)


def test_indexes_of_two_writers_equal_those_of_one(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "one").mkdir()
    settings: dict[str, Any] = {"index_interval_bytes": 200}
    pair = [open_log(tmp_path / "two", **settings), open_log(tmp_path / "two", **settings)]
    alone = open_log(tmp_path / "one", **settings)
    for n in range(50):
        append(pair[n % 2], b"%d" % n)
        append(alone, b"%d" % n)
    name = "00000000000000000000.index"
    assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    assert np.fromfile(tmp_path / "one" / name, dtype=">i4").any()
