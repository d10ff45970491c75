"""LogFollower: a reader that sees what others append, for the cost of reading what is new.

Two accesses to the directory show that nothing is new. It sees everything that was appended before, synced or not, but
no incomplete batch.

For coordinators: under a lock they read every appended record, and know the current values at once. The planner of a
stream (:class:`watcher.LogWatcher`) reads only headers, and must also notice what retention and compaction removed,
which the directory's modification time shows, but not the end of the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import CorruptionError
from ..format.files import file_names
from ..recovery import LoadedLog, assign_epochs, replay
from ..segment import Window
from .aborted import Isolation
from .fetch import FetchData
from .reader import FETCH_BYTES, LogReader


class LogFollower(LogReader):
    """A partition's log, for reading as it grows."""

    def _look(self) -> LoadedLog:
        loaded = super()._look()
        loaded.producers = self._loader().producers_at(loaded.log_end_offset, loaded.segments)
        return loaded

    def _take(self, loaded: LoadedLog) -> None:
        super()._take(loaded)
        self._inode = self.segments.active.status().inode if len(self.segments) else 0

    def follow(self) -> Iterator[FetchData]:
        """Yield whole, valid batches appended to the active segment since the last opening, refresh or follow.

        The log end moves with each piece. Records of transactions that are then still open are not visible in it.
        """
        if not self._is_same_file():
            return
        self._expire_producers()
        active = self.segments.active
        try:
            for window in active.batches(active.size, active.file_size, expected=self._log_end_offset):
                self._append(window)
                yield self.fetch_data(active, window, Isolation.READ_COMMITTED)
        except CorruptionError:  # a write in progress, or one never finished, which the next writer cuts off
            return

    def pass_over(self, first_offset: int, end_offset: int, size: int) -> bool:
        """Skip what the caller appended itself, under the log's lock: plain batches of ``size`` bytes in total.

        Returns False, with nothing skipped, if they do not directly follow what was seen.
        """
        active = self.segments.active if len(self.segments) else None
        if active is None or first_offset != self._log_end_offset or active.file_size != active.size + size:
            return False
        active.extend(active.size + size)
        self._log_end_offset = self.producers.map_end_offset = end_offset
        return True

    def decided_from(self, offset: int) -> Iterator[FetchData]:
        """The log from ``offset`` on, as far as it was seen; records of open transactions are not visible."""
        end = self._log_end_offset
        return self._fetches(offset, end, end, Isolation.READ_COMMITTED, FETCH_BYTES)

    def _append(self, window: Window) -> None:
        active = self.segments.active
        replay(active, window, self.producers, index_aborts=False)
        assign_epochs(self.epochs, window.headers)
        active.extend(window.position + window.headers.end)
        self._log_end_offset = window.headers.next_offset
        self.producers.on_high_watermark(self._log_end_offset)

    def is_current(self) -> bool:
        """Whether :meth:`follow` sees everything; after segments were rolled, cut or rewritten, only a refresh does.

        The same holds if bytes remain that form no batch: a torn write, or the log was cut and continued.
        """
        if not self._is_same_file() or self.segments.active.size < self.segments.active.file_size:
            return False
        return not self.is_rolled()

    def _is_same_file(self) -> bool:
        if not len(self.segments):
            return False
        active = self.segments.active
        status = self.context.filesystem.status(active.path(file_names.LOG))
        return status is not None and status.inode == self._inode and status.size >= active.size
