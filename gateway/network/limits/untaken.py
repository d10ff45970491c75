"""Untaken: the bytes of answers in memory that clients have not taken yet: of all connections, and of each.

A client that asks and does not read holds one answer, since nothing more of it is served. Many of them hold many.
"""

from __future__ import annotations

from threading import Lock

FIRST_BYTES = 64 << 10  # counted as taken from the start, so that a client that was just answered is not the slowest
SOON_S = 1.0  # clients that would need no longer may go on, however full the memory is


class UntakenBytes:
    """Counts those of all connections. For any thread."""

    def __init__(self, limit: int) -> None:
        self._limit, self._count = limit, 0
        self._lock = Lock()  # Guards the count.

    def add(self, amount: int) -> None:
        """Counts bytes that wait, or a negative number of those that wait no longer."""
        with self._lock:
            self._count += amount

    @property
    def count(self) -> int:
        """How many bytes wait."""
        return self._count

    @property
    def is_exceeded(self) -> bool:
        """Whether there are more than the limit."""
        return self._count > self._limit


class Untaken:
    """Those of one connection, and how fast its client takes them."""

    def __init__(self, of_all: UntakenBytes) -> None:
        self._of_all = of_all
        self.count = 0
        self._since_s, self._taken = 0.0, 0  # since bytes wait, and how many were taken since then

    def change(self, count: int, taken: int, now_s: float) -> None:
        """Notes that ``count`` bytes wait, after the client has taken some."""
        if not self.count:
            self._since_s = now_s
        self._taken = self._taken + taken if self.count else 0
        self._of_all.add(count - self.count)
        self.count = count

    def needed_s(self, now_s: float) -> float:
        """Returns about how long the client needs for the rest, at the pace at which it has taken bytes so far."""
        return self.count * (now_s - self._since_s) / (self._taken + FIRST_BYTES)
