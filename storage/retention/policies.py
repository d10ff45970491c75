"""The rules by which segments are deleted: Kafka's three, and the protocol for custom ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from ..clock import instant
from ..config import LogConfig
from .survey import SegmentFacts
from .wording import duration

_AS_ALL = -2  # of local.retention.*
_NO_LIMIT = (
    "no limit of age or size is set or known (retention.ms, retention.bytes), so it is kept until delete-records "
    "raises the log start offset above it"
)


class Situation(NamedTuple):
    """The facts for a policy besides the segment to judge, which is the oldest that remains."""

    now_ms: int
    log_start_offset: int
    size: int  # bytes from the segment to the log end
    segments: int  # number of segments from this one to the active one, both counted
    config: LogConfig  # the topic's settings

    def without(self, segment: SegmentFacts) -> Situation:
        """Returns the situation once the segment is deleted."""
        return self.after(segment)._replace(log_start_offset=max(self.log_start_offset, segment.next_offset))

    def after(self, segment: SegmentFacts) -> Situation:
        """Returns the situation for the next segment if this one is kept."""
        return self._replace(size=self.size - segment.size, segments=self.segments - 1)


class RetentionVerdict(NamedTuple):
    """A policy's decision on a segment."""

    goes: bool
    reason: str  # may be empty if the policy keeps the segment only to leave the decision to others
    until_ms: int | None = None  # the last moment at which time keeps it; None if time does not decide


class RetentionPolicy(Protocol):
    """Decides which segments are deleted. Any object with these two members is a policy.

    A policy judges one segment at a time, the oldest that remains first, until it keeps one: nothing is deleted from
    the middle of a log. For the report, it also judges segments that are kept, in any order. It must not store state
    between calls, and can be pickled if it is sent to other machines.
    """

    @property
    def name(self) -> str:
        """The name in reports."""
        ...

    def judge(self, segment: SegmentFacts, situation: Situation) -> RetentionVerdict:
        """Whether the segment is deleted, and why. Any error is reported, and nothing of the log is deleted."""
        ...


@dataclass(frozen=True)
class LogStartRetention:
    """Deletes segments wholly below the log start offset; never the active segment."""

    nothing_else: str = ""  # reason to report for the other segments if no other policy applies
    name: str = "log start offset"

    def judge(self, segment: SegmentFacts, situation: Situation) -> RetentionVerdict:
        start = situation.log_start_offset
        if not segment.is_active and segment.next_offset <= start:
            return RetentionVerdict(True, f"it lies below the log start offset, {start}")
        return RetentionVerdict(False, self.nothing_else)


@dataclass(frozen=True)
class SizeRetention:
    """``retention.bytes``: deletes a segment while the log keeps at least that many bytes without it."""

    retention_bytes: int
    name: str = "retention.bytes"
    limit: str = "retention.bytes"  # as the reason calls it

    def judge(self, segment: SegmentFacts, situation: Situation) -> RetentionVerdict:
        kept = situation.size - segment.size
        limit = f"{self.limit} = {self.retention_bytes:,}"
        if kept >= self.retention_bytes:
            return RetentionVerdict(True, f"{limit}, and {kept:,} bytes remain without it")
        missing = self.retention_bytes - kept
        return RetentionVerdict(False, f"{limit}: it is deleted once {missing:,} more bytes are written")


@dataclass(frozen=True)
class TimeRetention:
    """``retention.ms``: deletes a segment once its newest record is older than that, not just as old.

    A record with a time in the future therefore keeps its segment and all later ones. A transaction marker counts too,
    with the time at which it was written: when old records are loaded, that is the time of loading.
    """

    retention_ms: int
    name: str = "retention.ms"

    def judge(self, segment: SegmentFacts, situation: Situation) -> RetentionVerdict:
        until_ms = segment.timestamp_ms + self.retention_ms
        newest = f"{_newest(segment)} is from {instant(segment.timestamp_ms)}"
        reason = f"retention.ms = {self.retention_ms:,}, and its {newest}"
        if segment.beside_marker_ms is not None and segment.beside_marker_ms >= 0:
            reason += f", while records beside it are from {instant(segment.beside_marker_ms)}"
        if segment.timestamp_ms > situation.now_ms:
            reason += f", {duration(segment.timestamp_ms - situation.now_ms)} in the future"
        return RetentionVerdict(situation.now_ms > until_ms, reason, until_ms)


@dataclass(frozen=True)
class SparingRetention:
    """Keeps every segment, for ``reason``."""

    reason: str
    name: str = "spared"

    def judge(self, segment: SegmentFacts, situation: Situation) -> RetentionVerdict:
        return RetentionVerdict(False, self.reason)


def _newest(segment: SegmentFacts) -> str:
    if segment.largest_timestamp_ms < 0:
        return "file, as no record has a time,"
    return "newest record" if segment.beside_marker_ms is None else "newest batch, the end of a transaction,"


def policies_with(own: RetentionPolicy, config: LogConfig) -> tuple[RetentionPolicy, ...]:
    """Returns the policies of a topic with a user's ``policy`` instead of the limits of size and time.

    Segments below the log start offset are deleted as always, and nothing else if ``cleanup.policy`` has no ``delete``.
    """
    return (LogStartRetention(), own) if config.delete else kafka_policies(config)


def local_policies(config: LogConfig) -> tuple[RetentionPolicy, ...]:
    """Returns Kafka's policies for the local segments of a topic whose segments are in a tier too.

    ``local.retention.bytes`` and ``local.retention.ms``; -2 in one of them stands for the limit of the whole log.
    """
    size = config.retention_bytes if config.local_retention_bytes == _AS_ALL else config.local_retention_bytes
    time = config.retention_ms if config.local_retention_ms == _AS_ALL else config.local_retention_ms
    return kafka_policies(replace(config, retention_bytes=size, retention_ms=time))


def kafka_policies(config: LogConfig) -> tuple[RetentionPolicy, ...]:
    """Returns Kafka's policies for a topic; by size and by time only if ``cleanup.policy`` has ``delete``."""
    if not config.delete:
        return (LogStartRetention("cleanup.policy has no delete: only what is below the log start offset is deleted"),)
    limits: list[RetentionPolicy] = []
    if config.retention_bytes >= 0:
        limits.append(SizeRetention(config.retention_bytes))
    if config.retention_ms >= 0:
        limits.append(TimeRetention(config.retention_ms))
    return (LogStartRetention("" if limits else _NO_LIMIT), *limits)
