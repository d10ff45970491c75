"""Rolling: when the active segment of a log ends, how the next one begins, and the snapshots of producers."""

from __future__ import annotations

import logging

from ..errors import LockHeldError
from ..format import v2
from ..format.constants import INT32_MAX
from ..format.files import file_names
from ..format.tables import BatchHeaders
from ..reading.view import LogView
from ..recovery.producer_snapshots import write_snapshot
from ..segment.writer import LogSegment
from .bounds import Bounds
from .durability import Durability, FailStop
from .sharing import Sharing

logger = logging.getLogger(__name__)


class Rolling:
    """The active segment of one open log, its successors and its snapshots.

    The caller holds the append lock. Calls of :meth:`make_room` and :meth:`make_room_for` are within
    ``FailStop.changing``, since a roll that ends early leaves memory and disk apart.
    """

    def __init__(
        self, view: LogView, fail_stop: FailStop, durability: Durability, sharing: Sharing, bounds: Bounds
    ) -> None:
        """``view``: the log, to which segments are added. :meth:`note_snapshot` comes first."""
        self._view, self._fail_stop = view, fail_stop
        self._durability, self._sharing, self._bounds = durability, sharing, bounds
        self._snapshot_offset = 0  # of the last snapshot between two rolls, which the next one replaces
        self._snapshot_size = 0  # of the active segment then

    def note_snapshot(self) -> None:
        """Notes that the log was loaded or cut, which wrote a snapshot at its end."""
        self._snapshot_offset, self._snapshot_size = self._view.log_end_offset, self._view.segments.active.size

    # Segments

    def roll(self) -> None:
        """Closes the active segment and begins a new one at the log end; does nothing if the active one is empty."""
        if self._view.segments.active.size:
            with self._fail_stop.changing:
                self._roll()

    def make_room_for(self, headers: BatchHeaders) -> int:
        """Returns the number of batches that fit the active segment, at least one; rolls it first if none does."""
        first = headers.table[0]
        last_offset = int(first["last_offset"])
        is_exact = first["magic"] >= v2.MAGIC  # an older batch's header contains only its last offset
        base_offset = int(first["base_offset"]) if is_exact else last_offset - INT32_MAX
        self.make_room(int(first["size"]), int(first["max_timestamp"]), base_offset, last_offset)
        return self._view.segments.active.fitting(headers)

    def make_room(self, size: int, max_timestamp: int, base_offset: int, last_offset: int) -> None:
        """Rolls the active segment unless a batch of ``size`` bytes fits it.

        ``max_timestamp`` (ms) and ``last_offset`` are the largest of the batch. ``base_offset``: of the segment that
        begins with it, if the active one is empty and too far below.
        """
        segments = self._view.segments
        if not segments.active.should_roll(size, max_timestamp, last_offset):
            return
        with self._durability.syncing:
            if segments.active.size:
                self._roll()
            if last_offset - segments.active.base_offset > INT32_MAX:
                self._skip_to(base_offset)

    def _roll(self) -> None:
        """Closes the active segment, which is not empty, and begins one at the log end.

        The steps, with what is on disk after a crash that follows each:

        1. closes and syncs the old segment: the old segment;
        2. writes a snapshot and an empty ``.log``, and syncs the directory: both, or before the sync one or none;
        3. writes the recovery point: everything. The next opening checks only the new segment.

        Nothing is appended to the new segment before step 3 has ended. If another process holds the lock of the
        checkpoints for longer than the file system waits, step 3 is left out: the next opening checks the old segment
        too.
        """
        view = self._view
        with self._durability.syncing:
            view.segments.active.become_inactive()
            write_snapshot(view.context, view.producers, sync=True)
            self._begin_segment(view.log_end_offset)
            self._durability.note_synced(view.log_end_offset)
            try:
                self._bounds.write_marks()
            except LockHeldError as error:
                logger.warning("%s The recovery point of %s is written later", error, view.context.directory)

    def _skip_to(self, base_offset: int) -> None:
        """Begins a segment at ``base_offset``, if that is too far above the base of the active segment, which is empty.

        Recreates the empty segment and keeps it: by its inode, other processes notice that the log was rolled.
        """
        segments = self._view.segments
        empty = segments.active
        segments.remove(empty)
        empty.remove_files()
        self._begin_segment(empty.base_offset)
        segments.active.trim()
        self._begin_segment(base_offset)

    def _begin_segment(self, base_offset: int) -> None:
        """Begins an empty active segment; first removes index files of an earlier segment with the same name."""
        context = self._view.context
        for leftover in (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX):
            context.filesystem.remove(
                file_names.join(context.directory, file_names.segment_file(base_offset, leftover))
            )
        self._view.segments.add(LogSegment.create(context, base_offset))
        context.filesystem.sync_directory(context.directory)
        self._sharing.note_active()

    # Snapshots

    def write_snapshot(self, *, lag_bytes: int) -> None:
        """Writes a producer snapshot at the log end, if more than ``lag_bytes`` follow the previous one; not synced.

        Replaces the previous one, unless it is at the base of a segment.
        """
        view, active = self._view, self._view.segments.active
        lag = active.size - self._snapshot_size if self._snapshot_offset > active.base_offset else active.size
        if lag <= lag_bytes or view.log_end_offset == view.segments.first.base_offset:
            return
        write_snapshot(view.context, view.producers)
        holding = view.segments.floor(self._snapshot_offset)
        if holding is None or holding.base_offset != self._snapshot_offset:
            stale = file_names.segment_file(self._snapshot_offset, file_names.SNAPSHOT)
            view.context.filesystem.remove(file_names.join(view.context.directory, stale))
        self._snapshot_offset, self._snapshot_size = view.log_end_offset, active.size

    def complete(self) -> None:
        """Writes a snapshot at the end of the log, and cuts its indexes to size, before its files are closed."""
        view = self._view
        if view.log_end_offset > view.segments.first.base_offset:
            write_snapshot(view.context, view.producers)
        view.segments.active.add_closing_time_entry()
        view.segments.active.trim()
