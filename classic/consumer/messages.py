"""Message: one message of a set, of any Kafka generation. A field is read when it is accessed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from ...storage import Records

Headers = Sequence[tuple[str, bytes | None]]
"""Names and values of a record's headers."""


class Columns(Protocol):
    """The fields of messages that were decoded together."""

    @property
    def magic(self) -> int: ...
    @property
    def keys(self) -> Sequence[bytes | None]: ...
    @property
    def values(self) -> Sequence[bytes | None]: ...
    @property
    def timestamps(self) -> Sequence[int]: ...
    @property
    def timestamp_types(self) -> Sequence[int]: ...
    @property
    def headers(self) -> Sequence[Headers]: ...


class Message:
    """A message with its offset.

    ``offset``: in 0.7 the position of its entry. ``next_offset``: the offset to read next. In 0.7 it is the same entry
    again for all but the last message inside a compressed one.
    """

    __slots__ = ("_columns", "_row", "next_offset", "offset")

    def __init__(self, offset: int, next_offset: int, columns: Columns, row: int = 0) -> None:
        self.offset, self.next_offset = offset, next_offset
        self._columns, self._row = columns, row

    @property
    def magic(self) -> int:
        """The message format; 0.7 numbers its own formats 0 and 1."""
        return self._columns.magic

    @property
    def key(self) -> bytes | None:
        """The key; None for a message without one, as in 0.7 always."""
        return self._columns.keys[self._row]

    @property
    def value(self) -> bytes | None:
        """The payload; None for a tombstone."""
        return self._columns.values[self._row]

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch; -1: the format has no timestamp."""
        return self._columns.timestamps[self._row]

    @property
    def timestamp_type(self) -> int:
        """0: the time of the producer, 1: of the append, -1: the format has no timestamp."""
        return self._columns.timestamp_types[self._row]

    @property
    def headers(self) -> Headers:
        """The headers; none before magic 2."""
        return self._columns.headers[self._row]

    def __repr__(self) -> str:
        return f"Message(offset={self.offset}, key={self.key!r}, value={self.value!r})"


class RecordColumns:
    """Log records as :class:`Columns`: a column is converted to Python objects when one of its fields is first read."""

    def __init__(self, records: Records, magic: int) -> None:
        self._records, self.magic = records, magic

    @cached_property
    def keys(self) -> Sequence[bytes | None]:
        return [] if self._records.keys is None else self._records.keys.to_list()

    @cached_property
    def values(self) -> Sequence[bytes | None]:
        return [] if self._records.values is None else self._records.values.to_list()

    @cached_property
    def timestamps(self) -> Sequence[int]:
        found: list[int] = self._records.timestamps.tolist()
        return found

    @cached_property
    def timestamp_types(self) -> Sequence[int]:
        found: list[int] = self._records.timestamp_types.tolist()
        return found

    @cached_property
    def headers(self) -> Sequence[Headers]:
        if self._records.headers is None:
            return [()] * len(self._records)
        return [[(str(key, "utf-8"), value) for key, value in each] for each in self._records.headers.to_list()]


class PositionColumns:
    """One message of 0.7 as :class:`Columns`."""

    __slots__ = ("magic", "values")

    keys: Sequence[bytes | None] = (None,)
    timestamps: Sequence[int] = (-1,)
    timestamp_types: Sequence[int] = (-1,)
    headers: Sequence[Headers] = ((),)

    def __init__(self, payload: bytes, magic: int) -> None:
        self.values: Sequence[bytes | None] = (payload,)
        self.magic = magic
