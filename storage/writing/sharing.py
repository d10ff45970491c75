"""Sharing: what a log that is open for writing shares with other processes that write it.

A writer takes the partition's append lock, and first reads what other processes have appended since it last held it.
"""

from __future__ import annotations

from contextlib import suppress

from ..errors import CorruptionError
from ..format.files import file_names
from ..reading.view import LogView
from ..recovery.segment_recovery import assign_epochs, replay
from ..segment.walk import LogContext
from ..segment.writer import LogSegment
from .locks import KeptLock


class Sharing:
    """The append lock of one open log, and what other processes did to the log while they had it."""

    def __init__(self, context: LogContext, view: LogView) -> None:
        """Takes no lock yet. ``view``: the log, whose end moves as others are caught up with."""
        self.is_held = False  # by the user of the log, which has caught up with others
        self._filesystem, self._view = context.filesystem, view
        self._kept_lock = KeptLock(context)
        self._active_inode = 0

    # The append lock

    def take(self) -> bool:
        """Waits for the append lock and takes it; returns whether no other process had it since :meth:`mark`."""
        return self._kept_lock.take(self.is_file_as_left)

    def take_if_alone(self) -> bool:
        """Takes the append lock if it is free and no other process had it since :meth:`mark`; returns whether it did.

        Never waits.
        """
        return self._kept_lock.take_if_alone(self.is_file_as_left)

    def mark(self) -> None:
        """Notes in the lock's file that this log has caught up. The lock is held."""
        self._kept_lock.mark()

    def release(self) -> None:
        """Lets others take the append lock."""
        self.is_held = False
        self._kept_lock.unlock()

    def close(self) -> None:
        """Closes the lock's file."""
        self._kept_lock.close()

    # What others did

    def note_active(self) -> None:
        """Remembers the active segment's file, after this process loaded the log or began another file."""
        self._active_inode = self._view.segments.active.status().inode

    def is_as_left(self) -> bool:
        """Whether the active segment is the file that this process appended to last, as long as then, and still active.

        If so, no other process has appended. Takes no lock.
        """
        return self.is_file_as_left() and not self._view.is_rolled()

    def is_file_as_left(self) -> bool:
        """Whether the active segment is the file that this process appended to last, as long as then.

        Under the lock, if nobody else had it in between, this is enough: only a holder of the lock begins a segment.
        """
        active = self._view.segments.active
        status = self._filesystem.status(active.path(file_names.LOG))
        return status is not None and status.inode == self._active_inode and status.size == active.size

    def catch_up(self) -> bool:
        """Reads what others appended; returns False if more than its end has changed: the log is to be loaded again."""
        active = self._view.segments.active
        status = self._filesystem.status(active.path(file_names.LOG))
        if status is None or status.inode != self._active_inode or status.size < active.size:
            return False
        is_current = self._take_in(active, status.size) and not self._view.is_rolled()
        return is_current and active.read_appended_entries(self._view.log_end_offset)

    def _take_in(self, active: LogSegment, file_size: int) -> bool:
        """Reads batches that another process appended; returns False if the new bytes are not whole, valid batches."""
        view = self._view
        if file_size == active.size or active.is_padded_from(active.size):
            return True
        active.txn_index.close()
        with suppress(CorruptionError):
            for window in active.batches(active.size, file_size, expected=view.log_end_offset):
                replay(active, window, view.producers, index_aborts=False)
                assign_epochs(view.epochs, window.headers)
                active.pass_over(window.headers)
                view.move_end(window.headers.next_offset)
        return active.size == file_size or active.is_padded_from(active.size)

    def is_maintained(self) -> bool:
        """Whether another process deleted or compacted segments, or raised the log start, since the log was loaded."""
        view = self._view
        is_raised = view.checkpoints.read().log_start_offset > view.start_with_tier
        return is_raised or any(map(self._is_replaced, view.segments))

    def _is_replaced(self, segment: LogSegment) -> bool:
        status = self._filesystem.status(segment.path(file_names.LOG))
        return status is None or status.size < segment.size
