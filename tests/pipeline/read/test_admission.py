"""Streams of Spark 4.1, which does not say where a micro-batch begins, nor how much it may have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog import append
from pyspark_commitlog.pipeline.datasource import CommitLogDataSource
from pyspark_commitlog.pipeline.read.admission import check_served
from pyspark_commitlog.pipeline.read.options import ReadOptions, Use
from pyspark_commitlog.pipeline.read.stream import UNDECIDED
from pyspark_commitlog.storage import InvalidConfigError, LogManager
from pyspark_commitlog.storage.format.v2 import BatchFields, encode
from tests.support.logs.building import records


def write(log: Path, *values: str) -> None:
    append(str(log), "t", [{"value": value} for value in values])


def reader_of(log: Path, **options: str) -> Any:
    source = CommitLogDataSource({"path": str(log), "subscribe": "t", **options})
    return source.streamReader(source.schema())


def values(reader: Any, start: Any, end: Any) -> list[bytes]:
    return [
        value
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for value in batch.column("value").to_pylist()
    ]


def test_a_query_that_begins_at_the_end_reads_what_comes_after_its_first_look(tmp_path: Path) -> None:
    write(tmp_path / "log", "old")
    reader = reader_of(tmp_path / "log")
    end = reader.latestOffset()
    write(tmp_path / "log", "new")
    start = reader.initialOffset()
    assert start == UNDECIDED
    assert values(reader, start, end) == []
    newer = reader.latestOffset()
    assert values(reader, end, newer) == [b"new"]


def test_a_first_micro_batch_that_failed_begins_where_it_began_before(tmp_path: Path) -> None:
    write(tmp_path / "log", "old")
    end = reader_of(tmp_path / "log").latestOffset()  # Spark wrote it to the checkpoint, and then the query died
    write(tmp_path / "log", "new")
    again = reader_of(tmp_path / "log")
    assert values(again, again.initialOffset(), end) == []
    assert values(again, end, again.latestOffset()) == [b"new"]


def test_a_query_that_begins_at_the_start_reads_all(tmp_path: Path) -> None:
    write(tmp_path / "log", "a", "b")
    reader = reader_of(tmp_path / "log", startingOffsets="earliest")
    end = reader.latestOffset()
    assert values(reader, reader.initialOffset(), end) == [b"a", b"b"]


def test_a_query_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    write(tmp_path / "log", "a", "b")
    checkpoint = {"t": {"0": 1}}
    reader = reader_of(tmp_path / "log")
    assert values(reader, checkpoint, reader.latestOffset()) == [b"b"]


def test_a_query_that_begins_within_an_open_transaction_waits_for_its_end(tmp_path: Path) -> None:
    """Its first micro-batch must not end below its beginning: the end is in the checkpoint, for all later starts."""
    write(tmp_path / "log", "a", "b")
    with LogManager.open(str(tmp_path / "log")) as manager:
        log = manager.open_log("t", 0)
        fields = BatchFields(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        log.append(encode(records([b"x", b"y"]), fields))
        assert (log.last_stable_offset, log.log_end_offset) == (2, 4)
    reader = reader_of(tmp_path / "log", startingOffsets='{"t": {"0": 4}}')
    end = reader.latestOffset()
    assert values(reader, reader.initialOffset(), end) == []
    again = reader_of(tmp_path / "log", startingOffsets='{"t": {"0": -2}}')
    assert values(again, again.initialOffset(), again.latestOffset()) == [b"a", b"b"]


def test_a_group_shows_what_was_read_when_the_next_micro_batch_is_planned(tmp_path: Path) -> None:
    write(tmp_path / "log", "a")
    reader = reader_of(tmp_path / "log", startingOffsets="earliest", **{"kafka.group.id": "g"})
    end = reader.latestOffset()
    values(reader, reader.initialOffset(), end)
    assert reader._committed is None or not any(reader._committed.values())
    reader.latestOffset()
    assert [*reader._committed.values()] == [1]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("maxOffsetsPerTrigger", "10"),
        ("minOffsetsPerTrigger", "10"),
        ("maxBytesPerTrigger", "10"),
        ("startingOffsets", '{"t": {"0": 5, "1": -1}}'),
    ],
)
def test_options_that_need_more_are_refused(option: str, value: str, tmp_path: Path) -> None:
    options = ReadOptions.parse({"path": str(tmp_path), "subscribe": "t", option: value}, Use.STREAM)
    with pytest.raises(InvalidConfigError, match=rf"option {option}.* needs Spark 4\.2 or newer"):
        check_served(options, is_there=False)
    check_served(options, is_there=True)


@pytest.mark.parametrize("starting", ["latest", "earliest", '{"t": {"0": 5, "1": -2}}'])
def test_other_starts_are_served(starting: str, tmp_path: Path) -> None:
    options = ReadOptions.parse({"path": str(tmp_path), "subscribe": "t", "startingOffsets": starting}, Use.STREAM)
    check_served(options, is_there=False)
