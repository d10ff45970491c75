"""To Kafka: copies the committed records of logs, in their order, to topics that nobody else writes to.

Brokers assign the offsets. A record keeps its offset only if there is no gap before it, and the log begins at offset 0.
Transactions would put markers between the records, so the mirror uses an idempotent producer, and finds its position by
counting. Its group has a committed offset in the log directory, whose metadata has the corresponding offset in Kafka,
and the id of the topic here; all records after that one in Kafka were sent later, and their number says how many
records to skip here. If a broker assigns another offset than the next one, another producer is writing, and the mirror
fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from ...mirror.brokers.admin import Admin
from ...mirror.brokers.cluster import Cluster
from ...mirror.brokers.leader import FETCH_BYTES, PartitionLeader
from ...mirror.brokers.requests import NO_EPOCH
from ...mirror.errors import MirrorError
from ...storage import (
    BatchFields,
    CommittedOffset,
    Compression,
    GroupOffsets,
    Isolation,
    LogConfig,
    LogManager,
    LogReader,
    LogStoreError,
    Records,
    Runner,
    TopicDescription,
    TopicPartition,
    bytes_in_batch,
    fetched_records,
    producer_batches,
    topic_ids,
)
from .mirrored import Mirrored

BATCH_BYTES = 256 << 10  # bytes of records in a batch; the topic's max.message.bytes and segment.bytes may allow less
_TIME_TYPE = "message.timestamp.type"


class OffsetPair(NamedTuple):
    """A mirror's position: the next record to send is the first one from ``source`` on, and gets offset ``target``."""

    source: int
    target: int
    topic_id: str | None = None  # the id of the local topic to which the offset ``source`` belongs; None: not known


@dataclass(frozen=True)
class Sending:
    """The parameters of the tasks of a mirror to Kafka; sent to the workers."""

    cluster: Cluster
    directory: str
    topic: str
    target: str  # the topic's name in Kafka
    compression: Compression
    allow_data_loss: bool = False  # skip records that were deleted here before they were sent
    batch_bytes: int = BATCH_BYTES  # of records in a batch

    @property
    def group(self) -> str:
        """The name of the group whose committed offsets, in the log directory, are the mirror's progress."""
        return f"mirror-to-{self.target}"


def send(sending: Sending, runner: Runner, *, configs: Mapping[str, str] | None = None) -> Iterator[Mirrored]:
    """Copies a topic to Kafka, up to its current last stable offsets; yields the outcome of each partition.

    A topic that is missing in Kafka is created with the partitions and settings that it has here, except that
    message.timestamp.type is CreateTime, so that records keep their times; ``configs`` override the settings. Raises
    MirrorError if the topic in Kafka has records that this mirror did not write.
    """
    with LogManager.open(sending.directory) as manager:
        topic = manager.topic(sending.topic)
        with Admin(sending.cluster) as admin:
            settings = {**LogConfig.of_kafka(topic.configs), _TIME_TYPE: "CreateTime", **(configs or {})}
            taking = _prepare(admin, sending, settings, topic)
        sending = replace(sending, batch_bytes=_batch_bytes(taking, sending.compression))
        offsets = GroupOffsets(manager)
        positions = _positions(offsets, sending, topic)
        for mirrored, position in runner("partitions", partial(send_partition, sending), positions):
            if mirrored.error is None:
                _commit(offsets, sending, {mirrored.partition: position})
            yield mirrored


def _prepare(admin: Admin, sending: Sending, configs: Mapping[str, str], topic: TopicDescription) -> Mapping[str, str]:
    """Returns the settings of the target topic in Kafka, which is created if it is missing. Raises MirrorError."""
    found, count = admin.topic(sending.target), len(topic.partitions)
    if found is None:
        admin.create(sending.target, count, configs)
        return configs
    if found.partitions < count:
        raise MirrorError(
            f"topic {sending.target!r} in Kafka has {found.partitions} partitions; {count} are needed: add partitions "
            "to it, or mirror into another topic"
        )
    if found.configs.get(_TIME_TYPE) == "LogAppendTime":
        raise MirrorError(
            f"topic {sending.target!r} in Kafka has {_TIME_TYPE} = LogAppendTime, which would replace the times of "
            "records: set it to CreateTime, or mirror into another topic"
        )
    return found.configs


def _batch_bytes(configs: Mapping[str, str], compression: Compression) -> int:
    """Returns how many bytes of records fit into a batch that a topic with these settings accepts."""
    limits = {name: configs[name] for name in ("max.message.bytes", "segment.bytes") if name in configs}
    return min(BATCH_BYTES, bytes_in_batch(LogConfig.from_mapping(limits).batch_size_max, compression))


def _positions(offsets: GroupOffsets, sending: Sending, topic: TopicDescription) -> list[tuple[int, OffsetPair]]:
    """Returns the committed position of each partition; commits one for a partition without, before it is sent."""
    committed = offsets.fetch(sending.group)
    found = {each.partition: committed.get(each) for each in topic.topic_partitions}
    known = {number: _decoded(offset) for number, offset in found.items() if offset is not None}
    begun = {number: _begin(offsets, sending, number) for number in topic.partitions if number not in known}
    _commit(offsets, sending, begun)
    return sorted({**known, **begun}.items())


def _begin(offsets: GroupOffsets, sending: Sending, partition: int) -> OffsetPair:
    with PartitionLeader(sending.cluster, sending.target, partition) as leader:
        earliest, latest = leader.bounds()
        if earliest < latest:
            raise MirrorError(
                f"{leader} has offsets {earliest} to {latest}, but group {sending.group!r} in {sending.directory} has "
                "no offset that says how many of them were mirrored: mirror into a new topic"
            )
    with offsets.manager.open_reader(sending.topic, partition) as reader:
        return OffsetPair(reader.log_start_offset, latest, _topic_id(offsets.manager, sending, partition))


def _commit(offsets: GroupOffsets, sending: Sending, positions: Mapping[int, OffsetPair]) -> None:
    committed = {
        TopicPartition(sending.topic, partition): _encoded(position) for partition, position in positions.items()
    }
    offsets.commit(sending.group, committed)


def _encoded(position: OffsetPair) -> CommittedOffset:
    known = {} if position.topic_id is None else {"topicId": position.topic_id}
    return CommittedOffset(position.source, json.dumps({"targetOffset": position.target, **known}))


def _decoded(committed: CommittedOffset) -> OffsetPair:
    metadata = json.loads(committed.metadata)
    return OffsetPair(committed.offset, metadata["targetOffset"], metadata.get("topicId"))


def _topic_id(manager: LogManager, sending: Sending, partition: int) -> str | None:
    return topic_ids(manager, [TopicPartition(sending.topic, partition)]).get(sending.topic)


def send_partition(sending: Sending, item: tuple[int, OffsetPair]) -> tuple[Mirrored, OffsetPair]:
    """Sends the records of one partition that Kafka lacks. Returns the outcome, and the new position.

    After an error, the position is the old one.
    """
    partition, position = item
    try:
        with (
            LogManager.open(sending.directory) as manager,
            manager.open_reader(sending.topic, partition) as reader,
            PartitionLeader(sending.cluster, sending.target, partition) as leader,
        ):
            first, topic_id = leader.bounds()[1], _topic_id(manager, sending, partition)
            begun = _of_topic(position, topic_id, first, reader, sending)
            reached = _send(reader, leader, _checked(begun, first, reader, sending), first, sending)
            return Mirrored(sending.target, partition, first, reached.target), reached
    except LogStoreError as error:
        return Mirrored.failed(sending.target, partition, error), position


def _of_topic(position: OffsetPair, topic_id: str | None, end: int, reader: LogReader, sending: Sending) -> OffsetPair:
    """Returns the position in the topic with ``topic_id``; ``end`` is the partition's end in Kafka.

    Raises MirrorError if the position belongs to a topic that was deleted here, unless data loss is allowed and all
    records that were sent have been counted: then the records of the new topic follow them.
    """
    if topic_id is None or position.topic_id in (None, topic_id):
        return position._replace(topic_id=topic_id or position.topic_id)
    if not sending.allow_data_loss or end != position.target:
        way_out = "" if end != position.target else ", or use --allow-data-loss to send its records after those there"
        raise MirrorError(
            f"topic {sending.topic!r} was deleted and made again in {sending.directory}: it was mirrored with id "
            f"{position.topic_id}, and has id {topic_id}; mirror into another topic{way_out}"
        )
    return OffsetPair(reader.log_start_offset, position.target, topic_id)


def _checked(position: OffsetPair, end: int, reader: LogReader, sending: Sending) -> OffsetPair:
    """Returns the position from which to count records; ``end`` is the partition's end in Kafka.

    Raises MirrorError if Kafka's log ends below the position, or if records to count were deleted here.
    """
    if end < position.target:
        raise MirrorError(
            f"topic {sending.target!r} ends at {end} in Kafka, but was mirrored up to {position.target}: mirror into "
            "another topic"
        )
    if position.source >= reader.log_start_offset:
        return position
    if not sending.allow_data_loss or end > position.target:
        way_out = "to skip them, use --allow-data-loss" if end == position.target else "mirror into a new topic"
        raise MirrorError(
            f"offsets {position.source} to {reader.log_start_offset - 1} of topic {sending.topic!r} were deleted, and "
            f"group {sending.group!r} has no commit that says they were sent: {way_out}. To prevent this, run "
            f"commitlog retain with --keep-for-groups {sending.group}"
        )
    return position._replace(source=reader.log_start_offset)


def _send(reader: LogReader, leader: PartitionLeader, position: OffsetPair, end: int, sending: Sending) -> OffsetPair:
    """Sends the records after ``end``, the partition's end in Kafka, in batches, and returns the new position.

    Waits for the acknowledgement of each batch before it sends the next one.
    """
    source_end = reader.end_offset(Isolation.READ_COMMITTED)
    unsent = _after(reader.records(position.source, source_end), end - position.target, leader, end)
    producer_id, producer_epoch = leader.producer_id()
    sent = 0
    for records in unsent:
        fields = BatchFields(
            codec=sending.compression.codec,
            level=sending.compression.level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sent % 2**31,
        )
        for batch, count in producer_batches(records, fields, batch_bytes_max=sending.batch_bytes):
            offset = leader.produce(batch)
            if offset != end + sent:
                raise MirrorError(
                    f"{leader} assigned offset {offset} instead of {end + sent}: another producer writes there, or an "
                    "earlier run of this mirror wrote a moment ago; mirror into a new topic"
                )
            sent += count
    return position._replace(source=source_end, target=end + sent)


def _after(pieces: Iterator[Records], count: int, leader: PartitionLeader, end: int) -> Iterator[Records]:
    """Yields the records after the first ``count``, which Kafka has already.

    Raises MirrorError if the last of these is not equal to the record before ``end`` in Kafka.
    """
    to_pass = count
    for records in pieces:
        passed = min(to_pass, len(records))
        if passed and passed == to_pass and _identity(records.slice(passed - 1, passed)) != _last(leader, end):
            break
        to_pass -= passed
        if passed < len(records):
            yield records.slice(passed, len(records))
    if to_pass:
        raise MirrorError(
            f"{leader} does not end with the {count} records that this mirror wrote after its last commit: another "
            "producer writes there, or the log was compacted since; mirror into a new topic"
        )


def _last(leader: PartitionLeader, end: int) -> tuple[object, ...]:
    return _identity(fetched_records(leader.fetch(end - 1, NO_EPOCH, FETCH_BYTES).batches).between(end - 1, end))


def _identity(record: Records) -> tuple[object, ...]:
    """Returns time, key and value of a record, by which two records are compared."""
    assert record.keys is not None
    assert record.values is not None
    return record.timestamps.tolist(), record.keys.to_list(), record.values.to_list()
