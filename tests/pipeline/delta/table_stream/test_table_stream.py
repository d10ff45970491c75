"""A stream that begins in a topic's table and goes on in its log."""

from __future__ import annotations

import random
from functools import partialmethod
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from pyspark_commitlog.arrow.values.serde import JsonSerde
from pyspark_commitlog.pipeline.delta.table_and_tail.file_upkeep import optimize, vacuum
from pyspark_commitlog.storage import LogManager, delete_topic
from tests.pipeline.delta.table_and_tail.exported import FLIGHT, Exported, counted, flight
from tests.pipeline.delta.table_topics import run
from tests.support.logs.building import NOW_MS
from tests.torture.table_streams import Restarts


@pytest.fixture
def topic(spark: SparkSession, tmp_path: Path) -> Exported:
    """A topic of two partitions: the table has three records, which the log has no longer, and the log has four."""
    exported = Exported(spark, tmp_path)
    exported.append([(b"a", flight("UA", 1)), (b"b", None)])
    exported.append([(b"c", flight("AA", 3))], partition=1)
    exported.export()
    with LogManager.open(exported.log_dir) as manager:
        manager.open_log("t", 0).delete_records(2)
        manager.open_log("t", 1).delete_records(1)
    exported.append([(b"a", flight("UA", 4)), (None, flight("B6", 5)), (b"d", None)])
    exported.append([(b"e", flight("DL", 7))], partition=1)
    return exported


class Reading:
    """A query with its checkpoint."""

    def __init__(self, topic: Exported) -> None:
        self.topic, self.batches = topic, list[list[Row]]()

    def run(self, stream: DataFrame) -> list[Row]:
        """Returns the rows of the micro-batches that this run adds."""
        before = len(self.batches)
        store = lambda frame, _: self.batches.append(frame.collect())  # noqa: E731
        run(stream, store, self.topic.folder / "checkpoint-stream")
        return [row for batch in self.batches[before:] for row in batch]


def ids(rows: list[Row]) -> list[tuple[int, int]]:
    return sorted((row["_partition"], row["_offset"]) for row in rows)


ALL = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)]


def test_rows_of_the_table_come_first_and_then_those_of_the_log(topic: Exported) -> None:
    reading = Reading(topic)
    found = reading.run(topic.over_both(maxOffsetsPerTrigger="2"))
    assert ids(found) == ALL
    assert len(reading.batches) > 2
    assert [(row["_offset"], row["_key"], row.carrier, row.delay) for row in found if row["_partition"] == 0] == [
        (0, b"a", "UA", 1),
        (1, b"b", None, None),
        (2, b"a", "UA", 4),
        (3, None, "B6", 5),
        (4, b"d", None, None),
    ]
    topic.append([(b"f", flight("F9", 8))])
    topic.export()
    assert ids(reading.run(topic.over_both())) == [(0, 5)]


@pytest.mark.only_all
def test_restarts_at_random_points_while_everything_changes(spark: SparkSession, tmp_path: Path) -> None:
    Restarts(spark, tmp_path / "topic", random.Random(5)).run(4)


@pytest.mark.only_all
class TestWhereItBegins:
    def test_a_time_in_the_table(self, topic: Exported) -> None:
        stream = topic.over_both(startingTimestamp=str(NOW_MS + 1), startingOffsetsByTimestampStrategy="latest")
        assert ids(Reading(topic).run(stream)) == [each for each in ALL if each not in ((0, 0), (1, 0))]

    def test_a_time_in_the_log(self, topic: Exported) -> None:
        at = json_of({0: NOW_MS + 2001, 1: NOW_MS + 9000})
        stream = topic.over_both(startingOffsetsByTimestamp=at, startingOffsetsByTimestampStrategy="latest")
        assert ids(Reading(topic).run(stream)) == [(0, 3), (0, 4)]

    def test_offsets_on_both_sides(self, topic: Exported) -> None:
        assert ids(Reading(topic).run(topic.over_both(json_of({0: 1, 1: 1})))) == [
            (0, 1),
            (0, 2),
            (0, 3),
            (0, 4),
            (1, 1),
        ]

    def test_latest(self, topic: Exported) -> None:
        reading = Reading(topic)
        assert reading.run(topic.over_both("latest")) == []
        topic.append([(b"f", flight("F9", 8))])
        assert ids(reading.run(topic.over_both("latest"))) == [(0, 5)]

    def test_table_that_was_begun_late(self, spark: SparkSession, tmp_path: Path) -> None:
        """Its first offsets are known by statistics, so that no empty micro-batches come first."""
        topic = Exported(spark, tmp_path, partitions=1)
        topic.append([(b"a", flight("UA", n)) for n in range(6)])
        run(topic.stream(json_of({0: 4})), topic.sink(), tmp_path / "checkpoint")
        reading = Reading(topic)
        assert ids(reading.run(topic.over_both(maxOffsetsPerTrigger="1"))) == [(0, 4), (0, 5)]
        assert len(reading.batches) == 2


@pytest.mark.only_all
class TestWhatItHas:
    def test_columns_that_were_asked_for(self, topic: Exported) -> None:
        stream = topic.over_both(columns="delay,_offset")
        assert stream.columns == ["delay", "_offset"]
        assert sorted(row.delay for row in Reading(topic).run(stream) if row.delay) == [1, 3, 4, 5, 7]

    def test_types_are_those_of_the_table(self, topic: Exported) -> None:
        assert topic.over_both().schema == topic.spark.read.format("delta").load(topic.table).schema
        assert topic.over_both().schema == topic.both().schema

    def test_bad_records_of_the_log_are_left_out_as_the_table_leaves_them_out(self, topic: Exported) -> None:
        topic.bad = str(topic.folder / "bad")
        topic.export()
        topic.append([(b"x", b"{"), (b"y", flight("F9", 8))])
        assert ids(Reading(topic).run(topic.over_both())) == [*ALL[:5], (0, 6), *ALL[5:]]

    def test_bad_record_of_the_log_is_named(self, topic: Exported) -> None:
        topic.append([(b"x", b"{")])
        with pytest.raises(PySparkException, match="t-0, offset 5: its value"):
            Reading(topic).run(topic.over_both())

    def test_new_field_is_there_after_a_restart(self, topic: Exported) -> None:
        reading = Reading(topic)
        reading.run(topic.over_both())
        topic.serde = JsonSerde(pa.schema([*FLIGHT.type, ("gate", pa.string())]))
        topic.append([(b"f", b'{"carrier": "F9", "delay": 8, "gate": "A1"}')])
        topic.export()
        topic.append([(b"g", b'{"carrier": "G4", "delay": 9, "gate": "B2"}')])
        assert sorted(row.gate for row in reading.run(topic.over_both())) == ["A1", "B2"]

    def test_values_that_are_kept_as_bytes(self, spark: SparkSession, tmp_path: Path) -> None:
        topic = Exported(spark, tmp_path, partitions=1)
        topic.serde = None
        topic.append([(b"a", b"1")])
        topic.export()
        topic.append([(b"b", b"2"), (b"c", None)])
        assert [row.value for row in Reading(topic).run(topic.over_both())] == [b"1", b"2", None]

    def test_rows_that_a_person_deleted_are_left_out(self, topic: Exported) -> None:
        topic.spark.sql(f"ALTER TABLE delta.`{topic.table}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        topic.spark.sql(f"DELETE FROM delta.`{topic.table}` WHERE carrier = 'UA'")
        assert ids(Reading(topic).run(topic.over_both())) == ALL[1:]


@pytest.mark.only_all
class TestRefused:
    def test_table_of_mode_upsert(self, spark: SparkSession, tmp_path: Path) -> None:
        topic = Exported(spark, tmp_path, mode="upsert")
        topic.append([(b"a", flight("UA", 1))])
        topic.export()
        with pytest.raises(PySparkException, match="only the newest record of each key, so it has no history"):
            Reading(topic).run(topic.over_both())

    def test_folder_without_a_table(self, topic: Exported) -> None:
        topic.table = str(topic.folder / "nothing")
        with pytest.raises(PySparkException, match="there is no Delta table at"):
            topic.over_both()

    def test_options_of_a_log(self, topic: Exported) -> None:
        for options in ({"maxBytesPerTrigger": "9"}, {"decode": "offsets"}):
            with pytest.raises(
                PySparkException, match=f"option {next(iter(options))} cannot be used with option table"
            ):
                Reading(topic).run(topic.over_both(**options))
        with pytest.raises(PySparkException, match="topic_table reads a table and its log in a batch"):
            topic.read(table=topic.table).collect()

    def test_records_that_neither_has(self, topic: Exported) -> None:
        with LogManager.open(topic.log_dir) as manager:
            manager.open_log("t", 0).delete_records(4)
        with pytest.raises(PySparkException, match="offsets 2 to 3 were not read"):
            Reading(topic).run(topic.over_both())
        reading = Reading(topic)
        found = reading.run(topic.over_both(failOnDataLoss="false"))
        assert ids(found) == [(0, 0), (0, 1), (0, 4), (1, 0), (1, 1)]

    def test_topic_that_was_made_again(self, topic: Exported) -> None:
        with LogManager.open(topic.log_dir) as manager:
            delete_topic(manager, "t")
            manager.create_topic("t", partitions=2)
        with pytest.raises(PySparkException, match="topic t was deleted and made again"):
            Reading(topic).run(topic.over_both())


@pytest.mark.only_all
def test_table_is_kept_small_without_spark(topic: Exported) -> None:
    """What commitlog maintain does with a table that the sink writes."""
    expected = Reading(topic).run(topic.over_both())
    topic.export()
    assert optimize(topic.table).endswith("files became 1")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DeltaTable, "vacuum", partialmethod(DeltaTable.vacuum, 0, enforce_retention_duration=False))
        assert vacuum(topic.table).endswith("files removed")
    assert len(list(Path(topic.table).glob("*.parquet"))) == 1
    topic.append([(b"f", flight("F9", 8))])
    topic.export()
    assert counted(topic.both()) == counted(topic.spark.read.format("delta").load(topic.table))
    assert topic.both().count() == len(expected) + 1


@pytest.mark.only_all
def test_log_on_an_object_store(spark: SparkSession, tmp_path: Path, bucket: str) -> None:
    topic = Exported(spark, tmp_path, partitions=1)
    topic.log_dir = bucket

    def write(*values: bytes) -> None:
        rows = spark.createDataFrame([(value,) for value in values], "value binary")
        rows.write.format("commitlog").mode("append").option("topic", "t").save(bucket)

    write(flight("UA", 1), flight("AA", 2))
    topic.export()
    write(flight("DL", 3))
    found = Reading(topic).run(topic.over_both(maxOffsetsPerTrigger="1"))
    assert [row["_offset"] for row in found] == list(range(len(found)))
    assert sorted(row.carrier for row in found) == ["AA", "DL", "UA"]


def json_of(numbers: dict[int, int]) -> str:
    return '{"t": {%s}}' % ", ".join(f'"{partition}": {number}' for partition, number in numbers.items())  # noqa: UP031
