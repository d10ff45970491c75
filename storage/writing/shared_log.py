"""SharedLog: a log that several processes have open for writing: the steps of loading, syncing, rolling, closing.

What is on disk is the part of :mod:`.durability`; the lock, and what other processes did, that of :mod:`.sharing`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from ..errors import LockHeldError, StorageError
from ..filesystem.operations import make_directory_durably, not_a_link
from ..filesystem.port import FileStatus
from ..format.constants import INT32_MAX
from ..format.files import file_names
from ..reading.marks import Checkpoints, Marks
from ..reading.reader import LogReader
from ..recovery.producer_snapshots import write_snapshot
from ..recovery.view import LoadedLog
from ..segment.collection import LogSegments
from ..segment.walk import LogContext
from ..segment.writer import LogSegment
from .durability import Durability, FailStop
from .locks import (
    APPEND_LOCK_FILE,
    MAINTENANCE_LOCK_FILE,
    is_append_lock_taken,
    take_maintenance_lock,
    wait_for_lock,
    write_holder,
)
from .sharing import Sharing

logger = logging.getLogger(__name__)


class SharedLog(LogReader):
    """The part of :class:`Log` that does not depend on what is appended."""

    _WRITES = True

    def __init__(self, context: LogContext, checkpoints: Checkpoints) -> None:
        self._sharing = Sharing(context, self)
        self._fail_stop = FailStop(context)
        self._durability = Durability(context, self._fail_stop)
        make_directory_durably(context.filesystem, not_a_link(context.filesystem, context.directory))
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
        """Syncs the checkpoints, then loads the log by them: a power cut must not bring deleted records back."""
        loader = self._loader()
        self.checkpoints.sync()
        return loader.load(may_finish_swaps=may_finish_swaps)

    def _take(self, loaded: LoadedLog) -> None:
        super()._take(loaded)
        self._durability.note_synced(loaded.recovery_point)  # the log end: loading syncs
        self._sharing.note_active()
        self._snapshot_offset = loaded.log_end_offset  # of the last snapshot this log wrote, as loading did,
        self._snapshot_size = self.segments.active.size  # and the size of the active segment then

    @property
    def leader_epoch(self) -> int:
        """The epoch stamped on appended batches: the newest in the checkpoint."""
        latest = self.epochs.latest
        return latest.epoch if latest else 0

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is synced."""
        return self._durability.recovery_point

    @property
    def high_watermark(self) -> int:
        """What is below this offset may be acknowledged and shown to clients of a broker.

        It was synced, by this process, or the topic's flush settings let it wait. What is appended with ``sync=False``,
        or by other processes, is below it after the next sync. (Readers of the files do not wait for it.)
        """
        return self._durability.high_watermark

    @property
    def failure(self) -> str | None:
        """What failed, so that nothing can be written until the log is opened again; None if nothing failed."""
        return self._fail_stop.failure

    # Locks, and other processes

    def _writing(self) -> AbstractContextManager[None]:
        """Holds the append lock and catches up with other processes. Raises StorageError after a disk failure."""
        if self._sharing.is_held:
            return self._fail_stop
        return self._append_lock()

    @contextmanager
    def _append_lock(self) -> Iterator[None]:
        with self._fail_stop:
            was_alone = self._sharing.take()
            try:
                if not was_alone:
                    self._catch_up()
                self._expire_producers()
                self._sharing.is_held = True
                yield
            finally:
                self._sharing.release()

    def _catch_up(self) -> None:
        """Reads what other processes appended; loads the log again if more than its end has changed."""
        if not self._sharing.catch_up():
            self._reload()
        self._sharing.mark()

    @property
    def is_append_locked(self) -> bool:
        """Whether another process, or another thread of this one, holds the append lock now."""
        return is_append_lock_taken(self.context.filesystem, self.context.directory)

    def wait_for_append_lock(self) -> None:
        """Waits until nobody holds the append lock; another process may take it before the caller does."""
        wait_for_lock(self.context, APPEND_LOCK_FILE).release()

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Holds the append lock for several calls, so that no other process appends; first catches up with the others.

        Do not fork while holding it. To lock several logs, acquire them in (topic, partition) order.
        """
        with self._writing():
            yield

    @contextmanager
    def if_alone(self) -> Iterator[bool]:
        """Holds the append lock if it is free and no other process has appended; yields whether it does. Never waits.

        Raises StorageError after a disk failure.
        """
        with self._fail_stop:
            if self._sharing.is_held or not self._sharing.take_if_alone():
                yield self._sharing.is_held
                return
            try:
                self._sharing.is_held = True
                yield True
            finally:
                self._sharing.release()

    @contextmanager
    def maintaining(self, holder: str = "") -> Iterator[None]:
        """Holds the maintenance lock; first finishes unfinished swaps and reloads the log.

        ``holder`` states what is done and since when. It is written to the lock file, and shown in the errors of other
        processes. Raises LogDirLockedError, without waiting, while another process compacts, deletes or rebuilds, and
        StorageError if the disk fails.
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
            if self._durability.recovery_point > (self.checkpoints.read().recovery_point or 0):
                self._write_marks()  # otherwise intact, synced segments would be recovered again
            with self._durability.syncing:
                self.segments.close()
                self._take(self._load_durably(may_finish_swaps=True))

    def wait_for_maintenance(self) -> None:
        """Waits until no process holds the maintenance lock; another process may take it before the caller does."""
        wait_for_lock(self.context, MAINTENANCE_LOCK_FILE).release()

    @contextmanager
    def replacing_segments(self, found: Mapping[int, FileStatus]) -> Iterator[LogSegments]:
        """Holds the append lock to replace segments; yields all segments. The caller holds the maintenance lock.

        ``found``: for each segment to be replaced, by base offset, the status of its ``.log`` when it was read. Raises
        StorageError, with nothing changed, if another process has truncated or removed one since.
        """
        with self._writing():
            now = {segment.base_offset: segment.status() for segment in self.segments if segment.base_offset in found}
            if now != found:
                raise StorageError(
                    f"{self.context.directory}: another process truncated the log in the meantime, so no segment was "
                    "replaced; run this again"
                )
            with self._durability.syncing, self._fail_stop.changing:
                yield self.segments

    def is_as_left(self) -> bool:
        """Whether the active segment is the file that this process appended to last, as long as then, and still active.

        If so, no other process has appended. Takes no lock.
        """
        return self._sharing.is_as_left()

    def _reload(self) -> None:
        with self._durability.syncing:
            self.segments.close()
            self._take(self._load_locked())

    def take_in_maintenance(self) -> None:
        """Reloads the log if another process deleted or compacted segments, or raised the log start; holds the lock.

        Appending needs none of that, so appends do not look for it. Until then, this log reads the files that it has
        open, and their space is not free.
        """
        with self._writing():
            if self._sharing.is_maintained():
                self._reload()

    # Syncing

    def sync(self) -> None:
        """Syncs everything that any process appended; the recovery point is then the log end."""
        with self._writing():
            self._sync()

    def sync_appended(self) -> int:
        """Syncs what this process appended before the call; returns the high watermark, which is now at least its end.

        Takes no lock of the partition and ignores other processes. Any thread may call it while the thread that owns
        the log appends more. Raises StorageError if the disk fails, now or before: the log must be opened again.
        """
        with self._fail_stop, self._durability.syncing:
            return self._durability.sync(self.segments.active, self._log_end_offset)

    def sync_file(self) -> None:
        """Syncs the file of the active segment, with what others appended; leaves the recovery point as it is."""
        with self._fail_stop, self._durability.syncing:
            self.segments.active.sync()

    def checkpoint(self) -> None:
        """Syncs the log, then writes recovery point and log start to the checkpoints, which makes recovery short."""
        with self._writing():
            self._sync()
            self._write_marks()

    def write_snapshot(self, *, lag_bytes: int = 0) -> None:
        """Writes a producer snapshot at the log end, so that opening the log need not read the batches before it.

        Does nothing if the previous snapshot is at most ``lag_bytes`` before the log end; otherwise replaces it, unless
        it is at the base of a segment. Not synced: the loader ignores a snapshot that a crash damaged.
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

    def _sync(self) -> None:
        self._durability.sync_all(self.segments.active, self._log_end_offset)

    def _acknowledge(self, *, transactional: bool) -> None:
        self._durability.acknowledge(self.segments.active, self._log_end_offset, transactional=transactional)

    def _write_marks(self) -> None:
        """Writes recovery point and log start to the checkpoints.

        Never lowers the log start, which another process may have raised since. Keeps the log start of a broker whose
        remote storage has earlier offsets: it would delete them. Keeps one below lost segments: nobody deleted them.
        """
        start = self._log_start_offset = max(self._log_start_offset, self.checkpoints.read().log_start_offset)
        for elsewhere in (self.lost, self.remote):
            if elsewhere is not None and self._log_start_offset == elsewhere.stop:
                start = elsewhere.start
        self.checkpoints.write(Marks(self._durability.recovery_point, start))

    # Rolling

    def roll(self) -> None:
        """Closes the active segment and begins a new one at the log end; does nothing if the active one is empty."""
        with self._writing():
            if self.segments.active.size:
                with self._fail_stop.changing:
                    self._roll()

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
        with self._durability.syncing:
            self.segments.active.become_inactive()
            write_snapshot(self.context, self.producers, sync=True)
            self._begin_segment(self._log_end_offset)
            self._durability.note_synced(self._log_end_offset)
            try:
                self._write_marks()
            except LockHeldError as error:
                logger.warning("%s The recovery point of %s is written later", error, self.context.directory)

    def _make_room(self, size: int, max_timestamp: int, base_offset: int, last_offset: int) -> None:
        """Rolls the active segment unless a batch of ``size`` bytes fits it.

        ``max_timestamp`` (ms) and ``last_offset`` are the largest of the batch. ``base_offset``: of the segment that
        begins with it, if the active one is empty and too far below.
        """
        if not self.segments.active.should_roll(size, max_timestamp, last_offset):
            return
        with self._durability.syncing:
            if self.segments.active.size:
                self._roll()
            if last_offset - self.segments.active.base_offset > INT32_MAX:
                self._skip_to(base_offset)

    def _skip_to(self, base_offset: int) -> None:
        """Begins a segment at ``base_offset``, if that is too far above the base of the active segment, which is empty.

        Recreates the empty segment and keeps it: by its inode, other processes notice that the log was rolled.
        """
        empty = self.segments.active
        self.segments.remove(empty)
        empty.remove_files()
        self._begin_segment(empty.base_offset)
        self.segments.active.trim()
        self._begin_segment(base_offset)

    def _begin_segment(self, base_offset: int) -> None:
        """Begins an empty active segment; first removes index files of an earlier segment with the same name."""
        for leftover in (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX):
            self.context.filesystem.remove(
                file_names.join(self.context.directory, file_names.segment_file(base_offset, leftover))
            )
        self.segments.add(LogSegment.create(self.context, base_offset))
        self.context.filesystem.sync_directory(self.context.directory)
        self._sharing.note_active()

    # Closing

    def close(self) -> None:
        """Syncs the log, writes a snapshot at its end and the checkpoints, cuts its indexes to size, closes its files.

        After a failure, only closes the files: the next opening recovers the log. So it does if another process holds
        the lock for longer than the file system waits.
        """
        try:
            if self.failure is None:
                with self._writing():
                    self._close_cleanly()
        except LockHeldError as error:
            logger.warning("%s; the log is closed without a snapshot at its end", error)
        finally:
            self._durability.close()
            self._sharing.close()
            with self._durability.syncing:
                self.segments.close()

    def _close_cleanly(self) -> None:
        self._sync()
        if self._log_end_offset > self.segments.first.base_offset:
            write_snapshot(self.context, self.producers)
        self.segments.active.add_closing_time_entry()
        self.segments.active.trim()
        self._write_marks()

    def refresh(self) -> None:
        """Reloads the log, with what other processes appended, deleted or replaced."""
        with self._writing():
            self._reload()
