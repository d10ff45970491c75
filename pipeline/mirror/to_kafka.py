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


class OffsetPair(NamedTuple):
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
        positions = _positions(offsets, sending, topic)
        for mirrored, position in runner("partitions", partial(send_partition, sending), positions):
            if mirrored.error is None:
                _commit(offsets, sending, {mirrored.partition: position})
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


def _positions(offsets: GroupOffsets, sending: Sending, topic: TopicDescription) -> list[tuple[int, OffsetPair]]:
    """Returns where to count from in each partition; commits the position of new ones before anything is sent."""
    committed = offsets.fetch(sending.group)
    found = {number: committed.get((topic.name, number)) for number in topic.partitions}
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
        return OffsetPair(reader.log_start_offset, latest)


def _commit(offsets: GroupOffsets, sending: Sending, positions: Mapping[int, OffsetPair]) -> None:
    committed = {
        (sending.topic, partition): CommittedOffset(position.source, json.dumps({"targetOffset": position.target}))
        for partition, position in positions.items()
    }
    offsets.commit(sending.group, committed)


def _decoded(committed: CommittedOffset) -> OffsetPair:
    return OffsetPair(committed.offset, json.loads(committed.metadata)["targetOffset"])


def send_partition(sending: Sending, item: tuple[int, OffsetPair]) -> tuple[Mirrored, OffsetPair]:
    """Sends the records of one partition that Kafka lacks. Returns the new position, or the old one if that failed."""
    partition, position = item
    try:
        with (
            LogManager.open(sending.directory) as manager,
            manager.open_reader(sending.topic, partition) as reader,
            PartitionLeader(sending.cluster, sending.target, partition) as leader,
        ):
            first = leader.bounds()[1]
            reached = _send(reader, leader, _checked(position, first, reader, sending), first, sending)
            return Mirrored(sending.target, partition, first, reached.target), reached
    except LogStoreError as error:
        return Mirrored(sending.target, partition, error=str(error)), position


def _checked(position: OffsetPair, end: int, reader: LogReader, sending: Sending) -> OffsetPair:
    """Returns where counting begins. Raises MirrorError if the records in Kafka cannot be counted from there."""
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
            f"jobs/retain.py with --keep-for-groups {sending.group}"
        )
    return OffsetPair(reader.log_start_offset, position.target)


def _send(reader: LogReader, leader: PartitionLeader, position: OffsetPair, end: int, sending: Sending) -> OffsetPair:
    """Sends records one batch at a time, each until it is acknowledged; ``end`` is the partition's end in Kafka."""
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
    return OffsetPair(source_end, end + sent)


def _after(pieces: Iterator[Records], count: int, leader: PartitionLeader, end: int) -> Iterator[Records]:
    """Yields the records after the first ``count`` ones, the last of which must be the one before ``end`` in Kafka."""
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
            f"{leader} does not end with record number {count} after this mirror's last commit: another producer "
            "writes there, or the log was compacted since; mirror into a new topic"
        )


def _last(leader: PartitionLeader, end: int) -> tuple[object, ...]:
    return _identity(fetched_records(leader.fetch(end - 1, NO_EPOCH, FETCH_BYTES).batches).between(end - 1, end))


def _identity(record: Records) -> tuple[object, ...]:
    """What identifies a record: its time, key and value."""
    assert record.keys is not None
    assert record.values is not None
    return record.timestamps.tolist(), record.keys.to_list(), record.values.to_list()
