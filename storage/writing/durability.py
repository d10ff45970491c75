"""What of a log is on disk, what may be acknowledged, and what stops writes after a failure of the disk.

A log syncs in four calls: ``sync`` all that any process appended, under the append lock; ``checkpoint`` the same, with
the entries in the checkpoints; ``sync_appended`` what this process appended, from any thread, without the lock;
``sync_file`` the active file alone, for a process that waits for what others append. An append syncs by
:meth:`Durability.acknowledge`. Rolls, truncations and closing sync what they change, and report it by
:meth:`Durability.note_synced`.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import NoReturn

from ..config import INT64_MAX
from ..errors import StorageError
from ..format.files import file_names
from ..segment.walk import LogContext
from ..segment.writer import LogSegment

INTERRUPTED = "a sync after flush.ms failed"


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


class TimedSync:
    """An alarm that syncs the active segment of one log that is open for writing.

    The alarm rings in another thread, which uses nothing of the log but this object: it opens the file again, and syncs
    it. An append at the same time either sets the alarm again or is covered by that sync. The other methods are for the
    thread that owns the log.
    """

    def __init__(self, context: LogContext, fail: Callable[[str], None]) -> None:
        """``fail`` is given the reason if a sync fails: what is on disk is then unknown."""
        self.synced_at_ms = 0  # when the alarm last synced
        self._context, self._fail = context, fail
        self._unsynced: tuple[str, int] | None = None  # the file, and the time at which it must be on disk
        self._cancel: Callable[[], None] | None = None  # the alarm that is set

    def sync_by(self, path: str, due_ms: int) -> None:
        """Sets the alarm, after an append: the file is synced at ``due_ms``, or earlier if an earlier call asked so."""
        unsynced = self._unsynced
        self._unsynced = path, due_ms if unsynced is None else min(due_ms, unsynced[1])
        if self._cancel is None:
            self._set(self._unsynced[1])

    def note_synced(self) -> None:
        """Makes an alarm that is set do nothing, because the owner has synced everything."""
        self._unsynced = None

    def close(self) -> None:
        """Cancels the alarm."""
        self._unsynced = None
        if self._cancel is not None:
            self._cancel()

    def _set(self, due_ms: int) -> None:
        self._cancel = self._context.clock.set_alarm(max(due_ms - self._context.clock.now_ms(), 0), self._ring)

    def _ring(self) -> None:
        self._cancel = None  # first: an append from here on sets the alarm again, one before is synced below
        unsynced = self._unsynced
        if unsynced is None:
            return
        path, due_ms = unsynced
        if due_ms > self._context.clock.now_ms():
            self._set(due_ms)
            return
        self._unsynced = None
        try:
            with self._context.filesystem.open(path, "write") as file:
                file.sync()
        except FileNotFoundError:
            pass  # the log was truncated or deleted
        except OSError as error:
            self._fail(f"{INTERRUPTED}: {error}")
        self.synced_at_ms = self._context.clock.now_ms()
