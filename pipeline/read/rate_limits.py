"""Limits the size of micro-batches, as Spark's Kafka source does, and divides a limit among partitions by their lag."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...storage import InvalidConfigError, TopicPartition
from ..rows.offsets import LONG_MAX, Offsets

MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000  # maxTriggerDelay of Spark's Kafka source: 15m
# Spark's time strings (JavaUtils.timeStringAs): a whole number and a unit, by default ms.
_TIME = re.compile(r"([0-9]+)([a-z]+)?")
_UNIT_US = {"us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}


@dataclass(frozen=True)
class TriggerLimits:
    """The limits of a micro-batch that the options set; None: no limit."""

    max_offsets: int | None = None  # maxOffsetsPerTrigger
    min_offsets: int | None = None  # minOffsetsPerTrigger
    max_delay_ms: int = MAX_TRIGGER_DELAY_MS  # maxTriggerDelay: after it, fewer than min_offsets are enough
    max_bytes: int | None = None  # maxBytesPerTrigger


def lags(begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
    """Returns the number of offsets from begin to end, without partitions that have none."""
    return {partition: end - begins[partition] for partition, end in ends.items() if end > begins[partition]}


def shares(limit: int, sizes: Mapping[TopicPartition, int]) -> Offsets:
    """Divides ``limit`` among partitions in proportion to ``sizes``, which are above 0. Each share is at least 1.

    Computes in floating point, as Spark's KafkaMicroBatchStream.rateLimit does: the sum may be a little below
    ``limit``, or above it if there are more partitions than ``limit``.
    """
    total = float(sum(sizes.values()))
    return {partition: max(math.floor(limit * (size / total)), 1) for partition, size in sizes.items()}


class TriggerDelay:
    """Makes a micro-batch wait for ``min_offsets``, until ``max_delay_ms`` after the previous micro-batch at most.

    Keeps nothing between runs of a query: as with Spark's Kafka source, the first micro-batch of a run does not wait,
    and the delay counts from there.
    """

    def __init__(self) -> None:
        self._last_ms: int | None = None

    def must_wait(self, waiting: int, limits: TriggerLimits, now_ms: int) -> bool:
        """Whether ``waiting`` offsets are too few for a micro-batch; if not, restarts the delay at ``now_ms``."""
        if limits.min_offsets is None:
            return False
        is_overdue = self._last_ms is None or now_ms - self._last_ms >= limits.max_delay_ms
        if not is_overdue and waiting < limits.min_offsets:
            return True
        if waiting:
            self._last_ms = now_ms
        return False


def time_string_ms(text: str, option: str) -> int:
    """Returns the milliseconds of a time in Spark's format: ``15m``, ``500ms``, ``90`` (ms).

    Raises InvalidConfigError for any other text.
    """
    found = _TIME.fullmatch(text.strip().lower())
    unit = found and (found[2] or "ms")
    if not found or unit not in _UNIT_US or int(found[1][:20]) * _UNIT_US[unit] > LONG_MAX:
        raise InvalidConfigError(
            f"option {option} is {text!r}; it must be a time such as 15m, 30s or 500ms (units: {', '.join(_UNIT_US)})"
        )
    return int(found[1]) * _UNIT_US[unit] // 1000
