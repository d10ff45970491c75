"""The rules by which segments go: Kafka's three, and the protocol for one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pyspark_commitlog.storage.clock import instant
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.retention.facts import SegmentFacts
from pyspark_commitlog.storage.retention.wording import duration


class Situation(NamedTuple):
    """What a policy knows beside the segment it judges, which is the oldest one left."""

    now_ms: int
    log_start_offset: int
    size: int  # bytes from the segment on, to the log end

    def without(self, segment: SegmentFacts) -> Situation:
        """After the segment went."""
        log_start_offset = max(self.log_start_offset, segment.next_offset)
        return Situation(self.now_ms, log_start_offset, self.size - segment.size)


class Verdict(NamedTuple):
    """What a policy says of a segment."""

    goes: bool
    reason: str  # may be empty where it keeps the segment only because others decide
    until_ms: int | None = None  # the last moment at which the clock keeps it; None where no clock decides


class RetentionPolicy(Protocol):
    """Judges one segment at a time, oldest first, until it keeps one. Must not remember anything between calls."""

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    def judge(self, segment: SegmentFacts, situation: Situation) -> Verdict: ...


@dataclass(frozen=True)
class LogStartRetention:
    """What lies wholly below the log start offset; never the active segment."""

    nothing_else: str = ""  # what reports say of the rest where no other policy has a say
    name: str = "log start offset"

    def judge(self, segment: SegmentFacts, situation: Situation) -> Verdict:
        start = situation.log_start_offset
        if not segment.is_active and segment.next_offset <= start:
            return Verdict(True, f"it lies below the log start offset, {start}")
        return Verdict(False, self.nothing_else)


@dataclass(frozen=True)
class SizeRetention:
    """``retention.bytes``: goes while the log keeps at least that many bytes without it."""

    retention_bytes: int
    name: str = "retention.bytes"

    def judge(self, segment: SegmentFacts, situation: Situation) -> Verdict:
        left = situation.size - segment.size
        limit = f"retention.bytes = {self.retention_bytes:,}"
        if left >= self.retention_bytes:
            return Verdict(True, f"{limit}, and {left:,} bytes are kept without it")
        return Verdict(False, f"{limit}: it goes when {self.retention_bytes - left:,} more bytes are written")


@dataclass(frozen=True)
class TimeRetention:
    """``retention.ms``: goes when its newest record is older, and not just as old.

    So a record with a time in the future keeps its segment, and all behind it. A marker, which ends a transaction,
    counts with the time at which it was written, which is now where history is loaded now.
    """

    retention_ms: int
    name: str = "retention.ms"

    def judge(self, segment: SegmentFacts, situation: Situation) -> Verdict:
        until_ms = segment.timestamp_ms + self.retention_ms
        newest = f"{_newest(segment)} is of {instant(segment.timestamp_ms)}"
        reason = f"retention.ms = {self.retention_ms:,}, and its {newest}"
        if segment.beside_marker_ms is not None and segment.beside_marker_ms >= 0:
            reason += f", while records beside it are of {instant(segment.beside_marker_ms)}"
        if segment.timestamp_ms > situation.now_ms:
            reason += f", {duration(segment.timestamp_ms - situation.now_ms)} in the future"
        return Verdict(situation.now_ms > until_ms, reason, until_ms)


@dataclass(frozen=True)
class SparingRetention:
    """Keeps everything."""

    reason: str
    name: str = "spared"

    def judge(self, segment: SegmentFacts, situation: Situation) -> Verdict:
        return Verdict(False, self.reason)


def _newest(segment: SegmentFacts) -> str:
    if segment.largest_timestamp_ms < 0:
        return "file, as no record has a time,"
    return "newest record" if segment.beside_marker_ms is None else "newest batch, the end of a transaction,"


def kafka_policies(config: LogConfig) -> tuple[RetentionPolicy, ...]:
    """Those that a topic's config asks for; by size and by time only where ``cleanup.policy`` has ``delete``."""
    if not config.delete:
        return (LogStartRetention("cleanup.policy has no delete: only what lies below the log start offset goes"),)
    limits: list[RetentionPolicy] = []
    if config.retention_bytes >= 0:
        limits.append(SizeRetention(config.retention_bytes))
    if config.retention_ms >= 0:
        limits.append(TimeRetention(config.retention_ms))
    return (LogStartRetention("" if limits else "neither retention.bytes nor retention.ms sets a limit"), *limits)
