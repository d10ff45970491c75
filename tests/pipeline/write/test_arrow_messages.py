"""How rows get to the sink's tasks: as Arrow messages if they are short, or by mapInArrow."""

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
from pyspark.sql import DataFrame, Observation, SparkSession, functions as F

from pyspark_commitlog.arrow.batches import longest
from pyspark_commitlog.pipeline.rows.messages import LongRowError, short_only
from pyspark_commitlog.pipeline.write import arrow_messages
from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink
from pyspark_commitlog.storage import InvalidRecordError
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.spark.settings import settings

SCHEMA = """key binary, value string, topic string, partition int, timestamp timestamp,
            headers array<struct<key string, value binary>>"""
BEGAN = datetime(2026, 11, 25, tzinfo=UTC)
ROWS_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES_AT_ONCE = "spark.sql.execution.arrow.maxBytesPerBatch"
LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"
CASE_SENSITIVE = "spark.sql.caseSensitive"
# By how many bytes Spark may give to a task at once; without headers these are the ways there are.
WAYS = {"messages of any rows": str(2**31 - 1), "messages of short rows": "64m", "mapInArrow": "1k"}
WAYS_WITH_HEADERS = {name: WAYS[name] for name in ("messages of any rows", "mapInArrow")}
SHORT = 16 * 2**20 // 1000 - 256  # bytes of a short value beside a key, where a task is given 1,000 rows at once


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return directory_with_internal_topics(tmp_path / "log")


@contextmanager
def going(spark: SparkSession, way: str) -> Iterator[None]:
    """Checks that writes inside use ``way``, and no other."""
    with (
        settings(spark, {BYTES_AT_ONCE: WAYS[way]}),
        counted_messages() as over_messages,
    ):
        yield
    assert over_messages.called == (way != "mapInArrow")


def counted_messages() -> Any:
    return mock.patch.object(arrow_messages, "collect_over_messages", wraps=arrow_messages.collect_over_messages)


@pytest.fixture(params=WAYS)
def each_way(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    with going(spark, request.param):
        yield


@pytest.fixture
def over_messages(spark: SparkSession) -> Iterator[None]:
    with going(spark, "messages of short rows"):
        yield


def counted_map_in_arrow(rows: DataFrame) -> Any:
    kind = type(rows)
    return mock.patch.object(kind, "mapInArrow", autospec=True, side_effect=kind.mapInArrow)


def write(rows: DataFrame, log_dir: str, *, batch_id: int = 0, topic: str = "t") -> None:
    commitlog_sink(topic=topic, log_dir=log_dir, txnAppId=topic, partitions=3)(rows, batch_id)


def content(spark: SparkSession, log_dir: str, topic: str = "t") -> list[tuple[Any, ...]]:
    frame = spark.read.format("commitlog").option("subscribe", topic).option("includeHeaders", "true").load(log_dir)
    return [tuple(row) for row in frame.drop("topic").orderBy("partition", "offset").collect()]


def numbers(spark: SparkSession, log_dir: str) -> list[int]:
    return sorted(int(bytes(row[1])) for row in content(spark, log_dir))


def written_in_order(spark: SparkSession, log_dir: str, rows: DataFrame, ways: dict[str, str]) -> None:
    """Checks that all rows are there, and that each way writes the same."""
    for number, way in enumerate(ways):
        with going(spark, way):
            write(rows, log_dir, topic=f"way-{number}")
    first, *others = (content(spark, log_dir, f"way-{number}") for number in range(len(ways)))
    assert len(first) == rows.count()
    assert all(other == first for other in others)


def any_rows(random_rows: random.Random) -> list[tuple[object, ...]]:
    """Draws rows with and without each of their columns, some of them long."""

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
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.only_all) for seed in range(1, 4))])
def test_all_ways_write_the_same_records_in_the_same_order(
    spark: SparkSession, log_dir: str, seed: int, large_types: str
) -> None:
    rows = spark.createDataFrame(any_rows(random.Random(seed)), SCHEMA).coalesce(1)
    with settings(spark, {ROWS_AT_ONCE: "37", LARGE_TYPES: large_types}):
        written_in_order(spark, log_dir, rows.drop("headers"), WAYS)
        log_dir += "-headers"
        written_in_order(spark, log_dir, rows, WAYS_WITH_HEADERS)


@pytest.mark.usefixtures("each_way")
def test_partition_without_rows_writes_nothing(spark: SparkSession, log_dir: str) -> None:
    rows = spark.range(0, 100, 1, 4).where("id between 30 and 40").selectExpr("string(id) as value")
    write(rows, log_dir)
    assert len(content(spark, log_dir)) == 11


@pytest.mark.usefixtures("each_way")
def test_rows_after_a_shuffle_are_written_as_the_final_plan_has_them(spark: SparkSession, log_dir: str) -> None:
    rows = spark.range(1000).groupBy((F.col("id") % 10).alias("key")).count().selectExpr("string(count) as value")
    write(rows, log_dir)
    assert [row[1] for row in content(spark, log_dir)] == [b"100"] * 10


@pytest.mark.usefixtures("each_way")
def test_write_is_one_execution_of_spark_with_its_job(spark: SparkSession, log_dir: str) -> None:
    store = spark._jsparkSession.sharedState().statusStore()
    before = store.executionsCount()
    write(spark.range(10).selectExpr("string(id) as value"), log_dir)
    assert store.executionsCount() == before + 1
    execution = store.executionsList().last()
    assert execution.jobs().size() == 1
    assert execution.errorMessage().isEmpty() or execution.errorMessage().get() == ""


@pytest.mark.usefixtures("each_way")
def test_observed_metrics_of_the_rows_arrive(spark: SparkSession, log_dir: str) -> None:
    seen = Observation()
    rows = spark.range(100).observe(seen, F.max("id").alias("largest"))
    write(rows.selectExpr("string(id) as value"), log_dir)
    assert seen.get == {"largest": 99}


@pytest.mark.usefixtures("each_way")
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


@pytest.mark.usefixtures("each_way")
def test_error_in_a_task_is_raised_as_sparks_error_and_nothing_is_written(spark: SparkSession, log_dir: str) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise RuntimeError("no more of them")

    rows = spark.range(10).selectExpr("string(id) as value")
    with pytest.raises(PythonException, match="no more of them"):
        write(rows.mapInArrow(fail, rows.schema), log_dir)
    assert content(spark, log_dir) == []


@pytest.mark.usefixtures("each_way")
def test_refused_row_fails_the_write_and_the_next_write_succeeds(spark: SparkSession, log_dir: str) -> None:
    wrong = spark.range(10).selectExpr("string(id) as value", "if(id = 7, 99, 0) as partition")
    with pytest.raises(InvalidRecordError, match="partition 99"):
        write(wrong, log_dir)
    write(spark.range(10).selectExpr("string(id) as value"), log_dir)
    assert len(content(spark, log_dir)) == 10


@pytest.mark.usefixtures("each_way")
def test_killed_worker_costs_an_attempt_but_no_row(spark: SparkSession, log_dir: str, tmp_path: Path) -> None:
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


def test_session_with_callbacks_in_another_thread_uses_map_in_arrow(spark: SparkSession) -> None:
    schema = spark.range(1).selectExpr("string(id) as value").schema
    assert arrow_messages.limits_for(spark, schema) is not None
    with mock.patch.object(spark.sparkContext, "_gateway", object()):  # such as PYSPARK_PIN_THREAD=false makes
        assert arrow_messages.limits_for(spark, schema) is None


# Long rows


@pytest.fixture
def thousand_at_once(spark: SparkSession) -> Iterator[None]:
    with settings(spark, {ROWS_AT_ONCE: "1000", BYTES_AT_ONCE: "64m"}):
        yield


@pytest.mark.usefixtures("thousand_at_once")
@pytest.mark.parametrize(
    ("column", "length", "is_short"),
    [
        ("cast(repeat('v', {length}) as binary)", SHORT, True),
        ("cast(repeat('v', {length}) as binary)", SHORT + 1, False),
        ("repeat('v', {length})", SHORT, True),
        ("repeat('v', {length})", SHORT + 1, False),
        ("repeat('€', {length})", SHORT // 3, True),
        ("repeat('€', {length})", SHORT // 3 + 1, False),
        ("repeat('€', {length})", 2 * SHORT, False),
    ],
)
def test_longest_short_value_is_sent_as_message_and_a_longer_one_by_map_in_arrow(
    spark: SparkSession, log_dir: str, column: str, length: int, is_short: bool
) -> None:
    value = column.format(length=f"if(id = 1500, {length}, 1)")
    rows = spark.range(0, 2000, 1, 1).selectExpr("string(id) as key", f"{value} as value")
    with counted_map_in_arrow(rows) as by_map_in_arrow:
        write(rows, log_dir)
    assert by_map_in_arrow.called == (not is_short)
    written = [bytes(row[1]) for row in content(spark, log_dir)]
    assert len(written) == 2000
    assert max(map(len, written)) == length * len(("€" if "€" in column else "v").encode())


@pytest.mark.usefixtures("thousand_at_once")
def test_query_with_a_long_row_is_written_by_map_in_arrow_from_then_on(spark: SparkSession, log_dir: str) -> None:
    rows = spark.range(5000).selectExpr("string(id) as key", f"repeat('v', if(id = 4999, {SHORT + 1}, 9)) as value")
    with counted_messages() as over_messages:
        for batch_id in range(3):
            write(rows, log_dir, batch_id=batch_id)
    assert over_messages.call_count == 1
    assert sorted(int(row[0]) for row in content(spark, log_dir)) == sorted([*range(5000)] * 3)


@pytest.mark.usefixtures("thousand_at_once")
def test_long_key_of_a_row_that_names_its_topic_is_sent_by_map_in_arrow(spark: SparkSession, log_dir: str) -> None:
    rows = spark.range(10).selectExpr("repeat('k', 257) as key", "'v' as value", "'t' as topic")
    with counted_map_in_arrow(rows) as by_map_in_arrow:
        commitlog_sink(topics=["t"], log_dir=log_dir, txnAppId="t", partitions=1)(rows, 0)
    assert by_map_in_arrow.called
    assert [len(row[0]) for row in content(spark, log_dir)] == [257] * 10


@pytest.mark.usefixtures("thousand_at_once")
def test_messages_of_nothing_but_long_rows_stay_small(spark: SparkSession) -> None:
    rows = spark.range(0, 1000, 1, 1).selectExpr("repeat('k', 10000) as key", "repeat('v', 100000) as value")
    limits = arrow_messages.limits_for(spark, rows.schema)
    assert limits is not None
    made = [
        bytes(message) for message in arrow_messages._cut(rows, limits)._jdf.toArrowBatchRdd().toJavaRDD().collect()
    ]
    assert len(made) == 1
    assert len(made[0]) < arrow_messages.MESSAGE_BYTES_MAX + 2**16


@pytest.mark.parametrize(
    ("columns", "bytes_max", "rows_max", "expected"),
    [
        (["value"], "64m", "1000", {"value": 16777}),
        (["key", "value"], "64m", "1000", {"key": 256, "value": 16521}),
        (["key", "value", "topic"], "64m", "1000", {"key": 256, "topic": 256, "value": 16265}),
        (["key", "value"], "1m", "1000", {"key": 256, "value": 792}),
        (["key", "value"], "1m", "2048", {"key": 256, "value": 256}),
        (["key", "value"], "1m", "2049", None),  # not even short ones
        (["key", "value"], "64m", "0", None),  # 0: as many as there are
        (["value", "headers"], "64m", "1000", None),
        (["value", "headers"], "2147483647", "1000", {}),
        (["value"], "2147483647", "0", {}),
    ],
)
def test_bytes_of_a_message_are_divided_among_rows_and_columns(
    spark: SparkSession, columns: list[str], bytes_max: str, rows_max: str, expected: dict[str, int] | None
) -> None:
    schema = spark.createDataFrame([], SCHEMA).select(*columns, "partition", "timestamp").schema
    with settings(spark, {BYTES_AT_ONCE: bytes_max, ROWS_AT_ONCE: rows_max}):
        assert arrow_messages.limits_for(spark, schema) == expected


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
@pytest.mark.parametrize("seed", range(20))
def test_longest_string_of_a_column_is_found(kind: pa.DataType, seed: int) -> None:
    rows = random.Random(seed)
    strings = [rows.choice([None, "", "ö" * rows.randrange(100)]) for _ in range(rows.randrange(20))]
    first, behind = sorted(rows.randrange(len(strings) + 1) for _ in range(2))
    sliced = pa.array(strings, pa.string()).cast(kind)[first:behind]
    assert longest(sliced) == max([len((each or "").encode()) for each in strings[first:behind]], default=0)


def test_batches_before_the_one_with_a_long_row_are_yielded() -> None:
    batches = [
        pa.RecordBatch.from_pydict({"key": [key], "value": [value]}) for key, value in [("k" * 9, "v"), ("", "vv")]
    ]
    given = short_only(batches, {"value": 1})
    assert next(given) == batches[0]
    with pytest.raises(LongRowError, match="'value' has more than 1 bytes"):
        next(given)
