"""FrameReader: cuts the bytes of a connection into frames, each with its length before it (int32, big-endian)."""

from __future__ import annotations

import array
import fcntl
import termios
from typing import Protocol

import numpy as np

LENGTH_BYTES = 4
FREE_BYTES = 64 << 10  # the bytes of a larger frame are counted
ROOM_BYTES = 1 << 20  # reserved for a frame at once; more is reserved only as bytes arrive, whatever the length claims
READ_BYTES = 4 << 20  # read in one turn; then other connections of the thread have theirs


class FrameError(Exception):
    """An invalid frame; its connection is closed."""


class Source(Protocol):
    """A source of bytes, such as a socket that does not block."""

    def recv_into(self, buffer: memoryview) -> int: ...


class Room(Protocol):
    """Decides about the memory for the larger frames of one source."""

    def may_read(self, missing: int) -> bool:
        """Whether a frame that lacks ``missing`` bytes may be read on; if not, :meth:`FrameReader.go_on` follows."""
        ...

    def take(self, amount: int) -> None:
        """Counts bytes that have arrived."""
        ...


class _Unlimited:
    def may_read(self, missing: int) -> bool:
        return True

    def take(self, amount: int) -> None:
        pass


class _Nothing:
    def recv_into(self, buffer: memoryview) -> int:
        raise BlockingIOError


_NOTHING = _Nothing()


class FrameReader:
    """Reads the frames of a connection. Takes memory only for bytes that arrived, not for a stated length.

    What was received otherwise may be put before the source (``put_back``), and what is not read yet be taken away.

    Each read of a frame also asks for the length of the next one, so that frames that have arrived together take one
    call of the source each.
    """

    def __init__(
        self,
        max_bytes: int,
        setting: str = "socket.request.max.bytes",
        *,
        room: Room | None = None,
        free_bytes: int = FREE_BYTES,
        gives_all: bool = False,
    ) -> None:
        """``setting``: the limit's name, for errors.

        ``room`` counts the bytes of frames above ``free_bytes``, as they arrive. ``gives_all``: the source gives all
        that has arrived, up to the room for it; then a source that gave less is not asked again in the same turn.
        """
        self._max_bytes, self._setting = max_bytes, setting
        self._shared, self._free_bytes, self._gives_all = room or _Unlimited(), free_bytes, gives_all
        self.held = 0  # bytes that were counted of the frame that is being read, or was read last
        self.waits_for_room = False  # until :meth:`go_on` succeeds
        self.received = 0  # bytes so far, of all frames
        self.is_drained = False  # whether the source has no more bytes now, as far as is known
        self._ahead = memoryview(b"")  # what was received before, and is read first
        self._length = bytearray(LENGTH_BYTES)  # of the next frame
        self._room: memoryview | None = None  # for the frame and the next length; None: the length is being read
        self._size = 0  # of the frame, as its length says
        self._have = 0  # bytes read of the length or of the frame

    def read(self, source: Source) -> memoryview | None:
        """Reads from ``source`` until a frame is complete, and returns it.

        None if the source has no more bytes now, if there is no room for more, or after many bytes in this turn. Raises
        EOFError if the source has ended, and FrameError for a length below 0 or above the limit.
        """
        self.is_drained, stop_at = False, self.received + READ_BYTES
        try:
            while (room := self._room) is None or self._have < self._size:
                if self.is_drained or self.received >= stop_at:
                    return None
                if room is None:
                    self._read_length(source)
                else:
                    self._read_body(source, room)
        except BlockingIOError:
            return None
        return self._cut(room)

    @property
    def missing(self) -> int:
        """The bytes that the frame lacks which is being read; 0: none is."""
        return LENGTH_BYTES - self._have if self._room is None and self._have else max(self._size - self._have, 0)

    @property
    def ahead(self) -> int:
        """How many bytes were received that are not read yet; a selector does not report these."""
        return len(self._ahead)

    @property
    def begun(self) -> int:
        """How many bytes :meth:`take_back` would take away."""
        return self._have + (0 if self._room is None else LENGTH_BYTES) + len(self._ahead)

    @property
    def may_take_back(self) -> bool:
        """Whether no frame is being read whose bytes are counted, or that waits for room."""
        return not self.waits_for_room and (self._room is None or self._size <= self._free_bytes)

    def take_back(self) -> bytes:
        """Takes away all that was received of frames that were not given yet."""
        begun = (
            bytes(self._length[: self._have]) if self._room is None else bytes(self._length) + self._room[: self._have]
        )
        ahead, self._ahead = self._ahead, memoryview(b"")
        self._room, self._have, self._size = None, 0, 0
        return begun + ahead

    def put_back(self, data: bytes, received: int) -> None:
        """Reads ``data`` before what the source gives; ``received``: bytes that were not counted as received yet."""
        self._ahead = memoryview(data)
        self.received += received

    def begin(self) -> None:
        """Reads what was put back, which is not a whole frame, so that the rest is missed."""
        self.read(_NOTHING)

    def change_limit(self, max_bytes: int, setting: str, free_bytes: int = FREE_BYTES) -> None:
        """Changes the limits for the frames that follow."""
        self._max_bytes, self._setting, self._free_bytes = max_bytes, setting, free_bytes

    def go_on(self) -> None:
        """Reads on, as there may be room now."""
        self.waits_for_room = False

    def _cut(self, room: memoryview) -> memoryview:
        """Returns the frame in ``room``; what follows it belongs to the next length."""
        size, end = self._size, self._have
        self._room, self._have, self._size = None, end - size, 0
        self._length[: end - size] = room[size:end]
        return room[:size]

    def _read_length(self, source: Source) -> None:
        if self._have < LENGTH_BYTES:
            with memoryview(self._length) as view:
                self._take(source, view[self._have :])
            if self._have < LENGTH_BYTES:
                return
        self._size, self._have = int.from_bytes(self._length, "big", signed=True), 0
        if not 0 <= self._size <= self._max_bytes:
            raise FrameError(
                f"a request states a length of {self._size} bytes, but {self._setting} is {self._max_bytes}"
            )
        self._room = _room_for(min(self._size + LENGTH_BYTES, ROOM_BYTES))

    def _read_body(self, source: Source, room: memoryview) -> None:
        is_counted = self._size > self._free_bytes
        if is_counted and not self._shared.may_read(self._size - self._have):
            self.waits_for_room = True
            raise BlockingIOError
        if self._have == len(room):
            self._room = _room_for(min(self._size + LENGTH_BYTES, 2 * len(room)))
            self._room[: self._have] = room
            room = self._room
        before = self._have
        self._take(source, room[before:])
        if is_counted:
            self.held += self._have - before
            self._shared.take(self._have - before)

    def _take(self, source: Source, into: memoryview) -> None:
        if self._ahead:
            count = min(len(self._ahead), len(into))
            into[:count], self._ahead = self._ahead[:count], self._ahead[count:]
            self._have += count
            return
        count = source.recv_into(into)
        if not count:
            raise EOFError
        self.is_drained = self._gives_all and count < len(into)
        self._have += count
        self.received += count


def _room_for(size: int) -> memoryview:
    """Returns room that is not written yet: the system takes memory for it only as it is filled."""
    return np.empty(size, dtype=np.uint8).data


def unread(descriptor: int) -> int:
    """Returns how many bytes have arrived at a socket and were not read."""
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]
