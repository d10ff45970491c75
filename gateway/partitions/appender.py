"""Appender and syncers: append all pending batches of a partition under one lock, then sync once for all of them.

A partition always has the same syncer, so its appends are answered in order; the appender writes the next group while
a syncer syncs the last one. If a topic's flush settings postpone the sync, the appender answers.

The appender never waits for another process, which may hold a partition's lock for long, for example because it is
paused. The partition's appends are then queued, a separate thread waits for the lock, and other partitions go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread, Timer
from typing import NamedTuple, TypeVar

from ...protocol import ErrorCode, RequestError
from ...storage import AppendInfo, CheckedBatch, Log, LogStoreError
from .led_partition import Check, LedPartition

Done = Callable[[AppendInfo | Exception], None]
GROUP_MAX = 1000  # appends that are taken from the queue at once
HELD_S = 5.0  # for so long appends wait for a lock that another process holds; then clients are told to try again

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Append(NamedTuple):
    """A batch for a partition. ``done`` is called once, by a thread of the appender, when it is synced or refused."""

    led: LedPartition
    batch: CheckedBatch
    done: Done
    check: Check | None = None


class _Change(NamedTuple):
    """A change of the log other than a client's batch; ``done`` is called when readers see it, or with the error."""

    led: LedPartition
    change: Callable[[Log], object]
    done: Callable[[Exception | None], None]


class _Freed(NamedTuple):
    """A message to the appender: another process has just released a partition's lock."""

    led: LedPartition


class _Overdue(NamedTuple):
    """A message to the appender: another process has held a partition's lock for too long."""

    led: LedPartition


Job = Append | _Change | _Freed | _Overdue | None


class _Held:
    """The queue of a partition whose lock another process holds. Once ``is_long``, batches are refused instead."""

    def __init__(self, jobs: list[Append | _Change]) -> None:
        self.jobs = jobs
        self.is_long = False


class _Group(NamedTuple):
    """Appends and changes of a partition that must be synced, and the functions to call after the sync."""

    led: LedPartition
    calls: list[Callable[[Exception | None], None]]


class Appender:
    """Appends for all partitions. For any thread."""

    def __init__(self, syncers: int, observe: Callable[[float], None] = lambda _: None) -> None:
        """``observe`` is called with the seconds that each sync took."""
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._held: dict[LedPartition, _Held] = {}
        self._syncers = [_Syncer(f"gateway-syncer-{number}", observe) for number in range(syncers)]
        self._thread = Thread(target=self._run, name="gateway-appender", daemon=True)

    def start(self) -> None:
        """Starts its threads."""
        for syncer in self._syncers:
            syncer.start()
        self._thread.start()

    def append(self, append: Append) -> None:
        """Appends a batch, after those that were given before for the partition."""
        self._queue.put(append)

    def catch_up(self, led: LedPartition, done: Callable[[Exception | None], None]) -> None:
        """Reads, syncs and shows what others appended, then calls ``done`` with the error or None."""
        self.change(led, lambda _: None, done)

    def change(
        self, led: LedPartition, change: Callable[[Log], object], done: Callable[[Exception | None], None]
    ) -> None:
        """Calls ``change`` under the partition's lock, syncs and shows the result.

        Then calls ``done`` as :meth:`catch_up`.
        """
        self._queue.put(_Change(led, change, done))

    def stop(self) -> None:
        """Completes what was passed to it, refuses what waits for another process's lock, and ends the threads."""
        self._queue.put(None)
        self._thread.join()
        for syncer in self._syncers:
            syncer.stop()

    def _run(self) -> None:
        is_ending = False
        while not is_ending:
            jobs = drained(self._queue)
            is_ending = None in jobs
            for led, given in self._by_partition(jobs).items():
                if led in self._held:
                    self._keep(led, given)
                elif led.is_locked_elsewhere:
                    self._hold(led, given)
                else:
                    self._do(led, given)
        for led, held in self._held.items():
            _refuse(led, held.jobs)

    def _by_partition(self, jobs: Sequence[Job]) -> dict[LedPartition, list[Append | _Change]]:
        found: dict[LedPartition, list[Append | _Change]] = {}
        for job in jobs:
            if isinstance(job, _Freed):
                found[job.led] = [*self._held.pop(job.led).jobs, *found.get(job.led, ())]
            elif isinstance(job, _Overdue):
                self._give_up(job.led)
            elif job is not None:
                found.setdefault(job.led, []).append(job)
        return found

    def _hold(self, led: LedPartition, jobs: list[Append | _Change]) -> None:
        self._held[led] = _Held(jobs)

        def wait() -> None:
            reminder = Timer(HELD_S, lambda: self._queue.put(_Overdue(led)))
            reminder.daemon = True
            try:
                reminder.start()
                led.wait_for_append_lock()
            except Exception:  # such as of a deleted directory, which the append then reports
                logger.debug("%s-%d: cannot wait for the partition's lock", led.topic, led.partition, exc_info=True)
            finally:
                reminder.cancel()
                self._queue.put(_Freed(led))

        try:
            Thread(target=wait, name=f"gateway-waiter-{led.topic}-{led.partition}", daemon=True).start()
        except RuntimeError:  # no more threads
            _refuse(led, self._held.pop(led).jobs)

    def _keep(self, led: LedPartition, jobs: list[Append | _Change]) -> None:
        held = self._held[led]
        if held.is_long:
            _refuse(led, jobs)
        else:
            held.jobs += jobs

    def _give_up(self, led: LedPartition) -> None:
        """Refuses queued batches: waiting requests count as in progress, and would soon block all clients."""
        held = self._held.get(led)
        if held is not None:
            logger.warning("%s", _lock_error(led))
            held.is_long = True
            jobs, held.jobs = held.jobs, []
            _refuse(led, jobs)

    def _do(self, led: LedPartition, jobs: list[Append | _Change]) -> None:
        calls: list[Callable[[Exception | None], None]] = []
        try:
            for job in jobs:
                if isinstance(job, _Change):
                    failure = led.change(job.change)
                    _log_unexpected(failure)
                    calls.append(_call_changed(job.done, failure))
            appends = [job for job in jobs if isinstance(job, Append)]
            results = led.append([job.batch for job in appends], [job.check for job in appends])
            calls.extend(_call(job.done, result) for job, result in zip(appends, results, strict=True))
        except Exception as error:  # of the disk, or ours: each client gets an answer
            _log_unexpected(error)
            for job in jobs:
                job.done(error)
            return
        if led.waits_for_sync:
            self._syncers[(hash(led.topic) + led.partition) % len(self._syncers)].sync(_Group(led, calls))
        else:
            led.wake()
            _call_all(calls, None)


def _lock_error(led: LedPartition) -> RequestError:
    where = f"{led.topic}-{led.partition}"
    return RequestError(
        ErrorCode.request_timed_out,
        f"{where}: another process holds the partition's lock, so nothing can be appended; is that process paused?",
    )


def _refuse(led: LedPartition, jobs: Sequence[Append | _Change]) -> None:
    for each in jobs:
        each.done(_lock_error(led))


def _call(done: Done, result: AppendInfo | Exception) -> Callable[[Exception | None], None]:
    return lambda error: done(result if error is None else error)


def _call_changed(
    done: Callable[[Exception | None], None], failure: Exception | None
) -> Callable[[Exception | None], None]:
    return lambda error: done(failure or error)


class _Syncer:
    """Syncs partitions, each once for all batches appended since its last sync."""

    def __init__(self, name: str, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._queue: SimpleQueue[_Group | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def sync(self, group: _Group) -> None:
        self._queue.put(group)

    def stop(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        is_ending = False
        while not is_ending:
            groups = drained(self._queue)
            is_ending = None in groups
            by_partition: dict[LedPartition, list[Callable[[Exception | None], None]]] = {}
            for group in groups:
                if group is not None:
                    by_partition.setdefault(group.led, []).extend(group.calls)
            for led, calls in by_partition.items():
                _sync(led, calls, self._observe)


def _sync(led: LedPartition, calls: list[Callable[[Exception | None], None]], observe: Callable[[float], None]) -> None:
    failure: Exception | None = None
    began_s = time.perf_counter()
    try:
        led.sync()
    except Exception as error:
        _log_unexpected(error)
        failure = error
    observe(time.perf_counter() - began_s)
    _call_all(calls, failure)


def _call_all(calls: list[Callable[[Exception | None], None]], failure: Exception | None) -> None:
    for call in calls:
        try:
            call(failure)
        except Exception:
            logger.exception("an answer failed")


def drained(queue: SimpleQueue[T]) -> list[T]:
    """Waits for one item, and returns it with all others in the queue."""
    first = queue.get()
    return [first, *(queue.get() for _ in range(min(queue.qsize(), GROUP_MAX - 1)))]  # nobody else takes from it


def _log_unexpected(error: Exception | None) -> None:
    if error is not None and not isinstance(error, (LogStoreError, OSError)):
        logger.error("an append failed", exc_info=error)
