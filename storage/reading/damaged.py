"""Reads a damaged log: all records of its sound batches, with a report of each damaged batch.

A batch is sound if its checksum, offsets and records are correct. After a damaged header, the next batch with a correct
checksum is searched for. If the marker of a transaction is damaged, the producer's next marker decides instead; records
that a transaction index lists as aborted are hidden too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

import numpy as np

from .. import format as formats
from ..errors import CorruptIndexError, CorruptionError, CorruptRecordError, StorageError
from ..format.constants import LOG_OVERHEAD
from ..format.record_columns import ALL_COLUMNS
from ..format.tables import BatchHeaders, Bools, Int64s, Records
from ..segment.joining import first_offset, size_at_start
from ..segment.walk import Window
from ..segment.writer import LogSegment
from .aborted import Isolation
from .fetch import ALL_TIMES, FetchData, RowChoice, Timespan
from .reader import FETCH_BYTES, LogReader
from .view import REOPEN_ATTEMPTS

Report = Callable[[CorruptionError], None]


def salvaged_records(
    reader: LogReader,
    start: int,
    end: int,
    report: Report,
    *,
    isolation: Isolation = Isolation.READ_COMMITTED,
    columns: Collection[str] = ALL_COLUMNS,
    timespan: Timespan = ALL_TIMES,
    choice: RowChoice | None = None,
    report_deleted: Callable[[range], None] | None = None,
) -> Iterator[Records]:
    """Yields records as :meth:`LogReader.records`, but passes each damage to ``report`` and continues after it.

    With a ``choice``, yields only the records that it chooses, with its columns too.

    ``report`` gets a CorruptionError with path and position, and with the offsets that are skipped because of it, if
    they are known; of several in a row, the first one has the offsets of all. Each damage is reported once, even if
    segments are replaced during the read and read again. Offsets that are in no segment are reported too, unless
    compaction may have removed them. ``report_deleted`` gets the offsets that are deleted during the read, before they
    were read.
    """
    salvage = _Salvage(reader, report, isolation, choice, report_deleted)
    with reader.despite_damage():
        for data in salvage.fetches(start, end):
            for records in salvage.records(data, start, end, columns, timespan):
                if len(records):
                    yield records
        salvage.report_pending(end)
        salvage.report_end(end)


class _Salvage:
    """One pass over a log that may be damaged."""

    def __init__(
        self,
        reader: LogReader,
        report: Report,
        isolation: Isolation,
        choice: RowChoice | None,
        report_deleted: Callable[[range], None] | None,
    ) -> None:
        self._reader = reader
        self._report_damage, self._report_deleted = report, report_deleted
        self._isolation = isolation
        self._choice = choice
        self._known: set[tuple[str | None, int | str | None]] = set()
        self._pending: list[CorruptionError] = []  # to be reported when the next sound batch shows what is skipped
        self._next_offset = 0  # after the last sound batch

    def _report(self, error: CorruptionError) -> None:
        location = error.path, error.reason if error.position is None else error.position
        if location not in self._known:
            self._known.add(location)
            self._report_damage(error)

    def report_pending(self, before: int | None) -> None:
        """Reports the damage since the last sound batch; all offsets from there on, ``before`` this, are skipped."""
        for number, error in enumerate(self._pending):
            if number == 0 and before is not None and self._next_offset < before:
                error.skipped_offsets = self._next_offset, before - 1
                self._next_offset = before
            self._report(error)
        self._pending.clear()

    def report_end(self, end: int) -> None:
        """Reports damage at the apparent end of the log, if a read up to offset ``end`` reaches it."""
        try:
            self._reader.check_readable_to(end, self._isolation)
        except CorruptionError as error:
            self._report(error)

    def fetches(self, offset: int, end: int) -> Iterator[FetchData]:
        """Yields sound batches from ``offset`` on, up to the one that reaches ``end``."""
        attempts = 0
        while True:
            try:
                for data in self._from(offset, end):
                    yield data
                    offset, attempts = data.next_offset, 0
            except FileNotFoundError as error:  # replaced or deleted: look again, by offset
                attempts += 1
                if attempts == REOPEN_ATTEMPTS:
                    what = f"{self._reader.context.directory}: files disappear while they are being read"
                    raise StorageError(f"{what}; is the topic being deleted?") from error
                self._reader.refresh()
                offset = self._behind_deleted(offset, end)
            else:
                return

    def _behind_deleted(self, offset: int, end: int) -> int:
        """Returns where the read continues, and reports the offsets below the log start that it has not reached."""
        start = min(self._reader.log_start_offset, end)
        if offset < start and self._report_deleted is not None:
            self._report_deleted(range(offset, start))
        return max(offset, start)

    def _from(self, offset: int, end: int) -> Iterator[FetchData]:
        visible_end, before = self._reader.end_offset(self._isolation), None
        for segment in self._reader.segments.reaching(offset):
            self._report_missing(before, segment, min(end, visible_end))
            if max(offset, segment.base_offset) >= min(end, visible_end):
                return
            before = segment
            for window in self._in_order(segment, max(offset, segment.base_offset), end):
                is_visible = window.headers.table["last_offset"] < visible_end
                if is_visible.any():
                    data = self._shown(segment, window._replace(headers=window.headers[is_visible]))
                    yield data
                    offset = data.next_offset
                if offset >= end or not is_visible.all():
                    return

    def _report_missing(self, before: LogSegment | None, segment: LogSegment, end: int) -> None:
        """Reports the offsets that are in no segment between ``before``, which was read to its end, and the next.

        None from offset ``end`` on.
        """
        if before is not None and self._next_offset < min(segment.base_offset, end):
            try:
                segment.check_follows(before, self._next_offset)
            except CorruptionError as error:
                error.skipped_offsets = self._next_offset, min(segment.base_offset, end) - 1
                self._report(error)

    def _in_order(self, segment: LogSegment, first: int, end: int) -> Iterator[Window]:
        """Yields batches from offset ``first`` to ``end`` that are within the segment and above all before them.

        Reports the others. Raises SegmentRemovedError if compaction has joined the next segment to this one, whose file
        then reaches beyond its beginning.
        """
        reached, following = first, self._reader.segments.higher(segment.base_offset)
        for window in self._windows(segment, first, end):
            last_offsets = window.headers.table["last_offset"]
            if following is not None and (last_offsets >= following.base_offset).any():
                following.status()
            is_right = _above(window, reached, self._ceiling(segment))
            self._report_out_of_order(segment, window, ~is_right & (last_offsets >= first))
            if is_right.any():
                reached = int(last_offsets[is_right][-1]) + 1
                yield window._replace(headers=window.headers[is_right])

    def _windows(self, segment: LogSegment, first: int, end: int) -> Iterator[Window]:
        """Yields batches with correct checksums, up to the one that reaches ``end``; may begin below ``first``."""
        position, self._next_offset = segment.position_before(first), first
        found_stop = _position_reaching(segment, end)
        stop = found_stop if position < found_stop < segment.size else segment.size
        while position < segment.size:
            try:
                for window in segment.walk(position, stop, FETCH_BYTES):
                    position = window.position + window.headers.end
                    yield self._with_right_checksums(segment, window, first, end)
                if position < stop == segment.size:  # a wrong length, or the end of the segment is missing
                    raise CorruptRecordError("a batch is incomplete", path=segment.shown_path, position=position)
            except CorruptRecordError as error:
                self._pending.append(error)
                found = segment.search(segment.size).next_sound(position + 1)
                resume_at = segment.size if found is None else found
                error.skipped_bytes, position = resume_at - position, resume_at
            stop = segment.size
        self.report_pending(min(end, self._ceiling(segment)))

    def _ceiling(self, segment: LogSegment) -> int:
        """Returns the offset that no batch of a segment may reach."""
        following = self._reader.segments.higher(segment.base_offset)
        return self._reader.log_end_offset if following is None else following.base_offset

    def _with_right_checksums(self, segment: LogSegment, window: Window, first: int, end: int) -> Window:
        is_right = formats.checksums_match(window.buffer, window.headers)
        last = window.headers.table["last_offset"]  # no checksum covers it
        reaching = np.flatnonzero(is_right & (last >= end - 1) & (last < self._ceiling(segment)))
        rows = slice(0, int(reaching[0]) + 1 if len(reaching) else None)  # damage after these is not read
        headers, is_right = window.headers[rows], is_right[rows]
        is_wanted = headers.table["last_offset"] >= first
        path, what = segment.shown_path, "the batch does not match its checksum"
        for row in [*np.flatnonzero(~is_right & is_wanted).tolist(), len(headers)]:
            self._pass(headers[:row][is_right[:row]], self._ceiling(segment), end)
            if row < len(headers):
                at = window.position + int(headers.table["position"][row])
                self._pending.append(CorruptRecordError(what, path=path, position=at))
                self._pending[-1].skipped_bytes = int(headers.table["size"][row])
        return window._replace(headers=headers[is_right])

    def _pass(self, sound: BatchHeaders, ceiling: int, end: int) -> None:
        """Advances over sound batches; reports the damage before the first one that follows all before."""
        last = sound.table["last_offset"]
        above = sound[np.flatnonzero((last >= self._next_offset) & (last < ceiling))]
        if len(above):
            following = first_offset(above)
            self.report_pending(None if following is None else min(following, end))
            self._next_offset = int(above.table["last_offset"].max()) + 1

    def _report_out_of_order(self, segment: LogSegment, window: Window, rows: Bools) -> None:
        table = window.headers.table
        for row in np.flatnonzero(rows).tolist():
            offsets = f"{table['base_offset'][row]} to {table['last_offset'][row]}"
            reason = f"the batch has offsets {offsets}, which are not above those of the batches before"
            at = window.position + int(table["position"][row])
            error = CorruptRecordError(reason, path=segment.shown_path, position=at)
            error.skipped_bytes = int(table["size"][row])
            self._report(error)

    def _shown(self, segment: LogSegment, window: Window) -> FetchData:
        """Returns the batches that the isolation level shows; none of transactions whose outcome damage hides."""
        try:
            data = self._reader.fetch_data(segment, window, self._isolation)
        except CorruptRecordError as error:
            self._report(error)
            headers = window.headers
            return FetchData(segment, window, ~headers.is_control & ~headers.is_transactional, ())
        if self._isolation is Isolation.READ_UNCOMMITTED or not self._known:
            return data
        return FetchData(segment, window, data.visible & ~self._indexed_as_aborted(segment, window), data.aborted)

    def _indexed_as_aborted(self, segment: LogSegment, window: Window) -> Bools:
        """Returns which batches a transaction index lists as aborted; used if damage may have destroyed a marker."""
        table = window.headers.table
        found = np.zeros(len(table), dtype=np.bool_)
        for each in self._reader.segments.reaching(segment.base_offset):
            with suppress(CorruptIndexError):
                for entry in each.txn_index.entries:
                    is_inside = (table["base_offset"] >= entry.first_offset) & (
                        table["last_offset"] <= entry.last_offset
                    )
                    found |= is_inside & (table["producer_id"] == entry.producer_id)
        return found & window.headers.is_transactional

    def records(
        self, data: FetchData, start: int, end: int, columns: Collection[str], timespan: Timespan
    ) -> Iterator[Records]:
        """Yields the records of a fetch; if a batch does not decode, reports it and yields those of the others."""
        found: Records | None = None
        with suppress(CorruptionError):
            found = self._decoded(data, start, end, columns, timespan)
        if found is None:
            yield from self._one_by_one(data, start, end, columns, timespan)
        else:
            yield found

    def _decoded(self, data: FetchData, start: int, end: int, columns: Collection[str], timespan: Timespan) -> Records:
        return data.chosen(self._choice, start, end, columns, timespan)

    def _one_by_one(
        self, data: FetchData, start: int, end: int, columns: Collection[str], timespan: Timespan
    ) -> Iterator[Records]:
        for row in np.flatnonzero(data.visible).tolist():
            window = data.window._replace(headers=data.window.headers[row : row + 1])
            try:
                one = FetchData(data.segment, window, data.visible[row : row + 1], ())
                yield self._decoded(one, start, end, columns, timespan)
            except CorruptionError as error:
                header = window.headers.table[0]
                error.skipped_offsets = int(header["base_offset"]), int(header["last_offset"])
                error.skipped_bytes = int(header["size"])
                self._report(error)


def _position_reaching(segment: LogSegment, end: int) -> int:
    """Returns where, according to the offset index, the batch ends that reaches offset ``end``; 0 if unknown.

    Only saves reading: a walk continues from a wrong position, too.
    """
    with suppress(CorruptIndexError):
        index = segment.offset_index
        row = int(np.searchsorted(index.offsets, end - 1))
        position = int(index.positions[row]) if row < len(index.offsets) else -1
        if 0 <= position < segment.size:
            return position + size_at_start(np.frombuffer(segment.read_bytes(position, LOG_OVERHEAD), dtype=np.uint8))
    return 0


def _above(window: Window, floor: int, ceiling: int) -> Bools:
    """Returns which batches end at or above ``floor``, below ``ceiling``, and above all such batches before them."""
    last: Int64s = window.headers.table["last_offset"]
    inside: Bools = (last >= floor) & (last < ceiling) & (window.headers.table["base_offset"] <= last)
    reached = np.maximum.accumulate(np.where(inside, last, -1))
    is_above: Bools = last > np.concatenate(([-1], reached[:-1]))
    return inside & is_above
