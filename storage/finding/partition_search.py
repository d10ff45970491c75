"""PartitionSearch: searches one log, and reports unreadable parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from ..bytes_read import count_passed
from ..errors import CorruptionError, SegmentRemovedError
from ..format.files.file_names import TopicPartition, partition_directory
from ..format.tables import Records
from ..key_filters.reading import KeyLookup
from ..reading.aborted import Isolation
from ..reading.damaged import salvaged_records
from ..reading.fetch import ALL_TIMES
from ..reading.marks import remote_text
from ..reading.reader import LogReader
from ..segment.writer import LogSegment
from .bounds import Bounds
from .conditions import Condition, TimedCondition
from .pieces import by_segment, within_segment


class Unsearched(NamedTuple):
    """A part of a log that a search could not read."""

    partition: TopicPartition
    offsets: range | None  # None: unknown
    kind: str  # damaged, deleted, tiered or undecoded
    reason: str

    def __str__(self) -> str:
        where = partition_directory(*self.partition)
        if self.offsets:
            first, last = self.offsets[0], self.offsets[-1]
            where += f", offset {first}" if first == last else f", offsets {first} to {last}"
        return f"{where}: {self.reason}"


Report = Callable[[Unsearched], None]
T = TypeVar("T")


class PartitionSearch:
    """A search in the log of one partition, up to the end that it has now."""

    def __init__(
        self,
        partition: TopicPartition,
        reader: LogReader,
        condition: Condition,
        bounds: Bounds,
        isolation: Isolation,
        report: Report,
        *,
        newest_first: bool,
    ) -> None:
        self.partition, self._reader = partition, reader
        self._times, self._choice = bounds.times, TimedCondition(condition, bounds.times)
        self._isolation, self._report, self._newest_first = isolation, report, newest_first
        uses_filters = condition.key is not None and reader.context.config.keyfilter_enable
        self._filters = KeyLookup(reader.context, [condition.key or b""], reader.key_filters) if uses_filters else None
        self._reported: set[tuple[str | None, int | str | None]] = set()
        self._known_start = reader.log_start_offset
        with reader.despite_damage():
            end = reader.end_offset(isolation)
        self._end = self.end = end if bounds.end is None else min(end, bounds.end)
        self._start = bounds.start
        self.segments = by_segment(reader, max(bounds.start or 0, self._known_start), self._end)

    @property
    def log_bytes(self) -> int:
        """The bytes of the segments to search."""
        return sum(self._bytes_of(offsets) for offsets in self.segments.values())

    def _bytes_of(self, offsets: range) -> int:
        segment = self._reader.segments.floor(offsets.start)
        with suppress(SegmentRemovedError):
            return 0 if segment is None else segment.status().size
        return 0

    def close(self) -> None:
        """Closes the log."""
        self._reader.close()

    def found(self) -> Iterator[Records]:
        """Yields the matching records, by ascending offset or, with the newest first, descending."""
        self._report_missing_start()
        active = self._reader.segments.active.base_offset if self.segments else None
        for base_offset in reversed(self.segments) if self._newest_first else self.segments:
            offsets = self.segments[base_offset]
            if self._filters is not None and base_offset != active and self._filters.lacks(base_offset, offsets.stop):
                count_passed(partial(self._bytes_of, offsets))
            else:
                yield from self._in_segment(offsets)

    def _in_segment(self, offsets: range) -> Iterator[Records]:
        if self._asked(offsets, self._is_too_old, False):
            count_passed(partial(self._bytes_of, offsets))
            return
        if self._newest_first:
            for piece in reversed(self._pieces(offsets)):
                for records in reversed(list(self._in_piece(piece))):
                    yield records.take(np.arange(len(records) - 1, -1, -1))
        else:
            yield from self._in_piece(offsets)
        segment = self._reader.segments.floor(offsets.start)
        if segment is not None and segment is not self._reader.segments.active:
            segment.release()  # a log has more files than a process may have open

    def _pieces(self, offsets: range) -> list[range]:
        return self._asked(offsets, lambda segment: within_segment(segment, offsets), [offsets])

    def _is_too_old(self, segment: LogSegment) -> bool:
        first = self._times.first
        return first > ALL_TIMES.first and segment.confirm_largest().timestamp < first

    def _in_piece(self, offsets: range) -> Iterator[Records]:
        yield from salvaged_records(
            self._reader,
            offsets.start,
            offsets.stop,
            self._report_damage,
            isolation=self._isolation,
            timespan=self._times,
            choice=self._choice,
        )
        self._report_deleted(offsets)

    def _asked(self, offsets: range, ask: Callable[[LogSegment], T], otherwise: T) -> T:
        """Returns the result of ``ask`` for the segment of these offsets; ``otherwise`` if it is damaged or deleted."""
        segment = self._reader.segments.floor(offsets.start)
        with suppress(CorruptionError, FileNotFoundError):
            return otherwise if segment is None else ask(segment)
        return otherwise

    # What is not searched

    def _report_damage(self, error: CorruptionError) -> None:
        location = error.path, error.reason if error.position is None else error.position
        if location not in self._reported or error.skipped_offsets is not None:
            self._reported.add(location)
            skipped = error.skipped_offsets
            self._tell(None if skipped is None else range(skipped[0], skipped[1] + 1), "damaged", str(error))

    def _report_missing_start(self) -> None:
        """Reports the requested offsets below the first one that this log has."""
        lost, remote = self._reader.lost_start(), self._reader.remote
        below = range(self._start or 0, min(self._known_start, self._end))
        if lost is not None and lost.skipped_offsets is not None:
            first, last = lost.skipped_offsets
            missing = range(max(below.start, first), min(last + 1, self._end))
            if missing:
                self._tell(missing, "damaged", str(lost))
            below = range(below.start, min(below.stop, first))
        if remote is not None:
            missing = range(max(self._start or 0, remote.start), min(remote.stop, self._end))
            if missing:
                self._tell(missing, "tiered", remote_text(missing))
            below = range(below.start, min(below.stop, remote.start))
        if self._start is not None and below:
            self._tell(below, "deleted", "deleted from the log")

    def _report_deleted(self, offsets: range) -> None:
        """Reports records that were deleted since the search began and before they were read."""
        start = self._reader.log_start_offset
        if start > max(self._known_start, offsets.start):
            self._tell(range(offsets.start, min(start, offsets.stop)), "deleted", "deleted while it was searched")

    def _tell(self, offsets: range | None, kind: str, reason: str) -> None:
        self._report(Unsearched(self.partition, offsets, kind, reason))
