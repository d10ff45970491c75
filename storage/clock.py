"""The clock that logs are given, the system's or another: no other module of ``storage`` reads the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """The wall clock, in milliseconds since the epoch like Kafka's timestamps."""

    def now_ms(self) -> int:
        """Returns the current time."""
        ...

    def sleep_ms(self, duration_ms: int) -> None:
        """Waits for so many milliseconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)


def instant(timestamp_ms: int) -> str:
    """Returns a time in ms since the epoch as ``2023-11-14 22:13:20.000 UTC``; as a number of ms after year 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms:,} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03} UTC"
