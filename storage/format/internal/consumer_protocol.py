"""The consumers' own protocol (``ConsumerProtocol``): messages of the members of classic groups.

Subscriptions and assignments are opaque bytes to the broker. They are in JoinGroup and SyncGroup, and in the members of
a group's record. A version newer than the newest known one begins alike, and is read like that one, as by Kafka's
clients.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...filesystem.port import Buffer
from .internal_topics import TOPIC_PARTITIONS, TopicPartitions
from .message_schema import INT32, Array, Bytes, Field, FieldDecoder, Schema, String, Struct

NEWEST = 3  # of both messages
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Subscription:
    """``ConsumerProtocolSubscription``: the topics that a member asks for, and the partitions that it has."""

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartitions, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """``ConsumerProtocolAssignment``: the partitions assigned to a member."""

    assigned_partitions: tuple[TopicPartitions, ...] = ()
    user_data: bytes | None = None


_NEVER = 2**15  # a version
_ALL, _FROM_1, _FROM_2, _FROM_3 = (range(first, _NEVER) for first in range(4))
_TOPICS = Field("topics", Array(String()), _ALL)
_USER_DATA = Field("user_data", Bytes(nullable=True), _ALL)
_SUBSCRIPTION = Schema(
    Struct(
        Subscription,
        (
            _TOPICS,
            _USER_DATA,
            Field("owned_partitions", Array(TOPIC_PARTITIONS), _FROM_1),
            Field("generation_id", INT32, _FROM_2),
            Field("rack_id", String(nullable=True), _FROM_3),
        ),
    ),
    _ALL,
    flexible_from=_NEVER,
)
_TOPICS_ALONE = Schema(Struct(Subscription, (_TOPICS,)), _ALL, _NEVER)
_ASSIGNED = Field("assigned_partitions", Array(TOPIC_PARTITIONS), _ALL)
_ASSIGNMENT = Schema(Struct(Assignment, (_ASSIGNED, _USER_DATA)), _ALL, _NEVER)
_ASSIGNED_ALONE = Schema(Struct(Assignment, (_ASSIGNED,)), _ALL, _NEVER)


def decode_assignment(data: Buffer) -> Assignment:
    """Decodes the partitions in :attr:`MemberMetadata.assignment` of a group with protocol type ``consumer``.

    No bytes mean no partitions. Raises InvalidRecordError.
    """
    found: Assignment = _ASSIGNED_ALONE.decode(data) if len(data) else Assignment()
    return found


def decode_whole_assignment(data: Buffer) -> Assignment:
    """Like :func:`decode_assignment`, with the assignor's own data, which must be there."""
    found: Assignment = _ASSIGNMENT.decode(data) if len(data) else Assignment()
    return found


def encode_assignment(version: int, assignment: Assignment) -> bytes:
    """Returns the bytes of an assignment; a version newer than the newest known one is written as the latter."""
    return _ASSIGNMENT.encode(min(version, NEWEST), assignment)


def decode_subscription(data: Buffer) -> Subscription:
    """Decodes the topics in :attr:`MemberMetadata.subscription` of a group with protocol type ``consumer``.

    Raises InvalidRecordError.
    """
    found: Subscription = _TOPICS_ALONE.decode(data)
    return found


def decode_whole_subscription(data: Buffer) -> Subscription:
    """Like :func:`decode_subscription`, with all fields of the version, which must be there."""
    found: Subscription = _SUBSCRIPTION.decode(data)
    return found


def consumer_protocol_version(data: Buffer) -> int:
    """Returns the version of a subscription or an assignment. Raises InvalidRecordError for fewer than 2 bytes."""
    return FieldDecoder(data, flexible=False).fixed("h")
