"""Worker: a thread that runs tasks one after the other, some of them later, and patient ones when it has no others."""

from __future__ import annotations

import heapq
import logging
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from threading import Condition

from .kept import KeptThread

Task = Callable[[], None]
PURGE_FROM = 1000  # timers

logger = logging.getLogger(__name__)


class Timer:
    """A task that is due at a time; :meth:`cancel` drops it."""

    __slots__ = ("task",)

    def __init__(self, task: Task) -> None:
        self.task: Task | None = task

    def cancel(self) -> None:
        """Drops the task, unless it has begun."""
        self.task = None


class Worker:
    """Runs tasks in the order in which they were given; an error in one is logged, and the next one runs."""

    def __init__(self, name: str) -> None:
        self._tasks: list[Task] = []
        self._patient: deque[Task] = deque()
        self.is_patient = False  # whether a patient task runs now; for this thread
        self._timers: list[tuple[float, int, Timer]] = []
        self._purge_at = PURGE_FROM  # at this number of timers, cancelled ones are removed
        self._numbers = count()
        self._changed = Condition()  # Guards tasks, timers and the flag.
        self._is_stopping = False
        self._thread = KeptThread(name, self._run)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def run(self, task: Task) -> None:
        """Runs ``task`` after earlier ones. For any thread."""
        with self._changed:
            self._tasks.append(task)
            self._changed.notify()

    def run_patient(self, task: Task) -> None:
        """Runs ``task`` after all others that wait, and after earlier patient ones. For any thread.

        While other tasks keep coming, one patient task has its turn after each group of them.
        """
        with self._changed:
            self._patient.append(task)
            self._changed.notify()

    def later(self, delay_s: float, task: Task) -> Timer:
        """Runs ``task`` after ``delay_s`` seconds, unless the timer is cancelled or the worker stopped.

        For any thread.
        """
        timer = Timer(task)
        with self._changed:
            if len(self._timers) > self._purge_at:
                self._purge()
            heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._numbers), timer))
            self._changed.notify()
        return timer

    def _purge(self) -> None:
        """Removes cancelled timers, which may not be due for half an hour."""
        self._timers = [each for each in self._timers if each[2].task is not None]
        heapq.heapify(self._timers)
        self._purge_at = 2 * len(self._timers) + PURGE_FROM

    def repeat(self, every_s: float, task: Task, *, first_s: float | None = None) -> None:
        """Runs ``task`` repeatedly until the worker stops, ``every_s`` seconds after the end of each run.

        For any thread. ``first_s``: the delay of the first run in seconds; default: ``every_s``.
        """

        def run() -> None:
            try:
                task()
            finally:
                self.later(every_s, run)

        self.later(every_s if first_s is None else first_s, run)

    def stop(self) -> None:
        """Runs the queued tasks, drops those with a timer, and ends the thread."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (tasks := self._next()) is not None:
            _run_all(tasks)
            tasks.clear()  # while the thread waits for more, it must not keep objects of these tasks alive
            self._run_one_patient()
        self.close()

    def _run_one_patient(self) -> None:
        if self._patient:  # only this thread takes from it
            self.is_patient = True
            _run_all([self._patient.popleft()])
            self.is_patient = False

    def _next(self) -> list[Task] | None:
        """Waits for tasks and returns those that are due, none if only patient ones wait; None if the worker ends."""
        with self._changed:
            while True:
                tasks, self._tasks = self._tasks, []
                now_s = time.monotonic()
                while self._timers and self._timers[0][0] <= now_s and not self._is_stopping:
                    timer = heapq.heappop(self._timers)[2]
                    if timer.task is not None:
                        tasks.append(timer.task)
                if tasks or self._patient:
                    return tasks
                if self._is_stopping:
                    return None
                self._changed.wait(self._timers[0][0] - now_s if self._timers else None)

    def close(self) -> None:
        """Called in the thread when it ends."""


def _run_all(tasks: list[Task]) -> None:
    for task in tasks:
        try:
            task()
        except BaseException:  # even SystemExit, which would end the thread silently
            logger.exception("a task failed")
