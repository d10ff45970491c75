"""CoordinatedGroups: the group records of a coordinator in ``__consumer_offsets``.

Other processes write there too: queries commit their progress, commands reset offsets. So every read first reads the
records appended since the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ..directory.manager import INTERNAL_PARTITIONS, LogManager
from ..errors import GroupChangedError, LockHeldError, LogStoreError, StorageError
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import (
    GROUP_METADATA_TOPIC,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ..writing.log import Log
from .appending import SyncThreads, append_entries
from .coordinator_port import Changes, GroupChange, GroupFence, ReadFailures, TransactionalOffsets
from .offsets import GroupKey, GroupValue, group_logs, keyed_batches, keys_of


class CoordinatedGroups:
    """The records of groups in one log directory. It belongs to one thread, as its manager does."""

    def __init__(self, manager: LogManager, *, partitions: int = INTERNAL_PARTITIONS) -> None:
        """Reads nothing yet. ``partitions``: how many ``__consumer_offsets`` gets if it must be created."""
        self.manager = manager
        self._logs = group_logs(manager, partitions)
        self._sync_threads = SyncThreads()

    # Reading

    def contents(
        self, failures: ReadFailures | None = None, *, partitions: Collection[int] | None = None
    ) -> dict[GroupKey, GroupValue]:
        """Like :meth:`GroupOffsets.contents`; cuts off damaged, never synced records that a power cut left.

        ``failures`` gets the errors by partition. ``partitions``: the only ones to read; None: all.
        """
        found: dict[GroupKey, GroupValue] = {}
        here = self._logs.here()
        for partition in here if partitions is None else sorted(set(here).intersection(partitions)):
            try:
                found.update(self._logs.current_to_write(partition))
            except (LogStoreError, OSError) as error:
                if failures is None:
                    raise
                failures[partition] = error
        return found

    def records(self, group: str) -> dict[GroupKey, GroupValue]:
        """Returns the current records of a group, in the order in which they must be deleted.

        Records of open transactions are not included. Raises the errors of :meth:`offsets`.
        """
        values = self._logs.named_to_write(group)
        return {key: values[key] for key in keys_of(group, values)}

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Like :meth:`CoordinatorLogs.one_look`."""
        with self._logs.one_look():
            yield

    def offsets(self, group: str, wanted: Collection[TopicPartition]) -> dict[TopicPartition, OffsetCommitValue]:
        """Returns the offsets that a group has committed in the ``wanted`` partitions.

        Raises UnknownTopicOrPartitionError if the group's partition of ``__consumer_offsets`` is missing from the
        directory or cannot be determined, CorruptionError and InvalidRecordError if it is damaged, StorageError.
        """
        values = self._logs.values_to_write(group)
        found = ((each, values.get(OffsetCommitKey(group, *each))) for each in wanted)
        return {each: value for each, value in found if isinstance(value, OffsetCommitValue)}

    def undecided(self, group: str) -> set[TopicPartition]:
        """Returns the partitions in which open transactions committed offsets of a group.

        Raises the errors of :meth:`offsets`.
        """
        partition = self._logs.partition_of(group)
        if partition is None:
            return set()
        self._logs.seen_to_write(partition)
        keys = (key for key in self._undecided(partition) if key.group == group)
        return {TopicPartition(key.topic, key.partition) for key in keys}

    def undecided_in(self, topics: Collection[str]) -> list[OffsetCommitKey]:
        """Returns the offsets in topics that open transactions committed, as of the last :meth:`contents`."""
        return [key for each in self._logs.here() for key in self._undecided(each) if key.topic in topics]

    def _undecided(self, partition: int) -> list[OffsetCommitKey]:
        return [key for key in self._logs.latest(partition).undecided() if isinstance(key, OffsetCommitKey)]

    def partition_of(self, group: str) -> TopicPartition:
        """Like :meth:`GroupOffsets.partition_of`."""
        return self._logs.partition_to_write(group)

    def close(self) -> None:
        """Closes the manager."""
        self.manager.close()

    # Writing

    def write(self, writes: Sequence[Changes]) -> list[LogStoreError | None]:
        """Writes changes, each item those of one group; returns the error of each, None for one that is durable.

        The error is GroupChangedError if a fence does not fit.

        Changes in one partition of ``__consumer_offsets`` share a batch and a sync. If the batch is refused, each item
        gets one of its own. After a failure of the disk, an item may be written although its error says that it failed.
        """
        results: list[LogStoreError | None] = [None] * len(writes)
        logs: dict[int, Log] = {}
        by_partition = self._by_partition(writes, results)
        for partition, items in by_partition.items():
            try:
                logs[partition] = self.manager.open_log(GROUP_METADATA_TOPIC, partition)
            except LogStoreError as error:
                _fail(results, items, error)
            else:
                self._append(logs[partition], partition, items, writes, results)
        for partition, failure in zip(logs, self._sync_threads.sync(list(logs.values())), strict=True):
            if failure is not None:
                _fail(results, (item for item in by_partition[partition] if results[item] is None), failure)
        return results

    def _by_partition(self, writes: Sequence[Changes], results: list[LogStoreError | None]) -> dict[int, list[int]]:
        """Returns the items by the partition they belong to, without those whose partition is not known."""
        found: dict[int, list[int]] = {}
        for item, changes in enumerate(writes):
            try:
                if changes:
                    found.setdefault(self.partition_of(changes[0].key.group).partition, []).append(item)
            except LogStoreError as error:
                results[item] = error
        return dict(sorted(found.items()))

    def _append(
        self,
        log: Log,
        partition: int,
        items: Sequence[int],
        writes: Sequence[Changes],
        results: list[LogStoreError | None],
    ) -> None:
        """Appends items to one partition, as one batch if it is not refused; not synced."""
        try:
            self._append_batch(log, partition, [change for item in items for change in writes[item]])
        except LogStoreError as error:
            if len(items) == 1 or isinstance(error, (StorageError, LockHeldError)):
                _fail(results, items, error)
                return
            for item in items:
                self._append(log, partition, [item], writes, results)

    def _append_batch(self, log: Log, partition: int, changes: Changes) -> None:
        latest = self._logs.latest(partition)
        with log.exclusively():
            entries = _entries(changes, latest.catch_up(log))
            if entries:
                latest.wrote(entries, append_entries(log, entries, self.manager.clock.now_ms()))

    def write_transactional(self, writes: Sequence[TransactionalOffsets]) -> Sequence[Exception | None]:
        """Commits offsets in open transactions; returns the error of each, None for one that is durable.

        They count once the partition has the transaction's commit marker. Each is checked under the partition's lock.
        The error is that of the check, of :meth:`offsets` or :meth:`Log.append_transactional`, or GroupChangedError if
        the fence does not fit.
        """
        return [self._write_transactional(each) for each in writes]

    def _write_transactional(self, write: TransactionalOffsets) -> Exception | None:
        try:
            home = self.partition_of(write.group)
            log = self.manager.open_log(*home)
            entries = [
                (OffsetCommitKey(write.group, *each).encode(), value.encode()) for each, value in write.offsets.items()
            ]
            with log.exclusively():
                write.check()
                if write.fence is not None:
                    _check_fence(write.fence, self._logs.latest(home.partition).catch_up(log).get(write.fence.key))
                batches = keyed_batches(entries, self.manager.clock.now_ms(), log.context.config)
                log.append_transactional(batches, write.producer)
            log.sync_appended()
        except Exception as error:  # an error of the disk or a bug: the other partitions continue
            return error
        return None


def _entries(
    changes: Iterable[GroupChange | GroupFence], values: Mapping[GroupKey, GroupValue]
) -> list[tuple[bytes, bytes | None]]:
    """Returns keys and values of the records to write, given the current values and earlier changes."""
    newer: dict[GroupKey, GroupValue | None] = {}
    entries = []
    for change in changes:
        if isinstance(change, GroupFence):
            _check_fence(change, newer.get(change.key, values.get(change.key)))
            continue
        key, value, only_if = change
        if only_if is None or newer.get(key, values.get(key)) == only_if:
            newer[key] = value
            entries.append((key.encode(), None if value is None else _encoded(value)))
    return entries


def _check_fence(fence: GroupFence, found: GroupValue | None) -> None:
    """Raises GroupChangedError if a group is not as its coordinator stored it."""
    if found is None or found is fence.expected:
        return
    if isinstance(found, GroupMetadataValue) and isinstance(fence.expected, GroupMetadataValue):
        is_right = _state(found) == _state(fence.expected)
    else:
        is_right = found == fence.expected
    if not is_right:
        raise GroupChangedError(f"group {fence.key.group!r}: another coordinator has stored the group")


def _state(value: GroupMetadataValue) -> tuple[object, ...]:
    """Returns a value that changes whenever a group is stored, without the metadata of members, which may be large."""
    members = [each.member_id for each in value.members]
    return value.generation, value.protocol, value.leader, value.current_state_timestamp, members


def _encoded(value: GroupValue) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _fail(results: list[LogStoreError | None], items: Iterable[int], error: LogStoreError) -> None:
    for item in items:
        results[item] = error
