"""The records of ``__remote_log_metadata``, in which brokers list the content of their tier (KIP-405).

A segment begins with one :class:`SegmentMetadata` in state COPY_SEGMENT_STARTED; each later state is one
:class:`SegmentUpdate`. A partition that is deleted has :class:`PartitionDeletion`. Records have no key and are never
compacted away. By the schemas of Kafka 4.3.1, which are those of 3.9.1 with one tagged field more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple, Self, TypeVar
from uuid import UUID

from ..errors import CorruptionError, InvalidRecordError
from ..filesystem.port import Buffer
from ..format.constants import INT32_MAX
from ..format.files import checkpoints
from ..format.internal.messages import Messages
from ..format.tables import Records

State = TypeVar("State", bound=IntEnum)

PARTITIONS = 50  # of the topic, by default: remote.log.metadata.topic.num.partitions

_MESSAGES = Messages("remote_log")
_SEGMENT_KIND, _UPDATE_KIND, _DELETION_KIND = range(3)  # Kafka's apiKey


class SegmentState(IntEnum):
    """The state of a segment's copy or deletion (Kafka's RemoteLogSegmentState)."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class DeletionState(IntEnum):
    """The state of a partition's deletion (Kafka's RemotePartitionDeleteState)."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


class TopicIdPartition(NamedTuple):
    """A partition with its topic's id, in the text form that Kafka prints: URL-safe base64 without padding."""

    topic: str
    topic_id: str
    partition: int

    def metadata_partition(self, partitions: int = PARTITIONS) -> int:
        """Returns the partition of ``__remote_log_metadata`` that has its records, among ``partitions``.

        As Kafka's RemoteLogMetadataTopicPartitioner: murmur2 over Java's ``Objects.hash`` of the id's halves and the
        number.
        """
        from ..kernels.murmur2 import murmur2  # noqa: PLC0415  loads numba, which reports on retention do without

        low, high = _halves(checkpoints.decode_id(self.topic_id))
        hashed = 1
        for each in (_java_hash(low), _java_hash(high), self.partition):
            hashed = (31 * hashed + each) & 0xFFFFFFFF
        return (murmur2(hashed.to_bytes(4)) & INT32_MAX) % partitions


def _halves(topic_id: UUID) -> tuple[int, int]:
    return topic_id.int & 2**64 - 1, topic_id.int >> 64


def _java_hash(long: int) -> int:
    return (long ^ long >> 32) & 0xFFFFFFFF


class SegmentEpoch(NamedTuple):
    """A leader epoch in a segment, and the first offset of it there."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class SegmentMetadata:
    """A segment in the tier."""

    partition: TopicIdPartition
    segment_id: str  # the id of this copy; a second copy of the same segment has another one
    start_offset: int
    end_offset: int  # the offset of its last record: the next segment begins after it
    broker_id: int
    max_timestamp_ms: int  # of its records
    event_timestamp_ms: int  # when it got into its state
    leader_epochs: tuple[SegmentEpoch, ...]  # ascending; the first one begins at the segment's start
    size: int  # bytes of the .log
    custom_metadata: bytes | None = None  # of the plugin that stores segments
    state: SegmentState = SegmentState.COPY_SEGMENT_STARTED
    is_txn_index_empty: bool = False  # from Kafka 4.0 on; False also if it is not known

    def updated(self, update: SegmentUpdate) -> Self:
        """Returns the segment after ``update``; custom metadata stays as it was if the update has none."""
        custom = self.custom_metadata if update.custom_metadata is None else update.custom_metadata
        return replace(
            self,
            state=update.state,
            event_timestamp_ms=update.event_timestamp_ms,
            broker_id=update.broker_id,
            custom_metadata=custom,
        )

    def encode(self) -> bytes:
        return _MESSAGES.encoded_frame(
            _SEGMENT_KIND,
            {
                "remoteLogSegmentId": _segment_id_fields(self.partition, self.segment_id),
                "startOffset": self.start_offset,
                "endOffset": self.end_offset,
                "brokerId": self.broker_id,
                "maxTimestampMs": self.max_timestamp_ms,
                "eventTimestampMs": self.event_timestamp_ms,
                "segmentLeaderEpochs": tuple(
                    {"leaderEpoch": each.epoch, "offset": each.start_offset} for each in self.leader_epochs
                ),
                "segmentSizeInBytes": self.size,
                "customMetadata": self.custom_metadata,
                "remoteLogSegmentState": self.state,
                "txnIndexEmpty": self.is_txn_index_empty,
            },
        )


@dataclass(frozen=True, slots=True)
class SegmentUpdate:
    """A new state of a segment."""

    partition: TopicIdPartition
    segment_id: str
    broker_id: int
    event_timestamp_ms: int
    state: SegmentState
    custom_metadata: bytes | None = None

    def encode(self) -> bytes:
        return _MESSAGES.encoded_frame(
            _UPDATE_KIND,
            {
                "remoteLogSegmentId": _segment_id_fields(self.partition, self.segment_id),
                "brokerId": self.broker_id,
                "eventTimestampMs": self.event_timestamp_ms,
                "customMetadata": self.custom_metadata,
                "remoteLogSegmentState": self.state,
            },
        )


@dataclass(frozen=True, slots=True)
class PartitionDeletion:
    """The deletion of a partition, with all its segments."""

    partition: TopicIdPartition
    broker_id: int
    event_timestamp_ms: int
    state: DeletionState

    def encode(self) -> bytes:
        return _MESSAGES.encoded_frame(
            _DELETION_KIND,
            {
                "topicIdPartition": _partition_fields(self.partition),
                "brokerId": self.broker_id,
                "eventTimestampMs": self.event_timestamp_ms,
                "remotePartitionDeleteState": self.state,
            },
        )


RemoteRecord = SegmentMetadata | SegmentUpdate | PartitionDeletion


def parse_remote_record(value: Buffer | None) -> RemoteRecord:
    """Returns the decoded value of a record.

    Raises InvalidRecordError for bytes that no known broker writes in this topic, which also end the reader of a
    broker.
    """
    message = _MESSAGES.framed(value or b"")
    if message.name not in _PARSERS:
        raise InvalidRecordError(f"{message.name} is not expected in this topic", position=0)
    return _PARSERS[message.name](message.fields)


def remote_records(directory: str, found: Records) -> list[RemoteRecord]:
    """Returns the decoded values of records that a partition in ``directory`` has.

    Raises CorruptionError, with the offset and the directory, for a record that no broker writes.
    """
    records = []
    for offset, value in zip(found.offsets.tolist(), found.values.to_list() if found.values else [], strict=True):
        try:
            records.append(parse_remote_record(value))
        except InvalidRecordError as error:
            raise CorruptionError(f"the record at offset {offset}: {error.reason}", path=directory) from error
    return records


def segments_of(records: Iterable[RemoteRecord], partition: TopicIdPartition) -> dict[str, SegmentMetadata]:
    """Returns a partition's segments by id, according to the records, in the order of their copies.

    Leaves out segments whose deletion is finished, and states of segments that no record has begun, which brokers
    refuse.
    """
    found: dict[str, SegmentMetadata] = {}
    for record in records:
        if record.partition != partition:
            continue
        if isinstance(record, SegmentMetadata):
            found[record.segment_id] = record
        elif isinstance(record, SegmentUpdate) and record.segment_id in found:
            found[record.segment_id] = found[record.segment_id].updated(record)
            if record.state is SegmentState.DELETE_SEGMENT_FINISHED:
                del found[record.segment_id]
    return found


def _segment(fields: Mapping[str, Any]) -> SegmentMetadata:
    return SegmentMetadata(
        *_segment_id(fields["remoteLogSegmentId"]),
        fields["startOffset"],
        fields["endOffset"],
        fields["brokerId"],
        fields["maxTimestampMs"],
        fields["eventTimestampMs"],
        tuple(SegmentEpoch(each["leaderEpoch"], each["offset"]) for each in fields["segmentLeaderEpochs"]),
        fields["segmentSizeInBytes"],
        fields["customMetadata"],
        _state(SegmentState, fields["remoteLogSegmentState"]),
        fields.get("txnIndexEmpty", False),
    )


def _update(fields: Mapping[str, Any]) -> SegmentUpdate:
    return SegmentUpdate(
        *_segment_id(fields["remoteLogSegmentId"]),
        fields["brokerId"],
        fields["eventTimestampMs"],
        _state(SegmentState, fields["remoteLogSegmentState"]),
        fields["customMetadata"],
    )


def _deletion(fields: Mapping[str, Any]) -> PartitionDeletion:
    return PartitionDeletion(
        _partition(fields["topicIdPartition"]),
        fields["brokerId"],
        fields["eventTimestampMs"],
        _state(DeletionState, fields["remotePartitionDeleteState"]),
    )


_PARSERS: Mapping[str, Callable[[Mapping[str, Any]], RemoteRecord]] = {
    "RemoteLogSegmentMetadataRecord": _segment,
    "RemoteLogSegmentMetadataUpdateRecord": _update,
    "RemotePartitionDeleteMetadataRecord": _deletion,
}


def _state(kind: type[State], number: int) -> State:
    try:
        return kind(number)
    except ValueError:
        raise InvalidRecordError(f"state {number} is unknown, the last known is {max(kind)}", position=0) from None


def _segment_id(entry: Mapping[str, Any]) -> tuple[TopicIdPartition, str]:
    return _partition(entry["topicIdPartition"]), entry["id"]


def _partition(entry: Mapping[str, Any]) -> TopicIdPartition:
    return TopicIdPartition(entry["name"], entry["id"], entry["partition"])


def _segment_id_fields(partition: TopicIdPartition, segment_id: str) -> dict[str, Any]:
    return {"topicIdPartition": _partition_fields(partition), "id": segment_id}


def _partition_fields(partition: TopicIdPartition) -> dict[str, Any]:
    return {"name": partition.topic, "id": partition.topic_id, "partition": partition.partition}
