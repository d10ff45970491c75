"""Reads the facts about a log that retention needs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..errors import CorruptionError
from ..format.constants import NO_TIMESTAMP
from ..format.files import file_names
from ..reading.reader import LogReader
from ..segment.time_index import times_of_records
from ..segment.walk import PROBE_BYTES, LogContext
from ..segment.writer import LogSegment

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SegmentFacts:
    """The facts about a segment that retention needs. Times in ms since the epoch; -1 if no record has a time."""

    base_offset: int
    next_offset: int  # the base offset of the next segment, or the log end
    size: int  # bytes of the .log
    largest_timestamp_ms: int  # of its batches, including markers that end transactions
    modified_ms: int  # of its file
    first_timestamp_ms: int = NO_TIMESTAMP  # the largest timestamp of its first batch
    is_active: bool = False
    beside_marker_ms: int | None = None  # if a marker is the latest: the largest of the records around it

    @property
    def timestamp_ms(self) -> int:
        """The time from which ``retention.ms`` counts."""
        return self.largest_timestamp_ms if self.largest_timestamp_ms >= 0 else self.modified_ms


class DeletedFile(NamedTuple):
    """A file that was removed from the log and waits for ``file.delete.delay.ms``."""

    name: str
    size: int
    deleted_ms: int


@dataclass(frozen=True)
class LogFacts:
    """The state of a log at one moment."""

    directory: str
    segments: tuple[SegmentFacts, ...]  # ascending; the last one is active
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    deleted_files: tuple[DeletedFile, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)


def survey_log(log: LogReader) -> LogFacts:
    """Returns the facts about a log that retention needs: offsets, sizes and times of its segments. Changes nothing.

    Raises StorageError if files keep vanishing while it reads.
    """
    return log.looking_again(lambda: _survey(log))


def _survey(log: LogReader) -> LogFacts:
    segments = tuple(
        _segment_facts(segment, next_offset, is_active=segment is log.segments.active)
        for segment, next_offset in log.segments.with_next_offsets(log.log_end_offset)
    )
    offsets = (log.log_start_offset, log.log_end_offset, log.last_stable_offset)
    return LogFacts(log.context.directory, segments, *offsets, tuple(deleted_files(log.context)))


def _segment_facts(segment: LogSegment, next_offset: int, *, is_active: bool) -> SegmentFacts:
    status = segment.status()
    first_timestamp_ms = segment.first_timestamp
    facts = SegmentFacts(
        segment.base_offset,
        next_offset,
        segment.size,
        _largest_timestamp_ms(segment, next_offset, first_timestamp_ms),
        status.modified_ms,
        first_timestamp_ms,
        is_active,
    )
    if not is_active:
        segment.close()  # ten thousand segments have more files than a process may have open
    return facts


def _largest_timestamp_ms(segment: LogSegment, next_offset: int, first_timestamp_ms: int) -> int:
    """The largest timestamp of a segment, from its time index, or if that is implausible, from its batch headers."""
    largest = segment.largest
    if largest.timestamp >= first_timestamp_ms and largest.offset in range(segment.base_offset, next_offset + 1):
        return largest.timestamp
    logger.warning(
        "%s contradicts the log; using the timestamps of the records. Rebuild the index",
        segment.path(file_names.TIME_INDEX),
    )
    timestamps = (int(window.headers.table["max_timestamp"].max()) for window in segment.batches())
    return max(timestamps, default=NO_TIMESTAMP)


def with_confirmed(log: LogReader, facts: LogFacts, base_offsets: Collection[int]) -> LogFacts:
    """Returns ``facts``, with the largest timestamps of the segments at ``base_offsets`` confirmed from their logs."""

    def confirmed(known: SegmentFacts) -> SegmentFacts:
        segment = log.segments.floor(known.base_offset) if known.base_offset in base_offsets else None
        if segment is None or segment.base_offset != known.base_offset:
            return known
        timestamp_ms = segment.confirm_largest().timestamp
        if segment is not log.segments.active:
            segment.close()
        return replace(known, largest_timestamp_ms=max(known.largest_timestamp_ms, timestamp_ms))

    return log.looking_again(lambda: replace(facts, segments=tuple(map(confirmed, facts.segments))))


def with_markers(log: LogReader, facts: LogFacts, base_offsets: Collection[int]) -> LogFacts:
    """Returns ``facts``, with ``beside_marker_ms`` set where a transaction marker has the largest timestamp.

    Only for the segments at ``base_offsets``.
    """

    def read() -> LogFacts:
        return replace(facts, segments=tuple(_with_marker(log, each, base_offsets) for each in facts.segments))

    return log.looking_again(read)


def _with_marker(log: LogReader, facts: SegmentFacts, base_offsets: Collection[int]) -> SegmentFacts:
    segment = log.segments.floor(facts.base_offset) if facts.base_offset in base_offsets else None
    if segment is None or segment.largest.timestamp != facts.largest_timestamp_ms or facts.largest_timestamp_ms < 0:
        return facts
    with suppress(CorruptionError):  # only needed for the report
        return replace(facts, beside_marker_ms=_beside_marker(segment))
    return facts


def _beside_marker(segment: LogSegment) -> int | None:
    """The largest timestamp of the records around a marker that has the segment's largest timestamp; else None."""
    offset = segment.largest.offset
    for window in segment.batches(segment.position_before(offset - 1), window_bytes=PROBE_BYTES):
        rows = np.flatnonzero(window.headers.table["last_offset"] >= offset)
        if len(rows):
            is_marker = window.headers.is_control[rows[0]]
            return max(int(times_of_records(window.headers).max()), NO_TIMESTAMP) if is_marker else None
    return None


def deleted_files(context: LogContext) -> Iterator[DeletedFile]:
    """Yields the ``.deleted`` files in a partition's directory."""
    for name in context.filesystem.list(context.directory):
        if name.endswith(file_names.DELETED) and file_names.base_offset_of(name) is not None:
            status = context.filesystem.status(file_names.join(context.directory, name))
            if status is not None:
                yield DeletedFile(name, status.size, status.modified_ms)
