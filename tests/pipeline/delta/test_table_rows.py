"""A table whose values get another schema: new fields are added, all other changes are refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession, functions as F

from pyspark_commitlog.arrow.values.serde import JsonSerde
from pyspark_commitlog.pipeline.delta.table_rows import in_table
from pyspark_commitlog.pipeline.delta.tables import changes_to_records, table_sink
from pyspark_commitlog.storage import InvalidConfigError
from tests.pipeline.delta.table_topics import Topic, rows
from tests.support.logs.directories import directory_with_internal_topics

POINT = [pa.field("x", pa.int32())]


@pytest.fixture
def topic(spark: SparkSession, tmp_path: Path) -> Topic:
    return Topic(spark, directory_with_internal_topics(tmp_path / "log"), partitions=1)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def json_of(*fields: pa.Field) -> JsonSerde:
    return JsonSerde(pa.schema(list(fields)))


@pytest.mark.parametrize("merges", [pytest.param("true", marks=pytest.mark.only_all), "false"])
@pytest.mark.parametrize("mode", ["append", pytest.param("upsert", marks=pytest.mark.matrix)])
def test_new_fields_are_added_and_are_null_in_existing_rows(topic: Topic, path: str, mode: str, merges: str) -> None:
    """Fields are added with either setting for merging schemas, also among old fields, and in structs and lists."""
    point, named = pa.struct(POINT), pa.struct([pa.field("name", pa.string()), *POINT])
    old = json_of(pa.field("v", pa.string()), pa.field("at", point), pa.field("way", pa.list_(point)))
    new = json_of(pa.field("w", pa.string()), *[pa.field("at", named), pa.field("way", pa.list_(named))],
                  pa.field("v", pa.string()))  # fmt: skip
    spark = topic.spark
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", merges)
    try:
        topic.append([(b"a", b'{"v":"1","at":{"x":1},"way":[{"x":2}]}'), (b"b", b'{"v":"1"}')])
        table_sink(path=path, mode=mode, serde=old, txnAppId="export")(topic.next_batch(), 0)
        later = b'{"v":"2","w":"x","at":{"x":3,"name":"n"},"way":[{"x":4,"name":"m"}]}'
        topic.append([(b"b", later), (b"c", later)])
        table_sink(path=path, mode=mode, serde=new, txnAppId="export")(topic.next_batch(), 1)
    finally:
        spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    found = [tuple(row) for row in rows(spark, path, "_offset", "v", "w", "at.x", "at.name", "way.x", "way.name")]
    before = [(0, "1", None, 1, None, [2], [None])]
    before += [(1, "1", None, None, None, None, None)] if mode == "append" else []
    assert found == [*before, *[(offset, "2", "x", 3, "n", [4], ["m"]) for offset in (2, 3)]]


@pytest.mark.parametrize("mode", ["append", pytest.param("upsert", marks=pytest.mark.matrix)])
def test_field_that_is_dropped_or_has_another_type_is_refused_and_nothing_changes(
    topic: Topic, path: str, mode: str
) -> None:
    topic.append([(b"a", b'{"v":"1"}')])
    table_sink(path=path, mode=mode, serde=json_of(pa.field("v", pa.string())), txnAppId="export")(topic.read(), 0)
    for field, told in (
        (pa.field("w", pa.string()), "has the columns v, which the schema of"),
        (pa.field("v", pa.int64()), "column v is string, but in the values it is bigint"),
        (pa.field("v", pa.list_(pa.string())), "column v is string, but .* array<string>"),
    ):
        with pytest.raises(InvalidConfigError, match=told):
            table_sink(path=path, mode=mode, serde=json_of(field), txnAppId="export")(topic.read(), 1)
    assert [tuple(row) for row in rows(topic.spark, path, "_offset", "v")] == [(0, "1")]


def test_change_inside_a_column_is_named(spark: SparkSession, path: str) -> None:
    spark.sql("SELECT named_struct('x', 1, 'y', array(named_struct('z', 1))) AS at").write.format("delta").save(path)
    for changed, told in (
        ("named_struct('y', array(named_struct('z', 1)))", "has the columns x in at"),
        ("named_struct('x', 1, 'y', array(named_struct('z', 'a')))", "column at.y.element.z is int, .* string"),
    ):
        with pytest.raises(InvalidConfigError, match=told):
            in_table(spark, path, spark.sql(f"SELECT {changed} AS at"))


@pytest.mark.only_all
def test_changes_of_a_table_that_got_a_field_go_back_into_a_topic(topic: Topic, path: str) -> None:
    old, w = pa.field("v", pa.string()), pa.field("w", pa.string())
    for number, serde in enumerate((json_of(old), json_of(old, w))):
        topic.append([(b"%d" % number, b'{"v":"%d","w":"x"}' % number)])
        table_sink(path=path, serde=serde, txnAppId="export")(topic.next_batch(), number)
    changes = topic.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)
    records = changes_to_records(changes, serde=json_of(old, w))
    found = records.select(F.col("value").cast("string")).orderBy("value").collect()
    assert [row.value for row in found] == ['{"v":"0","w":null}', '{"v":"1","w":"x"}']
