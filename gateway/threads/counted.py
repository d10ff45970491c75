"""Counted: events that many clients can cause, such as failed logins, are logged at once, and then as a count."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from .repeats import Repeats

AGAIN_S = 60.0


class Counted:
    """Logs the first warning of each kind, and then at most one a minute, with the number of the others.

    For any thread.
    """

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._repeats = logger, Repeats(AGAIN_S, now_s)

    def warn(self, kind: object, message: str) -> None:
        """Logs ``message``, or counts it; ``kind``: its cause and the client, without numbers that clients choose."""
        others = self._repeats.count(kind)
        if others is not None:
            self._logger.warning("%s%s", message, f" (and {others:,} times since the last such line)" if others else "")
