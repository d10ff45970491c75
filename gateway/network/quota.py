"""Quota: how many requests may be in progress at once, and how many bytes they may have together."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class Quota:
    """Counts what is in use; those who were refused are called when there is room again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: list[Callable[[], None]] = []
        self._lock = Lock()

    def take(self, when_free: Callable[[], None], amount: int = 1) -> bool:
        """Takes ``amount``, unless the limit is reached; otherwise calls ``when_free`` once, from any thread, later.

        The last amount may exceed the limit, so that none is too large for it.
        """
        with self._lock:
            if self._taken < self._limit:
                self._taken += amount
                return True
            self._waiting.append(when_free)
            return False

    def give(self, amount: int = 1) -> None:
        """Gives back what was taken."""
        with self._lock:
            self._taken -= amount
            waiting, self._waiting = self._waiting, []
        for when_free in waiting:
            when_free()

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody was refused and waits."""
        return bool(self._waiting)
