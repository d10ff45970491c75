"""FilePartition: a led partition in a log directory.

Everything below the high watermark is synced, unless the topic's flush settings postpone that, and readers see nothing
above it. They see records of another process once this process has synced them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, TypeVar

from ...protocol import RequestError
from ...storage import (
    AppendInfo,
    CheckedBatch,
    Isolation,
    Log,
    LogConfig,
    LogReader,
    OffsetOutOfRangeError,
    ProducerState,
)
from ..network import FileSlice
from .appending import Check
from .lane import Lane
from .led_partition import LedPartition, Slice

NEVER = 2**63 - 1  # of flush settings

T = TypeVar("T")


class FilePartition(LedPartition):
    """A partition whose log is a directory with files."""

    def __init__(self, topic: str, partition: int, log: Log, files: object = None) -> None:
        """``log``: newly opened; opening has synced all of it, so the high watermark is its end.

        ``files``: the status of its directory before that; None: unknown.
        """
        super().__init__(topic, partition)
        self.lane: Lane[Any] = Lane()  # of the appender
        self._log = log
        self._lock = Lock()
        config = log.context.config
        self._is_relaxed = config.flush_messages < NEVER or config.flush_ms < NEVER  # appends need not be synced
        self._has_others = False  # whether what others appended is to be synced
        self._files = files

    @property
    def config(self) -> LogConfig:
        return self._log.context.config

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
                return self._check_and_append(batches, checks)

    def append_at_once(
        self, batches: Sequence[CheckedBatch], checks: Sequence[Check | None]
    ) -> Sequence[AppendInfo | Exception] | None:
        """Appends as :meth:`append` if that waits for no sync, no process and no thread; otherwise returns None.

        Then it has done nothing. So a thread that others wait for may call it.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            self._check_here()
            with self._log.if_alone() as is_alone:
                if is_alone and self._log.is_quick(batches, sync=self._is_relaxed):
                    return self._check_and_append(batches, checks)
        finally:
            self._lock.release()
        return None

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

        Returns the error of each, or None; also one of ours, for the others are in the same group. Readers see the
        result only after :meth:`sync`. Raises as :meth:`append`.
        """
        with self._lock:
            self._check_here()
            with self._log.exclusively():
                failures = [_failure(change, self._log) for change in changes]
            self._has_others = True  # last: a sync in the meantime has only some of it
            return failures

    @property
    def is_locked_elsewhere(self) -> bool:
        """Whether another process holds the append lock now; then :meth:`append` and :meth:`change` would wait."""
        try:
            return not self.is_gone and self._log.is_append_locked
        except OSError:  # as of a deleted directory, which the append itself reports
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

    # Reading

    def slice(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one_batch: bool, whole: bool = True
    ) -> Slice:
        with self._lock:
            self._check_here()
            log, shown = self._log, self._log.high_watermark
            if not log.log_start_offset <= offset <= log.log_end_offset:
                raise OffsetOutOfRangeError(
                    f"offset {offset} is outside the log, which holds {log.log_start_offset} to {shown}"
                )
            is_committed = isolation is Isolation.READ_COMMITTED
            found = None
            if max_bytes > 0 or min_one_batch:
                found = log.slice(
                    offset,
                    max(max_bytes, 1),
                    isolation=isolation,
                    up_to=shown,
                    min_one_message=min_one_batch,
                    whole=whole,
                )
            aborted = () if found is None else [(each.producer_id, each.first_offset) for each in found.aborted]
            return Slice(
                shown,
                min(log.last_stable_offset, shown),
                log.log_start_offset,
                aborted if is_committed else None,
                None if found is None else FileSlice(found.descriptor, found.position, found.length, found.release),
                found is not None and found.is_cut,
            )

    def delete_records(self, before_offset: int) -> int:
        self._check_here()
        self._log.wait_for_append_lock()  # first: readers need not wait for a process that is paused with it
        with self._lock:
            self._check_here()
            start = self._log.delete_records(before_offset)
        self.wake()  # what was deleted was synced first
        return start

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def leader_epoch(self) -> int:
        return self._log.leader_epoch

    def ask(self, question: Callable[[LogReader], T]) -> T:
        with self._lock:
            self._check_here()
            return question(self._log)

    def segment_times(self, now_ms: int) -> Sequence[tuple[int, int]]:
        """Returns each segment's first offset with its file's time in ms, then the log end offset with ``now_ms``."""
        with self._lock:
            self._check_here()
            segments = list(self._log.segments)
            start = self._log.log_start_offset
            times = [(max(each.base_offset, start), each.status().modified_ms) for each in segments]
            return [*times, (self._log.log_end_offset, now_ms)] if segments[-1].size else times

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        if self.is_empty and epoch == self.leader_epoch:  # which nothing has been written with, perhaps
            return epoch, self.high_watermark
        found = self.ask(lambda log: log.epochs.end_offset_for(epoch, self.high_watermark))
        return found.epoch, found.end_offset

    def producers(self, now_ms: int) -> Mapping[int, ProducerState]:
        return self.ask(lambda log: log.active_producers(now_ms))

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

    def leave(self) -> None:
        """Ends the use of the log before its manager closes it, to delete the topic or to open it again."""
        with self._lock:
            self.is_gone = True
        self.wake()

    @property
    def is_busy(self) -> bool:
        return self._lock.locked()

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
