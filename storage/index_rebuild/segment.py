"""Rebuilds the offset and time index of one segment, and collects its producers. Needs no other segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from .. import format as formats
from ..errors import CorruptionError, CorruptRecordError
from ..filesystem.operations import read_file, write_atomically
from ..format.constants import NO_TIMESTAMP
from ..format.files import file_names
from ..format.files.index_entries import OFFSET_ENTRY, TIME_ENTRY, encode_offset_entries, encode_time_entries, fits
from ..format.tables import HEADERS, BatchHeaders, Int64s
from ..recovery.producer_snapshots import SIDECAR_BYTES_MAX
from ..recovery.producer_state import Marker
from ..recovery.producer_state_manager import rows_for_replay
from ..recovery.segment_recovery import read_markers
from ..segment.reader import SegmentReader
from ..segment.time_index import TimestampOffset, running_largest
from ..segment.walk import LogContext, Window
from ..text import counted
from ..verify.findings import Findings, Kind
from ..verify.indexes import OffsetIndexCheck, TimeIndexCheck, read_index


@dataclass(frozen=True)
class Change:
    """A file that contradicts the log, and its correct content."""

    path: str
    reason: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; should hold {len(self.data)} bytes"


@dataclass(frozen=True)
class SegmentSurvey:
    """The facts in the log of one segment, and the indexes that contradict them. Can be pickled."""

    base_offset: int
    next_offset: int  # after the last batch; the base offset if there is none
    changes: tuple[Change, ...] = ()  # of its offset and time index
    producers: BatchHeaders = field(default_factory=lambda: BatchHeaders(np.empty(0, HEADERS)))  # that affect state
    markers: Mapping[int, Marker] = field(default_factory=dict)  # among those, by offset
    damage: CorruptionError | None = None  # if set, nothing else is known

    def without_data(self) -> SegmentSurvey:
        """Returns a copy without the correct content of files, small enough to send to other processes."""
        return replace(self, changes=tuple(replace(change, data=b"") for change in self.changes))


def survey_segment(segment: SegmentReader, *, is_active: bool) -> SegmentSurvey:
    """Reads one segment, an active one up to its size, and returns the facts in its log, or its damage."""
    try:
        return _survey(segment, is_active=is_active)
    except CorruptionError as error:
        return SegmentSurvey(segment.base_offset, segment.base_offset, damage=error)


def _survey(segment: SegmentReader, *, is_active: bool) -> SegmentSurvey:
    entries = IndexEntries(segment.base_offset, segment.context.config.index_interval_bytes)
    producers, markers, next_offset = [np.empty(0, HEADERS)], {}, segment.base_offset
    stored = _StoredIndexes(segment)
    for window in _sound_windows(segment, segment.size if is_active else segment.file_size):
        entries.add(window)
        stored.check(window)
        markers.update(read_markers(window)[0])
        producers.append(window.headers[rows_for_replay(window.headers)].table)
        next_offset = window.headers.next_offset
    stored.finish(next_offset, is_closed=not is_active)
    changes = tuple(_index_changes(segment, entries, stored, next_offset, is_active=is_active))
    return SegmentSurvey(segment.base_offset, next_offset, changes, BatchHeaders(np.concatenate(producers)), markers)


def rebuild_segment(
    context: LogContext, base_offset: int, *, suffix: str = "", dry_run: bool = False
) -> tuple[Change, ...]:
    """Rebuilds offset and time index of one closed segment. Returns the changes; with ``dry_run``, makes none.

    The caller holds the maintenance lock. After a crash, each index is either old or correct.

    Raises CorruptRecordError, with path and position, if the log is damaged; nothing has been changed then.
    """
    segment = SegmentReader(context, base_offset, suffix)
    try:
        changes = _survey(segment, is_active=False).changes
    finally:
        segment.close()
    if not dry_run:
        carry_out(context, changes)
    return changes


class IndexEntries:
    """The entries that recovery creates: one for each batch more than ``interval_bytes`` after the previous entry."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._indexed_position = 0
        self._largest = TimestampOffset(NO_TIMESTAMP, base_offset)
        self._offset_entries: list[bytes] = []
        self._time_entries: list[bytes] = []
        self._last_time = NO_TIMESTAMP

    def add(self, window: Window) -> None:
        """Adds the entries of the next batches."""
        table = window.headers.table
        timestamps, offsets = running_largest(self._largest, window.headers)
        rows = self._rows_to_index(window.position + table["position"])
        positions = window.position + table["position"][rows]
        self._offset_entries.append(encode_offset_entries(self.base_offset, table["last_offset"][rows], positions))
        self._add_times(timestamps[rows], offsets[rows])
        self._largest = TimestampOffset(int(timestamps[-1]), int(offsets[-1]))

    def _rows_to_index(self, positions: Int64s) -> Int64s:
        rows: list[int] = []
        row = int(np.searchsorted(positions, self._indexed_position + self._interval_bytes, side="right"))
        while row < len(positions):
            rows.append(row)
            self._indexed_position = int(positions[row])
            row = int(np.searchsorted(positions, self._indexed_position + self._interval_bytes, side="right"))
        return np.array(rows, dtype=np.int64)

    def _add_times(self, timestamps: Int64s, offsets: Int64s) -> None:
        """Adds time entries, except those whose timestamp is not above the previous one."""
        rises = timestamps > np.concatenate(([self._last_time], timestamps[:-1]))
        if rises.any():
            self._time_entries.append(encode_time_entries(self.base_offset, timestamps[rises], offsets[rises]))
            self._last_time = int(timestamps[-1])

    def offset_index(self) -> bytes:
        """Returns the content of the ``.index``."""
        return b"".join(self._offset_entries)

    def time_index(self, *, closed: bool = True) -> bytes:
        """Returns the content of the ``.timeindex``; if ``closed``, its last entry has the largest timestamp of all."""
        timestamp, offset = self._largest
        last = b""
        if closed and timestamp > self._last_time:
            last = encode_time_entries(self.base_offset, np.array([timestamp]), np.array([offset]))
        return b"".join(self._time_entries) + last


_ENTRY_BYTES = {file_names.INDEX: OFFSET_ENTRY.itemsize, file_names.TIME_INDEX: TIME_ENTRY.itemsize}


class _StoredIndexes:
    """The indexes that a segment has, judged as verification does: other entries than rebuilt ones may be right."""

    def __init__(self, segment: SegmentReader) -> None:
        self._findings, base, self._end = Findings(), segment.base_offset, 0
        kinds = {file_names.INDEX: Kind.BAD_OFFSET_INDEX, file_names.TIME_INDEX: Kind.BAD_TIME_INDEX}
        self._files = {
            suffix: read_index(
                segment.context.filesystem, segment.path(suffix), kind, _ENTRY_BYTES[suffix], self._findings
            )
            for suffix, kind in kinds.items()
        }
        self._offsets = OffsetIndexCheck(self._files[file_names.INDEX], base, self._findings)
        self._times = TimeIndexCheck(self._files[file_names.TIME_INDEX], base, self._findings)

    def check(self, window: Window) -> None:
        """Compares the entries about the next batches with them."""
        self._offsets.check(window)
        self._times.check(window)
        self._end = window.position + window.headers.end

    def finish(self, next_offset: int, *, is_closed: bool) -> None:
        """Ends the comparison; the segment ends before ``next_offset``."""
        self._offsets.finish(self._end)
        self._times.finish(next_offset, is_closed=is_closed)

    def bytes_of(self, suffix: str) -> int:
        """Returns the bytes of the entries in an index."""
        return len(self._files[suffix].entries)

    def are_right(self, suffix: str) -> bool:
        """Whether an index is there, and every entry in it is right."""
        file = self._files[suffix]
        return file.is_there and all(each.path != file.path for each in self._findings.all())


def _sound_windows(segment: SegmentReader, end: int) -> Iterator[Window]:
    """Yields all batches up to position ``end``. Raises CorruptRecordError unless all are whole, intact, in order."""
    path = segment.path(file_names.LOG)
    position, next_offset = 0, segment.base_offset
    for window in segment.batches(0, end):
        table = window.headers.table
        try:
            formats.verify(window.buffer, window.headers)
        except CorruptRecordError as error:
            raise error.located(path, window.position) from None
        wrong = np.flatnonzero(np.diff(table["last_offset"], prepend=next_offset - 1) <= 0)
        if len(wrong):
            at = window.position + int(table["position"][wrong[0]])
            reason = f"offset {table['last_offset'][wrong[0]]} does not increase: each must be above the one before it"
            raise CorruptRecordError(reason, path=path, position=at)
        next_offset = window.headers.next_offset
        if not fits(segment.base_offset, next_offset - 1):
            reason = f"offset {next_offset - 1} is too far above the base offset: open the log for writing to split it"
            raise CorruptRecordError(reason, path=path, position=window.position)
        position = window.position + window.headers.end
        yield window
    if position < end:
        raise CorruptRecordError(f"the last {end - position} bytes are no whole batch", path=path, position=position)


def _index_changes(
    segment: SegmentReader, entries: IndexEntries, stored: _StoredIndexes, next_offset: int, *, is_active: bool
) -> Iterator[Change]:
    """Yields a change for each wrong index, and for one with few of the entries that a rebuilt one has.

    In an active segment, indexes may be padded with zeros, and the time index may lack its last entry.
    """
    offset_index = entries.offset_index()
    time_indexes = [entries.time_index(), *([entries.time_index(closed=False)] if is_active else [])]
    for kind, right in ((file_names.INDEX, [offset_index]), (file_names.TIME_INDEX, time_indexes)):
        path = segment.path(kind)
        found = read_sidecar(segment.context, path)
        accepted = [
            data for each in right for data in (each, each.ljust(len(found or b""), b"\0") if is_active else each)
        ]
        if found in accepted:
            continue
        if stored.are_right(kind):
            entry_bytes, there = _ENTRY_BYTES[kind], stored.bytes_of(kind)
            if 2 * there < len(right[0]):
                few = f"{counted(there // entry_bytes, 'right entry')} of {len(right[0]) // entry_bytes:,}"
                yield Change(path, few, right[0])
            continue
        lost = segment.lost_end(next_offset) if kind == file_names.INDEX and found else None
        yield Change(path, lost or difference(found, right[0]), right[0])


def read_sidecar(context: LogContext, path: str) -> bytes | None:
    """Returns a file's bytes; None if it is missing. For a file too large to be valid, returns one invalid byte."""
    try:
        return read_file(context.filesystem, path, SIDECAR_BYTES_MAX)
    except FileNotFoundError:
        return None
    except CorruptionError:
        return b"\xff"


def difference(found: bytes | None, right: bytes) -> str:
    """Returns how a file with the bytes ``found`` (None: missing) differs from ``right``, as text."""
    if found is None:
        return "missing"
    differing = (n for n, (a, b) in enumerate(zip(found, right, strict=False)) if a != b)
    position = next(differing, min(len(found), len(right)))
    return f"{len(found)} bytes, which differ from the rebuilt ones from position {position} on"


def carry_out(context: LogContext, changes: Iterable[Change]) -> list[tuple[str, str]]:
    """Writes and syncs the correct content of files. Returns (path, reason) of each.

    After a crash, each file is either old or correct.
    """
    done = []
    for change in changes:
        write_atomically(context.filesystem, change.path, change.data)
        done.append((change.path, change.reason))
    return done
