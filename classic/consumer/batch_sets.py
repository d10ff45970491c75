"""BatchMessageSet: the message sets of Kafka 0.8 to 0.10 and the record batches since 0.11."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Self

from ...storage import BatchSet, Codec, LogStoreError
from ..errors import MessageTooLargeError
from .content import Content, Writable
from .message_sets import NONE, MessageSet
from .messages import Message, RecordColumns

_LENGTH_AT, _OVERHEAD = 8, 12  # of a batch's length, after its offset
_NOT_CONVERTED = b"\xff" * 8  # the offset in the placeholder of a batch that a broker had no room to convert


class RecordBatch:
    """A record batch or, before magic 2, a stored message or wrapper. A field is read when it is accessed.

    Iterating yields its messages, and raises CorruptionError for damage.
    """

    def __init__(self, found: BatchSet, row: int, content: Content) -> None:
        self._found, self._row, self._content = found, slice(row, row + 1), content

    @property
    def base_offset(self) -> int:
        """The offset of the first record; before magic 2 that of the last, because only decoding finds the first."""
        return self._field("base_offset")

    @property
    def last_offset(self) -> int:
        return self._field("last_offset")

    @property
    def next_offset(self) -> int:
        """The offset to read next, after the batch."""
        return self.last_offset + 1

    @property
    def size_in_bytes(self) -> int:
        return self._field("size")

    @property
    def magic(self) -> int:
        return self._field("magic")

    @property
    def crc(self) -> int:
        """The stored checksum."""
        return self._field("crc")

    @property
    def is_valid(self) -> bool:
        """Whether the bytes match the stored checksum."""
        return bool(self._found.are_sound(self._row)[0])

    @property
    def codec(self) -> Codec:
        """The compression. Raises ValueError for a number that Kafka does not define."""
        return Codec(int(self._found.headers[self._row].codec[0]))

    @property
    def timestamp_type(self) -> int:
        """0: the time of the producer, 1: of the append, -1: none (magic 0)."""
        return int(self._found.headers[self._row].timestamp_type[0])

    @property
    def base_timestamp(self) -> int:
        return self._field("base_timestamp")

    @property
    def max_timestamp(self) -> int:
        return self._field("max_timestamp")

    @property
    def leader_epoch(self) -> int:
        return self._field("leader_epoch")

    @property
    def producer_id(self) -> int:
        """The producer's id; -1: none."""
        return self._field("producer_id")

    @property
    def producer_epoch(self) -> int:
        return self._field("producer_epoch")

    @property
    def base_sequence(self) -> int:
        return self._field("base_sequence")

    @property
    def count(self) -> int:
        """The number of records in the header; -1 before magic 2, whose headers do not have it."""
        return self._field("count")

    @property
    def is_control(self) -> bool:
        """Whether it holds the marker of a transaction, not records of a producer."""
        return bool(self._found.headers[self._row].is_control[0])

    @property
    def is_transactional(self) -> bool:
        return bool(self._found.headers[self._row].is_transactional[0])

    def __iter__(self) -> Iterator[Message]:
        yield from messages_of(self._found, self._row)

    def write_to(self, target: Writable | socket.socket) -> int:
        """Writes the stored batch unchanged, and returns the number of bytes."""
        start = self._field("position")
        return self._content.part(start, start + self.size_in_bytes).write_to(target)

    def _field(self, name: str) -> int:
        return int(self._found.headers.table[name][self._row.start])


def messages_of(found: BatchSet, rows: slice) -> Iterator[Message]:
    """Yields the messages of some batches, which are decoded when the first message is read."""
    records = found.decode(rows)
    columns = RecordColumns(records, int(found.headers.table["magic"][rows.start]))
    for row, offset in enumerate(records.offsets.tolist()):
        yield Message(offset, offset + 1, columns, row)


class BatchMessageSet(MessageSet[RecordBatch]):
    """Message sets or record batches of one partition. The iterator skips markers of transactions.

    It also skips messages below ``initial_offset``, because a batch that contains it is fetched as a whole.
    """

    def __init__(
        self,
        content: Content | bytes | bytearray | memoryview,
        initial_offset: int = 0,
        error: LogStoreError | None = None,
        error_code: int = NONE,
        *,
        high_watermark: int = -1,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> None:
        """``aborted``: producer id and first offset of each aborted transaction, whose records the iterator skips."""
        super().__init__(content, initial_offset, error, error_code)
        self.high_watermark, self._aborted = high_watermark, aborted

    @classmethod
    def in_file(cls, path: str, start: int = 0, end: int | None = None) -> Self:
        """The batches in the bytes [start, end) of a ``.log`` file."""
        return cls(Content.of_file(path, start, end))

    @cached_property
    def _found(self) -> BatchSet:
        return BatchSet.of(self._content.data)

    @property
    def valid_bytes(self) -> int:
        return self._found.stop

    @property
    def next_offset(self) -> int:
        found = self._found.headers
        return max(self.initial_offset, found.next_offset) if len(found) else self.initial_offset

    @property
    def is_too_small(self) -> bool:
        """True also if the set is empty: today's brokers send old clients nothing of a message that does not fit."""
        return super().is_too_small or (not self.size_in_bytes and self.high_watermark > self.initial_offset)

    @property
    def first_size(self) -> int:
        head = self._content.data[:_OVERHEAD]
        if head[:_LENGTH_AT] == _NOT_CONVERTED:
            return 0
        return _OVERHEAD + int.from_bytes(head[_LENGTH_AT:], "big") if len(head) == _OVERHEAD else 0

    @property
    def _is_cut(self) -> bool:
        return self._found.is_cut

    def _messages(self) -> Iterator[Message]:
        hidden = _Aborted(self._aborted)
        for rows in self._found.pieces():
            if not self._is_shown(rows, hidden):
                continue
            for message in messages_of(self._found, rows):
                if message.offset >= self.initial_offset:
                    yield message
        self._check_end()

    def _is_shown(self, rows: slice, hidden: _Aborted) -> bool:
        table: Any = self._found.headers.table
        if table["magic"][rows.start] < 2:
            return True
        batch = RecordBatch(self._found, rows.start, self._content)
        return not hidden.hides(batch) and not batch.is_control

    def _stored(self) -> Iterator[RecordBatch]:
        for row in range(len(self._found.headers)):
            yield RecordBatch(self._found, row, self._content)
        self._check_end()

    def _check_end(self) -> None:
        self._found.check_stop()
        if super().is_too_small:
            raise MessageTooLargeError(
                f"the message at offset {self.initial_offset} is larger than what was fetched, {self.size_in_bytes} "
                f"bytes{f': it has {size}' if (size := self.first_size) else ''}; fetch more at once"
            )


class _Aborted:
    """Decides whether a batch belongs to an aborted transaction; must be asked in log order."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._next = sorted(aborted, key=lambda each: -each[1])  # the smallest first offset is last
        self._producers: set[int] = set()

    def hides(self, batch: RecordBatch) -> bool:
        while self._next and self._next[-1][1] <= batch.last_offset:
            self._producers.add(self._next.pop()[0])
        if batch.producer_id not in self._producers:
            return False
        if batch.is_control:
            self._producers.discard(batch.producer_id)
        return batch.is_transactional
