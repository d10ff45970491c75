"""How much a micro-batch takes: the limits of Spark's Kafka source, spread over partitions by their lag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_commitlog.pipeline.offsets import Offsets, TopicPartition

MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000  # maxTriggerDelay of Spark's Kafka source: 15m


@dataclass(frozen=True)
class TriggerLimits:
    """What the options ask of a micro-batch; None: no limit."""

    max_offsets: int | None = None  # maxOffsetsPerTrigger
    min_offsets: int | None = None  # minOffsetsPerTrigger
    max_delay_ms: int = MAX_TRIGGER_DELAY_MS  # maxTriggerDelay: after it, fewer than min_offsets will do
    max_bytes: int | None = None  # maxBytesPerTrigger


def lags(begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
    """How many offsets lie between; only partitions that have some."""
    return {partition: end - begins[partition] for partition, end in ends.items() if end > begins[partition]}


def shares(limit: int, sizes: Mapping[TopicPartition, int]) -> Offsets:
    """``limit`` in proportion to ``sizes``, which are above 0, and 1 at least, so that no partition is starved.

    As Spark's KafkaMicroBatchStream.rateLimit, in floating point too: the sum may be a little below ``limit``, and
    above it where there are more partitions than ``limit``.
    """
    total = float(sum(sizes.values()))
    return {partition: max(math.floor(limit * (size / total)), 1) for partition, size in sizes.items()}


class TriggerDelay:
    """Lets a micro-batch wait for ``min_offsets``, but no longer than ``max_delay_ms`` after the one before.

    Remembers nothing beyond the run of a query: as with Spark's Kafka source, the first micro-batch of a run does not
    wait, and the delay starts anew from there.
    """

    def __init__(self) -> None:
        self._last_ms: int | None = None

    def must_wait(self, waiting: int, limits: TriggerLimits, now_ms: int) -> bool:
        """Whether ``waiting`` offsets are too few yet. Where they are not, the delay starts anew."""
        if limits.min_offsets is None:
            return False
        is_overdue = self._last_ms is None or now_ms - self._last_ms >= limits.max_delay_ms
        if not is_overdue and waiting < limits.min_offsets:
            return True
        if waiting:
            self._last_ms = now_ms
        return False
