"""GroupStore: reads and writes the records of groups in a thread of its own, and answers in the coordinator's.

Pending writes of all groups are written together: one batch and one sync per partition of ``__consumer_offsets``. The
coordinator never waits for the disk, so heartbeats are answered even while the disk is slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError, code_of, is_fault
from ...storage import (
    GroupChange,
    GroupFence,
    GroupKey,
    GroupRecords,
    GroupValue,
    LockHeldError,
    OffsetCommitKey,
    OffsetCommitValue,
    TopicPartition,
    TransactionalOffsets,
)
from ..threads.disk import Disk, Home, Store
from ..threads.worker import Task, Timer

Contents = Mapping[GroupKey, GroupValue]
Written = Callable[[Exception | None], None]

_STORED_CODES = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}
_TOO_LARGE = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)


def stored_group_code(error: Exception) -> ErrorCode:
    """Returns the code for members whose group could not be stored (``GroupMetadataManager.storeGroup``)."""
    code = _code(error)
    if code in _TOO_LARGE:
        return ErrorCode.unknown_server_error
    return ErrorCode.rebalance_in_progress if code is ErrorCode.request_timed_out else _STORED_CODES.get(code, code)


def stored_offset_code(error: Exception) -> ErrorCode:
    """Returns the code for a client whose offsets could not be stored (``maybeConvertOffsetCommitError``)."""
    code = _code(error)
    return ErrorCode.invalid_commit_offset_size if code in _TOO_LARGE else _STORED_CODES.get(code, code)


def _code(error: Exception) -> ErrorCode:
    return ErrorCode.coordinator_not_available if isinstance(error, LockHeldError) else code_of(error)


def tombstones_of(records: Mapping[Any, Any]) -> list[GroupChange]:
    """Returns the deletions of records, each only if it is still the newest one of its key."""
    return [GroupChange(key, None, only_if=value) for key, value in records.items()]


def deletions_of(group: str, records: Contents, undecided: Collection[TopicPartition]) -> list[GroupChange]:
    """Returns tombstones for offsets that only open transactions have; they would take effect at the commit.

    Leaves out offsets that are in ``records``.
    """
    keys = [OffsetCommitKey(group, *each) for each in undecided]
    return [GroupChange(key, None) for key in keys if key not in records]


def offsets_among(contents: Contents) -> dict[OffsetCommitKey, OffsetCommitValue]:
    """Returns the committed offsets among records."""
    return {
        key: value
        for key, value in contents.items()
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue)
    }


def run_later(home: Home, delay_ms: float, task: Task) -> Timer:
    """Like :meth:`Home.later`, but the timer can be cancelled until the task begins, even after it is due."""

    def begin() -> None:
        if timer.task is not None:
            timer.task = None  # an expired timer must hold nothing, because no collector finds cycles
            task()

    timer: Timer = home.later(delay_ms / 1000, begin)
    return timer


@dataclass(eq=False)
class _Write:
    changes: Sequence[GroupChange | GroupFence] | TransactionalOffsets
    done: Written
    timer: Timer | None = None
    is_answered: bool = False


def _is_transactional(changes: object) -> bool:
    return isinstance(changes, TransactionalOffsets)


class GroupStore(Store[GroupRecords, _Write]):
    """The records of groups. Its methods and the callbacks passed to them are called in the coordinator's thread."""

    WHAT = "groups and their offsets cannot be read or stored"

    def __init__(self, disk: Disk[GroupRecords], home: Home, timeout_ms: int) -> None:
        """``timeout_ms``: a write that has not ended by then is answered with REQUEST_TIMED_OUT."""
        super().__init__(disk, home)
        self._timeout_ms = timeout_ms
        self._earlier: deque[list[_Write]] = deque()  # pending writes before a question; a flush of each is scheduled

    def write(self, changes: Sequence[GroupChange | GroupFence], done: Written) -> None:
        """Writes changes of one group, and calls ``done`` with None when they are durable, else with the error.

        After ``timeout_ms`` the error is REQUEST_TIMED_OUT; the changes may still be written later.
        """
        write = _Write(changes, done)
        write.timer = run_later(self._home, self._timeout_ms, lambda: self._time_out(write))
        self._put(write)

    def write_transactional(self, offsets: TransactionalOffsets, done: Written) -> None:
        """Writes offsets in a transaction, and calls ``done`` with None when they are durable, else with the error.

        There is no timeout: an answer before the end lets the client begin another transaction, which would get them.
        """
        self._put(_Write(offsets, done))

    def _flush_first(self) -> None:
        """Keeps later writes out of a flush that is before the question, which would delete what they commit."""
        with self._guard:
            if self._waiting:
                self._earlier.append(self._waiting)
                self._waiting = []

    def _taken(self) -> list[_Write]:
        with self._guard:
            if self._earlier:
                return self._earlier.popleft()
        return super()._taken()

    @contextmanager
    def _one_look(self, disk: GroupRecords) -> Iterator[GroupRecords]:
        with disk.one_look():
            yield disk

    def _is_fault(self, error: Exception) -> bool:
        return is_fault(error)

    def _write(self, disk: GroupRecords, writes: Sequence[_Write]) -> Sequence[Exception | None]:
        """Writes in the order in which the writes arrived: for each partition the last offset counts."""
        results: list[Exception | None] = []
        for is_transactional, some in groupby((each.changes for each in writes), _is_transactional):
            write: Any = disk.write_transactional if is_transactional else disk.write
            results += write([*some])
        return results

    def _answer(self, write: _Write, error: Exception | None) -> None:
        if write.timer is not None:
            write.timer.cancel()
            write.timer = None
        if not write.is_answered:
            write.is_answered = True
            write.done(error)

    def _time_out(self, write: _Write) -> None:
        write.timer, write.is_answered = None, True
        write.done(RequestError(ErrorCode.request_timed_out, "the disk did not answer in time"))
