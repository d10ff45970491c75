"""Serdes over Spark's columns: structs to values and back, and values that do not fit Spark's types."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F

from pyspark_commitlog.arrow.values.avro.serde import AvroSerde, SingleObject
from pyspark_commitlog.arrow.values.serde import JsonSerde
from pyspark_commitlog.pipeline.rows.values import decoded, encoded


def as_avro(at: int) -> bytes:
    buffer = io.BytesIO()
    schema = {"type": "record", "name": "R", "fields": [{"name": "at", "type": "long"}]}
    fastavro.schemaless_writer(buffer, schema, {"at": at})
    return buffer.getvalue()


def test_columns_survive_the_way_to_values_and_back(spark: SparkSession) -> None:
    rows = spark.sql("select id as number, timestamp_seconds(id) as at, 'UA' as carrier from range(5)")
    schema = pa.schema([("number", pa.int64()), ("at", pa.timestamp("ms", tz="UTC")), ("carrier", pa.string())])
    avro_schema = {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "number", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "carrier", "type": ["null", "string"]},
        ],
    }
    for serde in JsonSerde(schema), AvroSerde(avro_schema, SingleObject()):
        values = rows.select(encoded(F.struct("*"), serde).alias("value"))
        back = values.select(decoded(F.col("value"), serde).alias("row")).select("row.*")
        assert [field.dataType for field in back.schema] == [field.dataType for field in rows.schema]
        assert sorted(back.collect()) == sorted(rows.collect())


def test_time_beyond_sparks_range_fails_the_query_or_makes_its_row_null(spark: SparkSession) -> None:
    """In Arrow it is exact: the unit is milliseconds there, microseconds in Spark."""
    kind = {"type": "long", "logicalType": "timestamp-millis"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "at", "type": kind}]}
    times = [0, 2**63 - 1, 1]
    values = [b"\xc3\x01" + SingleObject().id_of(json.dumps(schema)) + as_avro(at) for at in times]
    frame = spark.createDataFrame([(value,) for value in values], "value binary").coalesce(1)
    with pytest.raises(PySparkException, match=r"SerializationError: row \d does not fit"):
        frame.select(decoded(F.col("value"), AvroSerde(schema, SingleObject()))).collect()
    lenient = AvroSerde(schema, SingleObject(), "permissive")
    rows = frame.select(decoded(F.col("value"), lenient).alias("row")).selectExpr("unix_micros(row.at) as at").collect()
    assert [row["at"] for row in rows] == [0, None, 1000]


def test_bad_value_fails_the_query_with_its_row(spark: SparkSession) -> None:
    values = spark.sql("select cast('oops' as binary) as value")
    with pytest.raises(PySparkException, match=r"SerializationError: row 0 .*6f 6f 70 73"):
        values.select(decoded(F.col("value"), JsonSerde(pa.schema([("a", pa.int32())])))).collect()
