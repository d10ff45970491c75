"""How much a micro-batch takes: the limits of Spark's Kafka source, spread over partitions by their lag."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000  # maxTriggerDelay of Spark's Kafka source: 15m


@dataclass(frozen=True)
class TriggerLimits:
    """What the options ask of a micro-batch; None: no limit."""

    max_offsets: int | None = None  # maxOffsetsPerTrigger
    min_offsets: int | None = None  # minOffsetsPerTrigger
    max_delay_ms: int = MAX_TRIGGER_DELAY_MS  # maxTriggerDelay: after it, fewer than min_offsets will do
    max_bytes: int | None = None  # maxBytesPerTrigger
