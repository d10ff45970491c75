"""Produce requests, read and written without kio for speed: they carry all records, and no record is copied."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ..storage import unsigned_varint
from .apis import APIS, ApiKey
from .bodies import ErrorCode
from .reading import ENTRIES_MAX, Entries, Frame, RequestReader
from .writing import AnswerWriter

_PARTITION = struct.Struct(">ihq")  # index, error, base offset
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_ONE_TOPIC = struct.Struct(">BhiBB")  # id of a transaction, acks, timeout, number of topics, length of the name
_ONE_PARTITION = struct.Struct(">Bi")  # number of partitions, index
_NO_TAGS = b"\0\0\0"  # of the partition, the topic and the request
_FLEXIBLE_FROM = APIS[ApiKey.PRODUCE].flexible_from
_NO_OFFSET = -1


class ProducePartition(NamedTuple):
    """The records for one partition; ``records`` is a view of the frame, None for null."""

    topic: str
    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    """A Produce request; partitions in the order of the request."""

    transactional_id: str | None
    acks: int
    partitions: Sequence[ProducePartition]


class Produced(NamedTuple):
    """The answer for one partition."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.none
    base_offset: int = _NO_OFFSET
    log_append_time_ms: int = -1
    log_start_offset: int = _NO_OFFSET
    record_errors: Sequence[tuple[int, str]] = ()  # index in the batch, reason
    message: str | None = None


def parse_produce(frame: Frame, position: int, version: int, entries_max: int = ENTRIES_MAX) -> ProduceRequest:
    """Returns the request whose body begins at ``position`` of the frame.

    Raises MalformedRequestError, and TooManyEntriesError if its arrays have more than ``entries_max`` entries.
    """
    found = _parse_one(memoryview(frame), position) if version >= _FLEXIBLE_FROM else None
    return _parse_all(frame, position, version, entries_max) if found is None else found


def _parse_one(frame: memoryview, position: int) -> ProduceRequest | None:
    """Returns the request if it is flexible and has one partition, no transaction and no tags; None for any other."""
    try:
        no_id, acks, _, topics, named = _ONE_TOPIC.unpack_from(frame, position)
        name_at = position + _ONE_TOPIC.size
        at = name_at + named - 1
        partitions, index = _ONE_PARTITION.unpack_from(frame, at)
        size, at = _small_uvarint(frame, at + _ONE_PARTITION.size)
        name = str(frame[name_at : name_at + named - 1], "utf-8")
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    end = at + size - 1
    is_one = not no_id and topics == partitions == 2 and 0 < named < 0x80 and size > 0
    if not is_one or end + len(_NO_TAGS) != len(frame) or frame[end:] != _NO_TAGS:
        return None
    return ProduceRequest(None, acks, [ProducePartition(name, index, frame[at:end])])


def _small_uvarint(data: memoryview, at: int) -> tuple[int, int]:
    """Returns a number of up to three bytes and the position after it; 0 for one of more bytes. Raises IndexError."""
    found = 0
    for index in range(3):
        byte = data[at + index]
        found |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return found, at + index + 1
    return 0, at


def _parse_all(frame: Frame, position: int, version: int, entries_max: int = ENTRIES_MAX) -> ProduceRequest:
    is_flexible = version >= _FLEXIBLE_FROM
    reader = RequestReader(memoryview(frame), position, is_flexible=is_flexible, entries=Entries(entries_max))
    transactional_id = reader.string() if version >= 3 else None
    acks = reader.int16()
    reader.int32()  # skips the timeout: this node waits for no other
    found: list[ProducePartition] = []

    def partition(topic: str) -> None:
        found.append(ProducePartition(topic, reader.int32(), reader.records()))
        reader.tags()

    def topic() -> None:
        name = reader.required_string()
        reader.array(lambda: partition(name))
        reader.tags()

    reader.array(topic)
    reader.tags()
    return ProduceRequest(transactional_id, acks, found)


def encode_produced(answers: Sequence[Produced], version: int, throttle_ms: int = 0) -> bytes:
    """Returns the body of the answer. Partitions of one topic must be neighbours.

    ``throttle_ms``: how long the client is not served, because it has exceeded its quota.
    """
    if not throttle_ms and len(answers) == 1 and not answers[0].record_errors and answers[0].message is None:
        return _encode_one(answers[0], version)
    return _encode_all(answers, version, throttle_ms)


def _encode_one(answer: Produced, version: int) -> bytes:
    """Returns the body with one partition without errors of single records, packed by one struct."""
    before, between, fixed, after = _parts_around_one(version)
    name = answer.topic.encode()
    size = len(name)
    length = unsigned_varint(size + 1) if version >= _FLEXIBLE_FROM else _INT16.pack(size)
    numbers = answer.partition, answer.error, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset
    return b"".join((before, length, name, between, fixed.pack(*numbers[: _numbers_in(version)]), after))


def _numbers_in(version: int) -> int:
    """Returns the number of integer fields that a version has for a partition."""
    return 5 if version >= 5 else 4 if version >= 2 else 3


@cache
def _parts_around_one(version: int) -> tuple[bytes, bytes, struct.Struct, bytes]:
    """Returns four parts: bytes before the name, bytes before the numbers, the numbers' struct, bytes after them."""
    is_flexible = version >= _FLEXIBLE_FROM
    one = b"\2" if is_flexible else _INT32.pack(1)
    fixed = struct.Struct(">ihqqq"[: 1 + _numbers_in(version)])
    no_errors = b"\1\0" if is_flexible else _INT32.pack(0) + _INT16.pack(-1)
    tags = b"\0" if is_flexible else b""
    throttle = _INT32.pack(0) if version >= 1 else b""
    return one, one, fixed, (no_errors if version >= 8 else b"") + tags + tags + throttle + tags


def _encode_all(answers: Sequence[Produced], version: int, throttle_ms: int = 0) -> bytes:
    writer = AnswerWriter(is_flexible=version >= _FLEXIBLE_FROM)
    by_topic: dict[str, list[Produced]] = {}
    for answer in answers:
        by_topic.setdefault(answer.topic, []).append(answer)
    writer.length(len(by_topic))
    for topic, partitions in by_topic.items():
        writer.string(topic)
        writer.length(len(partitions))
        for answer in partitions:
            _write_partition(writer, answer, version)
        writer.tags()
    if version >= 1:
        writer.pack(_INT32, throttle_ms)
    writer.tags()
    return bytes(writer.data)


def _write_partition(writer: AnswerWriter, answer: Produced, version: int) -> None:
    writer.pack(_PARTITION, answer.partition, answer.error, answer.base_offset)
    if version >= 2:
        writer.pack(_INT64, answer.log_append_time_ms)
    if version >= 5:
        writer.pack(_INT64, answer.log_start_offset)
    if version >= 8:
        writer.length(len(answer.record_errors))
        for index, reason in answer.record_errors:
            writer.pack(_INT32, index)
            writer.string(reason)
            writer.tags()
        writer.string(answer.message)
    writer.tags()
