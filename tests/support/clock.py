"""A clock that moves when told."""

from __future__ import annotations


class ManualClock:
    """Stands still at ``now_ms`` until a test advances it; refuses to go back."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.advance(duration_ms)

    def advance(self, duration_ms: int) -> None:
        if duration_ms < 0:
            raise ValueError(f"a clock does not go back: {duration_ms} ms")
        self._now_ms += duration_ms
