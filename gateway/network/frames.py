"""FrameReader: cuts the bytes of a connection into frames, each with its length before it (int32, big-endian)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

LENGTH_BYTES = 4
FIRST_BYTES = 64 << 10  # taken for a frame at once; more is taken only as bytes arrive, whatever the length claims


class FrameError(Exception):
    """An invalid frame; its connection is closed."""


class Source(Protocol):
    """A source of bytes, such as a socket that does not block."""

    def recv_into(self, buffer: memoryview) -> int: ...


class FrameReader:
    """Reads the frames of a connection. Allocates memory only for bytes that arrived, not for a stated length."""

    def __init__(
        self,
        max_bytes: int,
        setting: str = "socket.request.max.bytes",
        *,
        admit: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """``setting``: the limit's name, for errors.

        ``admit`` returns whether a large frame of this size may be read now.
        """
        self._max_bytes, self._setting = max_bytes, setting
        self._admit = admit
        self.held = 0  # bytes that were admitted for the frame that is being read, or was read last
        self.waits_for_room = False  # until :meth:`go_on` succeeds
        self.received = 0  # bytes so far, of all frames
        self._length = bytearray(LENGTH_BYTES)
        self._frame: bytearray | None = None  # None: the length is being read
        self._size = 0  # of the frame, as its length says
        self._have = 0  # bytes read of the length or of the frame

    def read(self, source: Source) -> bytearray | None:
        """Reads from ``source`` until a frame is complete, and returns it; None if the source has no more bytes now.

        Raises EOFError if the source has ended, and FrameError for a length below 0 or above the limit.
        """
        try:
            while self._frame is None or self._have < self._size:
                if self._frame is None:
                    self._read_length(source)
                else:
                    self._read_body(source, self._frame)
        except BlockingIOError:
            return None
        frame, self._frame, self._have = self._frame, None, 0
        return frame

    def _read_length(self, source: Source) -> None:
        with memoryview(self._length) as view:
            self._take(source, view[self._have :])
        if self._have < LENGTH_BYTES:
            return
        self._size, self._have = int.from_bytes(self._length, "big", signed=True), 0
        if not 0 <= self._size <= self._max_bytes:
            raise FrameError(
                f"a request states a length of {self._size} bytes, but {self._setting} is {self._max_bytes}"
            )
        self.go_on()
        if self.waits_for_room:
            raise BlockingIOError

    def go_on(self) -> None:
        """Starts reading the frame whose length was read, if it is small or admitted."""
        is_large = self._size > FIRST_BYTES
        self.waits_for_room = is_large and not self._admit(self._size)
        if not self.waits_for_room:
            self.held = self._size if is_large else 0
            self._frame = bytearray(min(self._size, FIRST_BYTES))

    def _read_body(self, source: Source, frame: bytearray) -> None:
        if self._have == len(frame):
            frame.extend(bytes(min(self._size - len(frame), max(len(frame), FIRST_BYTES))))
        with memoryview(frame) as view, view[self._have :] as rest:
            self._take(source, rest)

    def _take(self, source: Source, into: memoryview) -> None:
        count = source.recv_into(into)
        if not count:
            raise EOFError
        self._have += count
        self.received += count
