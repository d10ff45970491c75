"""Records of ``__consumer_offsets`` and ``__transaction_state``.

Key and value each begin with a version of their own; a null value is a tombstone, which deletes the key. Each kind is a
dataclass with the names of Kafka's schema, and a table of its fields in the order of the bytes.

Malformed bytes raise InvalidRecordError with the position in the key or value; the caller knows the record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Self

import numpy as np

from ...filesystem.port import Buffer
from ..constants import INT32_MAX, NO_LEADER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from .message_schema import (
    INT16,
    INT32,
    INT64,
    Array,
    Bytes,
    Field,
    FieldDecoder,
    FieldEncoder,
    Schema,
    String,
    Struct,
    Uuid,
)

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"  # of Kafka 4's share coordinator
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"  # of a broker with tiered storage
CONSUMER = "consumer"  # the protocol type of groups that assign partitions
GROUP_METADATA = "GroupMetadataValue"  # the message that describes a group of the classic protocol

FROM_1, FROM_2, FROM_3, FROM_4 = (range(first, 100) for first in (1, 2, 3, 4))  # versions that have a field


def partition_for(name: str, partitions: int) -> int:
    """Returns the partition of an internal topic in which a group or a transactional id is stored."""
    return positive_hash(name) % partitions


def positive_hash(name: str) -> int:
    """Returns Java's hash of a string, without its sign (Kafka's ``Utils.abs``)."""
    signed = string_hash(name)
    return 0 if signed == -(2**31) else abs(signed)


def string_hash(name: str) -> int:
    """Returns Java's hash of a string, from -2^31 to 2^31 - 1. Clients choose names, of up to 32 KiB."""
    units = np.frombuffer(name.encode("utf-16-be", "surrogatepass"), ">u2")
    hashed = 0
    for first in range(0, len(units), len(_POWERS)):
        some = units[first : first + len(_POWERS)]
        added = (some * _POWERS[-len(some) :]).sum(dtype=np.uint32)
        hashed = (hashed * pow(31, len(some), 1 << 32) + int(added)) & 0xFFFFFFFF
    return hashed - 2**32 if hashed > INT32_MAX else hashed


_POWERS = np.cumprod(np.array([1, *[31] * 4095], np.uint32), dtype=np.uint32)[::-1]  # of 31, modulo 2^32, descending


# --- __consumer_offsets


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    """The key of a group's committed offset in a partition."""

    group: str
    topic: str
    partition: int

    def encode(self) -> bytes:
        return _OFFSET_COMMIT_KEY.encode(1, self)


@dataclass(frozen=True, slots=True)
class OffsetCommitValue:
    """A committed offset."""

    offset: int
    metadata: str
    commit_timestamp: int  # ms
    leader_epoch: int = NO_LEADER_EPOCH  # from version 3 on
    expire_timestamp: int = NO_TIMESTAMP  # ms, only in version 1
    topic_id: str | None = None  # only in version 4, which Kafka 4 writes for clients that know the id

    @classmethod
    def decode(cls, data: Buffer) -> Self:
        """Decodes versions 0 to 4. Raises InvalidRecordError."""
        value: Self = _OFFSET_COMMIT_VALUE.decode(data)
        return value

    def encode(self) -> bytes:
        """Encodes as Kafka does: version 1 if the offset has an expiry time, 4 if it has a topic id, else 3."""
        if self.expire_timestamp != NO_TIMESTAMP:
            return _OFFSET_COMMIT_VALUE.encode(1, self)
        return _OFFSET_COMMIT_VALUE.encode(3 if self.topic_id is None else 4, self)


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    """The key of a group."""

    group: str

    def encode(self) -> bytes:
        return _GROUP_METADATA_KEY.encode(2, self)


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """A member of a group; subscription and assignment are bytes of the clients' own protocol."""

    member_id: str
    client_id: str
    client_host: str
    session_timeout: int  # ms
    subscription: bytes
    assignment: bytes
    group_instance_id: str | None = None  # from version 3 on
    rebalance_timeout: int = -1  # ms, from version 1 on


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """The members of a group in one generation, and its protocol."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[MemberMetadata, ...]
    current_state_timestamp: int = NO_TIMESTAMP  # ms, from version 2 on

    @classmethod
    def decode(cls, data: Buffer) -> Self:
        """Decodes versions 0 to 4. Raises InvalidRecordError."""
        value: Self = _GROUP_METADATA_VALUE.decode(data)
        return value

    def encode(self) -> bytes:
        """Encodes as version 3."""
        return _GROUP_METADATA_VALUE.encode(3, self)


_OFFSET_COMMIT_KEY = Schema(
    Struct(
        OffsetCommitKey,
        (Field("group", String()), Field("topic", String()), Field("partition", INT32)),
    ),
    range(2),
)
_OFFSET_COMMIT_VALUE = Schema(
    Struct(
        OffsetCommitValue,
        (
            Field("offset", INT64),
            Field("leader_epoch", INT32, FROM_3),
            Field("metadata", String()),
            Field("commit_timestamp", INT64),
            Field("expire_timestamp", INT64, range(1, 2)),
            Field("topic_id", Uuid(), FROM_4, tag=0, default=None),
        ),
    ),
    range(5),
    flexible_from=4,
)
_GROUP_METADATA_KEY = Schema(Struct(GroupMetadataKey, (Field("group", String()),)), range(2, 3))
_MEMBER = Struct(
    MemberMetadata,
    (
        Field("member_id", String()),
        Field("group_instance_id", String(nullable=True), FROM_3),
        Field("client_id", String()),
        Field("client_host", String()),
        Field("rebalance_timeout", INT32, FROM_1),
        Field("session_timeout", INT32),
        Field("subscription", Bytes()),
        Field("assignment", Bytes()),
    ),
)
_GROUP_METADATA_VALUE = Schema(
    Struct(
        GroupMetadataValue,
        (
            Field("protocol_type", String()),
            Field("generation", INT32),
            Field("protocol", String(nullable=True)),
            Field("leader", String(nullable=True)),
            Field("current_state_timestamp", INT64, FROM_2),
            Field("members", Array(_MEMBER)),
        ),
    ),
    range(5),
    flexible_from=4,
)
_KEYS_OF_GROUPS = {0: _OFFSET_COMMIT_KEY, 1: _OFFSET_COMMIT_KEY, 2: _GROUP_METADATA_KEY}


def decode_group_key(data: Buffer) -> OffsetCommitKey | GroupMetadataKey | None:
    """Returns the decoded key of a record in ``__consumer_offsets``; None for the kinds of newer protocols."""
    schema = _KEYS_OF_GROUPS.get(FieldDecoder(data, flexible=False).fixed("h"))
    key: OffsetCommitKey | GroupMetadataKey | None = None if schema is None else schema.decode(data)
    return key


# --- __transaction_state


class TransactionState(IntEnum):
    """The state of a transactional id; the numbers are those in the file."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


class _State(NamedTuple):
    def read(self, reader: FieldDecoder, version: int) -> TransactionState:
        number = reader.fixed("b")
        try:
            return TransactionState(number)
        except ValueError:
            raise reader.bad(f"unknown transaction state {number}, the last known is {max(TransactionState)}") from None

    def write(self, writer: FieldEncoder, version: int, value: TransactionState) -> None:
        writer.fixed("b", value)


@dataclass(frozen=True, slots=True)
class TransactionLogKey:
    """The key of a transactional id."""

    transactional_id: str

    def encode(self) -> bytes:
        return _TRANSACTION_LOG_KEY.encode(0, self)


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """Partitions of one topic."""

    topic: str
    partition_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TransactionLogValue:
    """The state of a transactional id at its coordinator."""

    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_status: TransactionState
    transaction_partitions: tuple[TopicPartitions, ...] | None  # None in state EMPTY
    transaction_last_update_timestamp_ms: int
    transaction_start_timestamp_ms: int = NO_TIMESTAMP
    previous_producer_id: int = field(default=NO_PRODUCER_ID, kw_only=True)  # this and below: version 1
    next_producer_id: int = field(default=NO_PRODUCER_ID, kw_only=True)
    next_producer_epoch: int = field(default=-1, kw_only=True)
    client_transaction_version: int = field(default=0, kw_only=True)

    @classmethod
    def decode(cls, data: Buffer) -> Self:
        """Decodes versions 0 and 1. Raises InvalidRecordError."""
        value: Self = _TRANSACTION_LOG_VALUE.decode(data)
        return value

    def encode(self) -> bytes:
        """Encodes as version 0; omits the fields that only version 1 has."""
        return _TRANSACTION_LOG_VALUE.encode(0, self)

    @property
    def as_stored(self) -> TransactionLogValue:
        """What :meth:`encode` writes: the state without the fields that only version 1 has."""
        of_1 = self.previous_producer_id, self.next_producer_id, self.next_producer_epoch
        if of_1 == (NO_PRODUCER_ID, NO_PRODUCER_ID, -1) and not self.client_transaction_version:
            return self
        return self.decode(self.encode())


_TRANSACTION_LOG_KEY = Schema(Struct(TransactionLogKey, (Field("transactional_id", String()),)), range(1))
TOPIC_PARTITIONS = Struct(TopicPartitions, (Field("topic", String()), Field("partition_ids", Array(INT32))))
_TRANSACTION_LOG_VALUE = Schema(
    Struct(
        TransactionLogValue,
        (
            Field("producer_id", INT64),
            Field("previous_producer_id", INT64, FROM_1, tag=0, default=NO_PRODUCER_ID),
            Field("next_producer_id", INT64, FROM_1, tag=1, default=NO_PRODUCER_ID),
            Field("producer_epoch", INT16),
            Field("next_producer_epoch", INT16, FROM_1, tag=3, default=-1),
            Field("transaction_timeout_ms", INT32),
            Field("transaction_status", _State()),
            Field("transaction_partitions", Array(TOPIC_PARTITIONS, nullable=True)),
            Field("transaction_last_update_timestamp_ms", INT64),
            Field("transaction_start_timestamp_ms", INT64),
            Field("client_transaction_version", INT16, FROM_1, tag=2, default=0),
        ),
    ),
    range(2),
    flexible_from=1,
)


def decode_transaction_key(data: Buffer) -> TransactionLogKey | None:
    """Returns the decoded key of a record in ``__transaction_state``; None for an unknown kind."""
    if FieldDecoder(data, flexible=False).fixed("h") not in _TRANSACTION_LOG_KEY.versions:
        return None
    key: TransactionLogKey = _TRANSACTION_LOG_KEY.decode(data)
    return key
