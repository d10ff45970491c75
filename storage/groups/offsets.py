"""GroupOffsets: reads and commits the offsets of groups, in ``__consumer_offsets``.

A commit is a record: its key consists of group, topic and partition, and the newest value counts. The name of a group
determines the partition of ``__consumer_offsets`` that holds it. A value is visible once it is appended and synced or,
within a transaction, once the transaction is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..config import LogConfig
from ..directory.manager import INTERNAL_PARTITIONS, LogManager
from ..directory.topics_file import TopicDescription
from ..errors import InvalidRecordError, LogStoreError
from ..format.files.file_names import TopicPartition
from ..format.internal.group_records import TOMBSTONE_ORDER, GroupRecordKey
from ..format.internal.internal_topics import (
    GROUP_METADATA_TOPIC,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ..format.internal.state_records import AnyGroupKey, read_group_key
from ..format.tables import Records
from ..format.v2 import LAYOUT, BatchFields, EncodedBatches, encode_batches
from .coordinator_logs import CoordinatorLogs

if TYPE_CHECKING:
    from ..bucket.commit_log import CommitLog
    from ..bucket.commits.commit import GroupOffset, OffsetsChange
    from ..bucket.commits.state import State

GroupKey = AnyGroupKey
GroupValue = OffsetCommitValue | GroupMetadataValue | bytes  # bytes: values of the newer protocols, undecoded


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's progress in a partition."""

    offset: int  # the next offset to read
    metadata: str = ""
    commit_timestamp: int = field(default=-1, compare=False)  # ms, time of the commit; -1: now, or unknown
    topic_id: str | None = field(default=None, compare=False)  # of the topic, if the consumer knew it (Kafka 4)


class GroupOffsets:
    """The committed offsets in one log directory.

    The manager caches values, so that each call reads only newer records.
    """

    def __init__(self, manager: LogManager, *, partitions: int = INTERNAL_PARTITIONS) -> None:
        """``partitions``: how many ``__consumer_offsets`` gets if a commit creates it."""
        self.manager = manager
        self._logs = group_logs(manager, partitions)

    def fetch(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Returns the group's latest commits, by topic and partition; empty for a group without commits.

        Reads records written to the group's partition of ``__consumer_offsets`` since the last call. Raises
        UnknownTopicOrPartitionError if that partition is missing from the directory or cannot be determined.
        """
        return offsets_of(self._logs.values(group)).get(group, {})

    def fetch_to_commit(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Like :meth:`fetch`, for a caller that commits: repairs the log after a power cut, as a writer does.

        See :meth:`CoordinatorLogs.values_to_write`.
        """
        if self.manager.bucket is not None:
            return self.fetch(group)
        return offsets_of(self._logs.values_to_write(group)).get(group, {})

    def groups(self) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """Returns the committed offsets of all groups that have offsets or members, sorted by name.

        Covers only the partitions in the directory; see :meth:`missing`.
        """
        return dict(sorted(offsets_of(self.contents()).items()))

    def contents(self, failures: list[LogStoreError] | None = None) -> dict[GroupKey, GroupValue]:
        """Returns all current keys and values of ``__consumer_offsets``, from the partitions in the directory.

        They are in no order. Raises LogStoreError if a partition cannot be read; with ``failures``, adds the error to
        that list instead and reads the other partitions.
        """
        found: dict[GroupKey, GroupValue] = {}
        for values in self._logs.each(failures):
            found.update(values)
        return found

    def unreadable(self, partitions: Iterable[int] | None = None) -> list[InvalidRecordError]:
        """Like :meth:`CoordinatorLogs.unreadable`, after :meth:`contents`, or after :meth:`read`."""
        return self._logs.unreadable(partitions)

    def read(self, partition: int) -> None:
        """Reads a partition of ``__consumer_offsets``, for :meth:`unreadable`."""
        self._logs.latest(partition).catch_up()

    def check_here(self, group: str) -> None:
        """Raises UnknownTopicOrPartitionError if the group's partition is missing from the directory or unknown."""
        self._logs.partition_of(group)

    def describe_partitions(self, count: int) -> TopicDescription:
        """Like :meth:`CoordinatorLogs.describe`, for ``__consumer_offsets``."""
        return self._logs.describe(count)

    def missing(self) -> str | None:
        """Returns a sentence about missing partitions of ``__consumer_offsets``; None if the directory has all."""
        return self._logs.missing()

    def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commits offsets of a group in one batch, so that all become visible or none; durable on return.

        Raises the errors of :meth:`partition_of`.
        """
        if self.manager.bucket is not None:
            self._change(self.manager.bucket, {group: {key: kept_offset(each) for key, each in offsets.items()}})
        elif offsets:
            log = self.manager.open_log(*self.partition_of(group))
            log.append_encoded(commit_batches({group: offsets}, self.manager.clock.now_ms(), log.context.config))

    def delete(self, group: str, offsets: Collection[TopicPartition] | None = None) -> bool:
        """Deletes a group, with its offsets and members, by tombstones; durable on return.

        Returns False if the group has no records. With ``offsets``, deletes only the commits for those partitions.
        Raises the errors of :meth:`fetch`.
        """
        keys = [key for key in keys_of(group, self._logs.values(group)) if _is_among(key, offsets)]
        if self.manager.bucket is not None:
            self._delete_on_store(self.manager.bucket, group, offsets)
        elif keys:
            log = self.manager.open_log(*self.partition_of(group))
            entries = [(key.encode(), None) for key in keys]
            log.append_encoded(keyed_batches(entries, self.manager.clock.now_ms(), log.context.config))
        return bool(keys)

    def _delete_on_store(self, log: CommitLog, group: str, offsets: Collection[TopicPartition] | None) -> None:
        """Deletes offsets, also those in open transactions, which were written before this deletion."""
        from ..bucket.commits.commit import OffsetsChange  # noqa: PLC0415  a directory needs none of it
        from ..bucket.commits.transactions import undecided_offsets  # noqa: PLC0415

        def propose(state: State) -> OffsetsChange | None:
            there = state.groups.get(group, {}).keys() | undecided_offsets(state, group)
            gone = there if offsets is None else there & set(map(str, offsets))
            return OffsetsChange({group: dict.fromkeys(gone)}) if gone else None

        log.commit(propose)

    def _change(self, log: CommitLog, changes: Mapping[str, Mapping[TopicPartition, GroupOffset | None]]) -> None:
        """Commits offsets on an object store; None deletes one."""
        from ..bucket.commits.commit import OffsetsChange  # noqa: PLC0415  a directory needs none of it

        named = {group: {str(key): each for key, each in offsets.items()} for group, offsets in changes.items()}
        if any(named.values()):
            log.commit(lambda _: OffsetsChange(named))

    def partition_of(self, group: str) -> TopicPartition:
        """Returns the partition of ``__consumer_offsets`` that holds a group; creates the topic if it is missing.

        Raises UnknownTopicOrPartitionError if that partition is missing from the directory or cannot be determined.
        """
        return self._logs.partition_to_write(group)


def kept_offset(committed: CommittedOffset) -> GroupOffset:
    """Returns an offset as a log on an object store keeps it: without the time of the commit."""
    from ..bucket.commits.commit import GroupOffset  # noqa: PLC0415  a directory needs none of it

    return GroupOffset(committed.offset, committed.metadata)


def group_logs(manager: LogManager, partitions: int) -> CoordinatorLogs[GroupKey, GroupValue]:
    """Returns the records of ``__consumer_offsets``, which gets ``partitions`` if it must be created."""
    return CoordinatorLogs(
        manager,
        GROUP_METADATA_TOPIC,
        decode_key=read_group_key,
        decode_value=_decode_value,
        name_of=lambda key: key.group,
        partitions=partitions,
    )


def _is_among(key: GroupKey, offsets: Collection[TopicPartition] | None) -> bool:
    if offsets is None:
        return True
    return isinstance(key, OffsetCommitKey) and (key.topic, key.partition) in offsets


def _decode_value(key: GroupKey, data: bytes) -> GroupValue:
    if isinstance(key, OffsetCommitKey):
        return OffsetCommitValue.decode(data)
    return GroupMetadataValue.decode(data) if isinstance(key, GroupMetadataKey) else data


def keys_of(group: str, keys: Iterable[GroupKey]) -> list[GroupKey]:
    """Returns the keys of a group, in the order in which they must be deleted."""
    return sorted((key for key in keys if key.group == group), key=_tombstone_rank)


def _tombstone_rank(key: GroupKey) -> int:
    return TOMBSTONE_ORDER.index(key.kind) if isinstance(key, GroupRecordKey) else -1


def offsets_of(values: Mapping[GroupKey, GroupValue]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """Returns the committed offsets of every group with a record in ``values``, by group and partition."""
    found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for key, value in values.items():
        offsets = found.setdefault(key.group, {})
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            committed = CommittedOffset(value.offset, value.metadata, value.commit_timestamp, value.topic_id)
            offsets[TopicPartition(key.topic, key.partition)] = committed
    return found


def commit_batches(
    offsets: Mapping[str, Mapping[TopicPartition, CommittedOffset]], now_ms: int, config: LogConfig
) -> EncodedBatches:
    """Returns the encoded records that commit the offsets of groups, with ``now_ms`` as time of the commits."""
    entries = [
        (OffsetCommitKey(group, *partition).encode(), _commit_value(each, now_ms).encode())
        for group, committed in offsets.items()
        for partition, each in committed.items()
    ]
    return keyed_batches(entries, now_ms, config)


def _commit_value(committed: CommittedOffset, now_ms: int) -> OffsetCommitValue:
    return OffsetCommitValue(committed.offset, committed.metadata, now_ms, topic_id=committed.topic_id)


def keyed_batches(entries: Iterable[tuple[bytes, bytes | None]], now_ms: int, config: LogConfig) -> EncodedBatches:
    """Returns encoded (key, value) records for an internal topic; a value of None is a tombstone.

    They are in one batch if ``max.message.bytes`` permits.
    """
    keys, values = map(list, zip(*entries, strict=True))
    records = Records.to_append(keys, values, now_ms)
    batch_bytes_max = config.batch_size_max - LAYOUT.itemsize
    return encode_batches(records, BatchFields(), batch_bytes_max=batch_bytes_max)
