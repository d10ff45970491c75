"""Entries: the elements of the files, message sets and fetch answers of Kafka 0.7.

An entry is the size of a message (4 bytes, big-endian) and the message. A message has, in this order: its magic (0 or
1), for magic 1 its attributes, the CRC-32 of its payload, and the payload. The two lowest bits of the attributes are
the codec (0 none, 1 gzip, 2 snappy). The payload of a compressed message is a compressed set of entries, which may be
compressed themselves. Neither size, magic nor attributes are covered by the checksum.

Source: kafka.message.Message, ByteBufferMessageSet and FileMessageSet of Kafka 0.7.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, NoReturn

import numpy as np

from ...storage.config import DECOMPRESSED_BYTES_MAX
from ...storage.errors import (
    CorruptionError,
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedMagicError,
)
from ...storage.format.checksums import crc32, of_parts
from ...storage.format.compression import compress, decompress
from ...storage.format.constants import Codec
from ...storage.format.tables import Bytes, Int64s
from ...storage.kernels import scan, stop_reasons
from ...storage.kernels.arrays import frozen

SIZE_BYTES = 4  # before each message
MESSAGE_BYTES_MIN = 5  # magic and checksum of magic 0
CODEC_MASK = 0x03
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY)
ENTRY_BYTES_MIN = SIZE_BYTES + MESSAGE_BYTES_MIN
HEAD_BYTES = SIZE_BYTES + 1  # of an entry, up to its magic
NESTING_MAX = 32  # compressed sets in each other; real producers nest none


class Message(NamedTuple):
    """A message as a consumer of 0.7 gets it."""

    position: int  # position of its entry in the log; for a nested message, that of the outermost compressed message
    next_position: int  # where to read on: ``position`` again for a message in a set that has more of them
    magic: int
    payload: bytes


class Part(NamedTuple):
    """Payloads in a buffer, shape (payloads,) each."""

    buffer: Bytes
    starts: Int64s
    stops: Int64s
    magics: Int64s


@dataclass(frozen=True)
class Entries:
    """The whole entries at the beginning of a buffer. Columns have the shape (entries,)."""

    buffer: Bytes
    positions: Int64s  # in the buffer
    sizes: Int64s  # with the 4 bytes of the size
    stop: int  # position after the last one
    reason: int  # why they stop there: of ``stop_reasons``

    @classmethod
    def of(cls, buffer: Bytes) -> Entries:
        """Finds the entries of ``buffer`` by their sizes and magics; checks no checksum."""
        room = len(buffer) // ENTRY_BYTES_MIN + 1
        positions, sizes = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        found, stop, reason = scan.walk_positions(frozen(buffer), 0, positions, sizes)
        return cls(buffer, positions[:found].copy(), sizes[:found].copy(), stop, reason)

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def magics(self) -> Int64s:
        found: Int64s = self.buffer[self.positions + SIZE_BYTES].astype(np.int64)
        return found

    @cached_property
    def codecs(self) -> Int64s:
        """Numbers of codecs, 3 included, which 0.7 does not have."""
        attributes = self.buffer[self.positions + SIZE_BYTES + 1].astype(np.int64)
        found: Int64s = np.where(self.magics == 1, attributes & CODEC_MASK, 0)
        return found

    @cached_property
    def payloads(self) -> Int64s:
        """Where the payloads begin."""
        return self.positions + ENTRY_BYTES_MIN + self.magics

    @property
    def ends(self) -> Int64s:
        return self.positions + self.sizes

    @cached_property
    def sound(self) -> int:
        """How many entries precede the first one with a wrong checksum."""
        starts = self.payloads
        stored = sum(self.buffer[starts - 4 + byte].astype(np.int64) << 8 * (3 - byte) for byte in range(4))
        wrong = np.flatnonzero(np.array(of_parts(crc32, self.buffer, starts, self.ends), dtype=np.int64) != stored)
        return int(wrong[0]) if len(wrong) else len(self)

    @property
    def before_damage(self) -> Entries:
        """The entries before the first one with a wrong checksum."""
        return self if self.sound == len(self) else self._first(self.sound)

    def _first(self, count: int) -> Entries:
        stop = int(self.ends[count - 1]) if count else 0
        return Entries(self.buffer, self.positions[:count], self.sizes[:count], stop, stop_reasons.FULL)

    def check_checksums(self) -> None:
        """Raises CorruptRecordError, with its position, for the first entry with a wrong checksum."""
        if self.sound < len(self):
            raise CorruptRecordError(
                "the payload does not have the checksum of its message", position=int(self.positions[self.sound])
            )

    def check_stop(self) -> None:
        """Raises CorruptRecordError unless the entries stop at the buffer's end or at an incomplete entry."""
        if self.reason not in (stop_reasons.END, stop_reasons.TRUNCATED):
            self.refuse_rest()

    def check_as_set(self) -> None:
        """Checks what a reader of 0.7 checks in a message set: an incomplete last message is skipped.

        Raises CorruptRecordError, with its position, for a wrong checksum, for a size or a magic that no message has,
        and if the first message is incomplete.
        """
        self.check_checksums()
        self.check_stop()
        if not self.stop and len(self.buffer) >= SIZE_BYTES:
            self.refuse_rest()

    def refuse_rest(self) -> NoReturn:
        """Raises CorruptRecordError for bytes after the last whole entry."""
        head = self.buffer[self.stop : self.stop + HEAD_BYTES].tobytes()
        error = why_no_entry(head, len(self.buffer) - self.stop)[1]
        raise type(error)(error.reason, position=self.stop)

    def pieces(self, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[tuple[slice, list[Part]]]:
        """Yields the entries in pieces, each with its payloads: a run of plain messages, or one compressed message.

        Checks compressed sets, but not the checksums of these entries themselves. ``limit``: bytes that one compressed
        message may hold, with all that it nests. Raises InvalidRecordError, with its position, for one that cannot be
        read.
        """
        compressed = self.codecs != Codec.NONE
        bounds = np.flatnonzero(np.diff(compressed, prepend=~compressed[:1]) | compressed).tolist()
        for first, last in pairwise([*bounds, len(self)]):
            if compressed[first]:
                yield slice(first, last), self._unwrapped(first, _Room(limit), NESTING_MAX)
            else:
                yield slice(first, last), [self._plain(first, last)]

    def _plain(self, first: int, last: int) -> Part:
        rows = slice(first, last)
        return Part(self.buffer, self.payloads[rows], self.ends[rows], self.magics[rows])

    def _unwrapped(self, row: int, room: _Room, nesting: int) -> list[Part]:
        """Returns the payloads in the compressed message of ``row``."""
        try:
            inner = self._decompressed(row, room, nesting)
            inner.check_as_set()
            return inner.flat(room, nesting - 1)
        except CorruptionError as error:
            raise InvalidRecordError(
                f"a compressed message cannot be read: {error.reason}", position=int(self.positions[row])
            ) from error

    def _decompressed(self, row: int, room: _Room, nesting: int) -> Entries:
        if not nesting:
            raise InvalidRecordError(f"compressed messages are nested more than {NESTING_MAX} deep")
        codec = int(self.codecs[row])
        if codec not in CODECS:
            raise InvalidRecordError(f"{codec} is an unknown compression codec")
        payload = self.buffer[self.payloads[row] : self.ends[row]]
        return Entries.of(room.take(decompress(codec, payload, magic=1, limit=room.left)))

    def flat(self, room: _Room, nesting: int) -> list[Part]:
        """Returns the payloads of all messages, those of nested sets too."""
        compressed = self.codecs != Codec.NONE
        if not compressed.any():
            return [self._plain(0, len(self))]
        parts = []
        for row in range(len(self)):
            parts += self._unwrapped(row, room, nesting) if compressed[row] else [self._plain(row, row + 1)]
        return parts


def why_no_entry(head: bytes, room: int) -> tuple[int, CorruptRecordError]:
    """Returns why no whole entry of 0.7 begins with ``head``, as one of ``stop_reasons`` and as an error.

    ``head``: the first bytes, :data:`HEAD_BYTES` if there are as many. ``room``: how many bytes there are.
    """
    size = int.from_bytes(head[:SIZE_BYTES], "big", signed=True)
    if len(head) < SIZE_BYTES:
        return stop_reasons.TRUNCATED, CorruptRecordError(f"{len(head)} bytes are too few for the size of a message")
    if size < MESSAGE_BYTES_MIN:
        return stop_reasons.BAD_SIZE, CorruptRecordError(f"{size} is not the size of a message")
    if size > room - SIZE_BYTES:
        return stop_reasons.TRUNCATED, CorruptRecordError(
            f"a message of {size} bytes begins here, but only {room - SIZE_BYTES} bytes follow: it is cut off, or "
            "larger than what was read"
        )
    magic = head[SIZE_BYTES]
    if magic > 1:
        return stop_reasons.UNKNOWN_MAGIC, UnsupportedMagicError(
            f"the message has magic {magic}, but Kafka 0.7 has only 0 and 1"
        )
    return stop_reasons.NO_CHECKSUM, CorruptRecordError("the message of magic 1 ends before its checksum does")


@dataclass
class _Room:
    """How many bytes may still be decompressed for one entry."""

    left: int

    def take(self, content: Bytes) -> Bytes:
        self.left -= len(content)
        return content


def as_buffer(data: bytes | bytearray | memoryview) -> Bytes:
    """Returns ``data`` as a buffer, without a copy."""
    return np.frombuffer(data, dtype=np.uint8)


def messages_in(
    data: bytes | bytearray | memoryview, position: int = 0, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Message]:
    """Yields the messages in ``data``, which begins at ``position`` of its log, as a consumer of 0.7 does.

    An incomplete last message is skipped. Raises CorruptRecordError and its subclasses, and InvalidRecordError,
    with the position in the log, after the messages before it: for damage, and if not even one message is complete,
    which then is larger than ``data`` or damaged.
    """
    entries = Entries.of(as_buffer(data))
    try:
        yield from _sound_messages(entries, position, limit)
        entries.check_as_set()
    except CorruptionError as error:
        where = None if error.position is None else error.position + position
        raise type(error)(error.reason, position=where) from error


def _sound_messages(entries: Entries, position: int, limit: int) -> Iterator[Message]:
    sound = entries.before_damage
    starts, ends = (sound.positions + position).tolist(), (sound.ends + position).tolist()
    for rows, parts in sound.pieces(limit):
        payloads = [each for part in parts for each in zip(part.magics.tolist(), _bytes_of(part), strict=True)]
        last = rows.stop - 1
        for number, (magic, payload) in enumerate(payloads):
            if sound.codecs[rows.start] == Codec.NONE:
                yield Message(starts[rows.start + number], ends[rows.start + number], magic, payload)
            else:
                yield Message(starts[last], ends[last] if number == len(payloads) - 1 else starts[last], magic, payload)


def _bytes_of(part: Part) -> Iterator[bytes]:
    for start, stop in zip(part.starts.tolist(), part.stops.tolist(), strict=True):
        yield part.buffer[start:stop].tobytes()


def encode(payload: bytes, *, magic: int = 1, attributes: int = 0) -> bytes:
    """Returns the entry of one message. Magic 0 has no attributes."""
    head = bytes((magic, attributes) if magic else (magic,))
    message = head + crc32(payload).to_bytes(4, "big") + payload
    return len(message).to_bytes(SIZE_BYTES, "big") + message


def encode_set(payloads: list[bytes], codec: Codec = Codec.NONE) -> bytes:
    """Returns the entries of messages of magic 1 or, with a codec of 0.7, the entry of one compressed message."""
    entries = b"".join(map(encode, payloads))
    if codec == Codec.NONE:
        return entries
    if codec not in CODECS:
        raise InvalidRecordError(f"Kafka 0.7 has no codec {codec.name.lower()}; use gzip or snappy")
    return encode(compress(codec, as_buffer(entries), magic=1).tobytes(), attributes=codec)


class MessageSet(NamedTuple):
    """Entries that may be appended."""

    data: memoryview
    messages: int  # those in compressed messages one by one


def checked_set(
    data: bytes | bytearray | memoryview, payload_max: int, limit: int = DECOMPRESSED_BYTES_MAX
) -> MessageSet:
    """Returns the whole messages in ``data``, without an incomplete last one, as 0.7.2 does before an append.

    Raises RecordTooLargeError for a stored payload above ``payload_max`` bytes, before any other error. Raises
    CorruptRecordError for a set whose first message is incomplete, a wrong checksum, and a size or magic that no
    message has; InvalidRecordError for a compressed message that cannot be read, or holds more than ``limit`` bytes.
    Positions in errors count from the beginning of ``data``.
    """
    entries = Entries.of(as_buffer(data))
    payload_sizes = entries.ends[: entries.sound] - entries.payloads[: entries.sound]
    large = np.flatnonzero(payload_sizes > payload_max)
    if len(large):
        raise RecordTooLargeError(
            f"a message has {payload_sizes[large[0]]} bytes, but max.message.size is {payload_max}; its set is dropped"
        )
    entries.check_as_set()
    messages = sum(len(part.starts) for _, parts in entries.pieces(limit) for part in parts)
    return MessageSet(memoryview(data)[: entries.stop], messages)
