"""Offsets: commits, fetches and deletes the offsets of groups.

Checks and error codes are those of Kafka 3.9.1 (``GroupCoordinator``, ``GroupMetadataManager``). Offsets are read from
``__consumer_offsets`` at each request, because other processes commit there too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from ...protocol.bodies import ErrorCode
from ...storage import (
    CONSUMER,
    GroupChange,
    GroupFence,
    GroupKey,
    GroupMetadataKey,
    GroupRecords,
    OffsetCommitKey,
    OffsetCommitValue,
    Producer,
    ReadFailures,
    TopicPartition,
    TransactionalOffsets,
)
from ..consumer_groups.group import ConsumerGroup
from ..consumer_groups.member import other_epoch
from ..consumer_groups.partitions import Part
from .expiry import expired_offsets, is_of_sink
from .group import Group, State
from .rebalancing import Groups, Rebalancing
from .store import Contents, deletions_of, offsets_among, stored_offset_code, tombstones_of

Codes = Mapping[TopicPartition, ErrorCode]
Fetched = Mapping[TopicPartition, OffsetCommitValue | ErrorCode | None]  # None: no offset was committed

WITH_MEMBER_EPOCHS = 9  # the first version of OffsetCommit for members of groups of Kafka 4

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Commit:
    """An OffsetCommit or TxnOffsetCommit. ``generation`` -1 and no member: from a client that is not in the group."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: Mapping[TopicPartition, OffsetCommitValue]
    version: int = WITH_MEMBER_EPOCHS  # of OffsetCommit


class Offsets:
    """Commits, fetches and deletes offsets."""

    def __init__(self, groups: Groups, rebalancing: Rebalancing) -> None:
        self._groups = groups
        self._rebalancing = rebalancing

    # Committing

    def commit(self, commit: Commit, done: Callable[[Codes], None]) -> None:
        """Commits offsets, and calls ``done`` with the code of each partition when they are durable, or refused."""
        newer = self._groups.consumers.get(commit.group)
        if newer is not None:
            self._commit_to(newer, commit, done)
            return
        group = self._groups.by_name.get(commit.group)
        error = self._check(commit, group, is_transactional=False)
        if not error and group is not None and group.state is State.COMPLETING_REBALANCE:
            error = ErrorCode.rebalance_in_progress
        if not error and group is not None and group.state is not State.EMPTY:
            self._rebalancing.expect(group, group.members[commit.member_id])
        if error is ErrorCode.illegal_generation and group is None:
            self._refuse_unknown(commit, done)
            return
        if error:
            done(dict.fromkeys(commit.offsets, error))
            return
        self._write(group, commit, done)

    def _commit_to(self, group: ConsumerGroup, commit: Commit, done: Callable[[Codes], None]) -> None:
        """Commits offsets of a group of Kafka 4."""
        error = self._groups.check(commit.group) or self._check_consumer(commit, group, is_transactional=False)
        if error:
            done(dict.fromkeys(commit.offsets, error))
        else:
            self._write(group, commit, done)

    def _check_consumer(self, commit: Commit, group: ConsumerGroup, *, is_transactional: bool) -> ErrorCode:
        """Returns the error code for a commit to a group of Kafka 4, by the commit's member, epoch and version.

        It is decided here; handlers only pass it on. Like ``ConsumerGroup.validateOffsetCommit`` of Kafka 4.3.1.
        """
        if commit.generation < 0 and not group.members:  # a client that is in no group
            return ErrorCode.none
        is_anonymous = commit.generation < 0 and not commit.member_id and commit.instance_id is None
        if is_transactional and is_anonymous:  # an old client, whose request names no member
            return ErrorCode.none
        member = group.members.get(commit.member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if not is_transactional and not member.is_classic and commit.version < WITH_MEMBER_EPOCHS:
            return ErrorCode.unsupported_version
        ids = self._groups.ids_of({each.topic for each in commit.offsets})
        parts = [Part(ids.get(each.topic, ""), each.partition) for each in commit.offsets]
        return ErrorCode.none if member.may_commit(commit.generation, parts) else other_epoch(member)

    def _write(self, group: Group | ConsumerGroup | None, commit: Commit, done: Callable[[Codes], None]) -> None:
        changes: list[GroupChange | GroupFence] = [
            GroupChange(OffsetCommitKey(commit.group, *each), value) for each, value in self._short(commit)
        ]
        if changes and isinstance(group, ConsumerGroup):  # no other coordinator has given its partitions to others
            changes[:0] = [GroupFence(key, group.stored[key]) for key in group.keys_of(commit.member_id)]

        def written(failure: Exception | None) -> None:
            done(self._codes(commit, ErrorCode.none if failure is None else stored_offset_code(failure)))

        if changes:
            self._groups.write_offsets(group, changes, written)
        else:
            written(None)

    def _refuse_unknown(self, commit: Commit, done: Callable[[Codes], None]) -> None:
        """Refuses a commit by a member if the group has no members: it only has offsets, or does not exist."""

        def answer(records: Collection[GroupKey]) -> None:
            error = ErrorCode.unknown_member_id if records else ErrorCode.illegal_generation
            done(dict.fromkeys(commit.offsets, error))

        self._groups.store.look(
            lambda store: store.records(commit.group),
            answer,
            lambda failure: done(dict.fromkeys(commit.offsets, stored_offset_code(failure))),
        )

    def commit_transactional(
        self, commit: Commit, producer: Producer, check: Callable[[], object], done: Callable[[Codes], None]
    ) -> None:
        """Commits offsets in the open transaction of ``producer``; they take effect when the transaction commits.

        ``check`` is called in the store's thread, under the lock of the partition of ``__consumer_offsets``; it raises
        RequestError if the transaction has ended or does not have that partition; then nothing is written.
        """
        group: Group | ConsumerGroup | None
        newer = self._groups.consumers.get(commit.group)
        if newer is None:
            group = classic = self._groups.by_name.get(commit.group)
            error = self._check(commit, classic, is_transactional=True)
        else:
            group = newer
            error = self._groups.check(commit.group) or self._check_consumer(commit, newer, is_transactional=True)
        if error:
            done(dict.fromkeys(commit.offsets, error))
            return
        offsets = dict(self._short(commit))
        if not offsets:
            done(self._codes(commit, ErrorCode.none))
            return
        fence = None if group is None else self._groups.fence(group)

        def written(failure: Exception | None) -> None:
            if group is not None and failure is not None:
                self._groups.note(group.name, failure)
            done(self._codes(commit, ErrorCode.none if failure is None else stored_offset_code(failure)))

        added = TransactionalOffsets(commit.group, offsets, producer, check, fence)
        self._groups.store.write_transactional(added, written)

    def _check(self, commit: Commit, group: Group | None, *, is_transactional: bool) -> ErrorCode:
        error = self._groups.check(commit.group, may_be_empty=not is_transactional)
        if error:
            return error
        if group is None or group.state is State.EMPTY:
            if commit.generation < 0:  # a client that is in no group
                return ErrorCode.none
            is_unknown = group is not None or is_transactional
            return ErrorCode.unknown_member_id if is_unknown else ErrorCode.illegal_generation
        if group.state is State.DEAD:
            return ErrorCode.coordinator_not_available
        if commit.generation >= 0 or commit.member_id or commit.instance_id is not None:
            error = group.check_member(commit.member_id, commit.instance_id)
            return error or (ErrorCode.none if commit.generation == group.generation else ErrorCode.illegal_generation)
        # Old transactional clients name no member.
        return ErrorCode.none if is_transactional else ErrorCode.unknown_member_id

    def _short(self, commit: Commit) -> list[tuple[TopicPartition, OffsetCommitValue]]:
        return [(each, value) for each, value in commit.offsets.items() if self._is_short(value)]

    def _is_short(self, value: OffsetCommitValue) -> bool:
        return len(value.metadata) <= self._groups.config.offset_metadata_max_bytes

    def _codes(self, commit: Commit, error: ErrorCode) -> Codes:
        """Returns the code of each partition; ``error`` is the code of those that passed the checks."""
        return {
            each: error if self._is_short(value) else ErrorCode.offset_metadata_too_large
            for each, value in commit.offsets.items()
        }

    # Fetching

    def fetch(
        self,
        name: str,
        wanted: Collection[TopicPartition] | None,
        done: Callable[[ErrorCode, Fetched], None],
        *,
        require_stable: bool = False,
        member: tuple[str | None, int] = (None, -1),
    ) -> None:
        """Calls ``done`` with the committed offsets of partitions; ``wanted`` None: all partitions with an offset.

        With ``require_stable``, a partition with offsets in an open transaction gets UNSTABLE_OFFSET_COMMIT.
        ``member``: id and epoch of a member of a group of Kafka 4 that asks.
        """
        error = self._groups.check(name, may_be_empty=True) or self._check_fetch(name, *member)
        if error:
            done(error, {})
            return

        def question(store: GroupRecords) -> Fetched:
            # Check first: if a transaction ends after this check, its offsets are read, or refused once more.
            unstable = store.undecided(name) if require_stable else set()
            if wanted is None:
                records = offsets_among(store.records(name))
                found: Fetched = {TopicPartition(key.topic, key.partition): value for key, value in records.items()}
            else:
                committed = store.offsets(name, wanted)
                found = {each: committed.get(each) for each in wanted}
            return {
                each: ErrorCode.unstable_offset_commit if each in unstable else value for each, value in found.items()
            }

        self._groups.store.look(
            question,
            lambda found: done(ErrorCode.none, found),
            lambda failure: done(stored_offset_code(failure), {}),
        )

    def _check_fetch(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        group = self._groups.consumers.get(name)
        if group is None or (member_id is None and epoch < 0):
            return ErrorCode.none
        member = group.members.get(member_id or "")
        if member is None:
            return ErrorCode.unknown_member_id
        return ErrorCode.none if member.epoch == epoch else other_epoch(member)

    # Deleting

    def delete(
        self, name: str, partitions: Collection[TopicPartition], done: Callable[[ErrorCode, Codes], None]
    ) -> None:
        """Deletes offsets of a group.

        Those of topics that its members are subscribed to, and those of sinks, are refused.
        """
        error = self._groups.check(name)
        if error:
            done(error, {})
            return
        self._groups.store.look(
            lambda store: (store.records(name), store.undecided(name)),
            lambda found: self._delete(name, *found, partitions, done),
            lambda failure: done(stored_offset_code(failure), {}),
        )

    def _delete(
        self,
        name: str,
        records: Contents,
        undecided: Collection[TopicPartition],
        partitions: Collection[TopicPartition],
        done: Callable[[ErrorCode, Codes], None],
    ) -> None:
        group = self._groups.find(name, records)
        newer = self._groups.find_consumers(name, records)
        is_used = group is not None and group.state is not State.EMPTY
        if (group is None and not records and not undecided) or (group is not None and group.state is State.DEAD):
            done(ErrorCode.group_id_not_found, {})
            return
        if group is not None and is_used and group.protocol_type != CONSUMER:
            done(ErrorCode.non_empty_group, {})
            return
        kept = {
            each
            for each in partitions
            if is_of_sink(OffsetCommitKey(name, *each))
            or (group is not None and is_used and group.is_subscribed(each.topic))
            or (newer is not None and newer.is_subscribed(each.topic))
        }
        codes = {each: ErrorCode.group_subscribed_to_topic if each in kept else ErrorCode.none for each in partitions}
        keys = (OffsetCommitKey(name, *each) for each in partitions if each not in kept)
        changes = [GroupChange(key, None, only_if=records[key]) for key in keys if key in records]
        is_last = len(changes) == len(offsets_among(records))
        deleted = {*partitions} - kept
        changes += deletions_of(name, records, {*undecided} & deleted)
        if group is not None and not is_used and is_last and {*undecided} <= deleted:
            changes.extend(self._forget(group, records))

        def written(failure: Exception | None) -> None:
            if failure is None:
                done(ErrorCode.none, codes)
            else:
                done(stored_offset_code(failure), {})

        if changes:
            self._groups.store.write(changes, written)
        else:
            done(ErrorCode.none, codes)

    def delete_topics(self, topics: Collection[str]) -> None:
        """Deletes the offsets of all groups in deleted topics, but no progress of a sink; later fetches see none."""

        def question(store: GroupRecords) -> list[Exception]:
            gone: dict[str, list[GroupChange]] = {}
            unread: ReadFailures = {}
            for key, value in offsets_among(store.contents(unread)).items():
                if key.topic in topics and not is_of_sink(key):
                    gone.setdefault(key.group, []).append(GroupChange(key, None, only_if=value))
            for key in store.undecided_in(topics):  # they would come back at the commit
                gone.setdefault(key.group, []).append(GroupChange(key, None))
            return [*unread.values(), *filter(None, store.write(list(gone.values())))]

        def done(failures: Collection[Exception]) -> None:
            for failure in failures:
                _log_failure("some groups", failure)

        self._groups.store.ask(question, done, partial(_log_failure, "all groups"))

    # Expiring

    def expire(self) -> None:
        """Deletes expired offsets, and empty groups without offsets."""

        own = self._groups.homes.own()

        def question(store: GroupRecords) -> tuple[Contents, bool]:
            failures: ReadFailures = {}
            return store.contents(failures, partitions=own), not failures

        self._groups.store.ask(question, lambda answer: self._expire(*answer), partial(_log_failure, "all groups"))

    def _expire(self, contents: Contents, is_all: bool) -> None:
        by_group: dict[str, dict[OffsetCommitKey, OffsetCommitValue]] = {
            name: {} for name in (*self._groups.by_name, *self._groups.consumers)
        }
        for key, value in offsets_among(contents).items():
            by_group.setdefault(key.group, {})[key] = value
        retention_ms = self._groups.config.offsets_retention_minutes * 60_000
        for name, offsets in by_group.items():
            if self._groups.check(name, may_be_empty=True):
                continue  # another node's
            group, newer = self._groups.by_name.get(name), self._groups.consumers.get(name)
            if group is not None and (group.state is State.DEAD or not (is_all or offsets)):
                continue  # perhaps it is in a partition that cannot be read
            unread = {key: each for key, each in offsets.items() if newer is None or not newer.is_subscribed(key.topic)}
            expired = expired_offsets(group, unread, self._groups.clock.now_ms(), retention_ms)
            changes = tombstones_of(expired)
            if group is not None and group.state is State.EMPTY and len(expired) == len(offsets):
                changes.extend(self._forget(group, contents))
            if newer is not None and is_all and not newer.members and len(expired) == len(offsets):
                changes.extend(self._forget_consumers(newer))
            if changes:
                logger.info("group %r: %d offsets have expired", name, len(expired))
                self._groups.store.write(changes, partial(_log_failure, f"group {name!r}"))

    def _forget_consumers(self, group: ConsumerGroup) -> list[GroupChange]:
        """Drops an empty group of Kafka 4; returns the tombstones of its records."""
        del self._groups.consumers[group.name]
        return tombstones_of(group.to_delete())

    def _forget(self, group: Group, contents: Contents) -> list[GroupChange]:
        """Marks a group as deleted; returns the tombstone of its record."""
        self._groups.forget(group)
        key = GroupMetadataKey(group.name)
        return [GroupChange(key, None, only_if=contents[key])] if key in contents else []


def _log_failure(which: str, failure: Exception | None) -> None:
    if failure is not None:
        logger.warning("offsets of %s were not deleted: %s", which, failure)
