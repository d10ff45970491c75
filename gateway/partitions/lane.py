"""Lane: the queued jobs of one partition, done in order by one thread at a time."""

from __future__ import annotations

from collections import deque
from enum import Enum
from threading import Lock
from typing import Generic, TypeVar

J = TypeVar("J")
GROUP_MAX = 1000  # jobs that are taken at once


class Hold(Enum):
    """Whether another process holds the lock of the partition, so that its jobs wait."""

    NONE = 0
    SHORT = 1
    LONG = 2  # writes are refused then


class Lane(Generic[J]):
    """The jobs of a partition. Any thread may call :meth:`put`; other methods are for the thread that holds ``turn``.

    A thread that gives ``turn`` back must check the jobs again: another one may have put a job while ``turn`` was
    taken.
    """

    def __init__(self) -> None:
        self.turn = Lock()
        self.is_awaited = False  # whether a thread will soon take the jobs
        self.hold = Hold.NONE
        self._jobs: deque[J] = deque()

    def put(self, job: J) -> None:
        """Adds a job after the others. For any thread."""
        self._jobs.append(job)

    def __bool__(self) -> bool:
        """Whether there are jobs. For any thread."""
        return bool(self._jobs)

    def first(self) -> list[J]:
        """Returns the jobs that would be taken now."""
        count = min(len(self._jobs), GROUP_MAX)
        return [self._jobs[number] for number in range(count)]

    def take(self, count: int | None = None) -> list[J]:
        """Removes the first ``count`` jobs and returns them; by default as many as :meth:`first`."""
        count = min(len(self._jobs), GROUP_MAX) if count is None else count
        return [self._jobs.popleft() for _ in range(count)]
