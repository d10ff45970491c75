"""The type, state and members of groups, from the records of a broker's coordinators.

States are those that Kafka 4.3.1's coordinators compute from the same records (``ConsumerGroup``, ``ShareGroup``,
``StreamsGroup``). If a record of a group does not decode, the state of that group is ``Unknown``.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import InvalidRecordError
from ..format.files.file_names import TopicPartition
from ..format.internal.consumer_protocol import decode_assignment
from ..format.internal.group_records import GroupRecordKey, GroupRecordKind as Kind, decode_record
from ..format.internal.internal_topics import CONSUMER, GroupMetadataValue
from .offsets import CommittedOffset, GroupKey, GroupValue, offsets_of

CLASSIC = "Classic"
UNKNOWN = "Unknown"
NO_TOPOLOGY = -1  # of streams: no topology was validated
STABLE_MEMBER = 0  # a member with nothing to revoke or wait for

logger = logging.getLogger(__name__)


class GroupMember(NamedTuple):
    """A member according to the group's last records: a consumer that was killed may still be among them."""

    consumer_id: str
    instance_id: str | None
    host: str
    client_id: str
    partitions: tuple[TopicPartition, ...]  # assigned partitions; a topic with an unknown name is shown by its id
    epoch: int | None = None  # in the newer protocols
    target: tuple[TopicPartition, ...] = ()  # in the newer protocols: the target assignment
    is_classic: bool = False  # uses the classic protocol in a group of the consumer protocol


@dataclass(frozen=True)
class GroupDescription:
    """A group with its committed offsets and last members."""

    name: str
    protocol_type: str  # consumer; empty if no member ever joined the group, as with a streaming query
    protocol: str  # the assignment strategy
    members: tuple[GroupMember, ...]
    offsets: Mapping[TopicPartition, CommittedOffset]
    type: str = CLASSIC  # Classic, Consumer, Share, Streams
    computed_state: str | None = None  # in the newer protocols
    target_epoch: int | None = None  # in the newer protocols: of the members' target assignments

    @property
    def state(self) -> str:
        """The state in Kafka's terms; Unknown if the group's records cannot be decoded."""
        return self.computed_state or ("Stable" if self.members else "Empty")


def described_groups(
    contents: Mapping[GroupKey, GroupValue], topic_ids: Callable[[], Mapping[str, str]]
) -> list[GroupDescription]:
    """Returns the groups in ``contents``, sorted by name.

    ``topic_ids`` returns topic names by topic id; it is called only if a group of a newer protocol exists.
    """
    offsets, metadata = offsets_of(contents), dict[str, GroupMetadataValue]()
    records: dict[str, dict[GroupRecordKey, bytes]] = {}
    for key, value in contents.items():
        if isinstance(value, GroupMetadataValue):
            metadata[key.group] = value
        elif isinstance(key, GroupRecordKey) and isinstance(value, bytes):
            records.setdefault(key.group, {})[key] = value
    topics = {**topics_named(records.values()), **topic_ids()} if records else {}
    return [
        (None if name in metadata else newer_group(name, found, records.get(name, {}), topics))
        or classic_group(name, found, metadata.get(name))
        for name, found in sorted(offsets.items())
    ]


def classic_group(
    name: str, offsets: Mapping[TopicPartition, CommittedOffset], metadata: GroupMetadataValue | None
) -> GroupDescription:
    """Returns a group of the classic protocol; without ``metadata``, a group that only committed offsets."""
    if metadata is None:
        return GroupDescription(name, "", "", (), offsets)
    members = tuple(_classic_members(metadata))
    return GroupDescription(name, metadata.protocol_type, metadata.protocol or "", members, offsets)


def _classic_members(metadata: GroupMetadataValue) -> Iterator[GroupMember]:
    for each in metadata.members:
        partitions = tuple(_assigned_partitions(each.assignment)) if metadata.protocol_type == CONSUMER else ()
        yield GroupMember(each.member_id, each.group_instance_id, each.client_host, each.client_id, partitions)


def _assigned_partitions(assignment: bytes) -> Iterator[TopicPartition]:
    """Yields the assigned partitions; none if a client wrote the assignment in a format of its own."""
    with suppress(InvalidRecordError):
        for topic in decode_assignment(assignment).assigned_partitions:
            yield from (TopicPartition(topic.topic, partition) for partition in topic.partition_ids)


# The newer protocols


class _Protocol(NamedTuple):
    """The kinds of records that a group protocol uses; ``assignor`` is the broker's default."""

    type: str
    assignor: str
    group: Kind
    member: Kind
    target: Kind
    member_target: Kind
    member_current: Kind
    topology: Kind | None = None  # of streams


_PROTOCOLS = (
    _Protocol(
        *("Consumer", "uniform", Kind.CONSUMER_GROUP, Kind.CONSUMER_MEMBER),
        *(Kind.CONSUMER_TARGET, Kind.CONSUMER_MEMBER_TARGET, Kind.CONSUMER_MEMBER_CURRENT),
    ),
    _Protocol(
        *("Share", "simple", Kind.SHARE_GROUP, Kind.SHARE_MEMBER),
        *(Kind.SHARE_TARGET, Kind.SHARE_MEMBER_TARGET, Kind.SHARE_MEMBER_CURRENT),
    ),
    _Protocol(
        *("Streams", "sticky", Kind.STREAMS_GROUP, Kind.STREAMS_MEMBER),
        *(Kind.STREAMS_TARGET, Kind.STREAMS_MEMBER_TARGET, Kind.STREAMS_MEMBER_CURRENT, Kind.STREAMS_TOPOLOGY),
    ),
)
_TOPICS = {  # records that contain topic names with their ids, and the fields that do
    4: ("topics",),
    9: ("initializedTopics", "deletingTopics"),
    15: ("initializingTopics", "initializedTopics", "deletingTopics"),
}

Records = Mapping[GroupRecordKey, bytes]  # of one group


def newer_group(
    name: str, offsets: Mapping[TopicPartition, CommittedOffset], records: Records, topics: Mapping[str, str]
) -> GroupDescription | None:
    """Returns a group of one of the newer protocols; None if there are no ``records``. ``topics``: names by id."""
    protocol = next((each for each in _PROTOCOLS if GroupRecordKey(each.group, name) in records), None)
    if protocol is None:
        return GroupDescription(name, "", "", (), offsets, UNKNOWN, UNKNOWN) if records else None
    try:
        return _Newer(protocol, records, topics).described(name, offsets)
    except InvalidRecordError as error:
        logger.warning("group %r: its state is unknown, because one of its records does not decode: %s", name, error)
        return GroupDescription(name, protocol.type.lower(), "", (), offsets, protocol.type, UNKNOWN)


def topics_named(groups: Iterable[Records]) -> dict[str, str]:
    """Returns topic names by topic id, as far as records of ``groups`` contain both."""
    found: dict[str, str] = {}
    for key, data in (record for records in groups for record in records.items()):
        with suppress(InvalidRecordError):
            fields = decode_record(key.kind, data) if key.kind in _TOPICS else {}
            entries = (entry for name in _TOPICS.get(key.kind, ()) for entry in fields.get(name, ()))
            found.update((entry["topicId"], entry["topicName"]) for entry in entries)
    return found


class _Newer:
    """One group's decoded records."""

    def __init__(self, protocol: _Protocol, records: Records, topics: Mapping[str, str]) -> None:
        self._protocol = protocol
        self._topics = topics
        self._fields = {
            (key.kind, key.name): decode_record(key.kind, data)
            for key, data in records.items()
            if key.kind in protocol[2:]
        }

    def described(self, name: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> GroupDescription:
        ids = [member for kind, member in self._fields if kind == self._protocol.member]
        members = tuple(self._member(each) for each in sorted(filter(None, ids)))
        type_, state = self._protocol.type, self._state(members)
        return GroupDescription(
            name, type_.lower(), self._assignor(), members, offsets, type_, state, self._target_epoch()
        )

    def _member(self, member_id: str) -> GroupMember:
        about, current = self._of(self._protocol.member, member_id), self._of(self._protocol.member_current, member_id)
        target = self._of(self._protocol.member_target, member_id)
        return GroupMember(
            member_id,
            about.get("instanceId"),
            about["clientHost"],
            about["clientId"],
            self._partitions(current.get("assignedPartitions", ())),
            current.get("memberEpoch", 0),
            self._partitions(target.get("topicPartitions", ())),
            about.get("classicMemberMetadata") is not None,
        )

    def _of(self, kind: Kind, name: str | None) -> Mapping[str, Any]:
        return self._fields.get((kind, name), {})

    def _partitions(self, topics: Collection[Mapping[str, Any]]) -> tuple[TopicPartition, ...]:
        named = ((self._topics.get(each["topicId"], each["topicId"]), each["partitions"]) for each in topics)
        return tuple(sorted(TopicPartition(topic, number) for topic, numbers in named for number in numbers))

    def _assignor(self) -> str:
        """Returns the assignor that most members request, as Kafka does."""
        asked = Counter(
            fields["serverAssignor"]
            for (kind, _), fields in self._fields.items()
            if kind == Kind.CONSUMER_MEMBER and fields["serverAssignor"] is not None
        )
        return asked.most_common(1)[0][0] if asked else self._protocol.assignor

    def _state(self, members: Collection[GroupMember]) -> str:
        if not members:
            return "Empty"
        if self._protocol.type == "Share":
            return "Stable"
        group = self._of(self._protocol.group, None)
        if self._protocol.topology is not None:
            topology = self._of(self._protocol.topology, None)
            if topology.get("epoch") != group.get("validatedTopologyEpoch", NO_TOPOLOGY):
                return "NotReady"
        assigned = self._target_epoch()
        if group["epoch"] > assigned:
            return "Assigning"
        return "Stable" if all(self._is_reconciled(each, assigned) for each in members) else "Reconciling"

    def _target_epoch(self) -> int:
        """Returns the epoch of the group's target assignment; -1 before the first assignment."""
        return int(self._of(self._protocol.target, None).get("assignmentEpoch", -1))

    def _is_reconciled(self, member: GroupMember, assigned: int) -> bool:
        state = self._of(self._protocol.member_current, member.consumer_id).get("state", STABLE_MEMBER)
        return state == STABLE_MEMBER and member.epoch == assigned
