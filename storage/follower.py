"""LogFollower: a reader that sees what others append at the cost of what is new.

Two looks at the directory tell that nothing is. It sees whatever was appended before it looked, synced or not, and no
batch that is only partly there.

For coordinators: under a lock they take in every record that was appended, and know at once what holds. Who plans a
stream (:class:`watcher.LogWatcher`) skims headers only, and must also see what retention and compaction took away,
which the time of the directory tells and the end of the log does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.fetch import FetchData
from pyspark_commitlog.storage.format import names
from pyspark_commitlog.storage.loader import LoadedLog
from pyspark_commitlog.storage.reader import FETCH_BYTES, Isolation, LogReader
from pyspark_commitlog.storage.recovery import assign_epochs, replay
from pyspark_commitlog.storage.segment_reader import Window


class LogFollower(LogReader):
    """A partition's log, to read as it grows."""

    def _look(self) -> LoadedLog:
        loaded = super()._look()
        loaded.producers = self._loader().producers_at(loaded.log_end_offset, loaded.segments)
        return loaded

    def _take(self, loaded: LoadedLog) -> None:
        super()._take(loaded)
        self._inode = self.segments.active.status().inode if len(self.segments) else 0

    def follow(self) -> Iterator[FetchData]:
        """Whole and sound batches that the active segment got since the log was opened, refreshed or followed last.

        The log end moves with each piece. What is there of transactions that are open by then is not visible in it.
        """
        if not self._is_same_file():
            return
        self._expire_producers()
        active = self.segments.active
        try:
            for window in active.batches(active.size, active.file_size, expected=self._log_end_offset):
                self._append(window)
                yield self.fetch_data(active, window, Isolation.READ_COMMITTED)
        except CorruptionError:  # a write that goes on, or that nobody ended: the next writer cuts it off
            return

    def pass_over(self, first_offset: int, end_offset: int, size: int) -> bool:
        """Take as seen what the caller appended itself, under the log's lock: plain batches of ``size`` bytes in all.

        False, and nothing is taken, where they do not lie right behind what was seen.
        """
        active = self.segments.active if len(self.segments) else None
        if active is None or first_offset != self._log_end_offset or active.file_size != active.size + size:
            return False
        active.extend(active.size + size)
        self._log_end_offset = self.producers.map_end_offset = end_offset
        return True

    def decided_from(self, offset: int) -> Iterator[FetchData]:
        """The log from ``offset`` on, as far as it was seen; what is of open transactions is not visible."""
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
        """Whether :meth:`follow` sees all there is; where segments were rolled, cut or made anew, only a refresh does.

        So it may where bytes are left of which no batch can be made: a torn write, or the log was cut and went on.
        """
        if not self._is_same_file() or self.segments.active.size < self.segments.active.file_size:
            return False
        return not self.is_rolled()

    def _is_same_file(self) -> bool:
        if not len(self.segments):
            return False
        active = self.segments.active
        status = self.context.filesystem.status(active.path(names.LOG))
        return status is not None and status.inode == self._inode and status.size >= active.size
