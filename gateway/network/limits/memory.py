"""What the requests and answers of all connections may hold of the memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import NamedTuple, Protocol

from ..file_slice import HeldBytes

WhenRoom = Callable[[], None]


class Held:
    """The bytes of a request that is whole, which a memory counts until they are given back. For any thread."""

    __slots__ = ("_memory", "size")

    def __init__(self, memory: RequestMemory, size: int) -> None:
        self._memory, self.size = memory, size

    def give(self) -> None:
        """Gives the bytes back, unless they were."""
        self._memory.end(self)

    def moved_to(self, memory: RequestMemory) -> Held:
        """Returns the same bytes, counted by another memory from now on."""
        moved = Held(memory, self.size)
        memory.take(self.size)
        self.give()
        return moved


class RequestMemory:
    """Counts the bytes of requests that are being read or in progress. For any thread.

    A request claims nothing: it is read on while there is room. At the limit all wait but one, which may be read to
    its end, so that requests of which a part has arrived never wait for each other: the one with the fewest bytes
    missing. The next one has its turn when the bytes of this one are given back. So the limit is exceeded by one
    request at most, and by one read of each thread.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: dict[WhenRoom, int] = {}  # with the number of bytes that each request lacks
        self._turn: WhenRoom | Held | None = None  # the one that may exceed the limit, or has done so
        self._lock = Lock()  # Guards all fields.

    def may_read(self, when_room: WhenRoom, missing: int, *, is_next: bool = True) -> bool:
        """Whether a request that lacks ``missing`` bytes may be read on.

        Otherwise calls ``when_room`` later, once, from any thread; the caller then asks again. ``is_next``: the request
        is served as soon as it is whole. One that is not has no turn, as it could keep that for long: it is not called,
        and asks again when it is next.
        """
        with self._lock:
            if self._taken < self._limit or self._turn == when_room:
                return True
            if not is_next:
                return False
            self._waiting[when_room] = missing
            called = self._next()
        for each in called:
            if each != when_room:
                each()
        return when_room in called

    def take(self, amount: int) -> None:
        """Counts bytes that have arrived."""
        with self._lock:
            self._taken += amount

    def hold(self, when_room: WhenRoom, size: int) -> Held:
        """Returns the bytes of a request that is whole. If it has the turn, that lasts until they are given back."""
        held = Held(self, size)
        with self._lock:
            self._waiting.pop(when_room, None)  # it asked again before it was called, and there was room
            if self._turn == when_room:
                self._turn = held
        return held

    def end(self, held: Held) -> None:
        """Gives back the bytes of a request that was whole, and ends its turn."""
        with self._lock:
            self._taken -= held.size
            held.size = 0
            if self._turn is held:
                self._turn = None
            called = self._next()
        for each in called:
            each()

    def give(self, amount: int) -> None:
        """Gives back what was taken."""
        with self._lock:
            self._taken -= amount
            called = self._next()
        for each in called:
            each()

    def leave(self, when_room: WhenRoom) -> None:
        """Ends the turn and the waiting of a request that will not be read on."""
        with self._lock:
            self._waiting.pop(when_room, None)
            if self._turn == when_room:
                self._turn = None
            called = self._next()
        for each in called:
            each()

    def _next(self) -> list[WhenRoom]:
        """Returns those that wait no longer: as many as there is room for, but at least the one whose turn it is."""
        if not self._waiting:
            return []
        room, called = self._limit - self._taken, list[WhenRoom]()
        for each in sorted(self._waiting, key=self._waiting.__getitem__):
            if room > 0:
                room -= self._waiting[each]
            elif self._turn is None:
                self._turn = each
            else:
                break
            called.append(each)
        for each in called:
            del self._waiting[each]
        return called

    @property
    def is_waited_for(self) -> bool:
        """Whether a request waits for room."""
        return bool(self._waiting)

    @property
    def limit(self) -> int:
        """The limit, in bytes."""
        return self._limit


class AnswerMemory:
    """Counts the bytes of answers in memory that clients have not taken yet. For any thread.

    Nobody waits: the less is free, the smaller the next answer. At the limit, it has one batch of records.
    """

    SHARE = 4  # of what is free, the part that one answer gets

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._lock = Lock()  # Guards all fields.

    @property
    def taken(self) -> int:
        """The bytes that are held."""
        return self._taken

    def room(self) -> int:
        """Returns how many bytes of records the next answer should have at most; 0: one batch."""
        return max(0, self._limit - self._taken) // self.SHARE

    def hold(self, data: bytes | bytearray | memoryview) -> HeldBytes:
        """Returns bytes as a part of an answer, counted until it is released."""
        self._add(len(data))
        return HeldBytes(-1, 0, len(data), partial(self._add, -len(data)), memoryview(data))

    def _add(self, size: int) -> None:
        with self._lock:
            self._taken += size


class Reading(Protocol):
    """A connection that reads requests."""

    memory: RequestMemory  # which counts its larger requests now

    def may_read_on(self, missing: int) -> bool:
        """Whether a larger request, which lacks ``missing`` bytes, may be read on now."""
        ...


class Room(NamedTuple):
    """The memory for the larger requests of a connection, which changes when it logs in."""

    connection: Reading

    def may_read(self, missing: int) -> bool:
        return self.connection.may_read_on(missing)

    def take(self, amount: int) -> None:
        self.connection.memory.take(amount)
