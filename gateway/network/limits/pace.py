"""Pace: whether a request arrives at the least rate that is asked of it."""

from __future__ import annotations

from typing import NamedTuple

LOOK_S = 0.25  # between two looks at all connections
PRESSED_LOOKS = 3  # without progress, after which a request makes room for those that wait for its memory
SLOW_LOOKS = 12  # in arriving, after which a request may be found the slowest


class LeastRate(NamedTuple):
    """What is asked of a request that is arriving, unless it waits for the server."""

    bytes_per_s: int
    grace_s: float  # for so long, a request may be silent

    @property
    def bytes_per_look(self) -> float:
        """The bytes that are expected between two looks."""
        return self.bytes_per_s * LOOK_S

    @property
    def behind_max(self) -> float:
        """A request that lags by more bytes than this is too slow."""
        return self.bytes_per_s * self.grace_s

    @property
    def pressed_behind_max(self) -> float:
        """The same, while others wait for its memory."""
        return self.bytes_per_look * (PRESSED_LOOKS - 1)


class Pace:
    """The progress of one connection's requests.

    Looks are counted, not seconds: while the thread of the connections gets no time, clients may get none either, and
    what they sent was not read.
    """

    def __init__(self) -> None:
        self.behind = 0.0  # bytes that the request is behind the least rate
        self._looks = 0  # since it began, but for those in which it waited for the server
        self._begun_at = self._received = 0

    def rest(self, received: int) -> None:
        """There is no request that should arrive. ``received``: the bytes of the connection so far."""
        self.behind, self._looks = 0.0, 0
        self._begun_at = self._received = received

    def look(self, received: int, pending: int, least: LeastRate) -> None:
        """Counts a look, in which a request was arriving; ``pending``: bytes of it that wait for the server."""
        got, self._received = received - self._received + pending, received
        self._looks += pending < least.bytes_per_look
        self.behind = max(0.0, self.behind + least.bytes_per_look - got)

    @property
    def speed(self) -> float | None:
        """The bytes of the request per look; None if it began only a few looks ago."""
        return None if self._looks < SLOW_LOOKS else (self._received - self._begun_at) / self._looks
