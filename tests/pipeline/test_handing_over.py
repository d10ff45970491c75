"""Rows on their way into the sink's tasks: as Arrow messages, where the session bounds no bytes, or by mapInArrow."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from pyspark_commitlog.pipeline import classic
from pyspark_commitlog.pipeline.sink import commitlog_sink
from pyspark_commitlog.storage import InvalidRecordError
from tests.support.log_directories import directory_with_internal_topics
from tests.support.spark_settings import settings

SCHEMA = """key binary, value string, topic string, partition int, timestamp timestamp,
            headers array<struct<key string, value binary>>"""
BEGAN = datetime(2026, 11, 25, tzinfo=UTC)
ROWS_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES_AT_ONCE = "spark.sql.execution.arrow.maxBytesPerBatch"
LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"
CASE_SENSITIVE = "spark.sql.caseSensitive"
WAYS = {"messages": str(2**31 - 1), "mapInArrow": str(2**31 - 2)}


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return directory_with_internal_topics(tmp_path / "log")


@contextmanager
def going(spark: SparkSession, way: str) -> Iterator[None]:
    """Writes inside go by ``way``, and by no other."""
    with (
        settings(spark, {BYTES_AT_ONCE: WAYS[way]}),
        mock.patch.object(classic, "collect_over_messages", wraps=classic.collect_over_messages) as over_messages,
    ):
        yield
    assert over_messages.called == (way == "messages")


@pytest.fixture(params=WAYS)
def either_way(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    with going(spark, request.param):
        yield


@pytest.fixture
def over_messages(spark: SparkSession) -> Iterator[None]:
    with going(spark, "messages"):
        yield


def write(rows: DataFrame, log_dir: str, *, batch_id: int = 0, topic: str = "t") -> None:
    commitlog_sink(topic=topic, log_dir=log_dir, txnAppId=topic, partitions=3)(rows, batch_id)


def content(spark: SparkSession, log_dir: str, topic: str = "t") -> list[tuple[Any, ...]]:
    frame = spark.read.format("commitlog").option("subscribe", topic).option("includeHeaders", "true").load(log_dir)
    return [tuple(row) for row in frame.drop("topic").orderBy("partition", "offset").collect()]


def numbers(spark: SparkSession, log_dir: str) -> list[int]:
    return sorted(int(bytes(row[1])) for row in content(spark, log_dir))


def any_rows(random_rows: random.Random) -> list[tuple[object, ...]]:
    """Rows with and without each of their columns, some of them long."""

    def perhaps(value: object) -> object:
        return None if random_rows.random() < 0.2 else value

    def row() -> tuple[object, ...]:
        headers = [("k" * number, perhaps(random_rows.randbytes(number))) for number in range(random_rows.randrange(4))]
        return (
            perhaps(random_rows.randbytes(random_rows.randrange(20))),
            perhaps("wört " * random_rows.choice([0, 1, 5, 1000])),
            "t",
            perhaps(random_rows.randrange(3)),
            BEGAN + timedelta(microseconds=random_rows.randrange(10**12)),
            perhaps(headers),
        )

    return [row() for _ in range(random_rows.randrange(1, 200))]


@pytest.mark.parametrize("large_types", ["false", "true"])
@pytest.mark.parametrize("seed", range(4))
def test_both_ways_write_the_same_records_in_the_same_order(
    spark: SparkSession, log_dir: str, seed: int, large_types: str
) -> None:
    rows = spark.createDataFrame(any_rows(random.Random(seed)), SCHEMA).coalesce(1)
    with settings(spark, {ROWS_AT_ONCE: "37", LARGE_TYPES: large_types}):
        for way in WAYS:
            with going(spark, way):
                write(rows, log_dir, topic=way)
    written = [content(spark, log_dir, way) for way in WAYS]
    assert written[0] == written[1]
    assert len(written[0]) == rows.count()


@pytest.mark.usefixtures("either_way")
def test_partition_without_rows_writes_nothing(spark: SparkSession, log_dir: str) -> None:
    rows = spark.range(0, 100, 1, 4).where("id between 30 and 40").selectExpr("string(id) as value")
    write(rows, log_dir)
    assert len(content(spark, log_dir)) == 11


@pytest.mark.usefixtures("either_way")
def test_rows_behind_a_shuffle_are_written_as_the_running_plan_has_them(spark: SparkSession, log_dir: str) -> None:
    rows = spark.range(1000).groupBy((F.col("id") % 10).alias("key")).count().selectExpr("string(count) as value")
    write(rows, log_dir)
    assert [row[1] for row in content(spark, log_dir)] == [b"100"] * 10


@pytest.mark.usefixtures("either_way")
def test_write_is_one_execution_in_spark_that_its_job_belongs_to(spark: SparkSession, log_dir: str) -> None:
    store = spark._jsparkSession.sharedState().statusStore()
    before = store.executionsCount()
    write(spark.range(10).selectExpr("string(id) as value"), log_dir)
    assert store.executionsCount() == before + 1
    execution = store.executionsList().last()
    assert execution.jobs().size() == 1
    assert execution.errorMessage().isEmpty() or execution.errorMessage().get() == ""


@pytest.mark.usefixtures("either_way")
def test_what_is_observed_of_the_rows_arrives(spark: SparkSession, log_dir: str) -> None:
    seen = Observation()
    rows = spark.range(100).observe(seen, F.max("id").alias("largest"))
    write(rows.selectExpr("string(id) as value"), log_dir)
    assert seen.get == {"largest": 99}


@pytest.mark.usefixtures("either_way")
def test_settings_of_the_session_reach_the_tasks(spark: SparkSession, log_dir: str) -> None:
    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        told = context.getLocalProperty(CASE_SENSITIVE)  # where Spark's own code in a task finds settings
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"value": [told] * batch.num_rows})

    with settings(spark, {CASE_SENSITIVE: "true"}):
        write(spark.range(1).mapInArrow(tell, "value string"), log_dir)
    assert [row[1] for row in content(spark, log_dir)] == [b"true"]


@pytest.mark.usefixtures("either_way")
def test_error_in_a_task_is_raised_as_sparks_error_and_nothing_is_written(spark: SparkSession, log_dir: str) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise RuntimeError("no more of them")

    rows = spark.range(10).selectExpr("string(id) as value")
    with pytest.raises(PythonException, match="no more of them"):
        write(rows.mapInArrow(fail, rows.schema), log_dir)
    assert content(spark, log_dir) == []


@pytest.mark.usefixtures("either_way")
def test_row_that_its_topic_refuses_fails_the_write_and_the_next_one_goes_on(spark: SparkSession, log_dir: str) -> None:
    wrong = spark.range(10).selectExpr("string(id) as value", "if(id = 7, 99, 0) as partition")
    with pytest.raises(InvalidRecordError, match="partition 99"):
        write(wrong, log_dir)
    write(spark.range(10).selectExpr("string(id) as value"), log_dir)
    assert len(content(spark, log_dir)) == 10


@pytest.mark.usefixtures("either_way")
def test_worker_that_was_killed_costs_an_attempt_and_no_row(spark: SparkSession, log_dir: str, tmp_path: Path) -> None:
    scene = str(tmp_path / "killed")

    def kill_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if not os.path.exists(scene):
                with open(scene, "w"):
                    os.kill(os.getpid(), signal.SIGKILL)

    rows = spark.range(1000).selectExpr("string(id) as value")
    write(rows.mapInArrow(kill_once, rows.schema), log_dir)
    assert numbers(spark, log_dir) == list(range(1000))
    assert os.path.exists(scene)


@pytest.mark.usefixtures("over_messages")
def test_stream_writes_each_micro_batch_once(spark: SparkSession, log_dir: str, tmp_path: Path) -> None:
    for start in (0, 50):
        spark.range(start, start + 50, 1, 1).selectExpr("string(id) as value").write.mode("append").json(
            str(tmp_path / "input")
        )
        stream = spark.readStream.schema("value string").json(str(tmp_path / "input"))
        writer = stream.writeStream.foreachBatch(commitlog_sink(topic="t", log_dir=log_dir))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
    assert numbers(spark, log_dir) == list(range(100))


def test_session_whose_calls_back_come_in_another_thread_hands_over_by_map_in_arrow(spark: SparkSession) -> None:
    with settings(spark, {BYTES_AT_ONCE: WAYS["messages"]}):
        assert classic.hands_over_messages(spark)
        with mock.patch.object(spark.sparkContext, "_gateway", object()):  # such as PYSPARK_PIN_THREAD=false makes
            assert not classic.hands_over_messages(spark)
