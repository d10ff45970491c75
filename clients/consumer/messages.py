"""Message: one message of a set, of any generation of Kafka, whose fields are read when they are asked for."""

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
    """A message and where it is.

    ``offset`` is its offset, in 0.7 the position of its entry. ``next_offset`` is where to read on after it: in 0.7 the
    entry of a compressed message again, until the last message in it.
    """

    __slots__ = ("_columns", "_row", "next_offset", "offset")

    def __init__(self, offset: int, next_offset: int, columns: Columns, row: int = 0) -> None:
        self.offset, self.next_offset = offset, next_offset
        self._columns, self._row = columns, row

    @property
    def magic(self) -> int:
        """The message format; 0.7 has a 0 and a 1 of its own."""
        return self._columns.magic

    @property
    def key(self) -> bytes | None:
        """None for a message without one, as all of 0.7 are."""
        return self._columns.keys[self._row]

    @property
    def value(self) -> bytes | None:
        """The payload; None for a tombstone."""
        return self._columns.values[self._row]

    @property
    def timestamp(self) -> int:
        """Milliseconds; -1: the format has none."""
        return self._columns.timestamps[self._row]

    @property
    def timestamp_type(self) -> int:
        """0: of the producer, 1: of the append, -1: the format has none."""
        return self._columns.timestamp_types[self._row]

    @property
    def headers(self) -> Headers:
        """There are none before magic 2."""
        return self._columns.headers[self._row]

    def __repr__(self) -> str:
        return f"Message(offset={self.offset}, key={self.key!r}, value={self.value!r})"


class RecordColumns:
    """Records of the log as :class:`Columns`: a column becomes Python's objects when a field of it is first read."""

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
