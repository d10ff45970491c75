"""What Spark says of a stream's next micro-batch: its beginning and how much it may have. Only Spark 4.2 and newer do.

Spark 4.1 asks a reader for all that there is, and before it has said where the query stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ...storage import InvalidConfigError
from ..rows.offsets import AtEnd
from .options import ReadOptions
from .rate_limits import TriggerLimits

__all__ = [
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "check_served",
    "with_limit",
]

IS_THERE = find_spec("pyspark.sql.streaming.datasource") is not None

if TYPE_CHECKING or IS_THERE:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """Stands for Spark's class, as the others do, of which Spark 4.1 makes no objects."""

    class ReadAllAvailable(ReadLimit): ...

    @dataclass
    class ReadMaxBytes(ReadLimit):
        max_bytes: int

    @dataclass
    class ReadMaxRows(ReadLimit):
        max_rows: int

    @dataclass
    class ReadMinRows(ReadLimit):
        min_rows: int

    class SupportsTriggerAvailableNow:
        """Spark 4.1 gives a query with AvailableNow what its first look finds, and asks no more."""


def check_served(options: ReadOptions, *, is_there: bool = IS_THERE) -> None:
    """Raises InvalidConfigError for options of a stream that need what Spark 4.1 does not say."""
    needing = next(_needing(options), None)
    if needing is not None and not is_there:
        raise InvalidConfigError(
            f"option {needing} needs Spark 4.2 or newer here: older ones do not tell a data source in Python where a "
            "micro-batch begins. Update Spark, or see which options a stream has without it in docs/install.md"
        )


def _needing(options: ReadOptions) -> Iterator[str]:
    limits, starting = options.limits, options.starting
    if limits.max_offsets is not None:
        yield "maxOffsetsPerTrigger"
    if limits.max_bytes is not None:
        yield "maxBytesPerTrigger"
    if limits.min_offsets is not None:
        yield "minOffsetsPerTrigger"
    # A first micro-batch would end at the log's end, not at these offsets, and what is between them would be skipped.
    if starting.drifts and not isinstance(starting, AtEnd):
        yield f"{starting.option} with offsets at the log's end"


def with_limit(limit: ReadLimit, limits: TriggerLimits) -> TriggerLimits:
    """Returns the limits that the options set; the limit that Spark requests replaces that of the same kind."""
    match limit:
        case ReadMaxRows(max_rows=most):
            return replace(limits, max_offsets=most)
        case ReadMaxBytes(max_bytes=most):
            return replace(limits, max_bytes=most)
        case ReadMinRows(min_rows=least):
            return replace(limits, min_offsets=least)
        case _:
            return limits
