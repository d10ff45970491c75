"""GroupStore: reads and writes the records of groups in a thread of its own, and answers in the coordinator's.

What waits to be written, of all groups, is written together: one batch and one sync for each partition of
``__consumer_offsets``. So the coordinator never waits for the disk, and heartbeats are answered while it is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, TypeVar

from ...storage import CoordinatedGroups, GroupChange
from ..protocol import ErrorCode, RequestError, code_of
from ..worker import Task, Timer

T = TypeVar("T")
Written = Callable[[Exception | None], None]

_STORED_CODES = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}
_TOO_LARGE = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)


def stored_group_code(error: Exception) -> ErrorCode:
    """Returns what members are told if their group could not be stored (``GroupMetadataManager.storeGroup``)."""
    code = code_of(error)
    if code in _TOO_LARGE:
        return ErrorCode.unknown_server_error
    return ErrorCode.rebalance_in_progress if code is ErrorCode.request_timed_out else _STORED_CODES.get(code, code)


def stored_offset_code(error: Exception) -> ErrorCode:
    """Returns what a client is told if offsets could not be stored (``maybeConvertOffsetCommitError``)."""
    code = code_of(error)
    return ErrorCode.invalid_commit_offset_size if code in _TOO_LARGE else _STORED_CODES.get(code, code)


class Home(Protocol):
    """The coordinator's thread."""

    def run(self, task: Task) -> None:
        """Runs ``task`` after those given before. For any thread."""
        ...

    def later(self, delay_s: float, task: Task) -> Timer:
        """Runs ``task`` after ``delay_s``, unless the timer is cancelled."""
        ...


def run_later(home: Home, delay_ms: float, task: Task) -> Timer:
    """As :meth:`Home.later`, but the timer can be cancelled until the task begins, also when it is due already."""

    def begin() -> None:
        if timer.task is not None:
            timer.task = None  # a timer that is over holds nothing, for there is no collector that finds cycles
            task()

    timer: Timer = home.later(delay_ms / 1000, begin)
    return timer


@dataclass(eq=False)
class _Write:
    changes: Sequence[GroupChange]
    done: Written
    timer: Timer | None = None


class GroupStore:
    """The records of groups. Its methods are for the coordinator's thread, which also calls what is given to them."""

    def __init__(
        self,
        on_disk: Callable[[Callable[[CoordinatedGroups], None]], None],
        home: Home,
        timeout_ms: int,
    ) -> None:
        """``on_disk`` runs tasks in the thread of the disk; a write is answered after ``timeout_ms`` at the latest."""
        self._on_disk = on_disk
        self._home = home
        self._timeout_ms = timeout_ms
        self._waiting: list[_Write] = []
        self._guard = Lock()

    def write(self, changes: Sequence[GroupChange], done: Written) -> None:
        """Writes changes of one group, and calls ``done`` with None when they are durable, else with the error.

        After ``timeout_ms`` the error is REQUEST_TIMED_OUT; they may be written later all the same.
        """
        write = _Write(changes, done)
        write.timer = run_later(self._home, self._timeout_ms, lambda: self._time_out(write))
        with self._guard:
            self._waiting.append(write)
            is_first = len(self._waiting) == 1
        if is_first:
            self._on_disk(self._flush)

    def _flush(self, groups: CoordinatedGroups) -> None:
        with self._guard:
            writes, self._waiting = self._waiting, []
        errors: Sequence[Exception | None]
        try:
            errors = groups.write([write.changes for write in writes])
        except Exception as error:  # of ours: each client gets an answer
            errors = [error] * len(writes)
        self._home.run(lambda: self._answer(writes, errors))

    def _answer(self, writes: Collection[_Write], errors: Sequence[Exception | None]) -> None:
        for write, error in zip(writes, errors, strict=True):
            if write.timer is not None:
                write.timer.cancel()
                write.timer = None
                write.done(error)

    def _time_out(self, write: _Write) -> None:
        write.timer = None
        write.done(RequestError(ErrorCode.request_timed_out, "the disk did not answer in time"))

    def ask(
        self,
        question: Callable[[CoordinatedGroups], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Calls ``done`` with the answer of a question, or ``failed`` with its error, after what was written before."""

        def run(groups: CoordinatedGroups) -> None:
            try:
                answer = question(groups)
            except Exception as error:  # of the disk, or ours
                self._home.run(lambda error=error: failed(error))  # type: ignore[misc]
            else:
                self._home.run(lambda: done(answer))

        self._on_disk(run)
