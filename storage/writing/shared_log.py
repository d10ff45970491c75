"""SharedLog: a log that several processes have open for writing: locks, catching up, syncing, rolling, closing.

A writer holds the partition's append lock, and first reads what others have appended since. After a failed write or
sync it is unknown what is on disk: the log then refuses further writes, and reopening it recovers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from ..config import INT64_MAX
from ..errors import CorruptionError, StorageError
from ..filesystem import FileStatus, make_directory_durably
from ..format.files import file_names
from ..format.tables import BatchHeaders
from ..reading import Checkpoints, LogReader, Marks
from ..recovery import LoadedLog, assign_epochs, replay, write_snapshot
from ..segment import LogContext, LogSegment, LogSegments
from .locks import APPEND_LOCK_FILE, MAINTENANCE_LOCK_FILE, take_maintenance_lock, wait_for_lock, write_holder
from .timed_flush import TimedFlush


class SharedLog(LogReader):
    """The part of a log's writer that does not depend on the data; ``log.Log`` is the complete class."""

    _WRITES = True

    def __init__(self, context: LogContext, checkpoints: Checkpoints) -> None:
        self._failure: str | None = None
        self._is_locked = False  # by the user of this object
        self._timed_flush = TimedFlush(context)
        make_directory_durably(context.filesystem, context.directory)
        super().__init__(context, checkpoints)

    def _load(self) -> LoadedLog:
        with wait_for_lock(self.context, APPEND_LOCK_FILE):
            loaded = self._load_locked()
            self._loader().warn_of_gaps(loaded.segments)
            return loaded

    def _load_locked(self) -> LoadedLog:
        maintenance = self.context.filesystem.lock(
            file_names.join(self.context.directory, MAINTENANCE_LOCK_FILE), wait=False
        )
        try:
            return self._load_durably(may_finish_swaps=maintenance is not None)
        finally:
            if maintenance is not None:
                maintenance.release()

    def _load_durably(self, *, may_finish_swaps: bool) -> LoadedLog:
        """Load using durable checkpoints; otherwise a power cut could bring back records that readers saw deleted."""
        loader = self._loader()
        self.checkpoints.sync()
        return loader.load(may_finish_swaps=may_finish_swaps)

    def _take(self, loaded: LoadedLog) -> None:
        super()._take(loaded)
        self._recovery_point = loaded.recovery_point
        self._is_synced = True  # whether all of the active segment is synced; others always are, as is its directory
        self._last_flush_ms = self.context.clock.now_ms()
        self._active_inode = self.segments.active.status().inode
        self._snapshot_offset = loaded.log_end_offset  # of the last snapshot this log wrote, as loading did,
        self._snapshot_size = self.segments.active.size  # and the size of the active segment then

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is synced."""
        return self._recovery_point

    @property
    def failure(self) -> str | None:
        """Why nothing can be written until the log is opened again; None if there was no failure."""
        return self._failure or self._timed_flush.failure

    @property
    def leader_epoch(self) -> int:
        """The epoch stamped on appended batches: the newest in the checkpoint."""
        return self.epochs.latest.epoch if self.epochs.latest else 0

    # Locks, and other processes

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the append lock, catch up with other processes, and refuse to continue after a disk failure."""
        with self._touching_the_disk(), self._append_lock():
            yield

    @contextmanager
    def _touching_the_disk(self) -> Iterator[None]:
        if self.failure is not None:
            raise StorageError(f"{self.context.directory}: not written to since {self.failure}; open the log again")
        try:
            yield
        except OSError as error:
            self._failure = str(error)
            raise StorageError(f"{self.context.directory}: {error}; open the log again to recover") from error

    @contextmanager
    def _append_lock(self) -> Iterator[None]:
        if self._is_locked:
            yield
            return
        with wait_for_lock(self.context, APPEND_LOCK_FILE):
            self._catch_up()
            self._expire_producers()
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Hold the append lock over several calls: nobody else appends, and the log is as all others left it.

        Do not fork while holding it. To lock several logs, acquire them in (topic, partition) order.
        """
        with self._writing():
            yield

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """If a change is interrupted, memory and disk may differ, and only reopening the log helps."""
        self._failure = "a change was interrupted"
        yield
        self._failure = None

    @contextmanager
    def maintaining(self, holder: str = "") -> Iterator[None]:
        """Hold the maintenance lock; finishes unfinished swaps and reloads the log as other processes left it.

        ``holder`` states what is done and since when; the lock file has it, for the errors of other processes. Raises
        LogDirLockedError, without waiting, while another process compacts, deletes or rebuilds, and StorageError if the
        disk fails.
        """
        try:
            with take_maintenance_lock(self.context):
                self._begin_maintenance(holder)
                yield
        except OSError as error:
            what = holder or "maintenance"
            raise StorageError(f"{self.context.directory}: {what} failed: {error}; run it again to continue") from error

    def _begin_maintenance(self, holder: str) -> None:
        with self._writing():
            write_holder(self.context, holder)
            if self._recovery_point > (self.checkpoints.read().recovery_point or 0):
                self._write_marks()  # otherwise intact, synced segments would be recovered again
            self.segments.close()
            self._take(self._load_durably(may_finish_swaps=True))

    def wait_for_maintenance(self) -> None:
        """Wait until nobody maintains the log; another process may start to before the caller does."""
        wait_for_lock(self.context, MAINTENANCE_LOCK_FILE).release()

    @contextmanager
    def replacing_segments(self, found: Mapping[int, FileStatus]) -> Iterator[LogSegments]:
        """Hold the append lock, in addition to the maintenance lock, to replace segments; yields all segments.

        ``found`` is the status, by base offset, of the files to be replaced when the work on them began. Raises
        StorageError, with nothing changed, if another process has truncated or removed one since.
        """
        with self._writing():
            now = {segment.base_offset: segment.status() for segment in self.segments if segment.base_offset in found}
            if now != found:
                raise StorageError(f"{self.context.directory}: truncated in the meantime; nothing was replaced")
            with self._changing():
                yield self.segments

    def _catch_up(self) -> None:
        """Read what other processes appended; reload the log if more than its end has changed."""
        if not self._has_caught_up():
            self._reload()

    def _has_caught_up(self) -> bool:
        active = self.segments.active
        status = self.context.filesystem.status(active.path(file_names.LOG))
        if status is None or status.inode != self._active_inode or status.size < active.size:
            return False
        is_current = self._take_in(active, status.size) and not self.is_rolled()
        return is_current and active.read_appended_entries(self._log_end_offset)

    def _reload(self) -> None:
        self.segments.close()
        self._take(self._load_locked())

    def _take_in(self, active: LogSegment, file_size: int) -> bool:
        """Read batches that another process appended; False unless the new bytes are all whole, valid batches."""
        if file_size == active.size or active.is_padded_from(active.size):
            return True
        active.txn_index.close()
        with suppress(CorruptionError):
            for window in active.batches(active.size, file_size, expected=self._log_end_offset):
                replay(active, window, self.producers, index_aborts=False)
                assign_epochs(self.epochs, window.headers)
                active.pass_over(window.headers)
                self._log_end_offset = window.headers.next_offset
                self.producers.on_high_watermark(self._log_end_offset)
                self._is_synced = False
        return active.size == file_size or active.is_padded_from(active.size)

    # Flushing

    def _acknowledge(self, headers: BatchHeaders) -> None:
        """Sync before an append is acknowledged, unless the topic relaxes that; transactions are never synced here.

        With ``flush.ms``, what was not synced is synced once that has passed, even if nothing more is appended.

        Also applies to a repeated append: the first writer may have been killed before its sync.
        """
        config = self.context.config
        is_relaxed = config.flush_messages < INT64_MAX or config.flush_ms < INT64_MAX
        last_flush_ms = max(self._last_flush_ms, self._timed_flush.synced_at_ms)
        waited_ms = self.context.clock.now_ms() - last_flush_ms
        is_due = self._log_end_offset - self._recovery_point >= config.flush_messages or waited_ms >= config.flush_ms
        if is_due or not is_relaxed or headers.is_transactional.any():
            self._sync()
        elif config.flush_ms < INT64_MAX:
            self._timed_flush.sync_by(self.segments.active.path(file_names.LOG), last_flush_ms + config.flush_ms)

    def flush(self) -> None:
        """Wait until everything appended is on disk; the recovery point is then the log end."""
        with self._writing():
            self._sync()

    def sync_appended(self) -> None:
        """Wait until everything that this process appended is on disk. Takes no lock and ignores other processes."""
        with self._touching_the_disk():
            self._sync()

    def sync_file(self) -> None:
        """Sync the active segment, including what others appended; records nothing except a disk failure."""
        with self._touching_the_disk():
            self.segments.active.sync()

    def begin_sync(self) -> None:
        """Start to write appended data to disk without waiting, so that a sync has less to wait for."""
        self.segments.active.begin_sync()

    def _sync(self) -> None:
        if not self._is_synced:
            with self._changing():
                self.segments.active.sync()
        self._note_synced()

    def _note_synced(self) -> None:
        self._is_synced = True
        self._timed_flush.note_synced()
        self._recovery_point = self._log_end_offset
        self._last_flush_ms = self.context.clock.now_ms()

    def checkpoint(self) -> None:
        """Sync, and write recovery point and log start offset to the checkpoints, so that a crash needs no recovery."""
        with self._writing():
            self._sync()
            self._write_marks()

    def write_snapshot(self, *, lag_bytes: int = 0) -> None:
        """Write a producer snapshot at the log end, so that opening the log need not read what is before it.

        No-op if the previous snapshot of this log lags by at most ``lag_bytes``; otherwise replaces it, unless it is at
        the base of a segment. Not synced: see the loader.
        """
        with self._writing():
            active = self.segments.active
            lag = active.size - self._snapshot_size if self._snapshot_offset >= active.base_offset else active.size
            if lag <= lag_bytes or self._log_end_offset == self.segments.first.base_offset:
                return
            write_snapshot(self.context, self.producers)
            holding = self.segments.floor(self._snapshot_offset)
            if holding is None or holding.base_offset != self._snapshot_offset:
                stale = file_names.segment_file(self._snapshot_offset, file_names.SNAPSHOT)
                self.context.filesystem.remove(file_names.join(self.context.directory, stale))
            self._snapshot_offset, self._snapshot_size = self._log_end_offset, active.size

    def _write_marks(self) -> None:
        """Never lowers the log start, which another process may have raised in the meantime."""
        self._log_start_offset = max(self._log_start_offset, self.checkpoints.read().log_start_offset)
        self.checkpoints.write(Marks(self._recovery_point, self._log_start_offset))

    # Rolling

    def roll(self) -> None:
        """Close the active segment and begin a new one at the log end; does nothing if the active one is empty."""
        with self._writing():
            if self.segments.active.size:
                with self._changing():
                    self._roll()

    def _roll(self) -> None:
        """Close the active segment, which is not empty, and begin one at the log end.

        After a crash, the disk holds the old segment, closed and synced; then the snapshot and the empty new log, or
        one of them, or none, until the directory is synced; then the recovery point, so that opening the log checks at
        most one segment. Nothing is appended to the new segment before that.
        """
        self.segments.active.become_inactive()
        write_snapshot(self.context, self.producers, sync=True)
        self._begin_segment(self._log_end_offset)
        self._note_synced()
        self._write_marks()

    def _skip_to(self, base_offset: int) -> None:
        """Begin another segment far above the log end, out of range for the active one, which is empty.

        Recreates the empty one and keeps it: by its name or inode, other processes notice that the log was rolled.
        """
        empty = self.segments.active
        self.segments.remove(empty)
        empty.remove_files()
        self._begin_segment(empty.base_offset)
        self.segments.active.trim()
        self._begin_segment(base_offset)

    def _begin_segment(self, base_offset: int) -> None:
        """Begin an empty active segment; removes index files left over from a removed segment of that name."""
        for leftover in (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX):
            self.context.filesystem.remove(
                file_names.join(self.context.directory, file_names.segment_file(base_offset, leftover))
            )
        self.segments.add(LogSegment.create(self.context, base_offset))
        self.context.filesystem.sync_directory(self.context.directory)
        self._active_inode = self.segments.active.status().inode

    # Closing

    def close(self) -> None:
        """Leave the log as a clean stop does: synced, with a snapshot at its end and indexes cut to size.

        After a failure, only closes the files: the next opening recovers.
        """
        try:
            if self.failure is None:
                with self._writing():
                    self._close_cleanly()
        finally:
            self._timed_flush.close()
            self.segments.close()

    def _close_cleanly(self) -> None:
        self._sync()
        if self._log_end_offset > self.segments.first.base_offset:
            write_snapshot(self.context, self.producers)
        self.segments.active.add_closing_time_entry()
        self.segments.active.trim()
        self._write_marks()

    def refresh(self) -> None:
        """Reload what other processes appended, deleted or replaced."""
        with self._writing():
            self._reload()
