"""Syncer: a thread that syncs partitions, each once for all that was appended since its last sync."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Condition, Lock
from typing import NamedTuple

from ...protocol.errors import RequestError
from ...storage import LogStoreError
from ..threads.disk_faults import DiskFaults
from ..threads.kept import KeptThread
from .appending import Soon
from .file_partition import FilePartition
from .pace import Pace

ALL = 2**62  # more calls than any thread waits for

logger = logging.getLogger(__name__)


class Call(NamedTuple):
    """A function to call with the result of a sync, None or its error; ``soon`` runs it in its thread."""

    function: Callable[[Exception | None], None]
    soon: Soon | None = None
    requests: int = 1  # how many requests it answers


class Group(NamedTuple):
    """Appends and changes of a partition that must be synced, and the calls to make after the sync."""

    led: FilePartition
    calls: Sequence[Call]


class _Inbox:
    """Groups for the one thread that takes them. It is woken only when it has as many calls as it waits for."""

    def __init__(self) -> None:
        self.calls = 0  # counted by requests, because one call may answer several
        self._groups: list[Group | None] = []
        self._wanted = 1  # calls that the thread waits for
        self._enough = Condition(Lock())

    def put(self, group: Group | None) -> None:
        """Adds a group; None: the thread is to end. For any thread."""
        with self._enough:
            self._groups.append(group)
            self.calls += ALL if group is None else max(_requests(group.calls), 1)
            if self.calls >= self._wanted:
                self._enough.notify()

    def wait(self, calls: int, timeout_s: float | None = None) -> None:
        """Waits for this many calls, or until the time is over; None: forever."""
        with self._enough:
            self._wanted = calls
            self._enough.wait_for(lambda: self.calls >= calls, timeout_s)

    def take(self) -> list[Group | None]:
        """Returns all groups, in order."""
        with self._enough:
            found, self._groups, self.calls = self._groups, [], 0
        return found


class Syncer:
    """Syncs partitions in a thread of its own."""

    def __init__(self, name: str, observe: Callable[[float], None], faults: DiskFaults) -> None:
        """``observe`` is called with the seconds that each sync took."""
        self._observe, self._faults = observe, faults
        self._inbox = _Inbox()
        self._pace = Pace()
        self._thread = KeptThread(name, self._run)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def sync(self, group: Group) -> None:
        """Syncs a partition, then makes the calls. For any thread."""
        self._inbox.put(group)

    def stop(self) -> None:
        """Completes the queued syncs, and ends the thread."""
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        while self._serve(self._gathered()):  # no variable may keep groups, and so requests, alive while it waits
            pass

    def _gathered(self) -> Sequence[Group | None]:
        """Waits for a group, and for further ones as long as that pays off."""
        self._inbox.wait(1)
        patience_s = self._pace.patience_s(time.monotonic(), self._inbox.calls)
        if patience_s > 0:
            self._inbox.wait(self._pace.expected, patience_s)
        self._pace.begin(self._inbox.calls)
        return self._inbox.take()

    def _serve(self, groups: Sequence[Group | None]) -> bool:
        """Syncs each partition once, and makes the calls. Returns False if the thread is to end."""
        by_partition: dict[FilePartition, list[Call]] = {}
        for group in groups:
            if group is not None:
                by_partition.setdefault(group.led, []).extend(group.calls)
        for led, calls in by_partition.items():
            began_s = time.perf_counter()
            failure = self._synced(led)
            took_s = time.perf_counter() - began_s
            self._observe(took_s)
            waiting = self._inbox.calls  # counted before the answers, because answered clients send more
            self._pace.note(time.monotonic(), took_s, _requests(calls), waiting, alone=len(by_partition) == 1)
            _answer(calls, failure)
            wake = led.wake_if_moved if failure is None else led.wake
            wake()  # last: a client that reads what it wrote waits for its answer first
        return None not in groups

    def _synced(self, led: FilePartition) -> Exception | None:
        try:
            led.sync()
        except Exception as error:
            note_failure(error, self._faults)
            return error
        self._faults.worked()
        return None


def _requests(calls: Sequence[Call]) -> int:
    return sum(each.requests for each in calls)


def _answer(calls: Sequence[Call], failure: Exception | None) -> None:
    """Makes the calls; each thread makes all of its own in one turn, so a connection's answers leave together."""
    by_thread: dict[Soon | None, list[Call]] = {}
    for call in calls:
        by_thread.setdefault(call.soon, []).append(call)
    for soon, some in by_thread.items():
        if soon is None:
            call_all(some, failure)
        else:
            soon(partial(call_all, some, failure))


def call_all(calls: Sequence[Call], failure: Exception | None) -> None:
    """Makes calls in this thread; an error of one is logged."""
    for call in calls:
        try:
            call.function(failure)
        except Exception:
            logger.exception("an answer failed")


def note_failure(error: Exception, faults: DiskFaults) -> None:
    """Reports why appends or a sync failed: a disk fault once for all, and errors of neither disk nor log."""
    log_unexpected(error)
    faults.failed(error)


def log_unexpected(error: Exception | None) -> None:
    """Logs an unexpected error: neither one of the disk or of a log, nor a refusal."""
    if error is not None and not isinstance(error, (LogStoreError, OSError, RequestError)):
        logger.error("an append failed", exc_info=error)
