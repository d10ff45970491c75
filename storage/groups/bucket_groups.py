"""BucketGroups: the group records of a coordinator on an object store: offsets, in commits of the log.

Commits have offsets with their metadata, and nothing else of a group. So members are known only to this object: after a
restart they join again. Times of commits are not kept either, so offsets do not expire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from ..bucket.clients.transactions import AddedOffsets, ClientTransactions
from ..bucket.commits.commit import GroupOffset, OffsetsChange
from ..bucket.commits.state import State
from ..bucket.commits.transactions import undecided_offsets
from ..config import INT64_MAX
from ..directory.manager import LogManager
from ..errors import LogStoreError, OffsetOutOfRangeError
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import OffsetCommitKey, OffsetCommitValue
from .coordinator_port import Changes, GroupChange, GroupFence, ReadFailures, TransactionalOffsets
from .offsets import GroupKey, GroupValue, keys_of

Offsets = dict[str, dict[str, GroupOffset | None]]  # by group and partition; None: deleted


class BucketGroups:
    """The records of groups in a log on an object store. It belongs to one thread."""

    def __init__(self, manager: LogManager, transactions: ClientTransactions) -> None:
        """Reads nothing yet. ``manager``: of a log on an object store; closed with :meth:`close`.

        ``transactions``: those of this process.
        """
        log = manager.bucket
        assert log is not None
        self._manager, self._log, self._transactions = manager, log, transactions
        self._others: dict[GroupKey, GroupValue] = {}  # the records that commits cannot hold: members
        self._is_looking = self._has_looked = False

    # Reading

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Within the block, all reads share one request to the store; nothing may be written there."""
        self._is_looking, self._has_looked = True, False
        try:
            yield
        finally:
            self._is_looking = False

    def _catch_up(self) -> None:
        if not (self._is_looking and self._has_looked):
            self._log.catch_up()
            self._has_looked = True

    def contents(
        self, failures: ReadFailures | None = None, *, partitions: Collection[int] | None = None
    ) -> dict[GroupKey, GroupValue]:
        """Returns the records of all groups. One request to the store; ``partitions`` makes no difference.

        Raises the error of the store, since it concerns all partitions.
        """
        self._catch_up()
        with self._log.reading() as state:
            found: dict[GroupKey, GroupValue] = dict(self._offsets(state.groups))
        return found | self._others

    def records(self, group: str) -> dict[GroupKey, GroupValue]:
        self._catch_up()
        found: dict[GroupKey, GroupValue] = dict(self._offsets_of(group).items())
        found |= {key: value for key, value in self._others.items() if key.group == group}
        return {key: found[key] for key in keys_of(group, found)}

    def offsets(self, group: str, wanted: Collection[TopicPartition]) -> dict[TopicPartition, OffsetCommitValue]:
        self._catch_up()
        found = self._offsets_of(group)
        keys = ((each, OffsetCommitKey(group, *each)) for each in wanted)
        return {each: found[key] for each, key in keys if key in found}

    def undecided(self, group: str) -> set[TopicPartition]:
        """Returns the partitions in which open transactions have offsets of a group. One request to the store."""
        self._catch_up()
        with self._log.reading() as state:
            return {_partition_of(name) for name in undecided_offsets(state, group)}

    def undecided_in(self, topics: Collection[str]) -> list[OffsetCommitKey]:
        """Returns nothing: a topic's deletion drops them from open transactions."""
        return []

    def _offsets_of(self, group: str) -> dict[OffsetCommitKey, OffsetCommitValue]:
        with self._log.reading() as state:
            return dict(self._offsets({group: state.groups.get(group, {})}))

    def _offsets(
        self, groups: Mapping[str, Mapping[str, GroupOffset]]
    ) -> Iterator[tuple[OffsetCommitKey, OffsetCommitValue]]:
        now_ms = self._manager.clock.now_ms()
        for group, partitions in groups.items():
            for name, each in partitions.items():
                key = OffsetCommitKey(group, *_partition_of(name))
                never_ms = INT64_MAX  # whatever the state of their group
                yield key, OffsetCommitValue(each.offset, each.metadata, now_ms, expire_timestamp=never_ms)

    # Writing

    def write(self, writes: Sequence[Changes]) -> list[LogStoreError | None]:
        """Writes changes, by one commit for all of them; returns the error of each item.

        Without changes of offsets there is no commit. A fence always fits: other coordinators know no members.
        """
        results: list[LogStoreError | None] = [_refusal(changes) for changes in writes]
        taken = [changes for changes, refusal in zip(writes, results, strict=True) if refusal is None]
        try:
            self._log.commit(lambda state: _proposed(state, taken))
        except LogStoreError as error:
            for item, changes in enumerate(writes):
                results[item] = results[item] or (error if _has_offsets(changes) else None)
        for changes, refusal in zip(writes, results, strict=True):
            if refusal is None:
                self._note(changes)
        return results

    def _note(self, changes: Changes) -> None:
        for change in changes:
            if isinstance(change, GroupFence) or isinstance(change.key, OffsetCommitKey):
                continue
            if change.only_if is None or self._others.get(change.key) == change.only_if:
                if change.value is None:
                    self._others.pop(change.key, None)
                else:
                    self._others[change.key] = change.value

    def write_transactional(self, writes: Sequence[TransactionalOffsets]) -> Sequence[Exception | None]:
        """Adds offsets to open transactions, by one commit for all; returns the error of each.

        Later writes win over them.
        """
        with ExitStack() as holding:  # the transaction must not change between the check and the write
            for producer in {each.producer.id for each in writes}:
                holding.enter_context(self._transactions.held(producer))
            results = [_refusal_of(each) for each in writes]
            allowed = [each for each, refusal in zip(writes, results, strict=True) if refusal is None]
            added: Sequence[Exception | None]
            try:
                added = self._transactions.add_offsets([_added(each) for each in allowed]) if allowed else []
            except (LogStoreError, OSError) as error:
                added = [error] * len(allowed)
        found = iter(added)
        return [next(found) if refusal is None else refusal for refusal in results]

    def close(self) -> None:
        self._manager.close()


def _partition_of(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _refusal(changes: Changes) -> LogStoreError | None:
    """Returns the error for offsets that no commit can have."""
    for change in changes:
        if isinstance(change, GroupChange) and isinstance(change.value, OffsetCommitValue) and change.value.offset < 0:
            return OffsetOutOfRangeError(f"group {change.key.group!r} cannot commit offset {change.value.offset}")
    return None


def _refusal_of(write: TransactionalOffsets) -> Exception | None:
    """Returns the error that prevents adding offsets to a transaction: that of its check, or of invalid offsets."""
    try:
        write.check()
    except Exception as error:
        return error
    return _refusal([GroupChange(OffsetCommitKey(write.group, *each), value) for each, value in write.offsets.items()])


def _added(write: TransactionalOffsets) -> AddedOffsets:
    kept = {str(each): GroupOffset(value.offset, value.metadata) for each, value in write.offsets.items()}
    return AddedOffsets(write.producer.id, write.group, kept)


def _has_offsets(changes: Changes) -> bool:
    return any(isinstance(change.key, OffsetCommitKey) for change in changes)


def _proposed(state: State, writes: Sequence[Changes]) -> OffsetsChange | None:
    """Proposes the offsets among changes; None if there are none, or none fits the state."""
    found: Offsets = {}
    for changes in writes:
        for change in changes:
            if isinstance(change, GroupChange) and isinstance(change.key, OffsetCommitKey):
                _add(found, state, change.key, change)
    return OffsetsChange(found) if found else None


def _add(found: Offsets, state: State, key: OffsetCommitKey, change: GroupChange) -> None:
    name = str(TopicPartition(key.topic, key.partition))
    now = found.get(key.group, {}).get(name, state.groups.get(key.group, {}).get(name))
    if change.only_if is not None and now != _kept(change.only_if):
        return
    if change.value is not None or now is not None or name in undecided_offsets(state, key.group):
        found.setdefault(key.group, {})[name] = _kept(change.value)


def _kept(value: GroupValue | None) -> GroupOffset | None:
    """Returns the part of a value that a commit keeps."""
    return GroupOffset(value.offset, value.metadata) if isinstance(value, OffsetCommitValue) else None
