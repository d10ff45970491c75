"""RequestReader: reads the primitive types of Kafka's protocol from a request."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

T = TypeVar("T")

Frame = bytes | bytearray | memoryview  # of bytes: a request or an answer, without its length

STRING_BYTES_MAX = 2**15 - 1
_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{kind}") for kind in "bhiq")
_FLOAT64 = struct.Struct(">d")
VARINT_BYTES_MAX = 5  # of an unsigned varint of 32 bits
ENTRIES_MAX = 2**31 - 1


class MalformedRequestError(Exception):
    """The bytes of a request, or of an answer, do not match its header; the connection is closed, as by a broker."""


class TooManyEntriesError(MalformedRequestError):
    """A request has too many entries in its arrays."""


class Entries:
    """Counts the entries of all arrays of one request, and its tagged fields: each takes time and memory."""

    __slots__ = ("_left", "_limit")

    def __init__(self, limit: int = ENTRIES_MAX) -> None:
        self._left = self._limit = limit

    def take(self, count: int) -> None:
        """Counts entries before they are read. Raises TooManyEntriesError."""
        if count > self._left:
            raise TooManyEntriesError(
                f"a request has more than {self._limit} entries in its arrays; send several requests, or raise "
                "commitlog.request.max.entries"
            )
        self._left -= count


class RequestReader:
    """Reads values in order. Every method raises MalformedRequestError if the bytes end too early."""

    def __init__(self, data: memoryview, position: int, *, is_flexible: bool, entries: Entries | None = None) -> None:
        """``entries``: counts the entries of arrays and raises if there are too many; default: unlimited."""
        self._data, self._size = data, len(data)
        self._at = position
        self._is_flexible = is_flexible
        self._entries = entries or Entries()

    @property
    def position(self) -> int:
        """The position of the next value."""
        return self._at

    def int8(self) -> int:
        """Reads a number of 8 bits."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Reads a number of 16 bits."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Reads a number of 32 bits."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Reads a number of 64 bits."""
        return self._number(_INT64)

    def float64(self) -> float:
        """Reads a floating-point number of 64 bits."""
        (found,) = _FLOAT64.unpack(self._take(_FLOAT64.size))
        return float(found)

    def numbers(self, kind: struct.Struct) -> tuple[int, ...]:
        """Reads several numbers at once."""
        at, self._at = self._at, self._at + kind.size
        try:
            return kind.unpack_from(self._data, at)
        except struct.error:
            raise MalformedRequestError("the bytes end too early") from None

    def uuid(self) -> UUID:
        """Reads an id of 16 bytes."""
        return UUID(bytes=bytes(self._take(16)))

    def string(self) -> str | None:
        """Reads a text; None for null. As in Kafka, it has 32,767 bytes at most, whatever its length could say."""
        length = self._uvarint() - 1 if self._is_flexible else self.int16()
        if length < 0:
            return None
        if length > STRING_BYTES_MAX:
            raise MalformedRequestError(f"a text has {length} bytes, of at most {STRING_BYTES_MAX}")
        try:
            return str(self._take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRequestError(str(error)) from None

    def required_string(self) -> str:
        """Reads a text that may not be null."""
        found = self.string()
        if found is None:
            raise MalformedRequestError("a required text is null")
        return found

    def records(self) -> memoryview | None:
        """Reads bytes, without copying them; None for null."""
        length = self._uvarint() - 1 if self._is_flexible else self.int32()
        return None if length < 0 else self._take(length)

    def array(self, read_item: Callable[[], T]) -> list[T] | None:
        """Reads an array; None for null. Allocates no memory for items that the request does not contain."""
        length = self._uvarint() - 1 if self._is_flexible else self.int32()
        if length < -1:
            raise MalformedRequestError(f"an array states {length} items")
        if length < 0:
            return None
        self._entries.take(length)
        return [read_item() for _ in range(length)]

    def tags(self) -> Sequence[tuple[int, RequestReader]]:
        """Reads the tagged fields at the end of a struct, in flexible versions: tags, with readers of the fields."""
        if not self._is_flexible or not (count := self._uvarint()):
            return ()
        self._entries.take(count)
        return [(self._uvarint(), self._within(self._take(self._uvarint()))) for _ in range(count)]

    def _within(self, data: memoryview) -> RequestReader:
        return RequestReader(data, 0, is_flexible=True, entries=self._entries)

    def _number(self, kind: struct.Struct) -> int:
        return self.numbers(kind)[0]

    def _uvarint(self) -> int:
        at = self._at
        if at < self._size and (byte := self._data[at]) < 0x80:  # most have one byte
            self._at = at + 1
            return byte
        found = 0
        for index in range(VARINT_BYTES_MAX):
            byte = self._take(1)[0]
            found |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return found
        raise MalformedRequestError("a varint is longer than 5 bytes")

    def _take(self, length: int) -> memoryview:
        end = self._at + length
        if end > self._size:
            raise MalformedRequestError("the bytes end too early")
        found, self._at = self._data[self._at : end], end
        return found
