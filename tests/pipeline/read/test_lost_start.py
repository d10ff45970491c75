"""Reads of a partition whose first segments were lost: an error that names the offsets, unless an option skips them."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pyspark_commitlog.arrow.columns import schema_of
from pyspark_commitlog.arrow.follower import follow
from pyspark_commitlog.arrow.table import read_table, tail
from pyspark_commitlog.pipeline.read.batch import batch_reader
from pyspark_commitlog.pipeline.read.options import ReadOptions, Use
from pyspark_commitlog.pipeline.read.stream import StreamReader
from pyspark_commitlog.storage import LogManager, MissingSegmentError, OffsetOutOfRangeError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.files import file_names
from tests.pipeline.read.plain_offsets import PlainReader
from tests.support.logs.building import NOW_MS, records

COUNT, SEGMENT, LOST = 12, 4, 8  # records, one per second; of a segment; in the first two segments
LEFT = [*range(LOST, COUNT)]
TOLD = rf"log/t-0: records 0 to {LOST - 1} are gone, .*delete-records up to offset {LOST} \(set option failOnDataLoss"

Read = Callable[..., list[int]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The log directory ``log``, with topic ``t``, whose first two segments were lost."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1)
        log = manager.open_log("t", 0)
        for first in range(0, COUNT, SEGMENT):
            numbers = range(first, first + SEGMENT)
            log.append_records(records([b"%d" % n for n in numbers], timestamps=[NOW_MS + n * 1000 for n in numbers]))
            log.roll()
    for base in (0, SEGMENT):
        path = tmp_path / "log" / "t-0" / file_names.segment_file(base, file_names.LOG)
        path.rename(tmp_path / path.name)
    return tmp_path / "log"


def batch(directory: Path, **options: str) -> list[int]:
    """Returns the offsets that a batch query reads."""
    parsed = ReadOptions.parse({"path": str(directory), "subscribe": "t", **options})
    reader = batch_reader(parsed, schema_of(["offset"]))
    return [offset for part in reader.partitions() for found in reader.read(part) for offset in _offsets(found)]


def stream(directory: Path, **options: str) -> list[int]:
    """Returns the offsets that the micro-batches of a streaming query read, until there are no more."""
    given = {"path": str(directory), "subscribe": "t", "startingOffsets": "earliest", **options}
    reader: StreamReader = PlainReader(ReadOptions.parse(given, Use.STREAM), schema_of(["offset"]))
    found, start = list[int](), reader.initialOffset()
    while start != (end := reader.latestOffset(start, reader.getDefaultReadLimit())):
        for part in reader.partitions(start, end):
            found += [offset for each in reader.read(part) for offset in _offsets(each)]
        start = end
    reader.stop()
    return found


def _offsets(found: object) -> Iterator[int]:
    yield from found["offset"].to_pylist()  # type: ignore[index]


def at(offset: int) -> dict[str, str]:
    return {"startingOffsets": f'{{"t": {{"0": {offset}}}}}'}


@pytest.fixture(params=[batch, stream])
def read(request: pytest.FixtureRequest) -> Read:
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"startingOffsets": "earliest"}, id="from the beginning"),
        pytest.param(at(-2), id="from the beginning, by its number"),
        pytest.param(at(LOST - 1), id="from an offset among the lost ones"),
        pytest.param({"startingTimestamp": str(NOW_MS + 2000)}, id="from a time before the first record that is left"),
    ],
)
def test_lost_first_segments_stop_a_read_that_asks_for_them(
    read: Read, directory: Path, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(MissingSegmentError, match=TOLD):
        read(directory, **options)
    for way_out, reported in (
        ({"mode": "dropmalformed"}, "skipped, because of option mode"),
        ({"failOnDataLoss": "false"}, "because failOnDataLoss is false"),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert read(directory, **options, **way_out) == LEFT
        told = [each.getMessage() for each in caplog.records if reported in each.getMessage()]
        assert [f"records 0 to {LOST - 1} are gone" in each for each in told] == [True]


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        pytest.param(at(LOST), LEFT, id="from the first offset that is left"),
        pytest.param({"startingTimestamp": str(NOW_MS + 9000)}, LEFT[1:], id="from a time after it"),
    ],
)
def test_a_read_that_begins_behind_lost_segments_is_not_disturbed(
    read: Read, directory: Path, options: dict[str, str], offsets: list[int]
) -> None:
    assert read(directory, **options) == offsets


@pytest.mark.parametrize("repair", ["restored", "given up"])
def test_a_query_reads_on_once_the_loss_is_repaired(directory: Path, repair: str) -> None:
    given = {"path": str(directory), "subscribe": "t", "startingOffsets": "earliest"}
    reader = PlainReader(ReadOptions.parse(given, Use.STREAM), schema_of(["offset"]))
    start = {"t": {"0": 5}}
    with pytest.raises(MissingSegmentError):
        reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    if repair == "restored":
        for path in directory.parent.glob("*.log"):
            shutil.move(path, directory / "t-0")
    else:
        with LogManager.open(str(directory)) as manager:
            manager.open_log("t", 0).delete_records(LOST)
        start = {"t": {"0": LOST}}
    [part] = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    assert [offset for each in reader.read(part) for offset in _offsets(each)] == [*range(start["t"]["0"], COUNT)]
    reader.stop()


def test_an_end_of_the_read_among_lost_offsets(directory: Path) -> None:
    ends = {"endingOffsets": '{"t": {"0": 6}}'}
    with pytest.raises(MissingSegmentError, match=TOLD):
        batch(directory, **ends)
    assert batch(directory, **ends, mode="dropmalformed") == batch(directory, **ends, **at(6)) == []


def test_a_sound_log_is_read_without_another_listing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LogManager.open(str(directory)) as manager:
        manager.open_log("t", 0).delete_records(LOST)
        reader = manager.open_reader("t", 0)
        monkeypatch.setattr(LocalFileSystem, "list", None)
        assert (reader.lost_start(), reader.earliest_offset) == (None, LOST)


def table(directory: Path, **options: object) -> list[int]:
    """Returns the offsets that ``read_table`` reads."""
    return [*_offsets(read_table(directory, "t", columns=["offset"], **options))]


NAMED = rf"log/t-0: records 0 to {LOST - 1} are gone"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"start": 2},
        {"start": LOST - 1, "end": LOST + 1},
        {"by": "timestamp", "start": NOW_MS + 1000},
        {"by": "timestamp", "end": NOW_MS + 9000},
    ],
)
def test_a_table_of_lost_records_is_an_error(directory: Path, options: dict[str, object]) -> None:
    with pytest.raises(MissingSegmentError, match=NAMED):
        table(directory, **options)


def test_a_table_of_what_is_left_is_read(directory: Path) -> None:
    assert table(directory, start=LOST) == LEFT
    assert table(directory, by="timestamp", start=NOW_MS + 9000) == LEFT[1:]
    assert [*_offsets(tail(directory, "t", len(LEFT), columns=["offset"]))] == LEFT


def test_more_of_the_last_records_than_are_left_is_an_error(directory: Path) -> None:
    with pytest.raises(MissingSegmentError, match=NAMED):
        tail(directory, "t", len(LEFT) + 1)


@pytest.mark.parametrize("start", ["earliest", {}, datetime.fromtimestamp(NOW_MS / 1000 + 1, UTC)])
def test_following_from_lost_records_is_an_error(directory: Path, start: object) -> None:
    with pytest.raises(MissingSegmentError, match=NAMED):
        follow(directory, "t", start=start, timeout=0)


def test_following_from_a_lost_offset_names_those_that_are_left(directory: Path) -> None:
    with pytest.raises(OffsetOutOfRangeError, match="has offsets 8 to 12, but not 2"):
        follow(directory, "t", start={0: 2}, timeout=0)


def test_what_is_left_is_followed(directory: Path) -> None:
    for start, found in ((LOST, LEFT), (datetime.fromtimestamp(NOW_MS / 1000 + LOST + 1, UTC), LEFT[1:])):
        with follow(directory, "t", start=start, timeout=0) as follower:
            assert [record.offset for record in follower] == found
