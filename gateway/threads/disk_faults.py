"""DiskFaults: reports that the disk of a log fails, once and not for each request, and that it works again."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from threading import Lock

from .repeats import Repeats

AGAIN_S = 600.0  # a fault that is still there is logged again
QUIET_S = 2.0  # the disk counts as working after this long without a failure; clients try again within a second
_REASONS = {
    errno.ENOSPC: ("the disk of %s is full", "there is space"),
    errno.EDQUOT: ("the quota of %s is used up", "there is space"),
    errno.EROFS: ("the file system of %s is read-only", "it can be written"),
    errno.EIO: ("the disk of %s fails", "it works"),
}

logger = logging.getLogger(__name__)


class DiskFaults:
    """The faults of a log directory's disk. For any thread."""

    def __init__(self, directory: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._directory, self._now_s = directory, now_s
        self._lock = Lock()  # guards both below, so that no failure comes between a check and the line about the end
        self._repeats = Repeats(AGAIN_S, now_s)  # by the number of the error
        self._last_s = 0.0  # of all failures

    def failed(self, error: BaseException | None) -> None:
        """Notes an error; logs it if it is a new one of the disk. Does nothing for other errors and None."""
        number = _number_of(error)
        if number not in _REASONS:
            return
        with self._lock:
            self._last_s = self._now_s()
            is_due = self._repeats.count(number) is not None
        if is_due:
            what, until = _REASONS[number]
            logger.error(
                f"{what} (%s): produce requests get KAFKA_STORAGE_ERROR until {until}",
                self._directory,
                errno.errorcode[number],
            )

    def worked(self) -> None:
        """Notes that records were written and synced; logs it after a fault."""
        if not len(self._repeats):
            return
        with self._lock:
            works_again = self._now_s() - self._last_s >= QUIET_S and self._repeats.forget()
        if works_again:
            logger.warning("the disk of %s works again: produce requests are served", self._directory)


def _number_of(error: BaseException | None) -> int:
    """Returns the number of an error of the system, or of the one that caused it; 0 if there is none."""
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return error.errno
        error = error.__cause__
    return 0
