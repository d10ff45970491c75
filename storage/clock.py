"""Time as an argument: nothing below the manager asks the system what time it is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The wall clock, in milliseconds since the epoch, as Kafka's timestamps are."""

    def now_ms(self) -> int:
        """Now."""
        ...

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)
