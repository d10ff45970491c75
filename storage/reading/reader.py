"""LogReader: reads a log without changing it.

A reader takes no lock. It sees the log as it was when it was opened or refreshed. Segments that compaction or retention
replace later stay readable as long as they are open; if a file is missing, the reader refreshes and continues at the
same offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..config import INT64_MAX
from ..errors import CorruptRecordError, MissingSegmentError, OffsetOutOfRangeError
from ..format.record_columns import ALL_COLUMNS
from ..format.tables import Bools, Records
from ..recovery.producer_state import Marker
from ..recovery.segment_recovery import read_markers
from ..segment.joining import NEVER_COMPACTED, Holes
from ..segment.reader import FoundBatch, OffsetAndTimestamp
from ..segment.walk import PROBE_BYTES, Window
from ..segment.writer import LogSegment
from .aborted import AbortedTransaction, Isolation, aborted_runs
from .fetch import ALL_TIMES, INT64_MIN, FetchData, RowChoice, Timespan, in_tables
from .marks import remote_text
from .slices import End, FileSlice, aborted_in, whole_end
from .tails import check_end_before, sound_stop
from .times import (
    batches_reaching_time,
    end_if_read,
    first_record_not_older,
    largest_record_time,
    segments_reaching_time,
)
from .view import LogView

FETCH_BYTES = 8 * 1024 * 1024  # read and decoded at once: large enough for speed, small enough for parallel tasks
FETCH_BYTES_A_RECORD = 1024  # limits a fetch for few records; larger records take more fetches


class LogReader(LogView):
    """Reads the records of a partition, by offset and by time."""

    # Reading

    def read(
        self,
        start_offset: int,
        *,
        max_bytes: int = FETCH_BYTES,
        isolation: Isolation = Isolation.READ_COMMITTED,
        up_to: int = INT64_MAX,
        min_one_message: bool = True,
    ) -> FetchData | None:
        """Returns batches of one segment, from the one that contains ``start_offset`` or, in a gap, the next one.

        Returns at most ``max_bytes``, but at least one complete batch if ``min_one_message``. None if ``isolation``
        shows no batch there yet. Shows no batch that reaches offset ``up_to``, such as :attr:`Log.high_watermark`.

        Raises OffsetOutOfRangeError below the log start and above the log end, MissingSegmentError where offsets are
        missing in a log that was never compacted, and CorruptRecordError with path and position.
        """
        return self.looking_again(
            lambda: self._read(
                start_offset, min(self.end_offset(isolation), up_to), isolation, max_bytes, min_one_message
            )
        )

    def slice(
        self,
        start_offset: int,
        max_bytes: int,
        *,
        isolation: Isolation = Isolation.READ_COMMITTED,
        up_to: int = INT64_MAX,
        min_one_message: bool = True,
        whole: bool = True,
    ) -> FileSlice | None:
        """Returns the file and the position of the batches that :meth:`read` would return, without reading them.

        ``whole=False``: the slice may end within a batch, so that it has as many bytes as a broker sends. Checks how
        the first batch begins, and for ``READ_COMMITTED`` the headers of all: clients check the rest, as with a broker.
        The caller releases the slice. Raises the errors of :meth:`read`, and io.UnsupportedOperation if the file system
        has no descriptors.
        """
        return self.looking_again(
            lambda: self._slice(
                start_offset, min(self.end_offset(isolation), up_to), isolation, max_bytes, min_one_message, whole
            )
        )

    def _slice(
        self, start_offset: int, bound: int, isolation: Isolation, max_bytes: int, min_one_message: bool, whole: bool
    ) -> FileSlice | None:
        found = self._find_shown(start_offset, bound, isolation, start_offset)
        if found is None:
            return None
        segment, start = found[0], found[1].position
        stop = sound_stop(self.segments, segment, start, self._position_of_bound(segment, bound))
        end = whole_end(segment, start, stop, max_bytes, min_one=min_one_message)
        is_cut = not whole and end.position < min(stop, start + max_bytes)
        if is_cut:
            end = End(min(stop, start + max_bytes))
        if end.position == start:
            return None
        aborted: Sequence[AbortedTransaction] = ()
        if isolation is Isolation.READ_COMMITTED:
            aborted, end = aborted_in(self, segment, start, end)
        if not is_cut:
            segment.remember_following(bound if end.next_offset is None else end.next_offset, end.position)
        descriptor, release = segment.hold()
        following = self.segments.higher(segment.base_offset)
        has_more = end.position < stop or (following is not None and following.base_offset < bound)
        return FileSlice(descriptor, start, end.position - start, tuple(aborted), release, has_more)

    def _read(
        self,
        start_offset: int,
        bound: int,
        isolation: Isolation,
        max_bytes: int,
        min_one_message: bool = True,
        until: int = INT64_MAX,
    ) -> FetchData | None:
        found = self._find_shown(start_offset, bound, isolation, until)
        if found is None:
            return None
        segment, place = found
        window = place.window
        if window is None or not until < window.headers.next_offset <= bound or len(window.buffer) > max_bytes:
            end = self._position_of_bound(segment, bound)
            window = next(segment.batches(place.position, end, max_bytes, until=until), None)
        if window is None:  # nothing remains below the bound: compaction removed it
            self.check_readable_to(min(bound, until + 1), isolation)
            return None
        if len(window.buffer) > max_bytes and not min_one_message:
            return None
        self._check_below_next(segment, window)
        segment.remember_end(window)
        return replace(self.fetch_data(segment, window, isolation), asked=start_offset)

    def _find_shown(
        self, start_offset: int, bound: int, isolation: Isolation, until: int
    ) -> tuple[LogSegment, FoundBatch] | None:
        """Does what :meth:`_find` does, for an offset below ``bound``; None too if ``isolation`` shows nothing there.

        Raises OffsetOutOfRangeError, MissingSegmentError, and the error of damage at the end of the log.
        """
        if not self._log_start_offset <= start_offset <= self._log_end_offset:
            raise OffsetOutOfRangeError(
                f"{self.context.directory}: offset {start_offset} is outside the log, which holds "
                f"{self._log_start_offset} to {self._log_end_offset}"
                + ("" if self.remote is None else f"; {remote_text(self.remote)}")
            )
        if start_offset >= bound:
            self.check_readable_to(start_offset, isolation)
            return None
        found = self._find(start_offset, until)
        if found is None:
            self._check_nothing_missing(start_offset)
            self.check_readable_to(self._log_end_offset, isolation)
        return found

    def _find(self, offset: int, until: int) -> tuple[LogSegment, FoundBatch] | None:
        """Returns the segment and position of the first batch that reaches ``offset``; None: there is no such batch.

        If the search has read that batch, its result also has the batch and those that follow it, up to offset
        ``until``. Checks that each segment begins where the previous one ends, unless the log was compacted.
        """
        before = self.segments.floor(offset)
        if before is not None and before.base_offset == offset:
            check_end_before(self.segments, before)
        for segment in self.segments.reaching(offset):
            if segment.base_offset > offset:
                segment.check_follows(before or segment, offset)
            if segment is not self.segments.active:
                segment.check_size()
            place = segment.find(offset, until)
            if place is not None:
                return segment, place
        return None

    def check_readable_to(self, offset: int, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> None:
        """Raises the error of damage at the apparent end of the log, if a read up to ``offset`` reaches that end.

        If transactions are open, the end is the last stable offset: the damage may be in the markers that ended them.
        """
        if self._end_damage is not None and offset >= self.end_offset(isolation):
            raise self._end_damage
        if len(self.segments) and offset >= self._log_end_offset == self.segments.active.base_offset:
            check_end_before(self.segments, self.segments.active)

    def _check_nothing_missing(self, offset: int) -> None:
        """Raises MissingSegmentError, unless compaction or gaps explain that no batch reaches ``offset``."""
        if self.context.holes() is Holes.NOWHERE:
            raise MissingSegmentError(
                f"offsets {offset} to {self._log_end_offset - 1} are in no batch, {NEVER_COMPACTED}",
                path=self.context.directory,
            )

    def _check_below_next(self, segment: LogSegment, window: Window) -> None:
        """Raises CorruptRecordError if a batch reaches into the next segment, or beyond the log end.

        Raises SegmentRemovedError if there is no such next segment any more: compaction has joined it to this one.
        """
        following, headers = self.segments.higher(segment.base_offset), window.headers
        end = self._log_end_offset if following is None else following.base_offset
        if headers.next_offset > end:
            if following is not None:
                following.status()
            table = headers.table[np.argmax(headers.table["last_offset"] >= end)]
            limit = "the log ends" if following is None else "the next segment begins"
            raise CorruptRecordError(
                f"a batch has offsets {table['base_offset']} to {table['last_offset']}, but {limit} at offset {end}: "
                "restore the file from a copy",
                path=segment.shown_path,
                position=window.position + int(table["position"]),
            )

    def _position_of_bound(self, segment: LogSegment, bound: int) -> int:
        """Returns the position at which a read of ``segment`` must end so that no batch reaches offset ``bound``."""
        following = self.segments.higher(segment.base_offset)
        if bound == self._log_end_offset or (following is not None and following.base_offset <= bound):
            return segment.size
        return segment.end_below(bound)

    def fetch_data(self, segment: LogSegment, window: Window, isolation: Isolation) -> FetchData:
        """Returns the batches of a window, and which of them ``isolation`` shows."""
        visible = ~window.headers.is_control
        if isolation is Isolation.READ_UNCOMMITTED or not window.headers.is_transactional.any():
            return FetchData(segment, window, visible, ())
        markers, _ = read_markers(window)
        hidden = self.hidden_rows(segment, window, markers)
        aborted = tuple(aborted_runs(window.headers, hidden, markers))
        return FetchData(segment, window, visible & ~hidden, aborted)

    def records(
        self,
        start: int,
        end: int,
        *,
        isolation: Isolation = Isolation.READ_COMMITTED,
        columns: Collection[str] = ALL_COLUMNS,
        timespan: Timespan = ALL_TIMES,
        choice: RowChoice | None = None,
        fetch_bytes: int = FETCH_BYTES,
    ) -> Iterator[Records]:
        """Yields the records with ``start <= offset < end`` that ``isolation`` shows, in tables, in offset order.

        With a ``timespan``, skips segments and batches without any record in that range; yields all records of the
        others. With a ``choice``, yields only the records that it chooses, with its columns too. Ends early at
        :meth:`end_offset`. Raises like :meth:`read` and :meth:`FetchData.records`.
        """
        bound = self.end_offset(isolation)
        start = self._passing_over(start, timespan)
        fetch_bytes = min(fetch_bytes, PROBE_BYTES + max(end - start, 0) * FETCH_BYTES_A_RECORD)
        for data in self._fetches(start, end, bound, isolation, fetch_bytes, timespan):
            tables = in_tables(data, lambda part: part.chosen(choice, start, end, columns, timespan))
            del data  # the tables free it, so that the next fetch reuses its memory, which is in the cache
            yield from tables

    def _fetches(
        self,
        start: int,
        end: int,
        bound: int,
        isolation: Isolation,
        max_bytes: int,
        timespan: Timespan = ALL_TIMES,
    ) -> Iterator[FetchData]:
        """Yields fetches from ``start`` up to the batch that reaches ``end``, without batches that reach ``bound``.

        Closes the files of segments that were read to their end: a log has more files than a process may have open.
        Keeps no reference to a fetch: once the caller releases one, the next fetch reuses its memory.
        """
        offset, before = start, None

        def fetch() -> FetchData | None:
            nonlocal offset, before
            if before is not None:
                offset = self._passing_over(offset, timespan)
            if offset >= min(end, bound):
                self.check_readable_to(offset, isolation)
                return None
            data = self.looking_again(partial(self._read, offset, bound, isolation, max_bytes, until=end - 1))
            if data is not None:
                if before is not None and before is not data.segment:
                    before.release()
                offset, before = data.next_offset, data.segment
            return data

        return iter(fetch, None)

    def _passing_over(self, offset: int, timespan: Timespan) -> int:
        """Skips segments, from ``offset`` on, with only records older than ``timespan``; returns the next offset.

        Skips nothing below the log start: the times of deleted records are unknown.
        """
        if timespan.first == INT64_MIN:
            return offset
        return self.looking_again(
            lambda: self._behind_older(offset, timespan.first) if offset >= self._log_start_offset else offset
        )

    def _behind_older(self, offset: int, timestamp_ms: int) -> int:
        segments = self.segments.reaching(offset)
        if not segments:  # nothing was written to the partition yet
            return offset
        found = next(segments_reaching_time(segments, timestamp_ms, self._check_ends_before_next), segments[-1])
        return max(offset, found.base_offset)

    def hidden_rows(self, segment: LogSegment, window: Window, markers: Mapping[int, Marker]) -> Bools:
        """Returns which batches of a window belong to an aborted or open transaction; shape (batches,)."""
        return self._outcomes.hidden_rows(segment, window, markers, self._log_end_offset)

    # Time

    def offset_for_timestamp(
        self, timestamp_ms: int, isolation: Isolation = Isolation.READ_COMMITTED
    ) -> OffsetAndTimestamp | None:
        """Returns the first record, by offset, that ``isolation`` shows and that is not older than ``timestamp_ms``.

        None if there is no such record. Never returns the offset of a control batch, as Kafka's lookup may: the time of
        such a batch is when its transaction ended. Raises CorruptRecordError if a skipped batch is damaged.
        """
        return self.looking_again(lambda: self._offset_for_timestamp(timestamp_ms, isolation))

    def first_at(self, timestamp_ms: int, isolation: Isolation) -> int | None:
        """Returns the offset that :meth:`offset_for_timestamp` finds, or that of lost records that may be before it."""

        def offset_at(time_ms: int) -> int | None:
            found = self.offset_for_timestamp(time_ms, isolation)
            return None if found is None else found.offset

        return self.with_lost_before(offset_at(timestamp_ms), offset_at)

    def _offset_for_timestamp(self, timestamp_ms: int, isolation: Isolation) -> OffsetAndTimestamp | None:
        bound = self.end_offset(isolation)
        segments = self.segments.below(bound)
        for segment in segments_reaching_time(segments, timestamp_ms, self._check_ends_before_next):
            self._check_follows_what_was_read(segment)
            found = self._first_not_older(segment, timestamp_ms, isolation)
            if found is not None and found.offset < bound:
                return found
            if found is not None:
                break
            self._check_ends_before_next(segment)
            self._close_inactive(segment)
        self.check_readable_to(bound, isolation)
        return None

    def _check_follows_what_was_read(self, segment: LogSegment) -> None:
        check_end_before(self.segments, segment)
        before = self.segments.floor(segment.base_offset - 1)
        if before is not None:
            self._check_ends_before_next(before)

    def _check_ends_before_next(self, segment: LogSegment) -> None:
        """Raises CorruptRecordError or MissingSegmentError if the next segment does not follow ``segment``.

        Does nothing if the log of ``segment`` was not read to its end: see :meth:`SegmentReader.check_follows`.
        """
        following, end = self.segments.higher(segment.base_offset), end_if_read(segment)
        if following is not None and end is not None:
            following.check_follows(segment, end)

    def _first_not_older(
        self, segment: LogSegment, timestamp_ms: int, isolation: Isolation
    ) -> OffsetAndTimestamp | None:
        start = self._log_start_offset
        for window, rows in batches_reaching_time(segment, timestamp_ms, start):
            self._check_below_next(segment, window)
            for row in rows.tolist():
                if self._shows(segment, window, row, isolation):
                    found = first_record_not_older(segment, window, row, timestamp_ms, start)
                    if found is not None:
                        return found
        return None

    def _shows(self, segment: LogSegment, window: Window, row: int, isolation: Isolation) -> bool:
        """Whether ``isolation`` shows a data batch."""
        batch = window._replace(headers=window.headers[row : row + 1])
        if isolation is Isolation.READ_UNCOMMITTED or not batch.headers.is_transactional[0]:
            return True
        return not self.hidden_rows(segment, batch, {})[0]

    def _close_inactive(self, segment: LogSegment) -> None:
        """Closes the files of a segment, unless it is active: a log has more files than a process may have open."""
        if segment is not self.segments.active:
            segment.close()

    def offset_of_max_timestamp(self) -> OffsetAndTimestamp | None:
        """Returns the first record with the largest timestamp of the log; None if no record has a timestamp.

        Records of aborted and open transactions count too.
        """
        return self.looking_again(self._offset_of_max_timestamp)

    def _offset_of_max_timestamp(self) -> OffsetAndTimestamp | None:
        found: tuple[int, LogSegment] | None = None
        self.check_readable_to(self._log_end_offset, Isolation.READ_UNCOMMITTED)
        self._behind_older(0, INT64_MAX)  # confirms segments that may have later records than their index states
        for segment in sorted(self.segments, key=lambda each: each.largest.timestamp, reverse=True):  # keeps the order
            if segment.largest.timestamp < (0 if found is None else found[0]):
                break
            largest = largest_record_time(segment, self._log_start_offset)
            if found is None or (largest, -segment.base_offset) > (found[0], -found[1].base_offset):
                found = largest, segment
            self._close_inactive(segment)
        if found is None or found[0] < 0:
            return None
        return self._first_not_older(found[1], found[0], Isolation.READ_UNCOMMITTED)
