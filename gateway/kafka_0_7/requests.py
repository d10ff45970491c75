"""The five requests of Kafka 0.7: bytes to values.

A frame is a key (int16) and a body. Numbers are big-endian, a topic is its length (int16) and UTF-8. What follows the
body is ignored, as 0.7.2 does. Source: kafka.api of Kafka 0.7.2.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

RANDOM_PARTITION = -1  # of a produce request: the server chooses one


class Key(IntEnum):
    """The keys of requests."""

    PRODUCE = 0
    FETCH = 1
    MULTI_FETCH = 2
    MULTI_PRODUCE = 3
    OFFSETS = 4


class MalformedFrameError(Exception):
    """A frame that is no request of 0.7: its connection is closed without an answer."""


class Produce(NamedTuple):
    """A message set for a partition."""

    topic: str
    partition: int
    message_set: memoryview


class Fetch(NamedTuple):
    """Up to ``size`` bytes of a partition from ``position`` on."""

    topic: str
    partition: int
    position: int
    size: int


class Offsets(NamedTuple):
    """Up to ``most`` positions before a time."""

    topic: str
    partition: int
    time_ms: int
    most: int


class FrameReader:
    """Reads the values of a frame one after the other; raises MalformedFrameError where it is too short."""

    def __init__(self, frame: bytearray) -> None:
        self._frame = memoryview(frame)
        self._at = 0

    def key(self) -> Key:
        """The key of the request. Raises MalformedFrameError for another number."""
        number = self._number(">h")
        try:
            return Key(number)
        except ValueError:
            raise MalformedFrameError(f"{number} is no request of Kafka 0.7") from None

    def produce(self) -> Produce:
        topic, partition, size = self._topic(), self._number(">i"), self._number(">i")
        return Produce(topic, partition, self._bytes(size))

    def fetch(self) -> Fetch:
        return Fetch(self._topic(), self._number(">i"), self._number(">q"), self._number(">i"))

    def offsets(self) -> Offsets:
        return Offsets(self._topic(), self._number(">i"), self._number(">q"), self._number(">i"))

    def count(self) -> int:
        """How many parts follow, in a request with several."""
        found = self._number(">h")
        if found < 0:
            raise MalformedFrameError(f"a request with {found} parts")
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
