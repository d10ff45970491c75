"""SharedLog: a log that several processes have open to write: locks, catching up, syncing, rolling, closing.

Whoever writes holds the partition's append lock meanwhile, and first takes in what others appended since. After a
failed write or sync nobody knows what is on the disk: the log refuses to go on, and opening it again recovers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from pyspark_commitlog.storage.config import INT64_MAX
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    StorageError,
)
from pyspark_commitlog.storage.filesystem import FileStatus, make_directory_durably
from pyspark_commitlog.storage.format import names
from pyspark_commitlog.storage.format.tables import BatchHeaders
from pyspark_commitlog.storage.loader import LoadedLog, write_snapshot
from pyspark_commitlog.storage.partition_locks import (
    APPEND_LOCK_FILE,
    MAINTENANCE_LOCK_FILE,
    take_maintenance_lock,
    tell_work,
    wait_for_lock,
)
from pyspark_commitlog.storage.reader import Checkpoints, LogReader, Marks
from pyspark_commitlog.storage.recovery import assign_epochs, replay
from pyspark_commitlog.storage.segment import LogSegment
from pyspark_commitlog.storage.segment_list import LogSegments
from pyspark_commitlog.storage.segment_reader import LogContext


class SharedLog(LogReader):
    """The part of a log's writer that does not depend on what is written; ``log.Log`` is the whole."""

    _WRITES = True

    def __init__(self, context: LogContext, checkpoints: Checkpoints) -> None:
        self._failure: str | None = None
        self._is_locked = False  # by whoever uses this object
        make_directory_durably(context.filesystem, context.directory)
        super().__init__(context, checkpoints)

    def _load(self) -> LoadedLog:
        with wait_for_lock(self.context, APPEND_LOCK_FILE):
            loaded = self._load_locked()
            self._loader().warn_of_gaps(loaded.segments)
            return loaded

    def _load_locked(self) -> LoadedLog:
        maintenance = self.context.filesystem.lock(
            names.join(self.context.directory, MAINTENANCE_LOCK_FILE), wait=False
        )
        try:
            return self._load_durably(may_finish_swaps=maintenance is not None)
        finally:
            if maintenance is not None:
                maintenance.release()

    def _load_durably(self, *, may_finish_swaps: bool) -> LoadedLog:
        """Load by marks that are on the disk: else a power cut brings records back that were seen to be gone."""
        loader = self._loader()
        self.checkpoints.sync()
        return loader.load(may_finish_swaps=may_finish_swaps)

    def _take(self, loaded: LoadedLog) -> None:
        super()._take(loaded)
        self._recovery_point = loaded.recovery_point
        self._is_synced = True  # all of the active segment; the others always are, and always its directory
        self._last_flush_ms = self.context.clock.now_ms()
        self._active_inode = self.segments.active.status().inode
        self._snapshot_offset = loaded.log_end_offset  # where this log wrote one last; loading it did,
        self._snapshot_size = self.segments.active.size  # at that size of the active segment

    @property
    def recovery_point(self) -> int:
        """Everything below is synced."""
        return self._recovery_point

    @property
    def failure(self) -> str | None:
        """Why nothing more can be written before the log is opened again; None while all is well."""
        return self._failure

    @property
    def leader_epoch(self) -> int:
        """What appended batches are stamped with: the newest epoch of the checkpoint."""
        return self.epochs.latest.epoch if self.epochs.latest else 0

    # Locks, and other processes

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the append lock, see what others did meanwhile, and refuse to go on after the disk failed."""
        with self._touching_the_disk(), self._append_lock():
            yield

    @contextmanager
    def _touching_the_disk(self) -> Iterator[None]:
        if self._failure is not None:
            raise StorageError(f"{self.context.directory}: not written to since {self._failure}; open the log again")
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

        Fork no child meanwhile. Who holds several logs so takes them in the order of topic and partition.
        """
        with self._writing():
            yield

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Whatever stops a change half way, an interrupt too, leaves memory and disk apart: then only opening helps."""
        self._failure = "a change was interrupted"
        yield
        self._failure = None

    @contextmanager
    def maintaining(self, work: str = "") -> Iterator[None]:
        """Hold the maintenance lock; swaps that were not finished are, and the log is as other processes left it.

        ``work``, what is done and since when, is kept in the lock file and told to whoever comes meanwhile.
        Raises LogDirLockedError, without waiting, while another process compacts, deletes or rebuilds, and StorageError
        where the disk fails.
        """
        try:
            with take_maintenance_lock(self.context):
                self._begin_maintenance(work)
                yield
        except OSError as error:
            told = work or "maintenance"
            raise StorageError(f"{self.context.directory}: {told} failed: {error}; run again, it goes on") from error

    def _begin_maintenance(self, work: str) -> None:
        with self._writing():
            tell_work(self.context, work)
            if self._recovery_point > (self.checkpoints.read().recovery_point or 0):
                self._write_marks()  # else what is sound and synced would be recovered once more
            self.segments.close()
            self._take(self._load_durably(may_finish_swaps=True))

    def wait_for_maintenance(self) -> None:
        """Return when nobody maintains the log; another process may begin to before the caller does."""
        wait_for_lock(self.context, MAINTENANCE_LOCK_FILE).release()

    @contextmanager
    def replacing_segments(self, found: Mapping[int, FileStatus]) -> Iterator[LogSegments]:
        """Hold the append lock, beside the maintenance lock, to replace segments; yields all there are.

        ``found`` tells, by base offset, what the files of those to be replaced were when the work on them began. Raises
        StorageError, and nothing has happened, where another process has cut or removed one since.
        """
        with self._writing():
            now = {segment.base_offset: segment.status() for segment in self.segments if segment.base_offset in found}
            if now != found:
                raise StorageError(f"{self.context.directory}: cut while it was worked on; nothing was replaced")
            with self._changing():
                yield self.segments

    def _catch_up(self) -> None:
        """Take in what other processes appended; load the log anew where more has changed than its end."""
        if not self._has_caught_up():
            self._reload()

    def _has_caught_up(self) -> bool:
        active = self.segments.active
        status = self.context.filesystem.status(active.path(names.LOG))
        if status is None or status.inode != self._active_inode or status.size < active.size:
            return False
        is_current = self._take_in(active, status.size) and not self.is_rolled()
        return is_current and active.take_in_indexes(self._log_end_offset)

    def _reload(self) -> None:
        self.segments.close()
        self._take(self._load_locked())

    def _take_in(self, active: LogSegment, file_size: int) -> bool:
        """Batches that another process appended; False where what is there is not all of whole and sound batches."""
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

    # Flushing (spec 8)

    def _acknowledge(self, headers: BatchHeaders) -> None:
        """Sync before an append is acknowledged, unless the topic relaxes that; transactions never wait.

        Also where it only repeated what is there: whoever wrote that may have been killed before the sync.
        """
        config = self.context.config
        is_relaxed = config.flush_messages < INT64_MAX or config.flush_ms < INT64_MAX
        waited_ms = self.context.clock.now_ms() - self._last_flush_ms
        is_due = self._log_end_offset - self._recovery_point >= config.flush_messages or waited_ms >= config.flush_ms
        if is_due or not is_relaxed or headers.is_transactional.any():
            self._sync()

    def flush(self) -> None:
        """Return when everything appended is on the disk; the recovery point is then the log end."""
        with self._writing():
            self._sync()

    def sync_appended(self) -> None:
        """Return when everything this process appended is on the disk. Takes no lock and sees nothing of others."""
        with self._touching_the_disk():
            self._sync()

    def sync_file(self) -> None:
        """Sync the active segment as it is, whoever appended to it; nothing is noted of that, but a disk that fails."""
        with self._touching_the_disk():
            self.segments.active.sync()

    def begin_sync(self) -> None:
        """Let what was appended go to the disk from now on, without waiting: a sync then waits for less."""
        self.segments.active.begin_sync()

    def _sync(self) -> None:
        if not self._is_synced:
            with self._changing():
                self.segments.active.sync()
        self._note_synced()

    def _note_synced(self) -> None:
        self._is_synced = True
        self._recovery_point = self._log_end_offset
        self._last_flush_ms = self.context.clock.now_ms()

    def checkpoint(self) -> None:
        """Sync, and write the recovery point and the log start offset to the checkpoints: a crash costs no recovery."""
        with self._writing():
            self._sync()
            self._write_marks()

    def write_snapshot(self, *, lag_bytes: int = 0) -> None:
        """A producer snapshot at the log end: opening the log then costs nothing of what lies before it.

        None where the last one that this log wrote is at most ``lag_bytes`` behind. That one goes, unless a segment
        begins there. Neither is synced: see the loader.
        """
        with self._writing():
            active = self.segments.active
            lag = active.size - self._snapshot_size if self._snapshot_offset >= active.base_offset else active.size
            if lag <= lag_bytes or self._log_end_offset == self.segments.first.base_offset:
                return
            write_snapshot(self.context, self.producers)
            holding = self.segments.floor(self._snapshot_offset)
            if holding is None or holding.base_offset != self._snapshot_offset:
                stale = names.segment_file(self._snapshot_offset, names.SNAPSHOT)
                self.context.filesystem.remove(names.join(self.context.directory, stale))
            self._snapshot_offset, self._snapshot_size = self._log_end_offset, active.size

    def _write_marks(self) -> None:
        """The log start never goes back here: another process may have raised it meanwhile."""
        self._log_start_offset = max(self._log_start_offset, self.checkpoints.read().log_start_offset)
        self.checkpoints.write(Marks(self._recovery_point, self._log_start_offset))

    # Rolling (spec 7)

    def roll(self) -> None:
        """Close the active segment and begin one at the log end; nothing happens where the active one is empty."""
        with self._writing():
            if self.segments.active.size:
                with self._changing():
                    self._roll()

    def _roll(self) -> None:
        """Close the active segment, which is not empty, and begin one at the log end.

        On disk after a crash: the old segment, closed and synced; then the snapshot and the empty new log, or one of
        them, or none, until the directory is synced; then the recovery point, so that opening the log looks at one
        segment at most. Only then is anything appended to the new segment.
        """
        self.segments.active.become_inactive()
        write_snapshot(self.context, self.producers, sync=True)
        self._begin_segment(self._log_end_offset)
        self._note_synced()
        self._write_marks()

    def _skip_to(self, base_offset: int) -> None:
        """Begin another segment far above the log end, which the active one, empty, cannot reach (spec 7.1, rule 4).

        The empty one stays, made anew: by its name, or by its inode, other processes see that the log was rolled.
        """
        empty = self.segments.active
        self.segments.remove(empty)
        empty.remove_files()
        self._begin_segment(empty.base_offset)
        self.segments.active.trim()
        self._begin_segment(base_offset)

    def _begin_segment(self, base_offset: int) -> None:
        """An empty active segment; index files of that name are left over from one that was removed."""
        for leftover in (names.INDEX, names.TIME_INDEX, names.TXN_INDEX):
            self.context.filesystem.remove(
                names.join(self.context.directory, names.segment_file(base_offset, leftover))
            )
        self.segments.add(LogSegment.create(self.context, base_offset))
        self.context.filesystem.sync_directory(self.context.directory)
        self._active_inode = self.segments.active.status().inode

    # Closing

    def close(self) -> None:
        """Leave the log as a clean stop leaves it: synced, with a snapshot at its end and indexes cut to size (spec 8).

        After a failure only the files are given back: the next opening recovers.
        """
        try:
            if self._failure is None:
                with self._writing():
                    self._close_cleanly()
        finally:
            self.segments.close()

    def _close_cleanly(self) -> None:
        self._sync()
        if self._log_end_offset > self.segments.first.base_offset:
            write_snapshot(self.context, self.producers)
        self.segments.active.add_closing_time_entry()
        self.segments.active.trim()
        self._write_marks()

    def refresh(self) -> None:
        """See what other processes appended, deleted or replaced."""
        with self._writing():
            self._reload()
