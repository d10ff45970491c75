"""The records of internal topics, as coordinators read them: keys of every kind, and values of the kinds known."""

from __future__ import annotations

from ...errors import InvalidRecordError
from ...filesystem.port import Buffer
from .group_records import GroupRecordKey, decode_record, decode_record_key
from .internal_topics import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
    decode_group_key,
    decode_transaction_key,
)
from .message_schema import FieldDecoder

AnyGroupKey = OffsetCommitKey | GroupMetadataKey | GroupRecordKey

STATE_TOPICS = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
LATER_KINDS_MAX = 64  # kinds that a later release may have; larger numbers and negative ones are damage


class LaterKindError(InvalidRecordError):
    """A key of a kind that only later releases know: the record is sound, but for others."""


def read_group_key(data: Buffer) -> AnyGroupKey:
    """Returns the decoded key of a record in ``__consumer_offsets``. Raises LaterKindError, InvalidRecordError."""
    key = decode_group_key(data) or decode_record_key(data)
    if key is None:
        raise _unknown(data)
    return key


def read_transaction_key(data: Buffer) -> TransactionLogKey:
    """Returns the decoded key of a record in ``__transaction_state``. Raises LaterKindError, InvalidRecordError."""
    key = decode_transaction_key(data)
    if key is None:
        raise _unknown(data)
    return key


def _unknown(data: Buffer) -> InvalidRecordError:
    kind = FieldDecoder(data, flexible=False).fixed("h")
    if 0 <= kind <= LATER_KINDS_MAX:
        return LaterKindError(f"a key of kind {kind}, which only a later release of Kafka knows")
    return InvalidRecordError(f"there are no keys of kind {kind}")


def check_state_record(topic: str, data: Buffer, value: Buffer | None) -> None:
    """Raises the errors of :func:`read_group_key` or :func:`read_transaction_key`, for a key and its value.

    ``topic``: one of :data:`STATE_TOPICS`.
    """
    key = read_group_key(data) if topic == GROUP_METADATA_TOPIC else read_transaction_key(data)
    if value is None:
        return
    if isinstance(key, GroupRecordKey):
        decode_record(key.kind, value)
    elif isinstance(key, OffsetCommitKey):
        OffsetCommitValue.decode(value)
    elif isinstance(key, GroupMetadataKey):
        GroupMetadataValue.decode(value)
    else:
        TransactionLogValue.decode(value)
