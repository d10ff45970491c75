"""Committed offsets of groups, in ``__consumer_offsets`` (spec 14.2).

A commit is a record: its key names group, topic and partition, and the newest value counts. Which partition of
``__consumer_offsets`` holds a group follows from its name. A value is visible once it was appended and synced, or,
where it was written within a transaction, once that is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.format.internal import (
    GROUP_METADATA_TOPIC,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_key,
    partition_for,
)
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.format.v2 import LAYOUT, BatchFields, EncodedBatches, encode_batches
from pyspark_commitlog.storage.latest import LatestByKey
from pyspark_commitlog.storage.manager import LogManager, TopicPartition

GroupKey = OffsetCommitKey | GroupMetadataKey
GroupValue = OffsetCommitValue | GroupMetadataValue


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """How far a group got in a partition."""

    offset: int  # the next one to read
    metadata: str = ""
    commit_timestamp: int = field(default=-1, compare=False)  # ms, when it was committed; -1: now, or not known


class GroupOffsets:
    """Committed offsets below one log directory. What was read once is kept with the manager, and only added to."""

    def __init__(self, manager: LogManager) -> None:
        self.manager = manager

    def fetch(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """What the group committed last, by topic and partition; empty for a group that never did.

        Costs what was committed to the group's partition of ``__consumer_offsets`` since the last look.
        """
        return _offsets_of(self._values(group)).get(group, {})

    def groups(self) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """All groups that have committed offsets, or members, by name, with their offsets."""
        found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        for partition in range(self.manager.internal_partitions(GROUP_METADATA_TOPIC)):
            found |= _offsets_of(self._latest(partition).catch_up())
        return dict(sorted(found.items()))

    def metadata(self) -> dict[str, GroupMetadataValue]:
        """What a broker's coordinator wrote last of groups that have had members, by name."""
        found: dict[str, GroupMetadataValue] = {}
        for partition in range(self.manager.internal_partitions(GROUP_METADATA_TOPIC)):
            values = self._latest(partition).catch_up()
            found |= {key.group: value for key, value in values.items() if isinstance(value, GroupMetadataValue)}
        return found

    def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets in one batch, so that all of them are visible or none; durable when it returns."""
        if offsets:
            log = self.manager.open_log(*self.partition_of(group))
            log.append_encoded(commit_batches({group: offsets}, self.manager.clock.now_ms(), log.context.config))

    def delete(self, group: str, offsets: Collection[TopicPartition] | None = None) -> bool:
        """Forget a group: its offsets, and what is known of its members; durable. False where there was nothing.

        With ``offsets``, only what it committed for those partitions.
        """
        keys = [key for key in self._values(group) if key.group == group and _is_among(key, offsets)]
        if keys:
            log = self.manager.open_log(*self.partition_of(group))
            entries = [(key.encode(), None) for key in keys]
            log.append_encoded(keyed_batches(entries, self.manager.clock.now_ms(), log.context.config))
        return bool(keys)

    def partition_of(self, group: str) -> TopicPartition:
        """The partition of ``__consumer_offsets`` that holds a group; the topic is made where it is missing."""
        partitions = self.manager.internal_partitions(GROUP_METADATA_TOPIC, create=True)
        return GROUP_METADATA_TOPIC, partition_for(group, partitions)

    def _values(self, group: str) -> Mapping[GroupKey, GroupValue]:
        partitions = self.manager.internal_partitions(GROUP_METADATA_TOPIC)
        return self._latest(partition_for(group, partitions)).catch_up() if partitions else {}

    def _latest(self, partition: int) -> LatestByKey[GroupKey, GroupValue]:
        place = (GROUP_METADATA_TOPIC, partition)
        return self.manager.kept(
            place,
            lambda: LatestByKey(self.manager, *place, decode_key=decode_group_key, decode_value=_decode_value),
        )


def _is_among(key: GroupKey, offsets: Collection[TopicPartition] | None) -> bool:
    if offsets is None:
        return True
    return isinstance(key, OffsetCommitKey) and (key.topic, key.partition) in offsets


def _decode_value(key: GroupKey, data: bytes) -> GroupValue:
    return OffsetCommitValue.decode(data) if isinstance(key, OffsetCommitKey) else GroupMetadataValue.decode(data)


def _offsets_of(values: Mapping[GroupKey, GroupValue]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for key, value in values.items():
        offsets = found.setdefault(key.group, {})
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            committed = CommittedOffset(value.offset, value.metadata, value.commit_timestamp)
            offsets[key.topic, key.partition] = committed
    return found


def commit_batches(
    offsets: Mapping[str, Mapping[TopicPartition, CommittedOffset]], now_ms: int, config: LogConfig
) -> EncodedBatches:
    """The records that commit the offsets of groups, by group."""
    entries = [
        (OffsetCommitKey(group, *place).encode(), OffsetCommitValue(each.offset, each.metadata, now_ms).encode())
        for group, places in offsets.items()
        for place, each in places.items()
    ]
    return keyed_batches(entries, now_ms, config)


def keyed_batches(entries: Iterable[tuple[bytes, bytes | None]], now_ms: int, config: LogConfig) -> EncodedBatches:
    """Records of an internal topic: keys, and values or tombstones; in one batch, if that may be so large."""
    keys, values = map(list, zip(*entries, strict=True))
    records = Records.to_append(keys, values, now_ms)
    batch_bytes_max = config.batch_size_max - LAYOUT.itemsize
    return encode_batches(records, BatchFields(), batch_bytes_max=batch_bytes_max)
