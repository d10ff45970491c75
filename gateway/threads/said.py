"""Said: remembers which faults were logged, so that a fault that hits every request is logged once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from .repeats import Repeats

AGAIN_S = 600.0  # a fault that is still there is logged again


class Said:
    """Logs each kind of fault at once, and then at most every ten minutes. For any thread."""

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._repeats = logger, Repeats(AGAIN_S, now_s)

    def log(self, what: str, error: BaseException, *, with_trace: bool = False) -> None:
        """Logs an error, unless one of its class and its file was logged; ``what`` failed because of it."""
        if self._repeats.count((what, type(error), getattr(error, "path", None))) is not None:
            text = str(error) or type(error).__name__
            self._logger.error("%s: %s", what, text, exc_info=error if with_trace else None)
