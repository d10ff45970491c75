"""Counted: events that many clients can cause, such as failed logins, are logged at once, and then as a count."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from threading import Lock

from .repeats import Repeats

AGAIN_S = 60.0
LINES_MAX = 200  # in this time; clients choose some kinds, such as the names of users, even before they have logged in
LINE_CHARACTERS_MAX = 1_000


class Counted:
    """Logs the first warning of each kind, and then at most one a minute, with the number of the others.

    However many clients try, and whatever they send, a minute has a limited number of lines. For any thread.
    """

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._now_s, self._repeats = logger, now_s, Repeats(AGAIN_S, now_s)
        self._lock = Lock()  # Guards the fields below.
        self._since_s, self._lines = now_s(), 0  # the lines of this minute
        self._omitted = 0  # lines since the last one

    def warn(self, kind: Hashable, message: str) -> None:
        """Logs ``message``, or counts it; ``kind``: its cause and the client, without numbers that clients choose."""
        others = self._repeats.count(hash(kind))  # a number takes little memory, unlike texts of clients
        omitted = None if others is None else self._take_line()
        if omitted is None:
            return
        notes = [f"and {others:,} times since the last such line"] if others else []
        notes += [f"{omitted:,} lines of other kinds were omitted"] if omitted else []
        shown = message if len(message) <= LINE_CHARACTERS_MAX else f"{message[:LINE_CHARACTERS_MAX]}…"
        self._logger.warning("%s%s", shown, f" ({'; '.join(notes)})" if notes else "")

    def _take_line(self) -> int | None:
        """Returns how many lines were omitted since the last one; None if this one must be omitted, too."""
        now_s = self._now_s()
        with self._lock:
            if now_s - self._since_s >= AGAIN_S:
                self._since_s, self._lines = now_s, 0
            if self._lines >= LINES_MAX:
                self._omitted += 1
                return None
            self._lines += 1
            omitted, self._omitted = self._omitted, 0
            return omitted
