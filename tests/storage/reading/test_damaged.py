"""What is readable of a damaged log: every record of the intact batches, and each damage reported once."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.errors import CorruptionError, CorruptRecordError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format import scan, v2
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.damaged import salvaged_records
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.segment.joining import Holes
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.kafka import broker_dirs
from tests.support.logs.building import append, end_transaction, open_log, open_reader, rows, write_transactional

BATCHES, SIZE = 10, 3  # of the damaged segment; the next one has one more batch
ALL = range((BATCHES + 1) * SIZE)
AT = 4 * 85  # where batch 4 begins
Spoil = Callable[[bytearray, int, int], None]  # the file, where batch 4 begins, and its size


def salvaged(
    reader: LogReader, start: int = 0, end: int = 10**9, isolation: Isolation = Isolation.READ_UNCOMMITTED
) -> tuple[list[int], list[CorruptionError]]:
    told: list[CorruptionError] = []
    parts = salvaged_records(reader, start, end, told.append, isolation=isolation)
    return [offset for part in parts for offset in part.offsets.tolist()], told


def of_batches(*numbers: int) -> list[int]:
    return [number * SIZE + place for number in numbers for place in range(SIZE)]


@pytest.fixture
def spoiled(tmp_path: Path) -> Callable[[Spoil], LogReader]:
    """A reader of eleven batches in two segments; everything is below the recovery point, and batch 4 is damaged."""

    def make(spoil: Spoil) -> LogReader:
        log = open_log(tmp_path, index_interval_bytes=0)
        for number in range(BATCHES + 1):
            append(log, *(b"%d" % place for place in range(SIZE)))
            if number == BATCHES - 1:
                log.roll()
        log.close()
        path = tmp_path / file_names.segment_file(0, file_names.LOG)
        data = bytearray(path.read_bytes())
        table = scan(np.frombuffer(bytes(data), dtype=np.uint8)).headers.table
        assert int(table["position"][4]) == AT
        spoil(data, int(table["position"][4]), int(table["size"][4]))
        path.write_bytes(data)
        return open_reader(tmp_path, KeptInMemory(recovery_point=len(ALL)))

    return make


def flip_a_value(data: bytearray, position: int, size: int) -> None:
    data[position + size - 2] ^= 1


def impossible_length(data: bytearray, position: int, size: int) -> None:
    data[position + 8 : position + 12] = (-7).to_bytes(4, "big", signed=True)


def endless_length(data: bytearray, position: int, size: int) -> None:
    data[position + 8 : position + 12] = (2**30).to_bytes(4, "big")


def zeroes(data: bytearray, position: int, size: int) -> None:
    data[position : position + size] = bytes(size)


def negative_magic(data: bytearray, position: int, size: int) -> None:
    data[position + 16] = 0xFF


def offset_far_ahead(data: bytearray, position: int, size: int) -> None:
    data[position : position + 8] = (10**6).to_bytes(8, "big")


def offset_of_before(data: bytearray, position: int, size: int) -> None:
    data[position : position + 8] = (5).to_bytes(8, "big")


def record_too_long(data: bytearray, position: int, size: int) -> None:
    """Changes the length of the first record, and the batch's checksum with it."""
    data[position + v2.LAYOUT.itemsize] = 0x7E
    buffer = np.frombuffer(data, dtype=np.uint8)
    v2.sign(buffer, np.array([position]), np.array([size]))


def cut_off(data: bytearray, position: int, size: int) -> None:
    """Damages everything from the middle of batch 4 on; another segment follows."""
    del data[position + size // 2 :]


@pytest.mark.parametrize("end", [len(ALL), 10**9])
@pytest.mark.parametrize(
    "spoil",
    [
        flip_a_value,
        impossible_length,
        endless_length,
        zeroes,
        negative_magic,
        offset_far_ahead,
        offset_of_before,
        record_too_long,
    ],
)
def test_all_but_the_damaged_batch_is_read_and_its_position_is_reported(
    spoiled: Callable[[Spoil], LogReader], spoil: Spoil, end: int
) -> None:
    reader = spoiled(spoil)
    found, told = salvaged(reader, end=end)
    assert found == of_batches(0, 1, 2, 3, 5, 6, 7, 8, 9, 10)
    assert [(error.path, error.position) for error in told] == [(reader.segments.first.path(file_names.LOG), AT)]
    with pytest.raises(CorruptionError):  # as a normal reader does, at the latest when it gets there
        rows(reader)


def test_the_rest_of_a_segment_is_lost_where_its_end_is_missing_and_the_next_one_is_read(
    spoiled: Callable[[Spoil], LogReader],
) -> None:
    found, told = salvaged(spoiled(cut_off))
    assert found == of_batches(0, 1, 2, 3, 10)
    assert [error.reason for error in told] == ["a batch is incomplete"]


def test_reading_a_part_without_the_damage_reports_none(spoiled: Callable[[Spoil], LogReader]) -> None:
    reader = spoiled(flip_a_value)
    assert salvaged(reader, 4, 11) == (list(range(4, 11)), [])
    assert salvaged(reader, 16, 18) == ([16, 17], [])


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("stage", ["transactions/final", "compaction/after-3", "codecs/final"])
def test_a_log_without_damage_reads_the_same(stage: str, isolation: Isolation) -> None:
    with broker_dirs.open_manager(broker_dirs.stage(stage) / "log") as manager:
        for name in broker_dirs.consumed(stage):
            with manager.open_reader(*broker_dirs.topic_partition(name)) as reader:
                expected = [offset for offset, _ in rows(reader, isolation)]
                assert salvaged(reader, reader.log_start_offset, isolation=isolation) == (expected, [])


def test_records_of_an_aborted_transaction_stay_hidden_where_its_marker_is_damaged(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence, commit in ((0, False), (1, True)):
        write_transactional(log, 7, sequence, b"x")
        end_transaction(log, 7, commit=commit)
    log.close()
    path = tmp_path / file_names.segment_file(0, file_names.LOG)
    data = bytearray(path.read_bytes())
    marker = scan(np.frombuffer(bytes(data), dtype=np.uint8)).headers.table["position"][1]
    data[int(marker) + 70] ^= 1
    path.write_bytes(data)
    reader = open_reader(tmp_path, KeptInMemory(recovery_point=4))
    found, told = salvaged(reader, isolation=Isolation.READ_COMMITTED)
    assert (found, len(told)) == ([2], 1)


def test_a_file_that_vanishes_is_looked_for_again_by_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(4):
        append(log, b"%d" % number)
        log.roll()
    log.close()
    disk = FaultyFileSystem(LocalFileSystem(), [])
    reader = open_reader(tmp_path, KeptInMemory(recovery_point=4), filesystem=disk)
    disk.rules.append(fail("open", "*3.log", error=errno.ENOENT))
    assert salvaged(reader) == ([0, 1, 2, 3], [])


def test_records_that_are_deleted_during_the_read_are_reported(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, *[b"x"] * SIZE)
        log.roll()
    deleted: list[range] = []
    parts = salvaged_records(open_reader(tmp_path), 0, 9, pytest.fail, report_deleted=deleted.append)
    assert next(parts).offsets.tolist() == [0, 1, 2]
    for base_offset in (0, 3):
        (tmp_path / file_names.segment_file(base_offset, file_names.LOG)).unlink()
    assert [offset for part in parts for offset in part.offsets.tolist()] == [6, 7, 8]
    assert deleted == [range(3, 6)]


def test_corruption_is_reported_as_its_own_error(spoiled: Callable[[Spoil], LogReader]) -> None:
    _, told = salvaged(spoiled(flip_a_value))
    assert isinstance(told[0], CorruptRecordError)
    assert "checksum" in str(told[0])


@pytest.mark.parametrize("spoil", [flip_a_value, impossible_length, endless_length, zeroes, record_too_long])
def test_damage_is_reported_with_the_offsets_that_are_skipped(
    spoiled: Callable[[Spoil], LogReader], spoil: Spoil
) -> None:
    [damage] = salvaged(spoiled(spoil), 4)[1]
    assert damage.skipped_offsets == (12, 14)


def test_only_skipped_offsets_that_were_asked_for_are_reported(spoiled: Callable[[Spoil], LogReader]) -> None:
    reader = spoiled(flip_a_value)
    assert [each.skipped_offsets for each in salvaged(reader, 13)[1]] == [(13, 14)]
    assert [each.skipped_offsets for each in salvaged(reader, 4, 14)[1]] == [(12, 13)]


def test_skipped_offsets_reach_up_to_the_next_segment_where_the_end_of_one_is_missing(
    spoiled: Callable[[Spoil], LogReader],
) -> None:
    [damage] = salvaged(spoiled(cut_off))[1]
    assert damage.skipped_offsets == (12, 29)


def test_a_missing_segment_is_reported_with_its_offsets(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(4):
        append(log, b"%d" % number)
        log.roll()
    log.close()
    for path in tmp_path.glob("*2.log"):
        path.unlink()
    reader = open_reader(tmp_path, KeptInMemory(recovery_point=4, holes=Holes.NOWHERE))
    found, told = salvaged(reader)
    assert (found, [each.skipped_offsets for each in told]) == ([0, 1, 3], [(2, 2)])


def test_a_lookup_right_after_damage_blames_the_log_and_not_its_index(
    spoiled: Callable[[Spoil], LogReader], caplog: pytest.LogCaptureFixture
) -> None:
    reader = spoiled(flip_a_value)
    with pytest.raises(CorruptRecordError, match=f"position {AT}: checksum"):
        reader.read(15)
    assert caplog.messages == []


def test_a_lookup_by_a_wrong_index_of_a_sound_log_blames_the_index(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_log(tmp_path, index_interval_bytes=0) as log:
        for number in range(4):
            append(log, b"%d" % number)
    path = tmp_path / file_names.segment_file(0, file_names.INDEX)
    data = bytearray(path.read_bytes())
    data[-1] += 1  # the position of the last entry
    path.write_bytes(data)
    with open_reader(tmp_path, KeptInMemory(recovery_point=4)) as reader:
        data_read = reader.read(3)
    assert data_read is not None
    assert [message for message in caplog.messages if "the index is not used: rebuild it" in message]


@pytest.mark.parametrize("end", [20, 30, 40, 10**9], ids=["in the gap", "at its end", "after it", "at the log end"])
def test_offsets_of_a_missing_segment_are_reported_up_to_the_end_of_the_read(tmp_path: Path, end: int) -> None:
    with open_log(tmp_path) as log:
        for _ in range(5):
            append(log, *[b"value"] * 10)
            log.roll()
    for path in tmp_path.glob("00000000000000000010.*"):
        path.unlink()
    for path in tmp_path.glob("00000000000000000020.*"):
        path.unlink()
    found, told = salvaged(open_reader(tmp_path), 5, end)
    assert found == [*range(5, 10), *range(30, min(end, 50))]
    assert [each.skipped_offsets for each in told] == [(10, min(end, 30) - 1)]
