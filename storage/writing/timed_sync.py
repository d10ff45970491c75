"""TimedSync: syncs what was appended once ``flush.ms`` has passed, even if nothing more is appended."""

from __future__ import annotations

from collections.abc import Callable

from ..segment.walk import LogContext

INTERRUPTED = "a sync after flush.ms failed"


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
