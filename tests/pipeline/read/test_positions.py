"""Batch reads of a directory of Kafka 0.7: option ``layout``."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_commitlog.arrow.columns import schema_of
from pyspark_commitlog.pipeline.read.options import ReadOptions
from pyspark_commitlog.pipeline.read.positions import PositionBatchReader
from pyspark_commitlog.pipeline.read.task_ranges import OffsetRange
from pyspark_commitlog.storage import (
    InvalidConfigError,
    InvalidOffsetError,
    InvalidRecordError,
    MissingSegmentError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from tests.support.classic.kafka_0_7 import recorded, unpacked

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The log of a real 0.7.2."""
    return str(unpacked("main", tmp_path_factory.mktemp("main")) / "log")


def reader(log: str, **options: str) -> PositionBatchReader:
    given = {"path": log, "layout": "kafka-0.7", "subscribe": "alpha", **options}
    return PositionBatchReader(ReadOptions.parse(given), schema_of(COLUMNS))


def rows(log: str, **options: str) -> list[tuple[str, int, int, bytes]]:
    """Topic, partition, offset and value of each row, task by task."""
    made = reader(log, **options)
    batches = [batch for part in made.partitions() for batch in made.read(part)]
    columns = [[each for batch in batches for each in batch.column(name).to_pylist()] for name in COLUMNS]
    assert set(columns[0]) <= {None}
    return list(zip(columns[2], columns[3], columns[4], columns[1], strict=True))


def by_kafka(topic: str, partition: int) -> list[bytes]:
    """The payloads that a real consumer got of a partition."""
    answers = {
        each["offset"]: each["messages"]
        for each in recorded("main/fetch.json.xz")
        if (each["topic"], each["partition"]) == (topic, partition) and each["size"] >= 10_000
    }
    starts = [start for start, _, _ in recorded("main/settings.json")["entries"][f"{topic}-{partition}"]]
    return [base64.b64decode(text) for start in starts for _, _, text in answers[start]]


def test_spark_reads_every_message_once_with_the_position_of_its_entry(spark: SparkSession, log: str) -> None:
    frame = spark.read.format("commitlog").option("layout", "kafka-0.7").option("subscribePattern", ".*").load(log)
    found = frame.orderBy("topic", "partition", "offset").collect()
    for name, segments in recorded("main/settings.json")["entries"].items():
        topic, _, partition = name.rpartition("-")
        mine = [row for row in found if (row.topic, row.partition) == (topic, int(partition))]
        assert sorted(bytes(row.value) for row in mine) == sorted(by_kafka(topic, int(partition)))
        assert sorted({row.offset for row in mine}) == [each for _, entries, _ in segments for each in entries]
    assert {row.key for row in found} == {None}
    assert {row.timestampType for row in found} == {-1}


def test_a_task_reads_one_file_in_order(log: str) -> None:
    made = reader(log)
    parts = [part for part in made.partitions() if isinstance(part, OffsetRange)]
    segments = recorded("main/settings.json")["entries"]
    assert [part.start for part in parts if part.source.partition == 1] == [each[0] for each in segments["alpha-1"]]
    found = rows(log)
    assert [value for _, partition, _, value in found if partition == 1] == by_kafka("alpha", 1)
    assert [row[1:3] for row in found] == sorted(row[1:3] for row in found)


def test_a_read_begins_and_ends_at_positions(log: str) -> None:
    entries = recorded("main/settings.json")["entries"]["beta-0"]
    positions = [each for _, inside, _ in entries for each in inside]
    first, last = positions[3], positions[-4]
    options = {
        "startingOffsets": json.dumps({"beta": {"0": first, "1": -2}}),
        "endingOffsets": json.dumps({"beta": {"0": last, "1": 0}}),
    }
    found = rows(log, subscribe="beta", **options)
    assert sorted({position for _, _, position, _ in found}) == [each for each in positions if first <= each < last]


def test_a_start_inside_a_message_is_refused(log: str) -> None:
    starting = json.dumps({"beta": {"0": 1, "1": -2}})
    with pytest.raises(InvalidOffsetError, match="no message begins at position 1; it is inside the one from 0 to"):
        reader(log, subscribe="beta", startingOffsets=starting).partitions()


def test_a_position_outside_the_log_and_an_unknown_topic_are_refused(log: str) -> None:
    starting = json.dumps({"beta": {"0": 99_999, "1": -2}})
    with pytest.raises(OffsetOutOfRangeError, match="offset 99999 of beta-0 is outside the log"):
        reader(log, subscribe="beta", startingOffsets=starting).partitions()
    with pytest.raises(UnknownTopicOrPartitionError, match="did you mean 'beta'"):
        reader(log, subscribe="bata").partitions()


@pytest.mark.parametrize("fails", ["true", "false"])
def test_files_that_were_deleted_before_a_task_reads_them_are_reported(tmp_path: Path, fails: str) -> None:
    log = unpacked("main", tmp_path) / "log"
    made = reader(str(log), failOnDataLoss=fails)
    first, *_ = made.partitions()
    (log / "alpha-0" / f"{0:020}.kafka").unlink()
    if fails == "false":
        assert list(made.read(first)) == []
        return
    with pytest.raises(OffsetOutOfRangeError, match="positions 0 to 1740 of alpha-0 were deleted before they were"):
        list(made.read(first))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"startingTimestamp": "1"}, "startingTimestamp"),
        ({"mode": "dropmalformed"}, "mode=dropmalformed"),
        ({"decode": "offsets"}, "decode"),
        ({"pushFilters": "true"}, "pushFilters"),
        ({"minPartitions": "4"}, "minPartitions"),
    ],
)
def test_options_that_mean_nothing_here_are_refused(log: str, options: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"layout=kafka-0.7 goes without .*{named}"):
        reader(log, **options)


def test_an_unknown_layout_is_refused(log: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"option layout is 'kafka-0\.6'; it must be kafka or"):
        reader(log, layout="kafka-0.6")


def test_a_stream_is_refused_with_what_to_do(spark: SparkSession, log: str) -> None:
    stream = spark.readStream.format("commitlog").option("layout", "kafka-0.7").option("subscribe", "alpha").load(log)
    with pytest.raises(PySparkException, match="for batch reads"):
        stream.writeStream.format("noop").option(
            "checkpointLocation", log + ".checkpoint"
        ).start().processAllAvailable()


def test_damage_fails_a_read_with_its_place(tmp_path: Path) -> None:
    log = unpacked("recovery", tmp_path) / "no-marker-before"
    damaged = "d_codec3"
    with pytest.raises(InvalidRecordError, match="unknown compression codec"):
        rows(str(log), subscribe=damaged)
    gap = str(tmp_path / "dir-gap-middle-missing-before")
    with pytest.raises(MissingSegmentError, match="messages are missing"):
        rows(gap, subscribe="d_none")
