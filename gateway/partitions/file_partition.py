"""FilePartition: a led partition in a log directory.

Everything below the high watermark is synced, unless the topic's flush settings postpone that, and readers see nothing
above it. They see records of another process once this process has synced them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...protocol.errors import RequestError
from ...storage import (
    AppendInfo,
    CheckedBatch,
    Log,
    PlainAppends,
    begin_plain,
)
from .appending import Check
from .file_reading import FileReading
from .lane import Hold, Lane

NEVER = 2**63 - 1  # of flush settings

T = TypeVar("T")


class FilePartition(FileReading[Log]):
    """A partition whose log is a directory with files."""

    may_rest = True

    def __init__(self, topic: str, partition: int, log: Log, files: object = None, *, has_tier: bool = False) -> None:
        """``log``: newly opened; opening has synced all of it, so the high watermark is its end.

        ``files``: the status of its directory before that; None: unknown. ``has_tier``: as for :class:`FileReading`.
        """
        super().__init__(topic, partition, log, has_tier=has_tier)
        self.lane: Lane[Any] = Lane()  # of the appender
        config = log.context.config
        self._is_relaxed = config.flush_messages < NEVER or config.flush_ms < NEVER  # appends need not be synced
        self._has_others = False  # whether records that others appended must be synced
        self._files = files

    # Writing

    def append(
        self, batches: Sequence[CheckedBatch], checks: Sequence[Check | None] = ()
    ) -> Sequence[AppendInfo | Exception]:
        """Appends batches in order; returns the result of each. Readers see them only after :meth:`sync`.

        ``checks``: one per batch, run under the lock, so no process appends between a check and its batch. Raises
        StorageError if the disk failed; then none of the batches may be acknowledged.
        """
        with self._lock:
            self._check_here()
            with self._log.exclusively():
                results = self._check_and_append(batches, checks)
            self._has_others |= self.is_unsynced  # read here, while all of the batches may have been refused
            return results

    def do_at_once(
        self,
        markers: Sequence[Callable[[Log], object]],
        batches: Sequence[CheckedBatch],
        checks: Sequence[Check | None],
    ) -> tuple[Sequence[Exception | None], Sequence[AppendInfo | Exception]] | None:
        """Does :meth:`change`, with changes that append one marker each, then :meth:`append`, if neither must wait.

        That is, if there is no wait for a sync, a process or a thread. Otherwise returns None, and does nothing. So a
        thread that others wait for may call it.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            self._check_here()
            with self._log.if_alone() as is_alone:
                if not is_alone or not self._log.is_quick(batches, markers=len(markers), sync=self._is_relaxed):
                    return None
                failures = [_failure(each, self._log) for each in markers]
                self._has_others |= bool(markers)  # after the changes: a sync in the meantime covers only some of them
                return failures, self._check_and_append(batches, checks) if batches else ()
        finally:
            self._lock.release()

    def begin_plain(self) -> PlainAppends | None:
        """Takes the partition for plain batches, if there is no need to wait; then :meth:`end_plain` must follow.

        None if appends wait for their turn, or another thread or process has the partition: batches then go the usual
        way. The caller holds it only for a moment, in which nothing else uses the log.
        """
        lane = self.lane
        if lane or lane.hold is not Hold.NONE or self.is_gone or not lane.turn.acquire(blocking=False):
            return None
        found = None
        try:
            if not lane and self._lock.acquire(blocking=False):
                found = self._begin_locked()
        finally:
            if found is None:
                lane.turn.release()
        return found

    @property
    def is_appending(self) -> bool:
        """Whether appends of this process are queued or in progress; plain batches must follow them."""
        return bool(self.lane) or self.lane.turn.locked()

    def _begin_locked(self) -> PlainAppends | None:
        found = None
        try:
            if not self.is_gone:
                found = begin_plain(self._log, sync=self._is_relaxed)
        finally:
            if found is None:
                self._lock.release()
        return found

    def end_plain(self, appends: PlainAppends) -> None:
        """Gives the partition back. Appends that came in the meantime wait for the appender."""
        try:
            appends.end()
        finally:
            self._lock.release()
            self.lane.turn.release()

    def _check_and_append(
        self, batches: Sequence[CheckedBatch], checks: Sequence[Check | None]
    ) -> Sequence[AppendInfo | Exception]:
        if not any(checks):
            return self._append(batches)
        refusals = [_refusal(check) for check in checks]
        results = iter(self._append([each for each, why in zip(batches, refusals, strict=True) if not why]))
        return [why or next(results) for why in refusals]

    def _append(self, batches: Sequence[CheckedBatch]) -> Sequence[AppendInfo | Exception]:
        return self._log.append_checked(batches, sync=self._is_relaxed)  # then it syncs when it is due

    def change(self, changes: Sequence[Callable[[Log], object]]) -> list[Exception | None]:
        """Reads what others appended, then calls ``changes`` with the log, under one lock.

        Returns the error of each, or None; even that of a bug, because the others are in the same group. Readers see
        the result only after :meth:`sync`. Raises the errors of :meth:`append`.
        """
        with self._lock:
            self._check_here()
            with self._log.exclusively():
                failures = [_failure(change, self._log) for change in changes]
            self._has_others = True  # last: a sync in the meantime covers only a part
            return failures

    @property
    def is_locked_elsewhere(self) -> bool:
        """Whether another process holds the append lock now; then :meth:`append` and :meth:`change` would wait."""
        try:
            return not self.is_gone and self._log.is_append_locked
        except OSError:  # such as a deleted directory, which the append itself reports
            return False

    def wait_for_append_lock(self) -> None:
        """Waits until no process holds the append lock; reads are not blocked.

        Raises OSError if the lock cannot be used.
        """
        self._log.wait_for_append_lock()

    @property
    def waits_for_sync(self) -> bool:
        """Whether appended records need :meth:`sync` before readers see them; otherwise :meth:`wake` is enough."""
        return self._has_others or not self._is_relaxed

    def sync(self) -> None:
        """Syncs what was appended, and shows it to readers; :meth:`wake` is then due. Raises StorageError.

        Appends may go on in the meantime. May be called after :meth:`leave`, because earlier appends must still be
        acknowledged.
        """
        if self.waits_for_sync:
            self._has_others = False
            self._log.sync_appended()

    def is_still(self, high_watermark: int, log_start_offset: int) -> bool:
        """Like :meth:`LedPartition.is_still`, but quick, because a fetch asks each partition of its session."""
        log = self._log
        is_there = log.high_watermark == high_watermark and self.log_start_offset == log_start_offset
        return is_there and log.failure is None and not self.is_gone

    # Deleting

    def delete_records(self, before_offset: int) -> int:
        self._check_here()
        self._log.wait_for_append_lock()  # first: a process that is paused with the lock must not block readers
        with self._lock:
            self._check_here()
            self._log.delete_records(before_offset)
            start = self.log_start_offset
        self.wake()  # what was deleted was synced first
        return start

    @property
    def leader_epoch(self) -> int:
        return self._log.leader_epoch

    # Others

    @property
    def is_behind(self) -> bool:
        """Whether another process has appended, seen by the file's inode and size. Takes no lock."""
        try:
            return not self._log.is_as_left()
        except OSError:
            return True

    @property
    def is_unsynced(self) -> bool:
        return self._log.high_watermark < self._log.log_end_offset

    def have_files_changed(self) -> bool:
        """Whether files were added or removed since the last call, or since the log was loaded. Takes no lock.

        If another process has deleted segments, their space is freed only when this process closes them.
        """
        before, self._files = self._files, self._status()
        return self._files != before

    def _status(self) -> object:
        context = self._log.context
        return context.filesystem.status(context.directory)

    @property
    def is_usable(self) -> bool:
        """Whether the log can be used. After :meth:`leave` or a failed write or sync it must be opened again."""
        return not self.is_gone and self._log.failure is None


def _failure(change: Callable[[Log], object], log: Log) -> Exception | None:
    try:
        change(log)
    except Exception as error:
        return error
    return None


def _refusal(check: Check | None) -> RequestError | None:
    try:
        if check is not None:
            check()
    except RequestError as error:
        return error
    return None
