"""Serdes in Spark: a column of bytes as a column of structs, and back."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import BinaryType

from pyspark_commitlog.pipeline.serdes import Serde


def decoded(values: Column, serde: Serde) -> Column:
    """The structs in ``values``: ``frame.select(decoded(frame.value, serde).alias("flight")).select("flight.*")``.

    A value that does not decode fails the query with SerializationError, or is null (mode ``permissive``).
    """
    spark_type = from_arrow_type(serde.type, prefer_timestamp_ntz=True)
    arrow_type = to_arrow_type(spark_type, timezone="UTC")

    def decode(column: pa.Array) -> pa.Array:
        return serde.decode(column).cast(arrow_type)

    return cast(Column, arrow_udf(decode, spark_type)(values))  # type: ignore[call-overload]  # it takes structs, too


def encoded(rows: Column, serde: Serde) -> Column:
    """The bytes of the structs in ``rows``: ``frame.select(encoded(F.struct("*"), serde).alias("value"))``."""

    def encode(column: pa.Array) -> pa.Array:
        return serde.encode(column)

    return cast(Column, arrow_udf(encode, BinaryType())(rows))  # type: ignore[call-overload]
