"""Appender and syncers: append all pending batches of a partition under one lock, then sync once for all of them.

The thread of a connection appends small batches itself, as long as that waits for nothing; the appender's thread does
the rest. A partition always has the same syncer, so its appends are answered in order; the appender writes the next
group while a syncer syncs the last one. If a topic's flush settings postpone the sync, the appender answers.

The appender never waits for another process, which may hold a partition's lock for long, for example because it is
paused. The partition's appends are then queued, a separate thread waits for the lock, and other partitions go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Timer
from typing import TypeVar

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...storage import AppendInfo, Log
from ..threads.disk_faults import DiskFaults
from ..threads.kept import KeptThread, run_apart
from .appending import Append, Soon
from .file_partition import FilePartition
from .lane import GROUP_MAX, Hold, Lane
from .led_partition import LedPartition
from .syncer import Call, Group, Syncer, call_all, log_unexpected, note_failure

AT_ONCE_BYTES = 64 << 10  # the appender appends larger batches, while the connection's thread checks the next
HELD_S = 5.0  # how long appends wait for a lock that another process holds; then clients must try again

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Change:
    """A change of the log that is not a client's batch; ``done`` is called when readers see it, or with the error."""

    led: FilePartition
    change: Callable[[Log], object]
    done: Callable[[Exception | None], None]
    soon: Soon | None = None


@dataclass(frozen=True)  # not a tuple: that would equal, and replace, the other messages about the partition
class _Freed:
    """A moment ago, no process held a partition's lock."""

    led: FilePartition


@dataclass(frozen=True)
class _Overdue:
    """A partition's lock has been held for long."""

    led: FilePartition


Job = Append | _Change


class Appender:
    """Appends for all partitions. For any thread."""

    def __init__(
        self, syncers: int, observe: Callable[[float], None] = lambda _: None, faults: DiskFaults | None = None
    ) -> None:
        """``observe`` is called with the seconds that each sync took. ``faults`` reports what fails on the disk."""
        self._faults = faults or DiskFaults("the log")
        self._queue: SimpleQueue[FilePartition | _Freed | _Overdue | None] = SimpleQueue()
        self._held: set[FilePartition] = set()
        self._syncers = [Syncer(f"gateway-syncer-{number}", observe, self._faults) for number in range(syncers)]
        self._thread = KeptThread("gateway-appender", self._run)

    def start(self) -> None:
        """Starts its threads."""
        for syncer in self._syncers:
            syncer.start()
        self._thread.start()

    def append(self, append: Append) -> None:
        """Appends a batch, after earlier batches for the partition.

        With ``soon``, that thread itself appends small batches if it need not wait. Batches from one turn of that
        thread are appended together.
        """
        led, soon = append.led, append.soon
        if led.damage is not None:
            append.done(led.damage)
            return
        assert isinstance(led, FilePartition)
        led.lane.put(append)
        self._serve_soon(led, soon if len(append.batch.data) <= AT_ONCE_BYTES else None)

    def _serve_soon(self, led: FilePartition, soon: Soon | None) -> None:
        """Starts the jobs in the lane of a partition, in the thread of ``soon`` if they need not wait."""
        if soon is None:
            self._queue.put(led)
        elif not led.lane.is_awaited:
            led.lane.is_awaited = True
            soon(partial(self._append_at_once, led))

    def catch_up(self, led: LedPartition, done: Callable[[Exception | None], None]) -> None:
        """Reads, syncs and shows what others appended, then calls ``done`` with the error, if there is one."""
        self.change(led, lambda _: None, done)

    def change(
        self,
        led: LedPartition,
        change: Callable[[Log], object],
        done: Callable[[Exception | None], None],
        soon: Soon | None = None,
    ) -> None:
        """Calls ``change`` under the partition's lock, syncs and shows the result, then calls ``done``.

        ``soon``: as :meth:`Appending.change`.
        """
        if led.damage is not None:
            done(led.damage)
            return
        assert isinstance(led, FilePartition)
        led.lane.put(_Change(led, change, done, soon))
        self._serve_soon(led, soon)

    def look_at(self, led: FilePartition) -> None:
        """Does the jobs that a partition got while another thread was working on it. For any thread."""
        if led.lane:
            self._queue.put(led)

    def stop(self) -> None:
        """Completes the queued jobs, refuses those that wait for another process, and ends the threads."""
        self._queue.put(None)
        self._thread.join()
        for syncer in self._syncers:
            syncer.stop()

    def _append_at_once(self, led: FilePartition) -> None:
        """Appends batches that need not wait; leaves the rest to the appender, or to the thread that appends now."""
        led.lane.is_awaited = False  # before the jobs are checked: a later one calls again
        while led.lane and led.lane.turn.acquire(blocking=False):
            try:
                if not self._has_appended(led, may_wait=False):
                    self._queue.put(led)
                    return
            finally:
                led.lane.turn.release()

    def _has_appended(self, led: FilePartition, *, may_wait: bool) -> bool:
        jobs = led.lane.first()
        if not jobs:  # another thread was quicker
            return True
        changes = [job for job in jobs if isinstance(job, _Change)]
        appends = [job for job in jobs if isinstance(job, Append)]
        if led.lane.hold is not Hold.NONE or any(job.soon is None for job in (changes if may_wait else jobs)):
            return False
        try:
            found = led.do_at_once(
                [job.change for job in changes], [job.batch for job in appends], [job.check for job in appends]
            )
        except Exception as error:  # an error of the disk or a bug: each client gets an answer
            self._fail(led.lane.take(len(jobs)), error)
            return True
        if found is None:
            return False
        led.lane.take(len(jobs))
        failures, results = found
        self.show(led, [*map(_call_changed, changes, failures), *map(_call, appends, results)])
        return True

    def _run(self) -> None:
        is_ending = False
        while not is_ending:
            for given in dict.fromkeys(drained(self._queue)):
                is_ending |= given is None
                try:
                    self._take(given)
                except Exception as error:  # such as too few descriptors to check a lock; the other partitions go on
                    self._give_back(given, error)
        for led in self._held:
            with led.lane.turn:
                _refuse(led, led.lane)

    def _take(self, given: FilePartition | _Freed | _Overdue | None) -> None:
        if isinstance(given, FilePartition):
            self._serve(given)
        elif isinstance(given, _Freed):
            self._free(given.led)
        elif given is not None:
            self._give_up(given.led)

    def _give_back(self, given: FilePartition | _Freed | _Overdue | None, error: Exception) -> None:
        """Answers the jobs in the lane of a partition with the error that prevented them."""
        if given is not None:
            led = given if isinstance(given, FilePartition) else given.led
            with led.lane.turn:
                while led.lane:
                    self._fail(led.lane.take(), error)

    def _serve(self, led: FilePartition) -> None:
        """Does the jobs in the lane of a partition, unless another process holds its lock."""
        while led.lane:
            with led.lane.turn:
                if self._has_appended(led, may_wait=True):  # this does not open the lock's file
                    continue
                if led.lane.hold is Hold.LONG:
                    _refuse(led, led.lane)
                elif led.lane.hold is Hold.NONE and not led.is_locked_elsewhere:
                    self._do(led, led.lane.take())
                elif led.lane.hold is Hold.SHORT or self._hold(led):
                    return

    def _hold(self, led: FilePartition) -> bool:
        """Starts a thread that waits for the lock of a partition; if that fails, refuses the waiting jobs."""

        def wait() -> None:
            reminder = Timer(HELD_S, lambda: self._queue.put(_Overdue(led)))
            reminder.daemon = True
            try:
                reminder.start()
                led.wait_for_append_lock()
            except Exception:  # such as a deleted directory, which the append then reports
                logger.debug("%s-%d: no lock to wait for", led.topic, led.partition, exc_info=True)
            finally:
                reminder.cancel()
                self._queue.put(_Freed(led))

        try:
            run_apart(f"gateway-waiter-{led.topic}-{led.partition}", wait)
        except RuntimeError:  # no more threads
            _refuse(led, led.lane)
            return False
        led.lane.hold = Hold.SHORT
        self._held.add(led)
        return True

    def _free(self, led: FilePartition) -> None:
        self._held.discard(led)
        with led.lane.turn:
            led.lane.hold = Hold.NONE
        self._serve(led)

    def _give_up(self, led: FilePartition) -> None:
        """Refuses the waiting jobs: their requests count as in progress, and would block those of all clients."""
        if led in self._held:
            logger.warning("%s", _lock_error(led))
            with led.lane.turn:
                led.lane.hold = Hold.LONG
            self._serve(led)

    def _do(self, led: FilePartition, jobs: list[Job]) -> None:
        try:
            calls = [*_changed(led, jobs), *_appended(led, jobs)]
        except Exception as error:  # an error of the disk or a bug: each client gets an answer
            self._fail(jobs, error)
            return
        self.show(led, calls)

    def note_failed(self, error: Exception) -> None:
        """Notes the error of appends that did not come through this object. For any thread."""
        note_failure(error, self._faults)

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        self.note_failed(error)
        call_all([_failed(job, error) for job in jobs], None)

    def show(self, led: FilePartition, calls: Sequence[Call]) -> None:
        """Syncs appended batches if they need it, then makes the calls and wakes readers. For any thread."""
        if led.waits_for_sync:
            self._syncers[(hash(led.topic) + led.partition) % len(self._syncers)].sync(Group(led, calls))
        else:
            self._faults.worked()
            call_all(calls, None)
            led.wake_if_moved()  # last: a client that reads what it wrote waits for its answer first


def _changed(led: FilePartition, jobs: Sequence[Job]) -> list[Call]:
    """Does the changes among ``jobs``; returns what to call after the sync."""
    changes = [job for job in jobs if isinstance(job, _Change)]
    failures = led.change([job.change for job in changes]) if changes else []
    return list(map(_call_changed, changes, failures))


def _appended(led: FilePartition, jobs: Sequence[Job]) -> list[Call]:
    """Appends the batches among ``jobs``; returns what to call after the sync."""
    appends = [job for job in jobs if isinstance(job, Append)]
    results = led.append([job.batch for job in appends], [job.check for job in appends]) if appends else []
    return [_call(job, result) for job, result in zip(appends, results, strict=True)]


def _lock_error(led: FilePartition) -> RequestError:
    where = f"{led.topic}-{led.partition}"
    return RequestError(
        ErrorCode.request_timed_out,
        f"{where}: another process holds the partition's lock, so nothing can be appended; is that process paused?",
    )


def _refuse(led: FilePartition, lane: Lane[Job]) -> None:
    while lane:
        call_all([_failed(job, _lock_error(led)) for job in lane.take()], None)


def _failed(job: Job, error: Exception) -> Call:
    return Call(lambda _: job.done(error))


def _call(job: Append, result: AppendInfo | Exception) -> Call:
    return Call(lambda error: job.done(result if error is None else error), job.soon)


def _call_changed(job: _Change, failure: Exception | None) -> Call:
    log_unexpected(failure)
    return Call(lambda error: job.done(failure or error), job.soon)


def drained(queue: SimpleQueue[T]) -> list[T]:
    """Waits for one item, and returns it with all others in the queue."""
    first = queue.get()
    return [first, *(queue.get() for _ in range(min(queue.qsize(), GROUP_MAX - 1)))]  # nobody else takes from it
