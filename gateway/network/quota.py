"""Quota: limits the requests in progress, or the bytes that they have together."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class Quota:
    """Counts what is in use; calls back those that it refused when there is room again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: list[Callable[[], None]] = []
        self._lock = Lock()

    def take(self, when_free: Callable[[], None], amount: int = 1) -> bool:
        """Takes ``amount`` and returns True.

        At the limit returns False and later calls ``when_free`` once, from any thread. The amount that reaches the
        limit may exceed it, so no amount is too large.
        """
        with self._lock:
            if self._taken < self._limit:
                self._taken += amount
                return True
            self._waiting.append(when_free)
            return False

    def forget(self, when_free: Callable[[], None]) -> None:
        """Drops the call of one who was refused and waits no longer."""
        with self._lock:
            self._waiting = [each for each in self._waiting if each != when_free]

    def give(self, amount: int = 1) -> None:
        """Gives back what was taken."""
        with self._lock:
            self._taken -= amount
            waiting, self._waiting = self._waiting, []
        for when_free in waiting:
            when_free()

    @property
    def is_waited_for(self) -> bool:
        """Whether a refused caller waits."""
        return bool(self._waiting)
