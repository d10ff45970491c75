"""WritableLog: a log that is open for writing, whatever is appended: its locks, loading, syncs, rolls, cuts, closing.

Several processes may have it open. Each operation takes the append lock and calls a part: :mod:`.sharing` knows what
other processes did, :mod:`.durability` what is on disk, :mod:`.rolling` when a segment ends, :mod:`.bounds` where the
log begins. What appends do is in :mod:`.log`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from ..errors import InvalidOffsetError, LockHeldError, StorageError
from ..filesystem.operations import make_directory_durably, not_a_link
from ..filesystem.port import FileStatus
from ..format.files import file_names
from ..reading.marks import Checkpoints
from ..reading.reader import LogReader
from ..recovery.view import LoadedLog
from ..segment.collection import LogSegments
from ..segment.walk import LogContext
from .bounds import Bounds
from .durability import Durability, FailStop
from .locks import (
    APPEND_LOCK_FILE,
    MAINTENANCE_LOCK_FILE,
    is_append_lock_taken,
    take_maintenance_lock,
    wait_for_lock,
    write_holder,
)
from .rolling import Rolling
from .sharing import Sharing

logger = logging.getLogger(__name__)


class WritableLog(LogReader):
    """A log that is open for writing, by several processes; reads it too. Belongs to one thread at a time."""

    _WRITES = True

    def __init__(self, context: LogContext, checkpoints: Checkpoints) -> None:
        self._sharing = Sharing(context, self)
        self._fail_stop = FailStop(context)
        self._durability = Durability(context, self._fail_stop)
        self._bounds = Bounds(self, self._fail_stop, self._durability, self._sharing)
        self._rolling = Rolling(self, self._fail_stop, self._durability, self._sharing, self._bounds)
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
        self._rolling.note_snapshot()

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
                self._bounds.write_marks()  # otherwise intact, synced segments would be recovered again
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
            self._bounds.write_marks()

    def sync_aborted(self) -> None:
        """Syncs the index of aborted transactions, before a recovery point is written otherwise than by this log."""
        with self._writing():
            self._bounds.sync_aborted()

    def write_snapshot(self, *, lag_bytes: int = 0) -> None:
        """Writes a producer snapshot at the log end, so that opening the log need not read the batches before it.

        Does nothing if the previous snapshot is at most ``lag_bytes`` before the log end; otherwise replaces it, unless
        it is at the base of a segment. Not synced: the loader ignores a snapshot that a crash damaged.
        """
        with self._writing():
            self._rolling.write_snapshot(lag_bytes=lag_bytes)

    def _sync(self) -> None:
        self._durability.sync_all(self.segments.active, self._log_end_offset)

    def _acknowledge(self, *, transactional: bool) -> None:
        self._durability.acknowledge(self.segments.active, self._log_end_offset, transactional=transactional)

    # Rolling

    def roll(self) -> None:
        """Closes the active segment and begins a new one at the log end; does nothing if the active one is empty."""
        with self._writing():
            self._rolling.roll()

    # Deleting and truncating

    def delete_records(self, before_offset: int) -> int:
        """Raises the log start offset to ``before_offset``, or to the high watermark for -1; returns the log start.

        Records may be in a tier only. Durable on return; the next retention, or copy to the tier, deletes segments that
        are wholly below it. Raises PolicyViolationError for a topic that is only compacted, and OffsetOutOfRangeError
        above the high watermark.
        """
        with self._writing():
            self._sync()
            start = self.start_without_records(before_offset)
            if self.in_tier is not None and start <= self.in_tier.stop:
                self._bounds.raise_start_in_tier(start)
            else:
                self._bounds.raise_start(start)
            return self.start_with_tier

    def truncate_to(self, offset: int) -> None:
        """Removes all batches that reach ``offset`` or lie above it; does nothing if the log ends at or below it.

        A batch is removed as a whole, so the log may end below ``offset``. (Kafka then still reports ``offset`` as the
        end until it is restarted.) Durable on return; after a crash before it, the log opens, with none, some or all of
        the batches removed. Raises InvalidOffsetError for a negative offset.
        """
        if offset < 0:
            raise InvalidOffsetError(f"{self.context.directory}: cannot truncate to offset {offset}, which is below 0")
        with self._writing():
            self._bounds.truncate_to(offset)
            self._rolling.note_snapshot()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Deletes all records, and begins an empty log at ``offset``.

        Durable on return; after a crash before it, the log shows no records below ``offset``, and all, some or none of
        those above it. Raises InvalidOffsetError for a negative offset.
        """
        if offset < 0:
            raise InvalidOffsetError(f"{self.context.directory}: cannot begin at offset {offset}, which is below 0")
        with self._writing():
            self._bounds.start_at(offset)
            self._rolling.note_snapshot()

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
        self._rolling.complete()
        self._bounds.write_marks()

    def refresh(self) -> None:
        """Reloads the log, with what other processes appended, deleted or replaced."""
        with self._writing():
            self._reload()
