"""Fetch requests, read and written without kio for speed: answers carry all records and many partitions."""

from __future__ import annotations

import struct
from collections.abc import Sequence, Sized
from functools import cache
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from ..storage import unsigned_varint
from .apis import APIS, ApiKey
from .bodies import ErrorCode
from .reading import ENTRIES_MAX, Entries, Frame, RequestReader
from .writing import AnswerWriter

INT32_MAX = 2**31 - 1
NO_SESSION = 0  # the session id of an answer without a session: the client's next request is a full one
_INT32 = struct.Struct(">i")
_ABORTED = struct.Struct(">qq")  # producer id, first offset
_THROTTLE = struct.Struct(">i")
_SESSION = struct.Struct(">hi")  # error, session id
_PARTITION = struct.Struct(">ihqqq")  # index, error, high watermark, last stable offset, log start offset
_PARTITION_4 = struct.Struct(">ihqq")  # without the log start offset
_PARTITION_0 = struct.Struct(">ihq")  # without the last stable offset, which old message formats do not have
# An answer with one partition of one topic, by id: throttle time, error, session id, topics, id, partitions, the
# numbers of _PARTITION, aborted transactions, another replica to read from.
_ONE = struct.Struct(">ihiB16sBihqqqBi")
_FLEXIBLE_FROM = APIS[ApiKey.FETCH].flexible_from
COMMITTED_FROM = 4  # the first version that knows transactions, and so the first with record batches
_SESSIONS_FROM = 7
_BY_ID_FROM = 13  # topics have ids in place of names
_ASKED_DEFAULTS = (INT32_MAX, 0, NO_SESSION, -1)  # most bytes, isolation level, session and its epoch, in old versions

P = TypeVar("P", bound=Sized)  # the records of an answer: bytes, or a part of a file


class FetchPartition(NamedTuple):
    """The request for one partition. The topic is a name, or an id in newer versions."""

    topic: str | UUID
    partition: int
    leader_epoch: int  # the newest epoch that the client knows; -1: none
    offset: int
    max_bytes: int


class FetchRequest(NamedTuple):
    """A Fetch request; partitions in the order of the request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    is_committed_only: bool
    session_id: int
    session_epoch: int
    partitions: Sequence[FetchPartition]
    forgotten: Sequence[tuple[str | UUID, int]] = ()  # topics and partitions that leave the session


class Fetched(NamedTuple, Generic[P]):
    """The answer for one partition. ``aborted``: None for readers of uncommitted records."""

    topic: str | UUID
    partition: int
    error: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None  # producer id, first offset
    records: P | None = None

    @property
    def size(self) -> int:
        """The size of the records in bytes."""
        return 0 if self.records is None else len(self.records)


def parse_fetch(frame: Frame, position: int, version: int, entries_max: int = ENTRIES_MAX) -> FetchRequest:
    """Returns the request whose body begins at ``position`` of the frame.

    Raises MalformedRequestError, and TooManyEntriesError if its arrays have more than ``entries_max`` entries.
    """
    is_flexible = version >= _FLEXIBLE_FROM
    reader = RequestReader(memoryview(frame), position, is_flexible=is_flexible, entries=Entries(entries_max))
    head, numbers = _asked_numbers(version)
    max_wait_ms, min_bytes, *more = reader.numbers(head)
    max_bytes, isolation, session_id, session_epoch = *more, *_ASKED_DEFAULTS[len(more) :]
    found: list[FetchPartition] = []

    def partition(topic: str | UUID) -> None:
        number, *epoch, offset, limit = reader.numbers(numbers)
        found.append(FetchPartition(topic, number, epoch[0] if epoch else -1, offset, limit))
        reader.tags()

    def topic() -> None:
        which = reader.uuid() if version >= _BY_ID_FROM else reader.required_string()
        reader.array(lambda: partition(which))
        reader.tags()

    reader.array(topic)
    forgotten: list[tuple[str | UUID, int]] = []

    def forgotten_topic() -> None:
        which = reader.uuid() if version >= _BY_ID_FROM else reader.required_string()
        reader.array(lambda: forgotten.append((which, reader.numbers(_INT32)[0])))
        reader.tags()

    if version >= _SESSIONS_FROM:
        reader.array(forgotten_topic)
    is_committed = isolation == 1
    return FetchRequest(max_wait_ms, min_bytes, max_bytes, is_committed, session_id, session_epoch, found, forgotten)


def is_by_topic_id(version: int) -> bool:
    """Whether requests of a version name topics by their ids."""
    return version >= _BY_ID_FROM


@cache
def _asked_numbers(version: int) -> tuple[struct.Struct, struct.Struct]:
    """Returns the numbers before the topics and those of a partition, without what only followers send."""
    replica = "4x" if version < 15 else ""
    more = ("i" if version >= 3 else "") + ("b" if version >= COMMITTED_FROM else "") + ("ii" if version >= 7 else "")
    epoch, last_epoch = "i" if version >= 9 else "", "4x" if version >= 12 else ""
    log_start = "8x" if version >= 5 else ""
    return struct.Struct(f">{replica}ii{more}"), struct.Struct(f">i{epoch}q{last_epoch}{log_start}i")


def encode_fetched(
    answers: Sequence[Fetched[P]],
    version: int,
    error: ErrorCode = ErrorCode.none,
    session_id: int = NO_SESSION,
    throttle_ms: int = 0,
) -> list[bytes | P]:
    """Returns the parts of the body: bytes, and between them the records unchanged.

    ``error``: that of the whole request. ``throttle_ms``: how long the client is not served, because it has exceeded
    its quota.
    """
    if not throttle_ms and len(answers) == 1 and version >= _BY_ID_FROM and not (error or answers[0].aborted):
        return _encode_one(answers[0], session_id)
    return _encode_all(answers, version, error, session_id, throttle_ms)


def _encode_one(answer: Fetched[P], session_id: int) -> list[bytes | P]:
    """Returns the parts with one partition without aborted transactions, by id; one struct packs the numbers."""
    assert isinstance(answer.topic, UUID)
    numbers = _ONE.pack(
        *(0, ErrorCode.none, session_id, 2, answer.topic.bytes, 2),  # lengths of arrays are one more than their items
        *(answer.partition, answer.error, answer.high_watermark, answer.last_stable_offset, answer.log_start_offset),
        *(0 if answer.aborted is None else 1, -1),
    )
    if answer.records is None:
        return [numbers + b"\1\0\0\0"]
    return [numbers + unsigned_varint(answer.size + 1), answer.records, b"\0\0\0"]


def _encode_all(
    answers: Sequence[Fetched[P]],
    version: int,
    error: ErrorCode,
    session_id: int = NO_SESSION,
    throttle_ms: int = 0,
) -> list[bytes | P]:
    writer = AnswerWriter(is_flexible=version >= _FLEXIBLE_FROM)
    by_topic = [
        (topic, list(group)) for topic, group in groupby(answers, lambda answer: answer.topic)
    ]  # in their order
    parts: list[bytes | P] = []
    if version >= 1:
        writer.pack(_THROTTLE, throttle_ms)
    if version >= _SESSIONS_FROM:
        writer.pack(_SESSION, error, session_id)
    writer.length(len(by_topic))
    for topic, partitions in by_topic:
        if isinstance(topic, UUID):
            writer.uuid(topic)
        else:
            writer.string(topic)
        writer.length(len(partitions))
        for answer in partitions:
            _write_partition(writer, answer, version)
            _write_records(writer, answer, parts)
            writer.tags()
        writer.tags()
    writer.tags()
    _end_part(writer, parts)
    return parts


def _write_partition(writer: AnswerWriter, answer: Fetched[P], version: int) -> None:
    if version < COMMITTED_FROM:
        writer.pack(_PARTITION_0, answer.partition, answer.error, answer.high_watermark)
        return
    fixed = answer.partition, answer.error, answer.high_watermark, answer.last_stable_offset
    if version >= 5:
        writer.pack(_PARTITION, *fixed, answer.log_start_offset)
    else:
        writer.pack(_PARTITION_4, *fixed)
    writer.length(-1 if answer.aborted is None else len(answer.aborted))
    for producer_id, first_offset in answer.aborted or ():
        writer.pack(_ABORTED, producer_id, first_offset)
        writer.tags()
    if version >= 11:
        writer.pack(_INT32, -1)  # no other replica to read from


def _write_records(writer: AnswerWriter, answer: Fetched[P], parts: list[bytes | P]) -> None:
    writer.length(answer.size)
    if answer.records is not None:
        _end_part(writer, parts)
        parts.append(answer.records)


def _end_part(writer: AnswerWriter, parts: list[bytes | P]) -> None:
    parts.append(bytes(writer.data))
    writer.data.clear()
