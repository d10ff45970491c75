"""Ready retention policies to use instead of Kafka's: by a file's time, number of segments, or size."""

from __future__ import annotations

from dataclasses import dataclass

from ..clock import instant
from ..errors import InvalidConfigError
from ..text import counted
from .policies import RetentionVerdict, Situation, SizeRetention
from .survey import SegmentFacts

GIGABYTE = 10**9


@dataclass(frozen=True)
class ModificationTimeRetention:
    """Deletes a segment once its file was last modified longer ago than ``retention_ms``.

    By default, that is the topic's ``retention.ms``; negative means no limit. The times of records do not count.
    Copying a directory without its times, or restoring it, makes its segments new again.
    """

    retention_ms: int | None = None
    name: str = "modification time"

    def judge(self, segment: SegmentFacts, situation: Situation) -> RetentionVerdict:
        limit_ms = situation.config.retention_ms if self.retention_ms is None else self.retention_ms
        if limit_ms < 0:
            return RetentionVerdict(False, "no time limit is set")
        until_ms = segment.modified_ms + limit_ms
        reason = f"the limit is {limit_ms:,} ms, and its file was last modified at {instant(segment.modified_ms)}"
        return RetentionVerdict(situation.now_ms > until_ms, reason, until_ms)


@dataclass(frozen=True)
class NewestSegmentsRetention:
    """Keeps the newest segments, ``segments`` with the active one. Raises InvalidConfigError if that is below 1."""

    segments: int
    name: str = "newest segments"

    def __post_init__(self) -> None:
        if not isinstance(self.segments, int) or self.segments < 1:
            raise InvalidConfigError(f"segments = {self.segments!r}: must be a whole number, at least 1")

    def judge(self, segment: SegmentFacts, situation: Situation) -> RetentionVerdict:
        newer = counted(situation.segments - 1, "segment")
        reason = f"the newest {counted(self.segments, 'segment')} are kept, and newer than this one are {newer}"
        return RetentionVerdict(situation.segments > self.segments, reason)


@dataclass(frozen=True)
class LastGigabytesRetention:
    """Keeps the segments with the last ``gigabytes`` of a partition, of 10⁹ bytes each; fractions are allowed.

    A segment that only partly belongs to them is kept, as with ``retention.bytes``. Raises InvalidConfigError if
    ``gigabytes`` is not a positive number.
    """

    gigabytes: float
    name: str = "last gigabytes"

    def __post_init__(self) -> None:
        if not isinstance(self.gigabytes, int | float) or not self.gigabytes > 0:
            raise InvalidConfigError(f"gigabytes = {self.gigabytes!r}: must be a number above 0")

    def judge(self, segment: SegmentFacts, situation: Situation) -> RetentionVerdict:
        return SizeRetention(round(self.gigabytes * GIGABYTE), limit="the last bytes to keep").judge(segment, situation)
