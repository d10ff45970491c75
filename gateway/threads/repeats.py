"""Repeats: when to log an event that happens again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from threading import Lock

KINDS_MAX = 1000


class Repeats:
    """Decides when to log each kind of event: at once, and then at most every ``again_s``. For any thread."""

    def __init__(self, again_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._again_s, self._now_s = again_s, now_s
        self._lock = Lock()  # Guards the kinds.
        self._kinds: dict[object, tuple[float, int]] = {}  # when each kind was logged, and how often it has come since

    def __len__(self) -> int:
        return len(self._kinds)

    def count(self, kind: object) -> int | None:
        """Counts an event; returns the number of unlogged events of its kind, or None if it need not be logged.

        Forgets all kinds if they become too many.
        """
        now_s = self._now_s()
        with self._lock:
            if kind not in self._kinds and len(self._kinds) >= KINDS_MAX:
                self._kinds.clear()
            logged_s, others = self._kinds.get(kind, (-inf, 0))
            is_due = now_s - logged_s >= self._again_s
            self._kinds[kind] = (now_s, 0) if is_due else (logged_s, others + 1)
            return others if is_due else None

    def forget(self) -> bool:
        """Forgets all kinds, so that the next event of each is logged; returns whether there was any."""
        with self._lock:
            had_any = bool(self._kinds)
            self._kinds.clear()
            return had_any
