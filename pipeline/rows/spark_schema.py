"""Spark's schemas: to read, that of Spark's Kafka source; to write, that of its Kafka sink, and a timestamp."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
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

from ...arrow.columns import check_known, read_names, schema_of
from ...storage import InvalidConfigError, did_you_mean

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

# The same as arrow.columns.READ_TYPES, in Spark's types.
_READ: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS_TYPE,
}

# The columns that a row to be written may have. Only ``value`` is required; text is written as UTF-8.
_WRITE: dict[str, tuple[DataType, ...]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "timestamp": (TimestampType(),),
    "partition": (IntegerType(),),
    "headers": (HEADERS_TYPE,),
    "topic": (StringType(),),
}


def read_schema(include_headers: bool) -> StructType:
    """Returns the schema of a read that selects no columns."""
    return schema_with(read_names(include_headers))


def schema_with(names: Iterable[str]) -> StructType:
    """Returns the schema of some columns, in the given order. Raises the errors of :func:`schema_of`."""
    return StructType([StructField(name, _READ[name]) for name in schema_of(names).names])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema that Spark expects for ``schema``: some of the data source's columns, NOT NULL or not.

    Raises InvalidConfigError for a column that the data source does not have, or has with another type.
    """
    for field in schema.fields:
        check_known(field.name)
        expected = _READ[field.name]
        if _plain(field.dataType) != _plain(expected):
            raise InvalidConfigError(
                f"column {field.name!r} of the commitlog source is {expected.simpleString()}, "
                f"not {field.dataType.simpleString()}: cast it after reading"
            )
    return nullable_as(schema, schema_of(field.name for field in schema.fields))


def nullable_as(schema: StructType, columns: pa.Schema) -> pa.Schema:
    """Returns ``columns``, each NOT NULL if the column of ``schema`` at the same position is."""
    return pa.schema([each.with_nullable(field.nullable) for each, field in zip(columns, schema.fields, strict=True)])


@dataclass(frozen=True)
class WriteColumns:
    """The names of a DataFrame's columns that are written to records."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, schema: StructType, target: str, *, by_topic: bool = False) -> WriteColumns:
        """Returns the columns of ``schema`` to write; ``target`` names the destination in errors.

        With ``by_topic``, the column ``topic`` is required and names each row's topic; otherwise it is ignored. Raises
        InvalidConfigError if ``value`` is missing, or a column has a type that cannot be written.
        """
        types = {field.name: field.dataType for field in schema.fields}
        for name in ["value", *["topic"] * by_topic]:
            if name not in types:
                raise InvalidConfigError(
                    f"{target}: the rows to write have no column {name!r}{did_you_mean(name, types)}; "
                    f"they have {', '.join(types) or 'no columns'}"
                )
        wanted = [name for name in _WRITE if name in types and (by_topic or name != "topic")]
        for name in wanted:
            if _plain(types[name]) not in [_plain(kind) for kind in _WRITE[name]]:
                accepted = " or ".join(kind.simpleString() for kind in _WRITE[name])
                raise InvalidConfigError(
                    f"{target}: column {name!r} must be {accepted}, not {types[name].simpleString()}"
                )
        return cls(tuple(wanted))

    def select(self, frame: DataFrame) -> DataFrame:
        """Returns ``frame`` with only these columns; the same object if it has no others, as a new plan takes 5 ms."""
        return frame if len(frame.schema) == len(self.names) else frame.select(*self.names)


def _plain(kind: DataType) -> str:
    """Returns the type as text without nullability, to compare types by."""
    return kind.simpleString()
