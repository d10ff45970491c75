"""Said: what was logged already, so that a fault that meets every request is logged once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Lock

AGAIN_S = 600.0  # a fault that is still there is logged again
KINDS_MAX = 1000


class Said:
    """Logs each kind of fault at once, and then at most every ten minutes. For any thread."""

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._now_s = logger, now_s
        self._lock = Lock()
        self._said_s: dict[object, float] = {}

    def log(self, what: str, error: BaseException, *, with_trace: bool = False) -> None:
        """Logs an error, unless one of its class and its file was logged; ``what`` is what failed because of it."""
        if self._is_new((what, type(error), getattr(error, "path", None))):
            text = str(error) or type(error).__name__
            self._logger.error("%s: %s", what, text, exc_info=error if with_trace else None)

    def _is_new(self, kind: object) -> bool:
        now_s = self._now_s()
        with self._lock:
            before_s = self._said_s.get(kind)
            if before_s is not None and now_s - before_s < AGAIN_S:
                return False
            if len(self._said_s) >= KINDS_MAX:
                self._said_s.clear()
            self._said_s[kind] = now_s
            return True
