"""The columns: those of Spark's Kafka source to read, those of its Kafka sink (and a timestamp) to write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_commitlog.storage import InvalidConfigError

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_ARROW_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

# Name, Spark's type, Arrow's type: the order and the types are those of Spark's Kafka source (spark-sql-kafka-0-10).
_READ: dict[str, tuple[DataType, pa.DataType]] = {
    "key": (BinaryType(), pa.binary()),
    "value": (BinaryType(), pa.binary()),
    "topic": (StringType(), pa.string()),
    "partition": (IntegerType(), pa.int32()),
    "offset": (LongType(), pa.int64()),
    "timestamp": (TimestampType(), pa.timestamp("us", tz="UTC")),
    "timestampType": (IntegerType(), pa.int32()),
    "headers": (HEADERS_TYPE, pa.list_(pa.field("element", _ARROW_HEADER))),
}

# What a row to be written may have. Only ``value`` must be there; text becomes its UTF-8 bytes.
_WRITE: dict[str, tuple[DataType, ...]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "timestamp": (TimestampType(),),
    "partition": (IntegerType(),),
    "headers": (HEADERS_TYPE,),
}


def read_schema(include_headers: bool) -> StructType:
    """The columns a read gives; ``headers`` only when asked for."""
    names = [name for name in _READ if name != "headers" or include_headers]
    return StructType([StructField(name, _READ[name][0]) for name in names])


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema Spark expects for ``schema``, whose columns must be some of :func:`read_schema`.

    Raises InvalidConfigError for a column the source does not have, or another type than it has.
    """
    for field in schema.fields:
        if field.name not in _READ:
            raise InvalidConfigError(
                f"the commitlog source has no column {field.name!r}{nearest(field.name, _READ)}; "
                f"it has {', '.join(_READ)}"
            )
        expected = _READ[field.name][0]
        if _plain(field.dataType) != _plain(expected):
            raise InvalidConfigError(
                f"column {field.name!r} of the commitlog source is {expected.simpleString()}, "
                f"not {field.dataType.simpleString()}: cast it after reading"
            )
    return pa.schema([pa.field(field.name, _READ[field.name][1]) for field in schema.fields])


@dataclass(frozen=True)
class WriteColumns:
    """The columns of a DataFrame that go into records, checked."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, frame: DataFrame, topic: str) -> WriteColumns:
        """Raises InvalidConfigError where ``value`` is missing or a column has a type that no record field takes."""
        types = {field.name: field.dataType for field in frame.schema.fields}
        if "value" not in types:
            raise InvalidConfigError(
                f"topic {topic}: the rows to write have no column 'value'{nearest('value', types)}; "
                f"they have {', '.join(types) or 'no columns'}"
            )
        for name, accepted in _WRITE.items():
            if name in types and _plain(types[name]) not in [_plain(kind) for kind in accepted]:
                wanted = " or ".join(kind.simpleString() for kind in accepted)
                raise InvalidConfigError(
                    f"topic {topic}: column {name!r} must be {wanted}, not {types[name].simpleString()}"
                )
        return cls(tuple(name for name in _WRITE if name in types))

    def select(self, frame: DataFrame) -> DataFrame:
        """``frame`` with these columns only, keys and values as bytes."""
        return frame.select([self._column(name) for name in self.names])

    @staticmethod
    def _column(name: str) -> Column:
        column = F.col(f"`{name}`")
        return column.cast("binary").alias(name) if name in ("key", "value") else column


def nearest(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)``, or nothing where no name of ``known`` is like ``name``."""
    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), by_lower, n=1)
    return f" (did you mean {by_lower[found[0]]!r}?)" if found else ""


def _plain(kind: DataType) -> str:
    """The type without nullability, which no record field cares about."""
    return kind.simpleString()
