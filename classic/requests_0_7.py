"""The five requests of Kafka 0.7 and their answers: bytes to values, and values to bytes.

A frame is a key (int16) and a body. Numbers are big-endian, a topic is its length (int16) and UTF-8. Bytes after the
body of a request are ignored, as in 0.7.2. An answer is an error code (int16) and a body; a produce request has no
answer. On a connection, each frame and answer is preceded by its length (int32). Source: kafka.api of Kafka 0.7.2.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

RANDOM_PARTITION = -1  # of a produce request: the server chooses one
HEAD = struct.Struct(">ih")  # of an answer: its length without these four bytes, and its code
_CODE = struct.Struct(">h")


class Key(IntEnum):
    """The keys of requests."""

    PRODUCE = 0
    FETCH = 1
    MULTI_FETCH = 2
    MULTI_PRODUCE = 3
    OFFSETS = 4


class Code(IntEnum):
    """The codes of answers (kafka.common.ErrorMapping)."""

    UNKNOWN = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    INVALID_MESSAGE = 2
    WRONG_PARTITION = 3
    INVALID_FETCH_SIZE = 4


class MalformedFrameError(Exception):
    """A frame is not a valid request or answer of 0.7; its connection is closed."""


class Produce(NamedTuple):
    """A message set for a partition."""

    topic: str
    partition: int
    message_set: bytes | memoryview


class Fetch(NamedTuple):
    """A request for up to ``size`` bytes of a partition from ``position`` on."""

    topic: str
    partition: int
    position: int
    size: int


class Offsets(NamedTuple):
    """A request for up to ``most`` positions before a time in ms; -1 is the latest time, -2 the earliest."""

    topic: str
    partition: int
    time_ms: int
    most: int


class Fetched(NamedTuple):
    """The answer to a fetch, or one part of the answer to a multi-fetch."""

    code: int
    message_set: memoryview


# What a client sends


def encode_produce(sets: Sequence[Produce]) -> bytes:
    """Returns the frame that produces one set, or several in their order."""
    parts = [b"".join((_place(each), struct.pack(">i", len(each.message_set)), each.message_set)) for each in sets]
    return _frame(Key.PRODUCE, Key.MULTI_PRODUCE, parts)


def encode_fetch(asked: Fetch) -> bytes:
    """Returns the frame of a fetch."""
    return struct.pack(">h", Key.FETCH) + _fetch_body(asked)


def encode_multi_fetch(asked: Sequence[Fetch]) -> bytes:
    """Returns the frame of any number of fetches, even 0."""
    return struct.pack(">hh", Key.MULTI_FETCH, len(asked)) + b"".join(map(_fetch_body, asked))


def encode_offsets(asked: Offsets) -> bytes:
    """Returns the frame that asks for positions before a time."""
    return struct.pack(">h", Key.OFFSETS) + _place(asked) + struct.pack(">qi", asked.time_ms, asked.most)


def _frame(one: Key, several: Key, parts: Sequence[bytes]) -> bytes:
    head = struct.pack(">h", one) if len(parts) == 1 else struct.pack(">hh", several, len(parts))
    return b"".join((head, *parts))


def _fetch_body(asked: Fetch) -> bytes:
    return _place(asked) + struct.pack(">qi", asked.position, asked.size)


def _place(asked: Produce | Fetch | Offsets) -> bytes:
    name = asked.topic.encode()
    return struct.pack(">h", len(name)) + name + struct.pack(">i", asked.partition)


# What a client receives


def decode_fetched(answer: bytes | bytearray | memoryview) -> Fetched:
    """Returns the answer to a fetch, without a copy. Raises MalformedFrameError."""
    data = memoryview(answer)
    if len(data) < _CODE.size:
        raise MalformedFrameError(f"an answer of {len(data)} bytes is too short for an error code")
    (code,) = _CODE.unpack_from(data)
    return Fetched(code, data[_CODE.size :])


def decode_multi_fetched(answer: bytes | bytearray | memoryview, count: int) -> list[Fetched]:
    """Returns the parts of the answer to ``count`` fetches, in their order.

    Raises MalformedFrameError. Even an answer whose own code is not 0 has the parts, as in 0.7.2.
    """
    data = decode_fetched(answer).message_set
    found: list[Fetched] = []
    at = 0
    for _ in range(count):
        if len(data) - at < HEAD.size:
            raise MalformedFrameError(f"the answer to {count} fetches ends after {len(found)}")
        length, code = HEAD.unpack_from(data, at)
        end = at + HEAD.size - _CODE.size + length
        if not at + HEAD.size <= end <= len(data):
            raise MalformedFrameError(f"at byte {at} of the answer to {count} fetches, {length} bytes should follow")
        found.append(Fetched(code, data[at + HEAD.size : end]))
        at = end
    if at != len(data):
        raise MalformedFrameError(f"{len(data) - at} bytes follow the answer to {count} fetches")
    return found


def decode_offsets(answer: bytes | bytearray | memoryview) -> tuple[int, list[int]]:
    """Returns the code of an answer and the positions in it. Raises MalformedFrameError."""
    code, data = decode_fetched(answer)
    if code != Code.NONE:
        return code, []
    count = int.from_bytes(data[:4], "big", signed=True) if len(data) >= 4 else -1
    if count < 0 or len(data) != 4 + 8 * count:
        raise MalformedFrameError(f"an answer of {len(data)} bytes states {count} positions, but needs another length")
    return code, list(struct.unpack_from(f">{count}q", data, 4))


# What a server receives


class FrameReader:
    """Reads the values of a request one after the other; raises MalformedFrameError where it is too short."""

    def __init__(self, frame: bytes | bytearray | memoryview) -> None:
        self._frame = memoryview(frame)
        self._at = 0

    def key(self) -> Key:
        """The key of the request. Raises MalformedFrameError for another number."""
        number = self._number(">h")
        try:
            return Key(number)
        except ValueError:
            raise MalformedFrameError(f"key {number} is not a request of Kafka 0.7") from None

    def produce(self) -> Produce:
        topic, partition, size = self._topic(), self._number(">i"), self._number(">i")
        return Produce(topic, partition, self._bytes(size))

    def fetch(self) -> Fetch:
        return Fetch(self._topic(), self._number(">i"), self._number(">q"), self._number(">i"))

    def offsets(self) -> Offsets:
        return Offsets(self._topic(), self._number(">i"), self._number(">q"), self._number(">i"))

    def count(self) -> int:
        """The number of parts that follow, in a request with several."""
        found = self._number(">h")
        if found < 0:
            raise MalformedFrameError(f"a request states {found} parts")
        return found

    def _topic(self) -> str:
        return bytes(self._bytes(self._number(">h"))).decode("utf-8", "replace")

    def _number(self, form: str) -> int:
        data = self._bytes(struct.calcsize(form))
        (found,) = struct.unpack(form, data)
        return int(found)

    def _bytes(self, size: int) -> memoryview:
        if not 0 <= size <= len(self._frame) - self._at:
            raise MalformedFrameError(
                f"at byte {self._at} of a request, {size} bytes should follow, but {len(self._frame) - self._at} do"
            )
        found = self._frame[self._at : self._at + size]
        self._at += size
        return found
