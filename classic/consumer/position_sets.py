"""PositionMessageSet: the message sets of Kafka 0.7, whose offsets are positions."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import cached_property
from typing import Self

import numpy as np

from ...storage import Codec, CorruptionError
from ..log_0_7.entries import Entries, messages_in
from .content import Content, Writable
from .message_sets import MessageSet
from .messages import Message, PositionColumns

_SIZE_BYTES = 4  # before each message


class PositionEntry:
    """A stored message of 0.7; a compressed one has all its messages. A field is read when it is accessed."""

    def __init__(self, entries: Entries, row: int, initial_offset: int, content: Content) -> None:
        self._entries, self._row, self._initial, self._content = entries, row, initial_offset, content

    @property
    def offset(self) -> int:
        """The position of the entry in its log."""
        return self._initial + int(self._entries.positions[self._row])

    @property
    def next_offset(self) -> int:
        """The position after the entry."""
        return self._initial + int(self._entries.ends[self._row])

    @property
    def magic(self) -> int:
        """0 or 1."""
        return int(self._entries.magics[self._row])

    @property
    def codec(self) -> Codec:
        """How the payload is compressed. Raises ValueError for a number that Kafka does not have."""
        return Codec(int(self._entries.codecs[self._row]))

    @property
    def payload(self) -> bytes:
        """The stored payload; if there is a codec, a compressed message set."""
        start, stop = int(self._entries.payloads[self._row]), int(self._entries.ends[self._row])
        return bytes(self._content.data[start:stop])

    @property
    def is_valid(self) -> bool:
        """Whether the payload matches the stored checksum."""
        rows = slice(self._row, self._row + 1)
        one = Entries(self._entries.buffer, self._entries.positions[rows], self._entries.sizes[rows], 0, 0)
        return one.sound == 1

    def write_to(self, target: Writable | socket.socket) -> int:
        """Writes the stored entry unchanged, and returns the number of bytes."""
        start, stop = int(self._entries.positions[self._row]), int(self._entries.ends[self._row])
        return self._content.part(start, stop).write_to(target)


class PositionMessageSet(MessageSet[PositionEntry]):
    """A message set of Kafka 0.7."""

    @classmethod
    def in_file(cls, path: str, start_position: int, start: int = 0, end: int | None = None) -> Self:
        """The entries in the bytes [start, end) of a file; ``start_position``: the position in the file's name."""
        return cls(Content.of_file(path, start, end), start_position + start)

    @cached_property
    def _entries(self) -> Entries:
        return Entries.of(np.frombuffer(self._content.data, dtype=np.uint8))

    @property
    def valid_bytes(self) -> int:
        return self._entries.stop

    @property
    def next_offset(self) -> int:
        return self.initial_offset + self.valid_bytes

    @property
    def first_size(self) -> int:
        head = self._content.data[:_SIZE_BYTES]
        return _SIZE_BYTES + int.from_bytes(head, "big") if len(head) == _SIZE_BYTES else 0

    @property
    def _is_cut(self) -> bool:
        try:
            self._entries.check_stop()
        except CorruptionError:
            return False
        return True

    def _messages(self) -> Iterator[Message]:
        for position, next_position, magic, payload in messages_in(self._content.data, self.initial_offset):
            yield Message(position, next_position, PositionColumns(payload, magic))

    def _stored(self) -> Iterator[PositionEntry]:
        for row in range(len(self._entries)):
            yield PositionEntry(self._entries, row, self.initial_offset, self._content)
        self._entries.check_as_set()
