"""JSON compared with Spark's from_json: the same values from 1,500 texts, except those listed here."""

from __future__ import annotations

import math
import random
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession, functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_commitlog.arrow.values.json.values import ValueParser
from pyspark_commitlog.arrow.values.serde import JsonSerde, SerializationError
from pyspark_commitlog.arrow.values.spark_times import zone_of
from tests.support.json_corpus import SCHEMA, every

TEXTS = every()
ZONES = ("UTC", "Europe/Paris", "America/New_York")
REFUSED = None  # a row that is null with mode permissive

# What docs/values.md lists: refused here, and taken by Spark.
STRICTER = {
    "text after the object": (
        '{"i":1}}',
        '{"i":1}]',
        '{"i":1}{"i":2}',
        '{"i":1} {"i":2}',
        '{"i":1} x',
        '{"i":1},',
        '{"i":1}\0',
    ),
    "no text at all, which is null for Spark": ("", " "),
    "128 to 255 in a byte, which Spark reads as -128 to -1": ('{"i8":128}',),
    "a time of day, which is today's for Spark": ('{"at":"10:30"}', '{"at":"T10:30:00Z"}'),
    "seconds that wrap around": ('{"at":9223372036855}',),
    "days since 1970 as text": ('{"day":"1"}', "{\"day\":'1'}", '{"day":"20260101"}', '{"day":"1767225600"}'),
}
# What differs by Java's version: until 18 Double.toString did not always give the shortest digits.
BY_JAVA = ('{"s":1e23}',)


@pytest.fixture(scope="module")
def schema(spark: SparkSession) -> pa.Schema:
    return to_arrow_schema(cast(StructType, StructType.fromDDL(SCHEMA)), timezone="UTC")


@pytest.fixture(scope="module")
def sparks(spark: SparkSession) -> dict[str, list[Any]]:
    """The rows that Spark reads in each zone, from one job; REFUSED for those that fail a query with FAILFAST."""
    values = spark.createDataFrame([(n, bytearray(text.encode())) for n, text in enumerate(TEXTS)], "n int, v binary")
    read = [read_in(zone).alias(zone) for zone in ZONES]
    found = values.coalesce(1).select("n", *read).toArrow().sort_by("n")
    return {zone: [without_bad(row) for row in plain(found[zone].combine_chunks())] for zone in ZONES}


def read_in(zone: str) -> Column:
    options = {"columnNameOfCorruptRecord": "bad", "timeZone": zone}
    return F.from_json(F.col("v").cast("string"), f"{SCHEMA}, bad string", options)


def without_bad(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None or row.pop("bad") is not None else row


def plain(array: pa.Array) -> list[Any]:
    """Converts values so that they compare: times to numbers, since Python's range is too small, NaN to text."""
    kind, valid = array.type, array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        columns = {field.name: plain(array.field(index)) for index, field in enumerate(kind)}
        return [{name: column[row] for name, column in columns.items()} if ok else None for row, ok in enumerate(valid)]
    if pa.types.is_list(kind):
        items, offsets = plain(array.values), array.offsets.to_pylist()
        return [items[offsets[row] : offsets[row + 1]] if ok else None for row, ok in enumerate(valid)]
    if pa.types.is_temporal(kind):
        return cast("list[Any]", array.cast(pa.int32() if pa.types.is_date(kind) else pa.int64()).to_pylist())
    return ["NaN" if isinstance(each, float) and math.isnan(each) else each for each in array.to_pylist()]


@pytest.mark.parametrize("zone", ZONES)
def test_value_is_read_as_spark_reads_it_or_is_listed(
    sparks: dict[str, list[Any]], schema: pa.Schema, zone: str
) -> None:
    rows = plain(JsonSerde(schema, "permissive", timezone=zone).decode(pa.array([text.encode() for text in TEXTS])))
    listed = {text for texts in STRICTER.values() for text in texts}
    differ = {text for text, ours, right in zip(TEXTS, rows, sparks[zone], strict=True) if ours != right}
    assert differ - set(BY_JAVA) == {text for text in listed if sparks[zone][TEXTS.index(text)] is not REFUSED}
    assert [rows[TEXTS.index(text)] for text in listed] == [REFUSED] * len(listed)


def test_rejected_value_fails_a_read_with_its_row_and_a_reason(sparks: dict[str, list[Any]], schema: pa.Schema) -> None:
    serde, good = JsonSerde(schema), b'{"i":1}'
    for text, row in zip(TEXTS, sparks["UTC"], strict=True):
        if row is REFUSED:
            with pytest.raises(
                SerializationError, match=r"^row 1 is not the JSON that was expected: .*mode='permissive'"
            ):
                serde.decode(pa.array([good, text.encode(), good]))


def test_value_is_read_the_same_alone_among_others_and_by_either_reader(schema: pa.Schema) -> None:
    """Columns at once and values one by one are two ways to read the same."""
    serde = JsonSerde(schema, "permissive", timezone="Europe/Paris")
    values = [text.encode() for text in TEXTS]
    alone = [plain(serde.decode(pa.array([value])))[0] for value in values]
    reader, by_one = ValueParser(serde.type, zone_of("Europe/Paris")), list[Any]()
    for value in values:
        try:
            by_one += plain(pa.array([reader.read(value)], serde.type))
        except ValueError:
            by_one.append(REFUSED)
    assert [text for text, a, b in zip(TEXTS, alone, by_one, strict=True) if a != b] == []
    chance = random.Random(1)
    for count in (10, 300, 1000):
        chosen = chance.choices(range(len(values)), k=count)
        assert plain(serde.decode(pa.array([values[each] for each in chosen]))) == [alone[each] for each in chosen]


def test_number_in_a_column_of_text_has_javas_digits(spark: SparkSession) -> None:
    chance = random.Random(2)
    numbers = [repr(round(chance.uniform(-1e4, 1e4), chance.randint(0, 6))) for _ in range(500)]
    numbers += [repr(chance.choice([-1, 1]) * 10 ** chance.uniform(-320, 308)) for _ in range(500)]
    frame = spark.createDataFrame(
        [(n, f'{{"s":{each}}}') for n, each in enumerate(numbers)], "n int, v string"
    ).coalesce(1)
    right = [
        row.s for row in frame.select("n", F.from_json("v", "s string").alias("r")).orderBy("n").select("r.s").collect()
    ]
    values = pa.array([f'{{"s":{each}}}'.encode() for each in numbers])
    ours = [row["s"] for row in JsonSerde(pa.schema([("s", pa.string())])).decode(values).to_pylist()]
    assert [float(each) for each in ours] == [float(each) for each in right] == [float(each) for each in numbers]
    # Until Java 18 a few have a digit more than they need.
    assert sum(a != b for a, b in zip(ours, right, strict=True)) <= 10
    assert all(len(a) <= len(b) for a, b in zip(ours, right, strict=True))
