"""Committed offsets of groups, in ``__consumer_offsets``.

A commit is a record: its key consists of group, topic and partition, and the newest value counts. The name of a group
determines its partition of ``__consumer_offsets``. A value is visible once it is appended and synced or, within a
transaction, once that is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ..config import LogConfig
from ..directory import LogManager, TopicDescription, TopicPartition
from ..errors import LogStoreError
from ..format.internal.group_records import TOMBSTONE_ORDER, GroupRecordKey, decode_record_key
from ..format.internal.internal_topics import (
    GROUP_METADATA_TOPIC,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_key,
)
from ..format.tables import Records
from ..format.v2 import LAYOUT, BatchFields, EncodedBatches, encode_batches
from .coordinator_logs import CoordinatorLogs

GroupKey = OffsetCommitKey | GroupMetadataKey | GroupRecordKey
GroupValue = OffsetCommitValue | GroupMetadataValue | bytes  # bytes: values of the newer protocols, undecoded

# Offsets committed for a topic of this name, plus the topic's own, are the progress of a writer to that topic.
SINK_PREFIX = "__sink."


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's progress in a partition."""

    offset: int  # the next offset to read
    metadata: str = ""
    commit_timestamp: int = field(default=-1, compare=False)  # ms, time of the commit; -1: now, or unknown
    topic_id: str | None = field(default=None, compare=False)  # of the topic, if the consumer knew it (Kafka 4)


class GroupOffsets:
    """Committed offsets in one log directory. The manager caches what was read; only newer records are read."""

    def __init__(self, manager: LogManager) -> None:
        self.manager = manager
        self._logs: CoordinatorLogs[GroupKey, GroupValue] = CoordinatorLogs(
            manager,
            GROUP_METADATA_TOPIC,
            decode_key=_decode_key,
            decode_value=_decode_value,
            name_of=lambda key: key.group,
        )

    def fetch(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """The group's latest commits, by topic and partition; empty for a group without any.

        Costs reading what was committed to the group's partition of ``__consumer_offsets`` since the last call. Raises
        UnknownTopicOrPartitionError if that partition is missing from the directory or cannot be determined.
        """
        return offsets_of(self._logs.values(group)).get(group, {})

    def groups(self) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """All groups with committed offsets or members, by name, with their offsets.

        Covers only the partitions in the directory; see :meth:`missing`.
        """
        return dict(sorted(offsets_of(self.contents()).items()))

    def contents(self, failures: list[LogStoreError] | None = None) -> dict[GroupKey, GroupValue]:
        """Everything known about groups, from the partitions in the directory, in no order.

        An unreadable partition raises; with ``failures``, its error is added there and the other partitions are read.
        """
        found: dict[GroupKey, GroupValue] = {}
        for values in self._logs.each(failures):
            found.update(values)
        return found

    def check_here(self, group: str) -> None:
        """Raise UnknownTopicOrPartitionError if the group's partition is not here or cannot be determined."""
        self._logs.partition_of(group)

    def describe_partitions(self, count: int) -> TopicDescription:
        """:meth:`CoordinatorLogs.describe` for ``__consumer_offsets``."""
        return self._logs.describe(count)

    def missing(self) -> str | None:
        """A sentence about partitions of ``__consumer_offsets`` missing from the directory; None if all exist."""
        return self._logs.missing()

    def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets in one batch, so that all become visible or none; durable on return.

        Raises as :meth:`partition_of`.
        """
        if offsets:
            log = self.manager.open_log(*self.partition_of(group))
            log.append_encoded(commit_batches({group: offsets}, self.manager.clock.now_ms(), log.context.config))

    def delete(self, group: str, offsets: Collection[TopicPartition] | None = None) -> bool:
        """Forget a group, with its offsets and members; durable. Returns False if there was nothing to forget.

        With ``offsets``, forgets only its commits for those partitions. Raises as :meth:`fetch`.
        """
        keys = [key for key in self._logs.values(group) if key.group == group and _is_among(key, offsets)]
        if keys:
            log = self.manager.open_log(*self.partition_of(group))
            entries = [(key.encode(), None) for key in sorted(keys, key=_tombstone_rank)]
            log.append_encoded(keyed_batches(entries, self.manager.clock.now_ms(), log.context.config))
        return bool(keys)

    def partition_of(self, group: str) -> TopicPartition:
        """The partition of ``__consumer_offsets`` that holds a group; creates the topic if it is missing.

        Raises UnknownTopicOrPartitionError if that partition is missing from the directory or cannot be determined.
        """
        partition = self._logs.partition_of(group, create=True)
        assert partition is not None  # the topic exists now
        return GROUP_METADATA_TOPIC, partition


def _is_among(key: GroupKey, offsets: Collection[TopicPartition] | None) -> bool:
    if offsets is None:
        return True
    return isinstance(key, OffsetCommitKey) and (key.topic, key.partition) in offsets


def _decode_key(data: bytes) -> GroupKey | None:
    return decode_group_key(data) or decode_record_key(data)


def _decode_value(key: GroupKey, data: bytes) -> GroupValue:
    if isinstance(key, OffsetCommitKey):
        return OffsetCommitValue.decode(data)
    return GroupMetadataValue.decode(data) if isinstance(key, GroupMetadataKey) else data


def _tombstone_rank(key: GroupKey) -> int:
    return TOMBSTONE_ORDER.index(key.kind) if isinstance(key, GroupRecordKey) else -1


def offsets_of(values: Mapping[GroupKey, GroupValue]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """Committed offsets by group, for every group that has any record."""
    found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for key, value in values.items():
        offsets = found.setdefault(key.group, {})
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            committed = CommittedOffset(value.offset, value.metadata, value.commit_timestamp, value.topic_id)
            offsets[key.topic, key.partition] = committed
    return found


def commit_batches(
    offsets: Mapping[str, Mapping[TopicPartition, CommittedOffset]], now_ms: int, config: LogConfig
) -> EncodedBatches:
    """The records that commit offsets of groups."""
    entries = [
        (OffsetCommitKey(group, *partition).encode(), _commit_value(each, now_ms).encode())
        for group, committed in offsets.items()
        for partition, each in committed.items()
    ]
    return keyed_batches(entries, now_ms, config)


def _commit_value(committed: CommittedOffset, now_ms: int) -> OffsetCommitValue:
    return OffsetCommitValue(committed.offset, committed.metadata, now_ms, topic_id=committed.topic_id)


def keyed_batches(entries: Iterable[tuple[bytes, bytes | None]], now_ms: int, config: LogConfig) -> EncodedBatches:
    """Records of an internal topic, with values or tombstones; in one batch if the size limit permits."""
    keys, values = map(list, zip(*entries, strict=True))
    records = Records.to_append(keys, values, now_ms)
    batch_bytes_max = config.batch_size_max - LAYOUT.itemsize
    return encode_batches(records, BatchFields(), batch_bytes_max=batch_bytes_max)
