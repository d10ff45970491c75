"""Finds the dirty part of a log, the dirtiest log, and the segments to merge.

These functions read segments and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

from ..config import LogConfig
from ..format.constants import INT32_MAX
from ..format.files.index_entries import OFFSET_ENTRY, TIME_ENTRY
from ..reading.reader import LogReader
from ..segment.collection import LogSegments
from ..segment.writer import LogSegment

Name = TypeVar("Name")


@dataclass(frozen=True)
class Cleanable:
    """How much of a log is clean and how much is dirty, and whether compaction is due (Kafka's LogToClean)."""

    first_dirty_offset: int  # below it, no key occurs twice
    first_uncleanable_offset: int  # the base offset of a segment; nothing from there on may be touched
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool  # max.compaction.lag.ms has passed for the oldest dirty record
    ratio_min: float  # min.cleanable.dirty.ratio
    held_by: str = ""  # why first_uncleanable_offset is not higher

    @property
    def ratio(self) -> float:
        """The fraction of dirty bytes in the part that a compaction may touch; 0 if it may touch nothing."""
        whole = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / whole if whole else 0.0

    @property
    def is_due(self) -> bool:
        """Whether Kafka's cleaner would choose this log if it were the dirtiest."""
        return self.is_dirty and (self.ratio > self.ratio_min or self.is_overdue)

    @property
    def is_dirty(self) -> bool:
        """Whether there are dirty records that a compaction may touch."""
        return self.first_uncleanable_offset > self.first_dirty_offset and self.dirty_bytes > 0


def cleanable(log: LogReader, checkpointed: int | None, now_ms: int) -> Cleanable:
    """Returns which part of ``log`` a compaction at ``now_ms`` would cover, and whether it is due.

    ``checkpointed`` is the end of the previous compaction, from the cleaner-offset-checkpoint. None, or an offset
    outside the log, makes the whole log dirty.
    """
    start = log.log_start_offset
    first_dirty = start if checkpointed is None or not start <= checkpointed <= log.log_end_offset else checkpointed
    ratio_min = log.context.config.min_cleanable_dirty_ratio
    if not len(log.segments):
        return Cleanable(first_dirty, first_dirty, 0, 0, False, ratio_min, "nothing was ever written to it")
    dirty = _between(log.segments, first_dirty, log.segments.active.base_offset)
    bound, held_by = min(_bounds(log, dirty, now_ms), key=lambda each: each[0])
    first_uncleanable = _aligned(log.segments, max(first_dirty, bound))
    return Cleanable(
        first_dirty,
        first_uncleanable,
        _size(segment for segment in log.segments if segment.base_offset < first_dirty),
        _size(_between(log.segments, min(first_dirty, first_uncleanable), first_uncleanable)),
        _is_overdue(dirty, log.context.config, now_ms),
        ratio_min,
        held_by,
    )


def _size(segments: Iterable[LogSegment]) -> int:
    """Returns the total bytes of the logs. Closes each segment: a log may have more than a process may open."""
    total = 0
    for segment in segments:
        with closing(segment):
            total += segment.size
    return total


def _between(segments: LogSegments, start: int, end: int) -> list[LogSegment]:
    """Returns the segment that holds ``start`` and later segments whose base offset is below ``end``."""
    return [segment for segment in segments.reaching(start) if segment.base_offset < end]


def _bounds(log: LogReader, dirty: Sequence[LogSegment], now_ms: int) -> Iterable[tuple[int, str]]:
    """Yields (offset, reason): compaction must stay below the offset. Of equal offsets, the first reason counts."""
    yield log.segments.active.base_offset, "the active segment, which is still written to, begins there"
    yield log.last_stable_offset, "a transaction is open from there on"
    lag_ms = log.context.config.min_compaction_lag_ms
    for segment in dirty if lag_ms else ():
        with closing(segment):
            if segment.largest_timestamp_ms > now_ms - lag_ms:
                why = f"records from there on are younger than min.compaction.lag.ms = {lag_ms:,}"
                yield segment.base_offset, why


def _aligned(segments: LogSegments, offset: int) -> int:
    """Returns the base offset of the segment that holds ``offset``: only whole closed segments are compacted."""
    active = segments.active.base_offset
    segment = segments.floor(offset)
    return active if offset >= active else offset if segment is None else segment.base_offset


def _is_overdue(dirty: Iterable[LogSegment], config: LogConfig, now_ms: int) -> bool:
    firsts = []
    for segment in dirty:
        with closing(segment):
            firsts.append(segment.first_timestamp)
    return any(0 < first < now_ms - config.max_compaction_lag_ms for first in firsts)


def dirtiest_first(logs: Mapping[Name, Cleanable]) -> list[Name]:
    """Returns the names of logs whose compaction is due, highest dirty ratio first."""
    due = {name: each.ratio for name, each in logs.items() if each.is_due}
    return sorted(due, key=lambda name: due[name], reverse=True)


class _Sizes(NamedTuple):
    """The bytes of a segment's files that a config limits."""

    log: int
    offset_index: int
    time_index: int

    @classmethod
    def of(cls, segment: LogSegment) -> _Sizes:
        with closing(segment):
            offset_bytes = len(segment.offset_index) * OFFSET_ENTRY.itemsize
            return cls(segment.size, offset_bytes, len(segment.time_index) * TIME_ENTRY.itemsize)

    def plus(self, other: _Sizes) -> _Sizes:
        return _Sizes(*map(sum, zip(self, other, strict=True)))

    def fit(self, config: LogConfig) -> bool:
        index_bytes = config.segment_index_bytes
        return self.log <= config.segment_bytes and max(self.offset_index, self.time_index) <= index_bytes


def group_segments(segments: Sequence[LogSegment], end_offset: int, config: LogConfig) -> list[list[LogSegment]]:
    """Returns groups of adjacent segments; each group fits into one segment. ``segments`` ascend, below ``end_offset``.

    A group spans at most 2^31 offsets, and its log and indexes stay within the sizes of ``config``. A segment that
    alone exceeds a limit forms a group.
    """
    bounds = [*(segment.base_offset for segment in segments), end_offset]
    groups: list[list[LogSegment]] = []
    total = _Sizes(0, 0, 0)
    for segment, (_, next_offset) in zip(segments, pairwise(bounds), strict=True):
        sizes = _Sizes.of(segment)
        total = total.plus(sizes)
        reaches = groups and (not sizes.log or next_offset - 1 - groups[-1][0].base_offset <= INT32_MAX)
        if groups and reaches and total.fit(config):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            total = sizes
    return groups
