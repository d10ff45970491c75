"""LogWatcher: opens a log once and catches up later, reading only appended batches.

It is for streaming queries, which access a log before every micro-batch, and for tasks that read a little at the end of
a long log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ..errors import CorruptionError
from ..filesystem.operations import catch_up
from ..filesystem.port import FileStatus
from ..recovery.log_end import is_sound_up_to_end
from ..recovery.segment_recovery import replay
from ..recovery.view import LoadedLog
from ..segment.walk import PROBE_BYTES
from ..segment.writer import LogSegment
from .aborted import Isolation
from .marks import Marks
from .reader import LogReader

# How far the log may extend beyond the last index entry in memory before the index is reread: the bytes to walk.
UNINDEXED_BYTES = 1024 * 1024


class LogWatcher(LogReader):
    """Reads a partition's log as it grows. Takes no lock and changes nothing."""

    def _load(self) -> LoadedLog:
        self._known_directory = None  # no state can be kept for a log that cannot be loaded
        self._indexed_bytes = 0
        directory = self._directory()  # before the names are listed: a later change of the names also changes this
        loaded = super()._load()
        self._known_directory = directory
        return loaded

    def _directory(self) -> FileStatus | None:
        return self.context.filesystem.status(self.context.directory)

    def catch_up(self, marks: Marks | None = None) -> None:
        """Updates the view with all changes since the last update.

        Reads only appended batches, unless a roll, compaction, retention or recovery added or removed files; then it
        loads the whole log, like :meth:`refresh`. ``marks``: the checkpoints' entries, if the caller has just read
        them, after it let the file system catch up. Raises StorageError if the directory no longer exists.
        """
        if marks is None:
            catch_up(self.context.filesystem)
        is_known = self._known_directory is not None and len(self.segments) > 0
        if not is_known or self._directory() != self._known_directory or not self._take_in_appended(marks):
            self._load_again()
        self._expire_producers()

    def _take_in_appended(self, marks: Marks | None) -> bool:
        """Reads the headers of appended batches; returns False if only a load shows the log as it is now.

        That is the case if the active segment was cut, if there is damage after its batches, and if it is no longer the
        active one. The directory's time does not always show a roll: two changes within a millisecond have one time.
        """
        active = self.segments.active
        if active.file_size < active.size:
            return False
        self._marks = self.checkpoints.read() if marks is None else marks
        self._log_start_offset = max(self._log_start_offset, self._marks.log_start_offset)
        for window in active.read_appended(self._log_end_offset):
            self._log_end_offset = window.headers.next_offset
            if self._producers is not None:  # otherwise they are determined when needed
                replay(active, window, self._producers, index_aborts=False)
                self._producers.on_high_watermark(self._log_end_offset)
        if active.size - self._indexed_bytes > UNINDEXED_BYTES:
            active.offset_index.close()
            self._indexed_bytes = active.size
        return is_sound_up_to_end(active, self._log_end_offset, self._marks.recovery_point) and not self.is_rolled()

    def rest(self, start: int, end: int) -> None:
        """Closes the files of all segments with offsets from ``start`` up to ``end``, except the active segment.

        A watcher lives long, and a process may have only a thousand files open.
        """
        for segment in self.segments.reaching(start):
            if segment.base_offset >= end:
                break
            self._rest(segment)

    def _rest(self, segment: LogSegment) -> None:
        if segment is not self.segments.active:
            segment.close()

    # Where a micro-batch may end

    def stable_end(self, isolation: Isolation) -> int:
        """Returns :meth:`end_offset`, but excludes transaction markers at the end that may not be synced yet.

        After a power cut, such a marker may be lost, and the next record gets the marker's offset. A query that had
        stored the end after the marker as its progress would never read that record.
        """
        bound = self.end_offset(isolation)
        return self._despite_damage(lambda: self._stable_end(bound), bound)

    def _despite_damage(self, look: Callable[[], int], otherwise: int) -> int:
        try:
            return self.looking_again(look)
        except CorruptionError:
            if not self.passes_damage:
                raise
            return otherwise

    def _stable_end(self, bound: int) -> int:
        if not len(self.segments):
            return bound
        # Everything below an active segment was synced when the segment began.
        active = self.segments.active
        synced = max(self._marks.recovery_point or 0, active.base_offset, self._log_start_offset)
        if bound <= synced:
            return bound
        end = self._position_of_bound(active, bound)
        for offset in _indexed_below(active, bound):
            position = active.position_before(offset)
            behind = _end_of_data(active, position, end)
            if behind is not None or offset < synced:
                return max(behind or 0, synced)
            end = position
        return synced

    def offset_within(self, start: int, end: int, max_bytes: int) -> int:
        """Returns the offset, at the end of a batch, up to which a read from ``start`` takes at most ``max_bytes``.

        The read includes at least one batch, and ends at ``end`` at the latest. Damage raises CorruptionError; within
        :meth:`despite_damage`, the result is then ``end``.
        """
        return self._despite_damage(lambda: self._offset_within(start, end, max_bytes), end)

    def _offset_within(self, start: int, end: int, max_bytes: int) -> int:
        remaining = max_bytes
        for segment in self.segments.reaching(start):
            if segment.base_offset >= end:
                break
            found = _offset_in(segment, max(start, segment.base_offset), remaining, must_move=remaining == max_bytes)
            remaining -= found.size
            if found.offset is not None:
                return min(found.offset, end)
            self._rest(segment)
        return end

    def bytes_between(self, start: int, end: int) -> int:
        """Returns the approximate number of bytes between two offsets, with a segment's offsets evenly spread."""
        return self.looking_again(lambda: self._bytes_between(start, end))

    def _bytes_between(self, start: int, end: int) -> int:
        total = 0
        for segment in self.segments.reaching(start):
            if segment.base_offset >= end:
                break
            following = self.segments.higher(segment.base_offset)
            behind = self._log_end_offset if following is None else following.base_offset
            inside = min(end, behind) - max(start, segment.base_offset)
            if inside > 0:
                total += segment.status().size * inside // (behind - segment.base_offset)
        return total


def _indexed_below(segment: LogSegment, bound: int) -> Iterator[int]:
    """Yields the offsets of index entries below ``bound``, from last to first, then the segment's base offset."""
    offsets = segment.offset_index.offsets
    for row in range(int(np.searchsorted(offsets, bound)) - 1, -1, -1):
        yield int(offsets[row])
    yield segment.base_offset


def _end_of_data(segment: LogSegment, position: int, end: int) -> int | None:
    """Returns the offset after the last data batch between two positions; None if there are only control batches."""
    behind = None
    for window in segment.batches(position, end):
        rows = np.flatnonzero(~window.headers.is_control)
        if len(rows):
            behind = int(window.headers.table["last_offset"][rows[-1]]) + 1
    return behind


class _Taken(NamedTuple):
    """The part of a segment that a read with a limit takes."""

    size: int  # bytes
    offset: int | None  # where the read ends, if it ends in this segment


def _offset_in(segment: LogSegment, start: int, max_bytes: int, *, must_move: bool) -> _Taken:
    """Returns the part of a segment that a read from offset ``start`` with a limit of ``max_bytes`` takes.

    With ``must_move``, the part includes the first batch, even if that is larger than ``max_bytes``.
    """
    position = segment.position_reaching(start)
    if position is None:
        return _Taken(0, None)
    size = segment.size - position
    if size <= max_bytes:
        return _Taken(size, None)
    behind = _end_within(segment, position, max_bytes)
    if behind is None:
        behind = _first_end(segment, position) if must_move else start
    return _Taken(max_bytes, behind)


def _end_within(segment: LogSegment, position: int, max_bytes: int) -> int | None:
    """Returns the offset after the last batch that ends within ``max_bytes`` of ``position``; None: no batch does."""
    limit = position + max_bytes
    offsets, positions = segment.offset_index.offsets, segment.offset_index.positions
    row = int(np.searchsorted(positions, limit, side="right")) - 2  # a batch that certainly ends below the limit
    begin = max(position, segment.position_before(int(offsets[row]))) if row >= 0 else position
    behind = None
    for window in segment.batches(begin, window_bytes=PROBE_BYTES):
        table = window.headers.table
        ends = window.position + table["position"] + table["size"]
        fitting = int(np.searchsorted(ends, limit, side="right"))
        if fitting:
            behind = int(table["last_offset"][fitting - 1]) + 1
        if fitting < len(table):
            break
    return behind


def _first_end(segment: LogSegment, position: int) -> int:
    """Returns the offset after the batch at ``position``."""
    window = next(segment.batches(position, window_bytes=PROBE_BYTES))
    return int(window.headers.table["last_offset"][0]) + 1
