"""Commands that run until a signal ends them, and commands that clean up when one does."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

LOOK_S = 1.0


class Ended(threading.Event):
    """An event that a signal sets; keeps the signal's name."""

    name = ""

    def by(self, number: int, _frame: object) -> None:
        """Handles a signal."""
        self.name = signal.Signals(number).name
        self.set()

    def wait_for_signal(self) -> None:
        """Returns once a signal has come.

        Wakes every second, because Python calls handlers in the main thread, and a signal that another thread receives,
        or that comes just as the wait begins, does not wake it.
        """
        while not self.wait(LOOK_S):
            pass


def until_signal() -> Ended:
    """Returns an event that SIGTERM or Ctrl-C sets."""
    ended = Ended()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ended.by)
    return ended


@contextmanager
def cleaning_up() -> Iterator[None]:
    """Lets SIGTERM end the ``with`` block as Ctrl-C does, so that folders for temporary files are removed."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)  # the code that shells show for programs ended by the signal

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
