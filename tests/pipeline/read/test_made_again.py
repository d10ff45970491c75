"""Streams of a topic that is deleted and made again, in a directory and on an object store."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog.arrow.columns import schema_of
from pyspark_commitlog.pipeline.read.batch import BatchReader
from pyspark_commitlog.pipeline.read.options import ReadOptions, Use
from pyspark_commitlog.pipeline.read.stream import StreamReader
from pyspark_commitlog.storage import LogManager, UnknownTopicOrPartitionError, delete_topic
from pyspark_commitlog.storage.transfer.to_directory import copy_to_directory
from tests.pipeline.read.plain_offsets import plain
from tests.support.logs.building import records
from tests.support.stores.filling import write
from tests.support.stores.served import ServedStores

MADE_AGAIN = r"topic a was deleted and made again: it was read with id \S+, and has id \S+ in .* new checkpoint"


class Log:
    """A log with a topic ``a``: a directory, or a bucket if its place is a URL."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.partitions = 2

    def make(self, count: int) -> None:
        """Makes the topic, again if it is there, with ``count`` records in each partition."""
        with LogManager.open(self.place, create="://" not in self.place) as manager:
            if "a" in manager.topics():
                delete_topic(manager, "a")
            manager.create_topic("a", partitions=self.partitions)
        self.append(count)

    def append(self, count: int) -> None:
        with LogManager.open(self.place) as manager:
            tables = {partition: [records([b"x"] * count)] for partition in range(self.partitions)}
            if manager.bucket is not None:
                write(manager.bucket, "a", tables)
                return
            for partition, (table,) in tables.items():
                manager.open_log("a", partition).append_records(table)

    def reader(self, **options: str) -> StreamReader:
        given = {"path": self.place, "subscribe": "a", "startingOffsets": "earliest", **options}
        return StreamReader(ReadOptions.parse(given, Use.STREAM), schema_of(["partition", "offset"]))


@pytest.fixture(params=["directory", "bucket"])
def log(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log(str(tmp_path / "log"))
    if request.param == "bucket":
        made = Log(f"s3://memory/{uuid4().hex}")  # of its own, since tasks keep logs open
        ServedStores(monkeypatch).create(made.place)
    made.make(10)
    return made


def end_of(reader: StreamReader, start: Any) -> Any:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def rows(reader: StreamReader, start: Any, end: Any) -> dict[int, list[int]]:
    """The offsets that a micro-batch reads, by partition."""
    found: dict[int, list[int]] = {}
    for part in reader.partitions(start, end):
        for batch in reader.read(part):
            for row in batch.to_pylist():
                found.setdefault(row["partition"], []).append(row["offset"])
    return found


def at(*offsets: int) -> dict[str, dict[str, int]]:
    return {"a": {str(number): offset for number, offset in enumerate(offsets)}}


OPTIONS = {
    "no limit": {},
    "a limit": {"maxOffsetsPerTrigger": "6"},
    "bytes": {"maxBytesPerTrigger": "1"},
    "a minimum": {"minOffsetsPerTrigger": "2"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("count", [4, 10, 20])
def test_new_topic_is_refused_however_many_records_it_has(log: Log, count: int, options: dict[str, str]) -> None:
    checkpoint = end_of(log.reader(), log.reader().initialOffset())
    log.make(count)
    for _ in range(2):
        with pytest.raises(UnknownTopicOrPartitionError, match=MADE_AGAIN):
            end_of(log.reader(**options), checkpoint)
    available_now = log.reader(**options)
    available_now.prepareForTriggerAvailableNow()
    with pytest.raises(UnknownTopicOrPartitionError, match=MADE_AGAIN):
        end_of(available_now, checkpoint)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_new_topic_is_read_from_its_first_record_if_data_loss_is_allowed(
    log: Log, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = end_of(log.reader(), log.reader().initialOffset())
    log.make(20)
    reader, found = log.reader(failOnDataLoss="false", **options), dict[int, list[int]]()
    for _ in range(100):
        end = end_of(reader, checkpoint)
        if end == checkpoint:
            break
        for partition, offsets in rows(reader, checkpoint, end).items():
            found.setdefault(partition, []).extend(offsets)
        checkpoint = end
    assert found == {0: [*range(20)], 1: [*range(20)]}
    assert "topic a was deleted and made again" in caplog.text
    caplog.clear()
    end_of(reader, end)
    assert not caplog.text


def test_query_that_waits_for_more_records_does_not_repeat_what_is_lost(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark asks a query that waits a hundred times per second."""
    reader = log.reader(failOnDataLoss="false", minOffsetsPerTrigger="1000")
    checkpoint = end_of(reader, reader.initialOffset())
    log.make(4)
    assert [end_of(reader, checkpoint) for _ in range(2)] == [checkpoint] * 2
    assert "made again" not in caplog.text


def test_query_goes_on_while_the_topic_is_the_same(log: Log) -> None:
    reader = log.reader()
    start = end_of(reader, reader.initialOffset())
    assert end_of(reader, start) == end_of(log.reader(), start) == start
    log.append(5)
    end = end_of(reader, start)
    assert (plain(end), rows(reader, start, end)) == (at(15, 15), {0: [*range(10, 15)], 1: [*range(10, 15)]})


def test_topic_that_is_made_again_while_its_query_runs_is_refused(log: Log) -> None:
    reader = log.reader()
    start = end_of(reader, reader.initialOffset())
    log.make(20)
    with pytest.raises(UnknownTopicOrPartitionError, match=MADE_AGAIN):
        end_of(reader, start)


def test_micro_batch_that_was_planned_for_the_topic_before_is_refused(log: Log) -> None:
    start = log.reader().initialOffset()
    end = end_of(log.reader(), start)
    log.make(20)
    with pytest.raises(UnknownTopicOrPartitionError, match=MADE_AGAIN):
        log.reader().partitions(start, end)
    assert log.reader(failOnDataLoss="false").partitions(start, end) == []


def test_task_that_was_planned_for_the_topic_before_is_refused(log: Log) -> None:
    start = log.reader().initialOffset()
    end = end_of(log.reader(), start)
    tasks = {fails: [*log.reader(failOnDataLoss=fails).partitions(start, end)] for fails in ("true", "false")}
    log.make(20)
    with pytest.raises(UnknownTopicOrPartitionError, match=MADE_AGAIN):
        list(log.reader().read(tasks["true"][0]))
    assert list(log.reader(failOnDataLoss="false").read(tasks["false"][0])) == []


def test_task_of_a_batch_read_that_was_planned_for_the_topic_before_is_refused(log: Log) -> None:
    def batch_reader(fails: str) -> BatchReader:
        given = {"path": log.place, "subscribe": "a", "failOnDataLoss": fails}
        return BatchReader(ReadOptions.parse(given), schema_of(["partition", "offset"]))

    strict, lenient = batch_reader("true"), batch_reader("false")
    task, lenient_task = strict.partitions()[0], lenient.partitions()[0]
    assert sum(batch.num_rows for batch in strict.read(task)) == 10
    log.make(20)
    with pytest.raises(UnknownTopicOrPartitionError, match=r"topic a was deleted and made again.* Load the DataFrame"):
        list(strict.read(task))
    assert list(lenient.read(lenient_task)) == []


def test_checkpoint_without_ids_gets_them_and_goes_on(log: Log) -> None:
    """As checkpoints of older versions, and of Spark's Kafka source."""
    end = end_of(log.reader(), at(10, 10))
    assert plain(end) == at(10, 10)
    assert end != at(10, 10)
    assert log.reader().partitions(at(10, 10), end) == []
    log.make(20)
    with pytest.raises(UnknownTopicOrPartitionError, match=MADE_AGAIN):
        end_of(log.reader(), end)


def test_offsets_are_those_of_sparks_kafka_source_and_topics_without_partitions(log: Log) -> None:
    end = end_of(log.reader(), log.reader().initialOffset())
    others = {name: partitions for name, partitions in end.items() if name != "a"}
    assert end["a"] == {"0": 10, "1": 10}
    assert list(others.values()) == [{}]
    assert [name.partition(":")[0] for name in others] == ["a"]


def test_offsets_of_a_checkpoint_are_starting_offsets_too(log: Log) -> None:
    end = end_of(log.reader(), log.reader().initialOffset())
    assert log.reader(startingOffsets=json.dumps(end)).initialOffset() == end


def test_query_goes_on_with_a_copy_of_the_topic(tmp_path: Path) -> None:
    log, copy = Log(str(tmp_path / "log")), Log(str(tmp_path / "copy"))
    log.make(10)
    checkpoint = end_of(log.reader(), log.reader().initialOffset())
    with LogManager.open(log.place) as source, LogManager.open(copy.place, create=True) as target:
        list(copy_to_directory(source, target, ["a"]))
    copy.append(1)
    end = end_of(copy.reader(), checkpoint)
    assert rows(copy.reader(), checkpoint, end) == {0: [10], 1: [10]}


class TestOfABroker:
    """A directory that a broker wrote: the ids are in partition.metadata, which Kafka has since 2.8."""

    @pytest.fixture
    def log(self, tmp_path: Path) -> Log:
        made = Log(str(tmp_path / "log"))
        made.make(10)
        (tmp_path / "log" / "topics.json").unlink()
        return made

    @pytest.fixture
    def rename(self, tmp_path: Path) -> Callable[[str], None]:
        """Gives the topic another id, as if the broker had deleted it and made it again."""

        def set_id(text: str) -> None:
            for path in (tmp_path / "log").glob("a-*/partition.metadata"):
                path.write_text(text)

        return set_id

    def test_another_id_is_refused(self, log: Log, rename: Callable[[str], None]) -> None:
        checkpoint = end_of(log.reader(), log.reader().initialOffset())
        rename("version: 0\ntopic_id: 5kvMfJ_dSQWdBJGa6rPy1A")
        with pytest.raises(UnknownTopicOrPartitionError, match="has id 5kvMfJ_dSQWdBJGa6rPy1A"):
            end_of(log.reader(), checkpoint)

    def test_another_id_is_refused_though_topics_json_has_the_id_before(
        self, tmp_path: Path, rename: Callable[[str], None]
    ) -> None:
        log = Log(str(tmp_path / "log"))
        log.make(10)
        checkpoint = end_of(log.reader(), log.reader().initialOffset())
        rename("version: 0\ntopic_id: 5kvMfJ_dSQWdBJGa6rPy1A")
        with pytest.raises(UnknownTopicOrPartitionError, match="has id 5kvMfJ_dSQWdBJGa6rPy1A"):
            end_of(log.reader(), checkpoint)

    def test_topic_without_an_id_is_read_and_keeps_the_id_that_is_known(self, log: Log, tmp_path: Path) -> None:
        checkpoint = end_of(log.reader(), log.reader().initialOffset())
        for path in (tmp_path / "log").glob("a-*/partition.metadata"):
            path.unlink()
        assert end_of(log.reader(), checkpoint) == checkpoint
        assert end_of(log.reader(), at(10, 10)) == at(10, 10)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Callable[..., list[int]]:
    """Runs a query from one checkpoint to the log's end; returns the values that it reads, as numbers."""

    def run(**options: str) -> list[int]:
        seen: list[int] = []

        def note(frame: DataFrame, _: int) -> None:
            seen.extend(row.offset for row in frame.select("offset").collect())

        source = spark.readStream.format("commitlog").option("subscribe", "a").option("startingOffsets", "earliest")
        query = source.options(**options).load(str(tmp_path / "log")).writeStream.foreachBatch(note)
        query.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start().awaitTermination()
        return sorted(seen)

    return run


def test_query_is_refused_and_reads_the_new_topic_if_data_loss_is_allowed(
    stream: Callable[..., list[int]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(str(tmp_path / "log"))
    log.partitions = 1
    log.make(10)
    caplog.set_level(logging.ERROR)
    assert stream() == [*range(10)]
    assert stream() == []
    log.make(20)
    for _ in range(2):
        with pytest.raises(PySparkException, match=MADE_AGAIN):
            stream()
    assert stream(failOnDataLoss="false") == [*range(20)]
    assert stream() == []
