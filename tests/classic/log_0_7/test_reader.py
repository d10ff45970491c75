"""Reading a log of 0.7 as records, without a lock: right, or refused with path and position."""

from __future__ import annotations

import base64
from pathlib import Path
from random import Random

import pytest

from pyspark_commitlog.classic.log_0_7.entries import encode, encode_set, messages_in
from pyspark_commitlog.classic.log_0_7.reader import PositionLogReader
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    CorruptRecordError,
    InvalidOffsetError,
    InvalidRecordError,
    MissingSegmentError,
    OffsetOutOfRangeError,
)
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.tables import Records
from tests.support.classic.kafka_0_7 import recorded, unpacked, write_segments

ONE, TWO, THREE = encode(b"one"), encode_set([b"two", b"three", b""], Codec.SNAPPY), encode(b"four", magic=0)


def made(directory: Path, *files: bytes, start: int = 0) -> PositionLogReader:
    write_segments(directory, *files, start=start)
    return PositionLogReader(str(directory))


def rows(reader: PositionLogReader, start: int, end: int | None = None) -> list[tuple[int, bytes | None]]:
    found: list[tuple[int, bytes | None]] = []
    for records in reader.records(start, end):
        assert records.values is not None
        found += zip(records.offsets.tolist(), records.values.to_list(), strict=True)
    return found


def test_every_message_of_a_real_log_is_a_record_at_the_position_of_its_entry(tmp_path: Path) -> None:
    directory = unpacked("main", tmp_path) / "log"
    for name, segments in recorded("main/settings.json")["entries"].items():
        reader = PositionLogReader(str(directory / name))
        found = rows(reader, reader.start)
        entries = [position for _, positions, _ in segments for position in positions]
        assert sorted({position for position, _ in found}) == entries
        answers = {
            answer["offset"]: answer["messages"]
            for answer in recorded("main/fetch.json.xz")
            if f"{answer['topic']}-{answer['partition']}" == name and answer["size"] >= 10_000
        }
        by_kafka = [base64.b64decode(text) for start, _, _ in segments for _, _, text in answers[start]]
        assert [payload for _, payload in found] == by_kafka


def test_records_have_positions_but_no_keys_and_no_times(tmp_path: Path) -> None:
    reader = made(tmp_path / "t-0", ONE + TWO, THREE, start=70)
    (records, last) = reader.records(70, columns=("key", "value"))
    assert records.keys is not None
    assert records.keys.to_list() == [None] * 4
    assert records.timestamps.tolist() == [-1] * 4
    assert records.timestamp_types.tolist() == [-1] * 4
    assert rows(reader, 70) == [
        (70, b"one"),
        (70 + len(ONE), b"two"),
        (70 + len(ONE), b"three"),
        (70 + len(ONE), b""),
        (70 + len(ONE + TWO), b"four"),
    ]
    assert len(last) == 1
    assert (reader.start, reader.end) == (70, 70 + len(ONE + TWO + THREE))
    assert all(each.values is None and each.keys is None for each in reader.records(70, columns=()))


def test_a_range_has_the_messages_that_begin_in_it(tmp_path: Path) -> None:
    reader = made(tmp_path / "t-0", ONE + TWO, THREE + ONE)
    whole = rows(reader, 0)
    bounds = [0, len(ONE), len(ONE + TWO), len(ONE + TWO + THREE), reader.end]
    for start in bounds:
        for end in range(start, reader.end + 1):
            assert rows(reader, start, end) == [row for row in whole if start <= row[0] < end]


def test_a_position_inside_a_message_is_named(tmp_path: Path) -> None:
    reader = made(tmp_path / "t-0", ONE + TWO, THREE + ONE)
    bounds = {0, len(ONE), len(ONE + TWO), len(ONE + TWO + THREE), reader.end}
    for position in range(reader.end + 1):
        if position in bounds:
            reader.check_start(position)
        else:
            with pytest.raises(InvalidOffsetError, match=f"no message begins at position {position}; it is inside"):
                reader.check_start(position)
    for outside in (-1, reader.end + 1):
        with pytest.raises(OffsetOutOfRangeError):
            reader.check_start(outside)


@pytest.mark.parametrize("tail", [b"", THREE[:-1]])
def test_the_end_is_found_from_every_entry_on_without_what_is_before_it(tmp_path: Path, tail: bytes) -> None:
    reader = made(tmp_path / "t-0", ONE + TWO, THREE + ONE + TWO + tail)
    bounds = sorted({position for position, _ in rows(reader, 0)})
    assert {reader.end_after(position) for position in [*bounds, reader.end]} == {reader.end}
    damaged = made(tmp_path / "t-1", ONE, bytes(len(TWO)) + ONE + tail)
    assert damaged.end_after(len(ONE + TWO)) == len(ONE + TWO + ONE)
    with pytest.raises(CorruptRecordError):
        _ = damaged.end
    for outside in (-1, len(ONE + TWO + ONE + tail) + 1):
        with pytest.raises(OffsetOutOfRangeError):
            damaged.end_after(outside)


def test_a_partition_without_files_is_empty(tmp_path: Path) -> None:
    reader = made(tmp_path / "t-0")
    assert (reader.start, reader.end, rows(reader, 0)) == (0, 0, [])
    with pytest.raises(OffsetOutOfRangeError):
        rows(reader, 1)


def test_names_of_eleven_digits_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "00000000000.kafka").write_bytes(ONE)
    (tmp_path / f"{len(ONE):011}.kafka").write_bytes(TWO)
    assert len(rows(PositionLogReader(str(tmp_path)), 0)) == 4


@pytest.mark.parametrize("start", [len(ONE) - 1, len(ONE) + 1])
def test_files_that_do_not_join_are_refused(start: int, tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.kafka").write_bytes(ONE)
    (tmp_path / f"{start:020}.kafka").write_bytes(TWO)
    with pytest.raises(MissingSegmentError, match=f"ends at position {len(ONE)} of the log.*begins at {start}"):
        PositionLogReader(str(tmp_path))


def test_directories_and_other_files_of_a_partition_are_left_alone(tmp_path: Path) -> None:
    reader = made(tmp_path / "t-0", ONE)
    for name in (f"{len(ONE):020}.kafka", "other.kafka"):
        (tmp_path / "t-0" / name).mkdir()
    (tmp_path / "t-0" / "other.txt").write_bytes(b"x")
    assert rows(PositionLogReader(reader.directory), 0) == [(0, b"one")]


def test_two_files_of_one_position_are_refused(tmp_path: Path) -> None:
    (tmp_path / "00000000000.kafka").write_bytes(b"")
    (tmp_path / f"{0:020}.kafka").write_bytes(ONE)
    with pytest.raises(MissingSegmentError, match="same position"):
        PositionLogReader(str(tmp_path))


def test_a_reader_reads_on_when_files_are_deleted(tmp_path: Path) -> None:
    reader = made(tmp_path / "t-0", ONE + TWO, THREE)
    (tmp_path / "t-0" / f"{0:020}.kafka").unlink()
    assert len(rows(reader, 0)) == 5
    assert PositionLogReader(str(tmp_path / "t-0")).start == len(ONE + TWO)


def test_an_unfinished_write_at_the_end_is_passed_over_but_not_in_a_file_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = made(tmp_path / "last", ONE, TWO + THREE[:-1])
    assert reader.end == len(ONE + TWO)
    assert len(rows(reader, 0)) == 4
    assert "unfinished write" in caplog.text
    with pytest.raises(CorruptRecordError, match="cut off") as refused:
        rows(made(tmp_path / "first", ONE + THREE[:-1], TWO), 0)
    assert refused.value.path == str(tmp_path / "first" / f"{0:020}.kafka")
    assert refused.value.position == len(ONE)


def test_damage_comes_after_the_records_before_it(tmp_path: Path) -> None:
    reader = made(tmp_path / "t-0", ONE + TWO + encode(b"not gzip", attributes=1) + ONE)
    found: list[Records] = []
    with pytest.raises(InvalidRecordError, match="does not decompress") as refused:
        found.extend(reader.records(0))  # keeps what came before
    assert [position for records in found for position in records.offsets.tolist()] == [0, *[len(ONE)] * 3]
    assert refused.value.position == len(ONE + TWO)


def test_any_damage_of_a_byte_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    files = [ONE * 3 + TWO + ONE, THREE + TWO * 2 + ONE * 2]
    whole = [one.payload for data in files for one in messages_in(data)]
    random = Random(7)
    for number in range(300):
        damaged = [bytearray(data) for data in files]
        which = number % 2
        at = random.randrange(len(files[which]))
        damaged[which][at] ^= random.randrange(1, 256)
        if unchecked(files[which], at):
            continue
        reader = made(tmp_path / str(number), *map(bytes, damaged))
        found: list[bytes | None] = []
        try:
            for records in reader.records(0):
                assert records.values is not None
                found += records.values.to_list()
        except CorruptionError as error:
            assert error.path is not None  # noqa: PT017
            assert error.position is not None  # noqa: PT017
        else:
            # Only of the last message of all can the size not be told from an unfinished write.
            assert found == whole or ((which, found) == (1, whole[: len(found)]) and len(found) >= len(whole) - 1)
        assert found == whole[: len(found)]


def unchecked(data: bytes, at: int) -> bool:
    """Whether no checksum covers this byte, and no reader of 0.7 can see a change: attributes."""
    start = max(one.position for one in messages_in(data) if one.position <= at)
    return at == start + 5 and data[start + 4] == 1
