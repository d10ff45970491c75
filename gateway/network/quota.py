"""RequestQuota: how many requests may be in progress at once (``queued.max.requests``)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class RequestQuota:
    """Counts requests in progress; whoever was refused is called when there is room again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: list[Callable[[], None]] = []
        self._lock = Lock()

    def take(self, when_free: Callable[[], None]) -> bool:
        """Takes a place, if one is free; otherwise calls ``when_free`` once, from any thread, when one is."""
        with self._lock:
            if self._taken < self._limit:
                self._taken += 1
                return True
            self._waiting.append(when_free)
            return False

    def give(self) -> None:
        """Gives a place back."""
        with self._lock:
            self._taken -= 1
            waiting, self._waiting = self._waiting, []
        for when_free in waiting:
            when_free()
