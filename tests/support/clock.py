"""A clock that moves when told."""

from __future__ import annotations

from collections.abc import Callable


class ManualClock:
    """Stands still at ``now_ms`` until a test advances it, which rings alarms; goes back only where a test sets it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms, self._elapsed_ms = now_ms, 0
        self._alarms: list[tuple[int, Callable[[], None]]] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._elapsed_ms

    def set(self, now_ms: int) -> None:
        """Sets the wall clock, as an administrator does; no time passes."""
        self._now_ms = now_ms

    @property
    def alarms(self) -> int:
        """How many are set."""
        return len(self._alarms)

    def sleep_ms(self, duration_ms: int) -> None:
        self.advance(duration_ms)

    def advance(self, duration_ms: int) -> None:
        if duration_ms < 0:
            raise ValueError(f"a clock does not go back: {duration_ms} ms")
        self._now_ms += duration_ms
        self._elapsed_ms += duration_ms
        due = [alarm for alarm in self._alarms if alarm[0] <= self._now_ms]
        self._alarms = [alarm for alarm in self._alarms if alarm not in due]
        for _, ring in due:
            ring()

    def set_alarm(self, duration_ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        alarm = (self._now_ms + duration_ms, ring)
        self._alarms.append(alarm)
        return lambda: self._alarms.remove(alarm) if alarm in self._alarms else None
