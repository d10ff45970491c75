from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructType

from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def log(spark: SparkSession, log_dir: str) -> str:
    """Topics ``a`` (two partitions: 100 rows in 0, 50 in 1) and ``b`` (one: 7 rows)."""
    rows = spark.range(150).select(
        F.concat(F.lit("k"), "id").alias("key"),
        F.col("id").cast("string").alias("value"),
        F.when(F.col("id") < 100, 0).otherwise(1).cast("int").alias("partition"),
        F.lit(NOON).alias("timestamp"),
    )
    commitlog_sink(topic="a", log_dir=log_dir, txnAppId="a", partitions=2)(rows.coalesce(1), 0)
    commitlog_sink(topic="b", log_dir=log_dir, txnAppId="b")(rows.limit(7), 0)
    return log_dir


def read(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("commitlog").options(**options).load(path)


def counts(frame: DataFrame) -> dict[tuple[str, int], int]:
    found = frame.groupBy("topic", "partition").count().collect()
    return {(row["topic"], row["partition"]): row["count"] for row in found}


def test_columns_are_those_of_sparks_kafka_source(spark: SparkSession, log: str) -> None:
    kafkas = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    assert read(spark, log, subscribe="a").schema == StructType.fromDDL(kafkas)
    with_headers = read(spark, log, subscribe="a", includeHeaders="true").schema
    assert with_headers == StructType.fromDDL(kafkas + ", headers array<struct<key: string, value: binary>>")


def test_rows_are_read_as_they_were_written(spark: SparkSession, log: str) -> None:
    row = read(spark, log, subscribe="a").where("offset = 42 and partition = 0").head()
    assert row is not None
    assert (bytes(row.key), bytes(row.value), row.topic) == (b"k42", b"42", "a")
    assert (row.timestamp.astimezone(UTC), row.timestampType) == (NOON, 0)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        pytest.param({"subscribe": "a,b"}, {("a", 0): 100, ("a", 1): 50, ("b", 0): 7}, id="two topics"),
        pytest.param({"assign": '{"a": [1]}'}, {("a", 1): 50}, id="one partition"),
        pytest.param({"subscribePattern": "[b-z]"}, {("b", 0): 7}, id="a pattern, without internal topics"),
        pytest.param(
            {"subscribe": "a", "startingOffsets": '{"a": {"0": 90, "1": -2}}'}, {("a", 0): 10, ("a", 1): 50}, id="start"
        ),
        pytest.param(
            {"subscribe": "a", "endingOffsets": '{"a": {"0": 30, "1": -1}}'}, {("a", 0): 30, ("a", 1): 50}, id="end"
        ),
        pytest.param(
            {
                "subscribe": "a",
                "startingOffsets": '{"a": {"0": 10, "1": 50}}',
                "endingOffsets": '{"a": {"0": 10, "1": 50}}',
            },
            {},
            id="nothing",
        ),
    ],
)
def test_options_say_what_is_read(
    spark: SparkSession, log: str, options: dict[str, str], found: dict[tuple[str, int], int]
) -> None:
    assert counts(read(spark, log, **options)) == found


def test_a_read_may_begin_and_end_inside_a_record_batch(spark: SparkSession, log: str) -> None:
    starts, ends = json.dumps({"a": {"0": 17, "1": 50}}), json.dumps({"a": {"0": 23, "1": 50}})
    frame = read(spark, log, subscribe="a", startingOffsets=starts, endingOffsets=ends)
    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(17, 23))


def test_schema_of_the_reader_may_omit_columns(spark: SparkSession, log: str) -> None:
    frame = spark.read.schema("offset long, value binary").format("commitlog").option("subscribe", "b").load(log)
    assert frame.columns == ["offset", "value"]
    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(7))


NOT_NULL = """key binary, value binary not null, topic string not null, partition int not null, offset bigint not null,
              timestamp timestamp not null, timestampType int not null"""


def test_schema_of_the_reader_may_say_which_columns_are_never_null(spark: SparkSession, log: str) -> None:
    frame = spark.read.schema(NOT_NULL).format("commitlog").option("subscribe", "a").load(log)
    assert [field.nullable for field in frame.schema] == [True, *[False] * 6]
    assert_df_equality(frame, read(spark, log, subscribe="a"), ignore_row_order=True, ignore_nullable=True)


def test_null_in_a_column_that_the_schema_calls_not_null_is_an_error_that_says_where(
    spark: SparkSession, log_dir: str
) -> None:
    rows = spark.sql("select * from values ('k', 'v'), ('k', null) as rows(key, value)")
    commitlog_sink(topic="n", log_dir=log_dir, txnAppId="n", partitions=1)(rows, 0)
    frame = spark.read.schema(NOT_NULL).format("commitlog").option("subscribe", "n").load(log_dir)
    with pytest.raises(PySparkException, match=r"offsets 0 to 1 of n-0: column 'value' is null in 1 of 2 records"):
        frame.collect()


def test_headers_are_read_and_are_null_if_there_are_none(spark: SparkSession, log_dir: str) -> None:
    rows = spark.sql(
        """select 'a' as value, array(struct('trace' as key, cast('1' as binary) as value),
                                      struct('' as key, cast(null as binary) as value)) as headers
           union all select 'b', null union all select 'c', array()"""
    )
    commitlog_sink(topic="h", log_dir=log_dir, txnAppId="h")(rows, 0)
    back = read(spark, log_dir, subscribe="h", includeHeaders="true")
    expected = rows.select(
        F.col("value").cast("binary").alias("value"), F.when(F.size("headers") > 0, F.col("headers")).alias("headers")
    )
    assert_df_equality(back.select("value", "headers"), expected, ignore_row_order=True, ignore_nullable=True)


def test_null_and_empty_keys_and_values_are_told_apart(spark: SparkSession, log_dir: str) -> None:
    rows = spark.sql("select * from values ('k', null), (null, 'v'), ('', '') as rows(key, value)")
    commitlog_sink(topic="n", log_dir=log_dir, txnAppId="n")(rows, 0)
    back = read(spark, log_dir, subscribe="n").selectExpr("cast(key as string) key", "cast(value as string) value")
    assert_df_equality(back, rows, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"subscribe": "aa"}, "no topic 'aa'.*did you mean 'a'", id="unknown topic"),
        pytest.param({"subscribe": "a", "startingOfsets": "earliest"}, "did you mean 'startingOffsets'", id="option"),
        pytest.param(
            {"subscribe": "b", "startingOffsets": '{"b": {"0": 9}}'},
            "offset 9 of b-0 is outside the log, which begins at 0 and ends before 8",  # behind a transaction marker
            id="offset",
        ),
    ],
)
def test_bad_read_names_what_is_wrong(spark: SparkSession, log: str, options: dict[str, str], told: str) -> None:
    with pytest.raises(PySparkException, match=told):
        read(spark, log, **options).collect()


def test_path_that_is_not_a_log_directory_is_refused_by_name(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("notes")
    (path / "notes.txt").write_text("no log")
    with pytest.raises(PySparkException, match=f"NotALogDirError: {path}"):
        read(spark, str(path), subscribe="a").collect()


def test_column_the_source_does_not_have_is_refused(spark: SparkSession, log: str) -> None:
    with pytest.raises(PySparkException, match=r"no column 'vlaue'.*did you mean 'value'"):
        spark.read.schema("vlaue binary").format("commitlog").option("subscribe", "b").load(log).collect()


@pytest.mark.parametrize("options", ["", "OPTIONS (path '{log}', subscribe 't')", "LOCATION '{log}'"])
def test_a_table_of_the_catalog_is_refused_with_the_view_to_create_instead(
    spark: SparkSession, log_dir: str, options: str
) -> None:
    with pytest.raises(PySparkException, match=r"a topic is no table of Spark's catalog.*CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE t USING commitlog {options}".format(log=log_dir))
