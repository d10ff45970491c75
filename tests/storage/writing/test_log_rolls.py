"""When a log begins a new segment, and the state after an append that needs several."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.errors import RecordBatchTooLargeError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import (
    NOW_MS,
    append,
    batch,
    open_files,
    open_log,
    open_reader,
    records,
    replicated,
    rows,
)

BATCH_BYTES = len(batch(b"x" * 30))


def bases(log: Log) -> list[int]:
    return log.segments.base_offsets


def test_a_segment_is_filled_to_the_last_byte_before_it_is_rolled(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=3 * BATCH_BYTES)
    for _ in range(7):
        append(log, b"x" * 30)
    assert bases(log) == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [3 * BATCH_BYTES, 3 * BATCH_BYTES, BATCH_BYTES]


def test_a_log_that_is_rolled_again_and_again_has_no_more_files_open(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=BATCH_BYTES)
    append(log, b"x" * 30)
    append(log, b"x" * 30)
    before = open_files(tmp_path)
    for _ in range(5):
        append(log, b"x" * 30)
    assert len(bases(log)) == 7
    assert open_files(tmp_path) == before
    assert rows(log) == [(offset, b"x" * 30) for offset in range(7)]


def test_one_byte_less_of_room_and_it_is_rolled_before(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=3 * BATCH_BYTES - 1)
    for _ in range(4):
        append(log, b"x" * 30)
    assert bases(log) == [0, 2]


@pytest.mark.parametrize(("later_ms", "is_rolled"), [(1000, False), (1001, True), (10**11, True), (-(10**11), False)])
def test_create_time_rolls_more_than_segment_ms_after_the_first_batch(
    tmp_path: Path, later_ms: int, is_rolled: bool
) -> None:
    log = open_log(tmp_path, segment_ms=1000, message_timestamp_after_max_ms=2**63 - 1)
    append(log, b"first")
    append(log, b"later", timestamps=NOW_MS + later_ms)
    assert bases(log) == ([0, 1] if is_rolled else [0])


def test_a_reopened_log_still_counts_from_its_first_batch(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_ms=1000) as log:
        append(log, b"first")
    log = open_log(tmp_path, segment_ms=1000)
    append(log, b"in time", timestamps=NOW_MS + 900)
    append(log, b"late", timestamps=NOW_MS + 1001)
    assert bases(log) == [0, 2]


def test_append_time_rolls_by_the_clock(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    log = open_log(tmp_path, clock=clock, segment_ms=1000, message_timestamp_type="LogAppendTime")
    for _ in range(3):
        append(log, b"a", timestamps=5)  # which the log replaces
        clock.advance(600)
    assert bases(log) == [0, 2]


def test_records_without_a_time_roll_by_the_age_of_the_segment(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    log = open_log(tmp_path, clock=clock, segment_ms=1000)
    append(log, b"a", timestamps=-1)
    clock.advance(1000)
    append(log, b"b", timestamps=-1)
    clock.advance(1)
    append(log, b"c", timestamps=-1)
    assert bases(log) == [0, 2]


def test_a_quiet_log_is_not_rolled_by_the_clock_alone(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    log = open_log(tmp_path, clock=clock, segment_ms=1000)
    append(log, b"a")
    clock.advance(10**9)
    append(log, b"b")
    assert bases(log) == [0]


def test_jitter_brings_the_roll_forward_by_chance(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"segment_ms": 1000, "segment_jitter_ms": 500}
    random.seed(4)
    jitter_ms = random.randrange(500)
    for later_ms, expected in ((1000 - jitter_ms, [0]), (1001 - jitter_ms, [0, 1])):
        random.seed(4)
        log = open_log(tmp_path / str(later_ms), **settings)
        append(log, b"first")
        append(log, b"later", timestamps=NOW_MS + later_ms)
        assert bases(log) == expected


def test_a_compacted_topic_rolls_by_its_compaction_lag(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_compaction_lag_ms": 1000, "segment_ms": 10**9}
    for policy, expected in (("compact", [0, 1]), ("delete", [0])):
        log = open_log(tmp_path / policy, cleanup_policy=policy, **settings)
        for timestamp in (NOW_MS, NOW_MS + 1001):
            log.append_records(records([b"v"], keys=[b"k"], timestamps=timestamp))
        assert bases(log) == expected


def test_a_full_offset_index_rolls(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_index_bytes=47, index_interval_bytes=0)  # 5 entries by offset, 3 by time
    for _ in range(8):
        append(log, b"x", timestamps=NOW_MS)  # one time for all: the time index has a single entry
    assert bases(log) == [0, 6]
    assert (tmp_path / "00000000000000000000.index").stat().st_size == 5 * 8


def test_a_full_time_index_rolls_and_keeps_a_slot_for_the_closing_entry(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_index_bytes=48, index_interval_bytes=0)  # 6 entries by offset, 4 by time
    for n in range(6):
        append(log, b"x", timestamps=NOW_MS + n)
    assert bases(log) == [0, 4]
    assert (tmp_path / "00000000000000000000.timeindex").stat().st_size == 3 * 12


def test_a_replicated_offset_too_far_from_the_base_gets_a_segment_of_its_own(tmp_path: Path) -> None:
    far = 2**31 + 10
    log = open_log(tmp_path)
    append(log, b"near")
    log.append(replicated(b"far", base_offset=far), origin=Origin.REPLICATION)
    assert rows(log) == [(0, b"near"), (far, b"far")]
    data = log.read(1)
    assert data is not None
    assert data.next_offset == far + 1
    log.close()
    assert rows(open_reader(tmp_path)) == [(0, b"near"), (far, b"far")]


def test_another_writer_notices_a_roll_over_a_gap_that_no_segment_can_hold(tmp_path: Path) -> None:
    far = 2**33
    first, second = open_log(tmp_path), open_log(tmp_path)
    append(first, b"near")
    append(second, b"too")
    first.append(replicated(b"far", base_offset=far), origin=Origin.REPLICATION)
    append(second, b"next")
    assert rows(first)[:3] == rows(second)[:3] == [(0, b"near"), (1, b"too"), (far, b"far")]
    assert rows(second)[3] == (far + 1, b"next")


def test_another_writer_notices_a_gap_made_while_the_active_segment_is_empty(tmp_path: Path) -> None:
    far = 2**33
    first, second = open_log(tmp_path), open_log(tmp_path)
    first.append(replicated(b"far", base_offset=far), origin=Origin.REPLICATION)
    append(second, b"next")
    assert rows(second) == [(far, b"far"), (far + 1, b"next")]
    assert bases(first) == bases(second) == [0, far]


def test_a_snapshot_is_replaced_if_it_lags_too_far(tmp_path: Path) -> None:
    log, found = open_log(tmp_path), []
    for lag_bytes in (BATCH_BYTES, 0, BATCH_BYTES, BATCH_BYTES):
        append(log, b"x" * 30)
        log.write_snapshot(lag_bytes=lag_bytes)
        found.append([int(path.stem) for path in tmp_path.glob("*.snapshot")])
    assert found == [[], [2], [2], [4]]


def test_a_snapshot_is_written_where_one_was_before_a_truncation(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(4):
        append(log, b"x")
    log.write_snapshot(lag_bytes=0)
    log.truncate_to(2)
    for _ in range(2):
        append(log, b"y")
    log.write_snapshot(lag_bytes=0)
    assert [int(path.stem) for path in tmp_path.glob("*.snapshot")] == [4]


def test_a_gap_within_reach_is_kept_inside_a_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=BATCH_BYTES)
    log.append(replicated(b"x" * 30, base_offset=0), origin=Origin.REPLICATION)
    log.append(replicated(b"y" * 30, base_offset=100), origin=Origin.REPLICATION)
    assert bases(log) == [0, 1]
    for offset in range(1, 101):
        data = log.read(offset)
        assert data is not None
        assert data.next_offset == 101


def test_one_append_may_fill_several_segments_and_leaves_a_snapshot_at_each_base(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=400)
    encoded = v2.encode_batches(
        records([b"%d" % n * 100 for n in range(10)]),
        v2.BatchFields(producer_id=9, producer_epoch=0, base_sequence=0),
        batch_bytes_max=1,
    )
    info = log.append_encoded(encoded)
    assert (info.first_offset, info.last_offset) == (0, 9)
    assert bases(log) == [0, 2, 4, 6, 8]
    for base in bases(log)[1:]:
        snapshot = (tmp_path / file_names.segment_file(base, file_names.SNAPSHOT)).read_bytes()
        (entry,) = checkpoints.decode_snapshot(snapshot)
        assert (entry.producer_id, entry.last_sequence, entry.last_offset) == (9, base - 1, base - 1)
    assert [value for _, value in rows(log)] == [b"%d" % n * 100 for n in range(10)]


def test_a_set_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=200)
    with pytest.raises(RecordBatchTooLargeError, match=r"segment\.bytes allows 200"):
        log.append(batch(b"x" * 200))
    with pytest.raises(RecordBatchTooLargeError, match=r"segment\.bytes allows 200"):
        log.append_encoded(v2.encode_batches(records([b"x" * 200]), v2.BatchFields(), batch_bytes_max=10_000))
    append(log, b"small")
    assert rows(log) == [(0, b"small")]


def test_records_are_parted_into_batches_that_fit_a_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=400)
    append(log, *[b"%d" % n * 50 for n in range(10)])
    assert len(log.segments) > 1
    assert all(segment.size <= 400 for segment in log.segments)
    assert len(rows(log)) == 10


def test_rolling_by_hand_closes_the_segment_and_does_nothing_to_an_empty_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.roll()
    append(log, b"a", b"b")
    log.roll()
    log.roll()
    assert bases(log) == [0, 2]
    assert (log.log_end_offset, log.recovery_point) == (2, 2)


def test_a_roll_reuses_the_name_of_files_left_by_a_crash(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    for kind in (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX):
        (tmp_path / file_names.segment_file(1, kind)).write_bytes(b"\1" * 34)
    log.roll()
    append(log, b"b")
    assert not (tmp_path / file_names.segment_file(1, file_names.TXN_INDEX)).exists()
    assert rows(log) == [(0, b"a"), (1, b"b")]


def test_an_empty_log_file_named_by_the_log_end_counts_as_an_interrupted_roll(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    with open_log(tmp_path).exclusively():  # by another process, which is killed as it rolls the log
        (tmp_path / file_names.segment_file(1, file_names.LOG)).write_bytes(b"")
    append(log, b"b")
    assert bases(log) == [0, 1]
    assert rows(log) == [(0, b"a"), (1, b"b")]


def test_a_closed_segment_ends_its_time_index_with_its_largest_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", timestamps=NOW_MS + 5)
    append(log, b"b", timestamps=NOW_MS)
    log.roll()
    entries = (tmp_path / "00000000000000000000.timeindex").read_bytes()
    assert entries == (NOW_MS + 5).to_bytes(8, "big") + bytes(4)


def test_a_roll_moves_the_recovery_point_so_that_opening_looks_at_one_segment(tmp_path: Path) -> None:
    marks = KeptInMemory()
    log = open_log(tmp_path, marks)
    append(log, b"a")
    log.roll()
    append(log, b"b")
    assert marks.read().recovery_point == 1


def test_append_time_replaces_every_time_of_the_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")
    for info in (append(log, b"a", b"b", timestamps=[1, 2]), log.append(batch(b"c", timestamps=3))):
        assert info.log_append_time_ms == info.max_timestamp == NOW_MS
    (part,) = log.records(0, 3)
    assert part.timestamps.tolist() == [NOW_MS] * 3
    assert part.timestamp_types.tolist() == [1] * 3


def test_the_codec_of_the_topic_overrides_that_of_the_producer(tmp_path: Path) -> None:
    for codec, number in (("gzip", 1), ("zstd", 4), ("uncompressed", 0), ("producer", 3)):
        log = open_log(tmp_path / codec, compression_type=codec)
        log.append_records(records([b"x" * 500]), v2.BatchFields(codec=Codec.LZ4))
        data = log.read(0)
        assert data is not None
        assert data.window.headers.codec.tolist() == [number]
        assert rows(log) == [(0, b"x" * 500)]


@pytest.fixture(params=["this machine's disk", "a disk in memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, LocalFileSystem | MemoryFileSystem]:
    if request.param == "a disk in memory":
        return "/log", MemoryFileSystem()
    return str(tmp_path), LocalFileSystem()


def test_preallocated_files_are_cut_to_size_when_they_are_rolled_and_closed(
    disk: tuple[str, LocalFileSystem | MemoryFileSystem],
) -> None:
    directory, filesystem = disk
    log = open_log(directory, filesystem=filesystem, preallocate=True, segment_bytes=1000)
    path = f"{directory}/{file_names.segment_file(0, file_names.LOG)}"

    def size() -> int:
        status = filesystem.status(path)
        assert status is not None
        return status.size

    append(log, b"a")
    assert size() == 1000
    log.roll()
    assert size() == log.segments.first.size < 1000
    append(log, b"b")
    log.close()
    reopened = open_log(directory, filesystem=filesystem, preallocate=True, segment_bytes=1000)
    assert rows(reopened) == [(0, b"a"), (1, b"b")]
    assert reopened.truncated_bytes == 0


def test_two_writers_share_preallocated_files(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"preallocate": True, "segment_bytes": 700, "index_interval_bytes": 100}
    pair = [open_log(tmp_path, **settings), open_log(tmp_path, **settings)]
    for n in range(40):
        append(pair[n % 2], b"%d" % n)
    expected = [(n, b"%d" % n) for n in range(40)]
    assert rows(pair[1]) == expected
    assert rows(open_reader(tmp_path, **settings)) == expected
    assert len(pair[1].segments) > 3


def test_a_killed_writers_partial_batch_in_a_preallocated_file_is_cut_off(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"preallocate": True, "segment_bytes": 2000}
    log = open_log(tmp_path, **settings)
    append(log, b"a")
    end = log.segments.active.size
    torn = bytes(replicated(b"torn " + bytes(batch(b"inside")), base_offset=1))[:-10]
    with (tmp_path / file_names.segment_file(0, file_names.LOG)).open("r+b") as file:
        file.seek(end)
        file.write(torn)
    append(log, b"b")
    expected = [(0, b"a"), (1, b"b")]
    assert rows(log) == rows(open_reader(tmp_path, **settings)) == rows(open_log(tmp_path, **settings)) == expected


def test_every_batch_but_the_first_has_an_index_entry_where_the_interval_is_zero(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes=0)
    for n in range(20):
        append(log, b"%d" % n)
    index = log.segments.active.offset_index
    assert index.offsets.tolist() == list(range(1, 20))
    assert [log.segments.active.position_before(n) for n in range(1, 20)] == index.positions.tolist()
    assert rows(log) == [(n, b"%d" % n) for n in range(20)]
