"""LogFollower: reads a log repeatedly, each time only the appended batches.

If nothing was appended, that costs two accesses to the directory. A follower sees whole batches, synced or not.

It is for coordinators, which read every appended record under a lock. For the planner of a stream, which reads only
headers and must notice segments that retention and compaction removed, see :class:`watcher.LogWatcher`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import CorruptionError
from ..format.files import file_names
from ..recovery.segment_recovery import assign_epochs, replay
from ..recovery.view import LoadedLog
from ..segment.walk import Window
from .aborted import Isolation
from .fetch import FetchData
from .reader import FETCH_BYTES, LogReader


class LogFollower(LogReader):
    """Reads a partition's log record by record as it grows."""

    def _look(self) -> LoadedLog:
        loaded = super()._look()
        loaded.producers = self._loader().producers_at(loaded.log_end_offset, loaded.segments)
        return loaded

    def _take(self, loaded: LoadedLog) -> None:
        super()._take(loaded)
        self._inode = self.segments.active.status().inode if len(self.segments) else 0

    def follow(self) -> Iterator[FetchData]:
        """Yields whole, valid batches appended to the active segment since the log was opened, refreshed or followed.

        Each yield moves the log end. Records of transactions that are open at that end are not visible.
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
        """Skips batches that the caller appended itself under the log's lock, which must not be transactional.

        ``size``: their bytes in total. Returns False, with nothing skipped, if they do not begin at the log end.
        """
        active = self.segments.active if len(self.segments) else None
        if active is None or first_offset != self._log_end_offset or active.file_size != active.size + size:
            return False
        active.extend(active.size + size)
        self._log_end_offset = self.producers.map_end_offset = end_offset
        return True

    def ends_as(self, log: LogReader) -> bool:
        """Whether this object has seen everything in ``log``, which is of the same partition. Reads no file."""
        if not len(self.segments):
            return False
        own, other = self.segments.active, log.segments.active
        return (own.base_offset, own.size, self._log_end_offset) == (other.base_offset, other.size, log.log_end_offset)

    def decided_from(self, offset: int) -> Iterator[FetchData]:
        """Yields the log from ``offset`` up to the log end; records of open transactions are not visible."""
        end = self._log_end_offset
        return self._fetches(offset, end, end, Isolation.READ_COMMITTED, FETCH_BYTES)

    def _append(self, window: Window) -> None:
        active = self.segments.active
        replay(active, window, self.producers, index_aborts=False)
        assign_epochs(self.epochs, window.headers)
        active.extend(window.position + window.headers.end)
        self.move_end(window.headers.next_offset)

    def is_current(self) -> bool:
        """Whether the follower has seen the whole log; if it has not after a :meth:`follow`, refresh it.

        A refresh is needed after segments were rolled, cut or rewritten, and if bytes at the end form no batch.
        """
        if not len(self.segments):
            listing = self.looking_again(lambda: self.context.filesystem.list(self.context.directory))
            return not file_names.segment_files(listing)
        if not self._is_same_file() or self.segments.active.size < self.segments.active.file_size:
            return False
        return not self.is_rolled()

    def _is_same_file(self) -> bool:
        if not len(self.segments):
            return False
        active = self.segments.active
        status = self.context.filesystem.status(active.path(file_names.LOG))
        return status is not None and status.inode == self._inode and status.size >= active.size
