"""Records of the newer group protocols in ``__consumer_offsets``: consumer (KIP-848), share, streams.

A group consists of several records: one for the group itself and some for each member. Their kinds are the ``apiKey``
of Kafka's schemas (``format.messages``). Values are decoded only on request, so that a value written by
a later release hides only its group, and no committed offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from ...filesystem.port import Buffer
from .message_schema import FieldEncoder, String
from .messages import Messages

MESSAGES = Messages("groups")


class GroupRecordKind(IntEnum):
    """Kinds of records that this module reads; others are kept as they are."""

    CONSUMER_GROUP = 3
    CONSUMER_PARTITIONS = 4
    CONSUMER_MEMBER = 5
    CONSUMER_TARGET = 6
    CONSUMER_MEMBER_TARGET = 7
    CONSUMER_MEMBER_CURRENT = 8
    CONSUMER_REGEX = 16
    SHARE_MEMBER = 10
    SHARE_GROUP = 11
    SHARE_TARGET = 12
    SHARE_MEMBER_TARGET = 13
    SHARE_MEMBER_CURRENT = 14
    STREAMS_GROUP = 17
    STREAMS_MEMBER = 19
    STREAMS_TARGET = 20
    STREAMS_MEMBER_TARGET = 21
    STREAMS_MEMBER_CURRENT = 22
    STREAMS_TOPOLOGY = 23


# A coordinator that loads tombstones expects this order: a record is deleted before the record it depends on.
TOMBSTONE_ORDER = (8, 7, 5, 16, 6, 4, 3, 14, 13, 10, 12, 15, 9, 11, 22, 21, 19, 20, 23, 17)


class GroupRecordKey(NamedTuple):
    """The key of a record about a group of the newer protocols."""

    kind: int
    group: str
    name: str | None = None  # of a member, or a regular expression; None: the record is the group's own

    def encode(self) -> bytes:
        writer = FieldEncoder()
        writer.fixed("h", self.kind)
        for text in self[1:]:
            if text is not None:
                String().write(writer, 0, text)
        return bytes(writer.data)


def decode_record_key(data: Buffer) -> GroupRecordKey | None:
    """Returns the decoded key of a group's record.

    None for offsets, classic groups, and the kinds of later releases.
    """
    found = MESSAGES.key(data)
    if found is None or found[0] < GroupRecordKind.CONSUMER_GROUP:
        return None
    kind, message = found
    return GroupRecordKey(kind, *message.fields.values())


def decode_record(kind: int, data: Buffer) -> dict[str, Any]:
    """Returns the fields of a group record's value by Kafka's names. Raises InvalidRecordError if it is malformed."""
    return MESSAGES.value(kind, data).fields


def encode_record(kind: int, fields: Mapping[str, Any]) -> bytes:
    """Returns the bytes of a group record's value, in the newest version; ``fields`` by Kafka's names.

    A tagged field that is missing has its default.
    """
    return MESSAGES.encoded_value(kind, fields)
