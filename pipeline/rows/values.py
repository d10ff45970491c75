"""Applies serdes to Spark's columns: bytes to structs, and back."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import BinaryType

from ...arrow.values.serde import Mode, Serde, SerializationError


def decoded(values: Column, serde: Serde) -> Column:
    """Returns a column of structs: ``frame.select(decoded(frame.value, serde).alias("flight")).select("flight.*")``.

    If a value does not decode, or has a time that does not fit Spark's microseconds, the query fails with
    SerializationError; with mode ``permissive``, the struct is null.
    """
    spark_type = from_arrow_type(serde.type, prefer_timestamp_ntz=True)
    arrow_type = to_arrow_type(spark_type, timezone="UTC")

    def decode(column: pa.Array) -> pa.Array:
        return as_spark(serde.decode(column), arrow_type, serde.mode)

    return cast(Column, arrow_udf(decode, spark_type)(values))  # type: ignore[call-overload]  # it takes structs, too


def encoded(rows: Column, serde: Serde) -> Column:
    """Returns a column of bytes: ``frame.select(encoded(F.struct("*"), serde).alias("value"))``."""

    def encode(column: pa.Array) -> pa.Array:
        return serde.encode(column)

    return cast(Column, arrow_udf(encode, BinaryType())(rows))  # type: ignore[call-overload]


def as_spark(rows: pa.Array, kind: pa.DataType, mode: Mode) -> pa.Array:
    """Returns decoded ``rows`` as ``kind``, a type of Spark's. Raises SerializationError with mode ``failfast``."""
    try:
        return rows.cast(kind)
    except pa.ArrowInvalid:
        return _row_by_row(rows, kind, mode)


def _row_by_row(rows: pa.Array, kind: pa.DataType, mode: Mode) -> pa.Array:
    """Returns ``rows`` cast to ``kind``. For a row that does not fit: null, or with failfast SerializationError."""
    found = []
    for row in range(len(rows)):
        try:
            found.append(rows[row : row + 1].cast(kind))
        except pa.ArrowInvalid as error:
            if mode == "failfast":
                message = f"row {row} does not fit Spark's types: {error}; mode='permissive' reads it as null"
                raise SerializationError(message) from None
            found.append(pa.nulls(1, kind))
    return pa.concat_arrays(found)
