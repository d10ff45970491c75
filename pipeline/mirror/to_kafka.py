"""To Kafka: the committed records of logs, in their order, into a topic that nobody else writes to.

Brokers assign offsets themselves. A record keeps its offset only if every offset before it has a record that is sent:
no gap, and no offset below the log start. Transactions would add markers, so an idempotent producer writes instead, and
a mirror finds its position by counting: a committed offset of its group, in the log directory, says which offset in
Kafka belongs to which one here; any later record in Kafka was sent since. If a broker assigns another offset than the
next one, somebody else is writing, and the mirror fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

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
    bytes_in_batch,
    fetched_records,
    producer_batches,
)
from .broker import FETCH_BYTES, NO_EPOCH, Admin, Cluster, MirrorError, PartitionLeader
from .mirrored import Mirrored

BATCH_BYTES = 256 << 10  # of records in a batch; the topic's max.message.bytes and segment.bytes may allow less
_TIME_TYPE = "message.timestamp.type"


class Place(NamedTuple):
    """A pair of offsets: the record at ``source`` here, or the next existing one, is at ``target`` in Kafka."""

    source: int
    target: int


@dataclass(frozen=True)
class Sending:
    """The settings of a mirror's tasks."""

    cluster: Cluster
    directory: str
    topic: str
    target: str  # the topic's name in Kafka
    compression: Compression
    allow_data_loss: bool = False  # skip records that were deleted here before they were sent
    batch_bytes: int = BATCH_BYTES  # of records in a batch

    @property
    def group(self) -> str:
        """The group whose committed offsets, in the log directory, are the mirror's progress."""
        return f"mirror-to-{self.target}"


def send(sending: Sending, runner: Runner, *, configs: Mapping[str, str] | None = None) -> Iterator[Mirrored]:
    """Mirrors a topic into Kafka up to where its partitions end now for readers of committed records.

    A missing topic is created with the partitions and settings it has here, except that its timestamps are CreateTime,
    those of the records; ``configs`` override its settings. Raises MirrorError if the topic in Kafka has records that
    this mirror did not write.
    """
    with LogManager.open(sending.directory) as manager:
        topic = manager.topic(sending.topic)
        with Admin(sending.cluster) as admin:
            settings = {**LogConfig.of_kafka(topic.configs), _TIME_TYPE: "CreateTime", **(configs or {})}
            taking = _prepare(admin, sending, settings, topic)
        sending = replace(sending, batch_bytes=_batch_bytes(taking, sending.compression))
        offsets = GroupOffsets(manager)
        places = _places(offsets, sending, topic)
        for mirrored, place in runner("partitions", partial(send_partition, sending), places):
            if mirrored.error is None:
                _commit(offsets, sending, {mirrored.partition: place})
            yield mirrored


def _prepare(admin: Admin, sending: Sending, configs: Mapping[str, str], topic: TopicDescription) -> Mapping[str, str]:
    """Returns the settings of the topic in Kafka; creates it if it is missing."""
    found, count = admin.topic(sending.target), len(topic.partitions)
    if found is None:
        admin.create(sending.target, count, configs)
        return configs
    if found.partitions < count:
        raise MirrorError(f"topic {sending.target!r} in Kafka has {found.partitions} partitions; {count} are needed")
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


def _places(offsets: GroupOffsets, sending: Sending, topic: TopicDescription) -> list[tuple[int, Place]]:
    """Returns where to count from in each partition; commits the position of new ones before anything is sent."""
    committed = offsets.fetch(sending.group)
    found = {number: committed.get((topic.name, number)) for number in topic.partitions}
    known = {number: _decoded(offset) for number, offset in found.items() if offset is not None}
    begun = {number: _begin(offsets, sending, number) for number in topic.partitions if number not in known}
    _commit(offsets, sending, begun)
    return sorted({**known, **begun}.items())


def _begin(offsets: GroupOffsets, sending: Sending, partition: int) -> Place:
    with PartitionLeader(sending.cluster, sending.target, partition) as leader:
        earliest, latest = leader.bounds()
        if earliest < latest:
            raise MirrorError(
                f"{leader} has offsets {earliest} to {latest}, but group {sending.group!r} in {sending.directory} has "
                "no offset that says how many of them were mirrored: mirror into a new topic"
            )
    with offsets.manager.open_reader(sending.topic, partition) as reader:
        return Place(reader.log_start_offset, latest)


def _commit(offsets: GroupOffsets, sending: Sending, places: Mapping[int, Place]) -> None:
    committed = {
        (sending.topic, partition): CommittedOffset(place.source, json.dumps({"targetOffset": place.target}))
        for partition, place in places.items()
    }
    offsets.commit(sending.group, committed)


def _decoded(committed: CommittedOffset) -> Place:
    return Place(committed.offset, json.loads(committed.metadata)["targetOffset"])


def send_partition(sending: Sending, item: tuple[int, Place]) -> tuple[Mirrored, Place]:
    """Sends the records of one partition that Kafka lacks. Returns the new position, or the old one if that failed."""
    partition, place = item
    try:
        with (
            LogManager.open(sending.directory) as manager,
            manager.open_reader(sending.topic, partition) as reader,
            PartitionLeader(sending.cluster, sending.target, partition) as leader,
        ):
            first = leader.bounds()[1]
            reached = _send(reader, leader, _checked(place, first, reader, sending), first, sending)
            return Mirrored(sending.target, partition, first, reached.target), reached
    except LogStoreError as error:
        return Mirrored(sending.target, partition, error=str(error)), place


def _checked(place: Place, end: int, reader: LogReader, sending: Sending) -> Place:
    """Returns where counting begins. Raises MirrorError if the records in Kafka cannot be counted from there."""
    if end < place.target:
        raise MirrorError(
            f"topic {sending.target!r} ends at {end} in Kafka, but was mirrored up to {place.target}: mirror into "
            "another topic"
        )
    if place.source >= reader.log_start_offset:
        return place
    if not sending.allow_data_loss or end > place.target:
        raise MirrorError(
            f"offsets from {place.source} to {reader.log_start_offset} of topic {sending.topic!r} were deleted before "
            f"they were known to be sent; let retention keep what group {sending.group!r} has not read"
        )
    return Place(reader.log_start_offset, place.target)


def _send(reader: LogReader, leader: PartitionLeader, place: Place, end: int, sending: Sending) -> Place:
    """Sends records one batch at a time, each until it is acknowledged; ``end`` is the partition's end in Kafka."""
    source_end = reader.end_offset(Isolation.READ_COMMITTED)
    unsent = _behind(reader.records(place.source, source_end), end - place.target, leader, end)
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
    return Place(source_end, end + sent)


def _behind(pieces: Iterator[Records], count: int, leader: PartitionLeader, end: int) -> Iterator[Records]:
    """Yields the records after the first ``count`` ones, the last of which must be the one before ``end`` in Kafka."""
    left = count
    for records in pieces:
        passed = min(left, len(records))
        if passed and passed == left and _told(records.slice(passed - 1, passed)) != _last(leader, end):
            break
        left -= passed
        if passed < len(records):
            yield records.slice(passed, len(records))
    if left:
        raise MirrorError(
            f"{leader} does not end with record number {count} after this mirror's last commit: another producer "
            "writes there, or the log was compacted since; mirror into a new topic"
        )


def _last(leader: PartitionLeader, end: int) -> tuple[object, ...]:
    return _told(fetched_records(leader.fetch(end - 1, NO_EPOCH, FETCH_BYTES).batches).between(end - 1, end))


def _told(record: Records) -> tuple[object, ...]:
    """What identifies a record: its time, key and value."""
    assert record.keys is not None
    assert record.values is not None
    return record.timestamps.tolist(), record.keys.to_list(), record.values.to_list()
