"""Clocks: every log is given one, the system's or another. No other module of ``storage`` reads the time."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Protocol

logger = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """The wall clock, in milliseconds since the epoch like Kafka's timestamps."""

    def now_ms(self) -> int:
        """Returns the current time, in ms since the epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Returns a time for measuring durations, in ms since any moment; setting the clock does not change it."""
        ...

    def sleep_ms(self, duration_ms: int) -> None:
        """Waits for ``duration_ms``."""
        ...

    def set_alarm(self, duration_ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        """Calls ``ring`` on another thread after ``duration_ms``. ``ring`` must be short and must not raise.

        Returns a function that drops the alarm, if it has not begun to ring. A process that ends drops its alarms, and
        a forked one has none.
        """
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)

    def set_alarm(self, duration_ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        return _ALARMS.set(duration_ms, ring)


class _Alarms:
    """All alarms of this process. One thread, which begins with the first alarm, calls their functions."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drops all alarms; called in a forked process, which lacks the thread and may have inherited a held lock."""
        self._changed = threading.Condition()  # Guards the alarms and the thread.
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []  # a heap, by time and number
        self._numbers = count()
        self._thread: threading.Thread | None = None

    def set(self, duration_ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        alarm = (time.monotonic() + duration_ms / 1000, next(self._numbers), ring)
        with self._changed:
            heappush(self._alarms, alarm)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="commitlog alarms", daemon=True)
                thread.start()  # may raise; then the next alarm tries again
                self._thread = thread
            self._changed.notify()
        return partial(self._drop, alarm)

    def _drop(self, alarm: tuple[float, int, Callable[[], None]]) -> None:
        with self._changed:
            if alarm in self._alarms:
                self._alarms.remove(alarm)
                heapify(self._alarms)

    def _run(self) -> None:
        while True:
            ring = self._next()
            try:
                ring()
            except Exception:  # it must not raise; the other alarms continue
                logger.exception("an alarm failed")

    def _next(self) -> Callable[[], None]:
        with self._changed:
            while not self._alarms or (wait_s := self._alarms[0][0] - time.monotonic()) > 0:
                self._changed.wait(min(wait_s, threading.TIMEOUT_MAX) if self._alarms else None)
            return heappop(self._alarms)[2]


_ALARMS = _Alarms()
os.register_at_fork(after_in_child=_ALARMS.forget)


def when_due(intervals_ms: Mapping[str, int], over: threading.Event, clock: Clock | None = None) -> Iterator[str]:
    """Yields each name in ``intervals_ms`` at once, then whenever its interval has passed since it was last yielded.

    Waits until a name is due; of several, yields the one that has been due for longest. If the caller took longer than
    the interval, the name is due again at once, but only once. Ends when ``over`` is set, which another thread or a
    signal may do.
    """
    clock = clock or SystemClock()
    due_ms = dict.fromkeys(intervals_ms, clock.now_ms())
    while not over.is_set():
        name = min(due_ms, key=lambda each: due_ms[each])
        wait_ms = min(due_ms[name] - clock.now_ms(), intervals_ms[name])  # not longer, even if the clock was set back
        if wait_ms > 0 and over.wait(wait_ms / 1000):
            return
        due_ms[name] = clock.now_ms() + intervals_ms[name]
        yield name


def instant(timestamp_ms: int) -> str:
    """Returns a time in ms since the epoch as ``2023-11-14 22:13:20.000 UTC``; as a number of ms after year 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms:,} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03} UTC"
