"""Together: what serves the requests of several connections at once, and whether that is worth trying for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from .file_slice import Part

Client_contra = TypeVar("Client_contra", contravariant=True)  # a connection


class InProgress(Protocol):
    """Requests in progress, as their connection sees them: a request, or several that are answered together."""

    is_last: bool  # the connection ends with the answer
    overlaps: bool  # whether requests of this kind may be in progress together
    parts: Sequence[Part] | None  # None: not answered yet

    @property
    def requests(self) -> int:
        """How many they are."""
        ...

    def drop(self) -> None:
        """Releases what an answer holds that will not be sent. Only for the thread of the connection."""
        ...


class Together(Protocol[Client_contra]):
    """Serves requests that may overlap, of the connections of one thread; what it does not serve goes the usual way.

    ``gateway.turns.turn`` is the one for Produce.
    """

    def accepts(self, connection: Client_contra) -> bool:
        """Whether it may serve requests of a connection now."""
        ...

    def serve(self, connections: Sequence[Client_contra], frames_max: int) -> None:
        """Takes what has arrived at each connection, serves up to ``frames_max`` requests, and puts the rest back.

        Raises nothing.
        """
        ...

    def serve_one(self, connection: Client_contra, frame: memoryview) -> bool:
        """Serves a larger request, which was read as a whole; returns whether. Keeps nothing of it. Raises nothing."""
        ...


IN_VAIN_MAX = 3  # tries in a row that served nothing
APART_MAX = 10  # the power of two of how many requests follow at most that are not tried


class Trial:
    """Whether the requests of one connection are tried together with others.

    A request that is tried and then served apart costs a little more. So after some tries in vain, the next 16 requests
    are not tried, then the next 32, up to 1,024.
    """

    def __init__(self) -> None:
        self.is_begun = False  # the connection has had a request of the kind
        self._apart = self._in_vain = 0

    @property
    def is_on(self) -> bool:
        """Whether the next request may be tried."""
        return self.is_begun and not self._apart

    def served_apart(self) -> None:
        """Notes that a request was read that is served apart."""
        self._apart = max(self._apart - 1, 0)

    def served(self) -> None:
        """Notes that requests were served together, and none was left."""
        self._in_vain = 0

    def left(self, served: int, *, may_be_next: bool = False) -> None:
        """Notes that a request was left to be served apart, after ``served`` others.

        ``may_be_next``: it would have been served together a moment later.
        """
        if not may_be_next:
            self._in_vain = 1 if served else self._in_vain + 1
        self._apart = 1 if self._in_vain <= IN_VAIN_MAX else 2 ** min(self._in_vain, APART_MAX)
