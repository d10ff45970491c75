"""Loop: the thread that a connection belongs to, as its connections and their requests see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .limits.clients import Limits
from .limits.memory import Held
from .limits.quota import Quota
from .together import Client_contra, Together


class Timer:
    """A task that is due at a time; :meth:`cancel` drops it. Only for the thread of its loop."""

    __slots__ = ("task",)

    def __init__(self, task: Callable[[], None]) -> None:
        self.task: Callable[[], None] | None = task

    def cancel(self) -> None:
        """Drops the task, and what it refers to, unless it has begun."""
        self.task = None


class Loop(Protocol[Client_contra]):
    """Serves some of the connections in one thread. Methods are for that thread unless noted otherwise."""

    @property
    def limits(self) -> Limits:
        """The limits of clients."""
        ...

    @property
    def together(self) -> Together[Client_contra] | None:
        """What serves requests of several connections at once; None: nothing does."""
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether the server is stopping; then no more requests are read. For any thread."""
        ...

    @property
    def may_overlap(self) -> Callable[[memoryview], bool]:
        """Whether a request may be in progress together with others of its connection."""
        ...

    def now_s(self) -> float:
        """Returns the monotonic clock, in seconds."""
        ...

    def call(self, task: Callable[[], None]) -> None:
        """Calls ``task`` in the thread of the loop: at once if this is that thread. For any thread."""
        ...

    def call_soon(self, task: Callable[[], None]) -> None:
        """Calls ``task`` in the thread of the loop, after what it is doing. For any thread."""
        ...

    def call_later(self, delay_s: float, task: Callable[[], None]) -> Timer:
        """Calls ``task`` after ``delay_s`` seconds, or earlier if the loop stops, unless it is cancelled."""
        ...

    def watch(self, connection: Client_contra) -> None:
        """Waits until a connection can be read or written, as it needs now."""
        ...

    def forget(self, connection: Client_contra) -> None:
        """Waits for a connection no longer, because it is being closed."""
        ...

    def log_hostile(self, connection: Client_contra, error: Exception) -> None:
        """Logs why a client is disconnected."""
        ...

    def begin(
        self, connection: Client_contra, frame: memoryview, places: Quota, *, overlaps: bool, held: Held | None
    ) -> None:
        """Has a request served, and adds it to those in progress of its connection.

        ``places``: which counts it. ``held``: its bytes, if a memory counts them.
        """
        ...
