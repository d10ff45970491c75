"""Exchange: a frame and its pending answer, which keeps its turn among the answers of the connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .connection import Connection
from .file_slice import Part, release
from .limits.memory import Held
from .limits.quota import Quota
from .loop import Loop, Timer


class Exchange:
    """A request in progress. Any thread may answer it, once; the answer is sent after all earlier ones."""

    __slots__ = ("_has_place", "_held", "_places", "connection", "frame", "is_last", "overlaps", "parts")

    def __init__(
        self, connection: Connection, frame: memoryview, places: Quota, *, overlaps: bool, held: Held | None = None
    ) -> None:
        """``places``: which counts the request. ``held``: its bytes, if a memory counts them."""
        self.connection = connection
        self.frame = frame  # without its length
        self.overlaps = overlaps  # whether requests of this kind may be in progress together
        self.parts: Sequence[Part] | None = None  # None: not answered yet
        self.is_last = False  # the connection ends with its answer
        self._held = held
        self._has_place, self._places = True, places  # among the requests in progress

    @property
    def requests(self) -> int:
        """How many requests it is."""
        return 1

    @property
    def processor(self) -> Loop[Connection]:
        """The thread that the connection belongs to."""
        return self.connection.processor

    @property
    def is_stopping(self) -> bool:
        """Whether the server is stopping; then no request should wait any longer."""
        return self.processor.is_stopping

    def answer(self, parts: Sequence[Part]) -> None:
        """Gives the answer; its length is put before it. No parts: the client expects no answer."""
        self.parts = parts
        self._end()
        if self.connection.is_closed:  # looked at after the parts are there: closing drops those that are
            self.processor.call_soon(self.drop)
        else:
            self.connection.flush_soon()

    def _end(self) -> None:
        self.park()
        if self._held is not None:
            self._held.give()

    def drop(self) -> None:
        """Releases the files of an answer that will not be sent. Only for the thread of the connection."""
        parts, self.parts = self.parts or (), ()
        for part in parts:
            release(part)

    def hold_others(self) -> None:
        """Keeps later requests of the connection from starting before this one is answered. Only in its thread."""
        self.overlaps = False

    def close(self) -> None:
        """Closes the connection instead of answering."""
        self._end()
        self.processor.call(self.connection.close)

    def park(self) -> None:
        """Stops counting this request in ``queued.max.requests``, because it may wait long for other requests."""
        if self._has_place:
            self._has_place = False
            self._places.give()

    def park_parsed(self) -> None:
        """Parks a request of which everything was parsed, and gives its bytes back: others need not wait for them."""
        self.park()
        if self._held is not None:
            self.frame = memoryview(b"")
            self._held.give()

    def later(self, delay_s: float, task: Callable[[], None]) -> Timer:
        """Calls ``task`` in the thread of the connection after ``delay_s``. Only for calls from that thread."""
        return self.processor.call_later(delay_s, task)
