"""Spark's own Arrow schema for a schema of rows, whose function has other parameters in Spark 4.1 and in 4.2."""

from __future__ import annotations

from functools import partial
from inspect import signature

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

_NAMES_ZONE = "timezone" in signature(to_arrow_schema).parameters


def as_arrow(schema: StructType, *, timezone: str | None = "UTC", large: bool = False) -> pa.Schema:
    """Returns the Arrow schema of a schema, with 64-bit lengths of strings if ``large``.

    Times are of zone ``timezone``; of UTC in Spark 4.1, which changes no value: all are instants in microseconds.
    """
    convert = partial(to_arrow_schema, timezone=timezone) if _NAMES_ZONE else to_arrow_schema
    return convert(schema, prefers_large_types=large)
