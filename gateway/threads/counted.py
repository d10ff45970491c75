"""Counted: what many clients can cause, such as failed logins: logged at once, and then as a count."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Lock

AGAIN_S = 60.0
KINDS_MAX = 1000


class Counted:
    """Logs the first warning of each kind, and then at most one a minute, with the number of the others.

    For any thread.
    """

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._now_s = logger, now_s
        self._lock = Lock()
        self._kinds: dict[object, tuple[float, int]] = {}  # when each was logged, and how often it came since

    def warn(self, kind: object, message: str) -> None:
        """Logs ``message``, or counts it; ``kind``: its cause and the client, without numbers that clients choose."""
        now_s = self._now_s()
        with self._lock:
            logged_s, others = self._kinds.get(kind, (-AGAIN_S, 0))
            is_due = now_s - logged_s >= AGAIN_S
            if len(self._kinds) >= KINDS_MAX and kind not in self._kinds:
                self._kinds.clear()
            self._kinds[kind] = (now_s, 0) if is_due else (logged_s, others + 1)
        if is_due:
            self._logger.warning("%s%s", message, f" (and {others:,} times since the last such line)" if others else "")
