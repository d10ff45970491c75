"""Truncating a log at its end and at its beginning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.errors import InvalidOffsetError, OffsetOutOfRangeError, PolicyViolationError
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.checkpoints import EpochEntry
from pyspark_commitlog.storage.reading.marks import KeptInMemory, Marks
from pyspark_commitlog.storage.recovery.producer_state import Origin
from tests.support.logs.building import (
    NOW_MS,
    append,
    batch,
    committed,
    end_transaction,
    open_log,
    open_reader,
    replicated,
    rows,
    write_transactional,
)

SHAPES: dict[str, dict[str, Any]] = {
    "one segment": {},
    "a segment a batch": {"segment_bytes": 110, "index_interval_bytes": 0},
}


@pytest.mark.parametrize("settings", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("offset", range(12))
def test_a_cut_keeps_whole_batches_below_it_and_the_log_continues(
    tmp_path: Path, settings: dict[str, Any], offset: int
) -> None:
    """Batches [0, 2], [3, 5] and, after a gap, [8, 10]."""
    marks = KeptInMemory()
    log = open_log(tmp_path, marks, **settings)
    batches = {0: (b"0", b"1", b"2"), 3: (b"3", b"4", b"5"), 8: (b"8", b"9", b"10")}
    for base, values in batches.items():
        log.append(replicated(*values, base_offset=base), origin=Origin.REPLICATION)
    log.checkpoint()
    log.truncate_to(offset)
    kept = [
        (base + n, value) for base, values in batches.items() if base + 3 <= offset for n, value in enumerate(values)
    ]
    end = kept[-1][0] + 1 if kept else 0
    assert (rows(log), log.log_end_offset) == (kept, end)
    assert marks.read() == Marks(recovery_point=end, log_start_offset=0)
    assert rows(open_reader(tmp_path, marks)) == kept
    append(log, b"new")
    for again in (open_log(tmp_path, marks, **settings), open_reader(tmp_path, marks)):
        assert rows(again) == [*kept, (end, b"new")]


def test_a_log_that_begins_within_a_batch_begins_before_it_once_that_batch_is_cut(tmp_path: Path) -> None:
    marks = KeptInMemory()
    log = open_log(tmp_path, marks)
    append(log, b"0", b"1", b"2")
    log.delete_records(1)
    log.truncate_to(2)
    assert (log.log_start_offset, log.log_end_offset, marks.read().log_start_offset) == (0, 0, 0)
    append(log, b"new")
    for again in (log, open_log(tmp_path, marks), open_reader(tmp_path, marks)):
        assert rows(again) == [(0, b"new")]


def test_a_cut_at_or_above_the_end_only_drops_later_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    log.epochs.assign(7, 1)
    for offset in (1, 5):
        log.truncate_to(offset)
    assert rows(log) == [(0, b"a")]
    assert log.epochs.entries == (EpochEntry(0, 0),)


def test_an_empty_log_can_be_cut_anywhere(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.truncate_fully_and_start_at(100)
    for offset in (101, 100, 50, 0):
        log.truncate_to(offset)
        assert (log.log_start_offset, log.log_end_offset) == (min(offset, 100),) * 2
        append(log, b"x")
        log.truncate_to(min(offset, 100))
        assert rows(log) == []


def test_a_negative_offset_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(InvalidOffsetError):
        log.truncate_to(-1)
    with pytest.raises(InvalidOffsetError):
        log.truncate_fully_and_start_at(-1)


def test_a_cut_brings_back_the_producers_as_they_were_and_removes_later_snapshots(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=150)
    states = []
    for n in range(6):
        states.append(log.producers.entries())
        log.append(batch(b"x" * 50, producer_id=1, base_sequence=n))
    log.close()
    log = open_log(tmp_path, segment_bytes=150)
    for offset in (5, 3, 1, 0):
        log.truncate_to(offset)
        assert log.producers.entries() == states[offset]
        snapshots = [file_names.base_offset_of(path.name) for path in tmp_path.glob("*.snapshot")]
        assert max((each for each in snapshots if each is not None), default=0) <= offset
    log.append(batch(b"again", producer_id=1, base_sequence=0))


def test_a_cut_within_a_transaction_opens_it_again_and_one_below_it_forgets_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"plain")
    write_transactional(log, 1, 0, b"aborted")
    end_transaction(log, 1, commit=False)
    assert len(log.segments.active.txn_index) == 1
    log.truncate_to(2)
    assert (log.last_stable_offset, len(log.segments.active.txn_index)) == (1, 0)
    end_transaction(log, 1, commit=True)
    assert committed(log) == [(0, b"plain"), (1, b"aborted")]
    log.truncate_to(1)
    assert (log.last_stable_offset, log.log_end_offset) == (1, 1)


def test_times_and_positions_are_found_after_a_cut_as_if_the_rest_had_never_been(tmp_path: Path) -> None:
    log = open_log(tmp_path / "cut", index_interval_bytes=0)
    for n in range(20):
        append(log, b"%d" % n, timestamps=NOW_MS + n)
    log.truncate_to(10)
    fresh = open_log(tmp_path / "fresh", index_interval_bytes=0)
    for n in range(10):
        append(fresh, b"%d" % n, timestamps=NOW_MS + n)
    for each in (log, fresh):
        append(each, b"new", timestamps=NOW_MS + 5)
        each.close()
    for kind in (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX):
        name = file_names.segment_file(0, kind)
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()


@pytest.mark.parametrize("asked_ms", range(0, 80, 10))
def test_a_lookup_by_time_forgets_after_a_truncation_what_it_saw_before(tmp_path: Path, asked_ms: int) -> None:
    """After the cut, other batches take the same positions."""
    marks = KeptInMemory()
    log = open_log(tmp_path, marks, index_interval_bytes=0)
    for n in range(8):
        append(log, b"%d" % n, b"%d" % n, timestamps=NOW_MS + 10 * n)
    log.offset_for_timestamp(NOW_MS + asked_ms)
    log.truncate_to(8)
    for n in range(8):
        append(log, b"%d" % n, timestamps=NOW_MS + 35 + n)
    fresh = open_reader(tmp_path, marks)
    for timestamp_ms in range(NOW_MS, NOW_MS + 80):
        assert log.offset_for_timestamp(timestamp_ms) == fresh.offset_for_timestamp(timestamp_ms)


def test_a_restarted_log_knows_nothing_of_its_old_content(tmp_path: Path) -> None:
    marks = KeptInMemory()
    log = open_log(tmp_path, marks, segment_bytes=150)
    for n in range(6):
        log.append(batch(b"x" * 50, producer_id=1, base_sequence=n), leader_epoch=3)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries, log.producers.entries()) == (100, 100, (), [])
    assert marks.read() == Marks(recovery_point=100, log_start_offset=100)
    assert sorted(path.name for path in tmp_path.glob("0*")) == [
        file_names.segment_file(100, kind) for kind in (file_names.INDEX, file_names.LOG, file_names.TIME_INDEX)
    ]
    append(log, b"a")
    assert rows(open_log(tmp_path, marks)) == [(100, b"a")]


# From the beginning


def test_the_log_start_may_be_inside_a_batch_and_above_the_active_base(tmp_path: Path) -> None:
    marks = KeptInMemory()
    log = open_log(tmp_path, marks, segment_bytes=150)
    for n in range(0, 9, 3):
        append(log, *[b"%d" % n * 10 for n in range(n, n + 3)])
    base = log.segments.active.base_offset
    for offset in (1, 4, base + 1, base + 2, 9):
        assert log.delete_records(offset) == offset
        for each in (log, open_reader(tmp_path, marks), open_log(tmp_path, marks, segment_bytes=150)):
            assert each.log_start_offset == offset
            assert [found for found, _ in rows(each)] == list(range(offset, 9))
            with pytest.raises(OffsetOutOfRangeError):
                each.read(offset - 1)
    assert log.delete_records(0) == 9  # it never goes back


def test_minus_one_deletes_everything(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b")
    assert log.delete_records(-1) == 2
    assert rows(log) == []
    append(log, b"c")
    assert rows(log) == [(2, b"c")]


@pytest.mark.parametrize("offset", [3, -2])
def test_missing_records_cannot_be_deleted(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b")
    with pytest.raises(
        OffsetOutOfRangeError, match=rf"before offset {offset}; give an offset from 0 to 2, where the log ends"
    ):
        log.delete_records(offset)


def test_only_topics_that_delete_do_so_by_offset(tmp_path: Path) -> None:
    with pytest.raises(PolicyViolationError):
        open_log(tmp_path / "a", cleanup_policy="compact").delete_records(0)
    assert open_log(tmp_path / "b", cleanup_policy="compact,delete").delete_records(0) == 0


def test_the_epoch_in_force_at_the_log_start_begins_there(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for epoch in (1, 4):
        log.append(batch(b"a", b"b"), leader_epoch=epoch)
    log.delete_records(3)
    assert log.epochs.entries == (EpochEntry(4, 3),)


def test_records_deleted_by_one_process_stay_deleted_when_another_closes(tmp_path: Path) -> None:
    marks = KeptInMemory()
    first, second = open_log(tmp_path, marks), open_log(tmp_path, marks)
    append(first, b"a", b"b")
    first.delete_records(1)
    append(second, b"c")
    second.close()
    assert marks.read().log_start_offset == 1
    assert rows(open_log(tmp_path, marks)) == [(1, b"b"), (2, b"c")]
