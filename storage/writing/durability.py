"""What of a log is on disk, what may be acknowledged, and what stops writes after a failure of the disk."""

from __future__ import annotations

from threading import RLock
from typing import NoReturn

from ..config import INT64_MAX
from ..errors import StorageError
from ..format.files import file_names
from ..segment.walk import LogContext
from ..segment.writer import LogSegment
from .timed_sync import TimedSync


class FailStop:
    """Stops writes to a log after a failed one: what is on disk is unknown until the log is opened again.

    As a ``with`` block, raises StorageError before the block if a write has failed, and for an OSError in it. Blocks
    may be nested. Generators in place of both blocks would make small appends slower.
    """

    def __init__(self, context: LogContext) -> None:
        self.failure: str | None = None  # what failed; once it is set, nothing is written any more
        self.changing = _Changing(self)
        self._context = context

    def __enter__(self) -> None:
        if self.failure is not None:
            raise StorageError(
                f"{self._context.directory}: nothing was written because of an earlier failure ({self.failure}); "
                "open the log again"
            )

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            self.fail(error)

    def note(self, failure: str) -> None:
        """Notes what failed, unless something failed before."""
        self.failure = self.failure or failure

    def fail(self, error: OSError) -> NoReturn:
        """Notes the failure, also in place of an earlier one, and raises it as StorageError."""
        self.failure = str(error)
        raise StorageError(f"{self._context.directory}: {error}; open the log again to recover") from error


class _Changing:
    """A ``with`` block that fails the log if it is interrupted: memory and disk may then differ."""

    __slots__ = ("_fail_stop",)

    def __init__(self, fail_stop: FailStop) -> None:
        self._fail_stop = fail_stop

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._fail_stop.note("a change was interrupted")


class Durability:
    """How far a log that is open for writing is on disk.

    Belongs to the thread that owns the log, but any thread may call :meth:`sync` while it holds ``syncing``. ``active``
    is the active segment, ``end_offset`` the log end.
    """

    def __init__(self, context: LogContext, fail_stop: FailStop) -> None:
        """Nothing is on disk before the first :meth:`note_synced`, once the log is loaded."""
        self.recovery_point = 0  # everything below this offset is synced
        self.high_watermark = 0  # what is below this offset may be acknowledged
        self.syncing = RLock()  # held during a sync and by what closes files, so that no file is closed while it syncs
        self._context, self._fail_stop = context, fail_stop
        self._timed_sync = TimedSync(context, fail_stop.note)
        self._last_sync_ms = 0

    def acknowledge(self, active: LogSegment, end_offset: int, *, transactional: bool) -> None:
        """Syncs the log before an append is acknowledged, unless the topic's flush settings allow more.

        Transactional batches are always synced. With ``flush.ms``, unsynced batches are synced once that time has
        passed, even if nothing more is appended. A repeated append is synced too: the first writer may have been killed
        before its sync.
        """
        if self.is_sync_due(end_offset, transactional=transactional):
            self.sync_all(active, end_offset)
            return
        flush_ms = self._context.config.flush_ms
        if flush_ms < INT64_MAX:
            self._timed_sync.sync_by(active.path(file_names.LOG), self._last_synced_ms + flush_ms)
        self.high_watermark = end_offset

    def is_sync_due(self, end_offset: int, *, transactional: bool) -> bool:
        """Whether the log must be synced before what ends at ``end_offset`` is acknowledged."""
        config = self._context.config
        is_relaxed = config.flush_messages < INT64_MAX or config.flush_ms < INT64_MAX
        is_late = self._context.clock.now_ms() - self._last_synced_ms >= config.flush_ms
        return not is_relaxed or transactional or is_late or end_offset - self.recovery_point >= config.flush_messages

    @property
    def _last_synced_ms(self) -> int:
        return max(self._last_sync_ms, self._timed_sync.synced_at_ms)

    def sync(self, active: LogSegment, end_offset: int) -> int:
        """Syncs what was appended below ``end_offset``; returns the high watermark, which is then at least that."""
        if self.recovery_point < end_offset:
            active.sync()
            self.recovery_point = end_offset
            self._last_sync_ms = self._context.clock.now_ms()
        self.high_watermark = max(self.high_watermark, end_offset)
        return self.high_watermark

    def sync_all(self, active: LogSegment, end_offset: int) -> None:
        """Syncs the log while its owner appends nothing: then no timed sync is needed any more."""
        with self.syncing:
            with self._fail_stop.changing:
                self.sync(active, end_offset)
            self.note_synced(end_offset)

    def note_synced(self, end_offset: int) -> None:
        """Notes that the log was synced as a whole: by its loading, a roll or a truncation, or by :meth:`sync_all`."""
        self._timed_sync.note_synced()
        self.recovery_point = self.high_watermark = end_offset
        self._last_sync_ms = self._context.clock.now_ms()

    def lower_to(self, offset: int) -> None:
        """Lowers the recovery point to ``offset``, if it is higher, before a truncation."""
        self.recovery_point = min(self.recovery_point, offset)

    def close(self) -> None:
        """Cancels the timed sync."""
        self._timed_sync.close()
