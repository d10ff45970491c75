"""Quota: limits the requests in progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock


class Quota:
    """Counts the places in use; calls those that it refused, in their order, when there are places again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._lock = Lock()  # Guards all fields.

    @property
    def taken(self) -> int:
        """How many places are in use."""
        return self._taken

    def take(self, when_free: Callable[[], None]) -> bool:
        """Takes a place and returns True.

        If there is none, returns False and later calls ``when_free`` once, from any thread. The caller then tries
        again, and calls :meth:`wake`, as it may not need the place any longer.
        """
        with self._lock:
            if self._taken < self._limit:
                self._taken += 1
                return True
            self._waiting.append(when_free)
            return False

    def take_some(self, count: int) -> int:
        """Takes up to ``count`` places, as many as there are; returns how many. None while others wait for one."""
        with self._lock:
            taken = 0 if self._waiting else max(0, min(count, self._limit - self._taken))
            self._taken += taken
            return taken

    def give(self, count: int = 1) -> None:
        """Gives places back."""
        with self._lock:
            self._taken -= count
        for _ in range(min(count, len(self._waiting))):  # later ones have seen what is free now
            self.wake()

    def wake(self) -> None:
        """Calls the next of those that wait, if there is a place."""
        with self._lock:
            when_free = self._waiting.popleft() if self._waiting and self._taken < self._limit else None
        if when_free is not None:
            when_free()
