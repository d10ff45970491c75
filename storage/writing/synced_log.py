"""SyncedLog: what of a log is on disk, what may be acknowledged, and what stops it after a failure of the disk.

After a failed write or sync, it is unknown what is on disk: the log then refuses writes until it is opened again, which
recovers it.
"""

from __future__ import annotations

from threading import RLock
from typing import NoReturn

from ..config import INT64_MAX
from ..errors import StorageError
from ..format.files import file_names
from ..reading.marks import Checkpoints
from ..reading.reader import LogReader
from ..recovery.view import LoadedLog
from ..segment.walk import LogContext
from .timed_sync import TimedSync


class SyncedLog(LogReader):
    """The part of :class:`Log` that syncs."""

    def __init__(self, context: LogContext, checkpoints: Checkpoints) -> None:
        self._failure: str | None = None
        self._timed_sync = TimedSync(context)
        self._syncing = RLock()  # held during a sync and by what closes files, so that no file is closed while it syncs
        super().__init__(context, checkpoints)

    def _take(self, loaded: LoadedLog) -> None:
        super()._take(loaded)
        self._recovery_point = self._high_watermark = loaded.recovery_point  # the log end: loading syncs
        self._last_sync_ms = self.context.clock.now_ms()

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is synced."""
        return self._recovery_point

    @property
    def high_watermark(self) -> int:
        """What is below this offset may be acknowledged and shown to clients of a broker.

        It was synced, by this process, or the topic's flush settings let it wait. What is appended with ``sync=False``,
        or by other processes, is below it after the next sync. (Readers of the files do not wait for it.)
        """
        return self._high_watermark

    @property
    def failure(self) -> str | None:
        """What failed, so that nothing can be written until the log is opened again; None if nothing failed."""
        return self._failure or self._timed_sync.failure

    def _touching_the_disk(self) -> _TouchingTheDisk:
        """Raises StorageError before the ``with`` block if the log has failed, and for an OSError in it."""
        return _TouchingTheDisk(self)

    def _check_sound(self) -> None:
        if self.failure is not None:
            raise StorageError(
                f"{self.context.directory}: nothing was written because of an earlier failure ({self.failure}); "
                "open the log again"
            )

    def _fail(self, error: OSError) -> NoReturn:
        self._failure = str(error)
        raise StorageError(f"{self.context.directory}: {error}; open the log again to recover") from error

    def _changing(self) -> _Changing:
        """Marks the log as failed if the ``with`` block is interrupted: memory and disk may then differ."""
        return _Changing(self)

    def _interrupt(self) -> None:
        self._failure = self._failure or "a change was interrupted"

    def _acknowledge(self, *, transactional: bool) -> None:
        """Syncs the log before an append is acknowledged, unless the topic's flush settings allow more.

        Transactional batches are always synced. With ``flush.ms``, unsynced batches are synced once that time has
        passed, even if nothing more is appended. A repeated append is synced too: the first writer may have been killed
        before its sync.
        """
        config = self.context.config
        if self._is_sync_due(self._log_end_offset, transactional=transactional):
            self._sync()
            return
        if config.flush_ms < INT64_MAX:
            path, due_ms = self.segments.active.path(file_names.LOG), self._last_synced_ms + config.flush_ms
            self._timed_sync.sync_by(path, due_ms)
        self._high_watermark = self._log_end_offset

    def _is_sync_due(self, end_offset: int, *, transactional: bool) -> bool:
        """Whether the log must be synced before what ends at ``end_offset`` is acknowledged."""
        config = self.context.config
        is_relaxed = config.flush_messages < INT64_MAX or config.flush_ms < INT64_MAX
        is_late = self.context.clock.now_ms() - self._last_synced_ms >= config.flush_ms
        return not is_relaxed or transactional or is_late or end_offset - self._recovery_point >= config.flush_messages

    @property
    def _last_synced_ms(self) -> int:
        return max(self._last_sync_ms, self._timed_sync.synced_at_ms)

    def sync_appended(self) -> int:
        """Syncs what this process appended before the call; returns the high watermark, which is now at least its end.

        Takes no lock of the partition and ignores other processes. Any thread may call it while the thread that owns
        the log appends more. Raises StorageError if the disk fails, now or before: the log must be opened again.
        """
        with self._touching_the_disk(), self._syncing:
            end = self._log_end_offset  # before the sync: what is appended during it waits for the next one
            if self._recovery_point < end:
                self.segments.active.sync()
                self._recovery_point = end
                self._last_sync_ms = self.context.clock.now_ms()
            self._high_watermark = max(self._high_watermark, end)
            return self._high_watermark

    def sync_file(self) -> None:
        """Syncs the file of the active segment, with what others appended; leaves the recovery point as it is."""
        with self._touching_the_disk(), self._syncing:
            self.segments.active.sync()

    def begin_sync(self) -> None:
        """Starts to write appended data to disk without waiting, so that a later sync has less to wait for."""
        self.segments.active.begin_sync()

    def _sync(self) -> None:
        with self._syncing:
            if self._recovery_point < self._log_end_offset:
                with self._changing():
                    self.segments.active.sync()
            self._note_synced()

    def _note_synced(self) -> None:
        self._timed_sync.note_synced()
        self._recovery_point = self._high_watermark = self._log_end_offset
        self._last_sync_ms = self.context.clock.now_ms()


class _TouchingTheDisk:
    """The ``with`` block of :meth:`SyncedLog._touching_the_disk`; a generator would make small appends slower."""

    __slots__ = ("_log",)

    def __init__(self, log: SyncedLog) -> None:
        self._log = log

    def __enter__(self) -> None:
        self._log._check_sound()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            self._log._fail(error)


class _Changing:
    """The ``with`` block of :meth:`SyncedLog._changing`."""

    __slots__ = ("_log",)

    def __init__(self, log: SyncedLog) -> None:
        self._log = log

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._log._interrupt()
