"""LogWatcher: a reader for repeated access, which costs only what was appended, not the whole log.

For streaming queries: an access before every micro-batch, and tasks that read a little at the end of a long log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ..errors import CorruptionError
from ..filesystem import FileStatus
from ..recovery import LoadedLog, is_sound_up_to_end, replay
from ..segment import PROBE_BYTES, LogSegment
from .aborted import Isolation
from .marks import Marks
from .reader import LogReader

# How far the log may extend beyond the last index entry in memory before the index is reread: the bytes to walk.
UNINDEXED_BYTES = 1024 * 1024


class LogWatcher(LogReader):
    """A partition's log, for reading as it grows. Like every reader, takes no lock and changes nothing."""

    def _load(self) -> LoadedLog:
        self._known_directory = None  # nothing is known of a log that cannot be loaded
        self._indexed_bytes = 0
        directory = self._directory()  # before the names are listed: a later change of the names also changes this
        loaded = super()._load()
        self._known_directory = directory
        return loaded

    def _directory(self) -> FileStatus | None:
        return self.context.filesystem.status(self.context.directory)

    def catch_up(self, marks: Marks | None = None) -> None:
        """See what was appended, deleted or replaced since.

        Costs what was appended, or like :meth:`refresh` a full load if files were added or removed, as by a roll, a
        compaction, retention or a recovery. ``marks``: the checkpoints' entries, if the caller has just read them.
        Raises StorageError if the directory no longer exists.
        """
        is_known = self._known_directory is not None and len(self.segments) > 0
        if not is_known or self._directory() != self._known_directory or not self._take_in_appended(marks):
            self.refresh()
        self._expire_producers()

    def _take_in_appended(self, marks: Marks | None) -> bool:
        """Return False if the active segment was cut, or what was appended is damaged."""
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
        return is_sound_up_to_end(active, self._log_end_offset, self._marks.recovery_point)

    def rest(self, start: int, end: int) -> None:
        """Close the files of segments with offsets from ``start`` up to ``end``, except the active one's.

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
        """The offset up to which a reader sees, without transaction markers at the end that may not be synced yet.

        A power cut may remove a marker at the end, and a record then gets its offset: a reader that remembers to have
        read beyond the marker would never see that record.
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
        """The end, after a batch, of a read from ``start`` towards ``end`` that takes at most ``max_bytes`` of log.

        Includes at least one batch, but nothing beyond ``end``; if damage is to be skipped, returns ``end`` for it.
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
        """The approximate number of bytes between two offsets, assuming evenly distributed records in each segment."""
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
    """The last offsets of the indexed batches below ``bound``, from last to first, then the base offset."""
    offsets = segment.offset_index.offsets
    for row in range(int(np.searchsorted(offsets, bound)) - 1, -1, -1):
        yield int(offsets[row])
    yield segment.base_offset


def _end_of_data(segment: LogSegment, position: int, end: int) -> int | None:
    """The offset after the last data batch between two positions; None if there are only control batches."""
    behind = None
    for window in segment.batches(position, end):
        rows = np.flatnonzero(~window.headers.is_control)
        if len(rows):
            behind = int(window.headers.table["last_offset"][rows[-1]]) + 1
    return behind


class _Taken(NamedTuple):
    """The part of a segment that a limited range takes."""

    size: int
    offset: int | None  # where the range ends, if it ends in this segment


def _offset_in(segment: LogSegment, start: int, max_bytes: int, *, must_move: bool) -> _Taken:
    """``must_move``: take the first batch however large it is."""
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
    """The offset after the last batch that ends within ``max_bytes`` of ``position``; None if there is none."""
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
    """The offset after the batch at ``position``."""
    window = next(segment.batches(position, window_bytes=PROBE_BYTES))
    return int(window.headers.table["last_offset"][0]) + 1
