"""Rebalancing: the steps from a member that joins or leaves to the next generation, with their timers.

The rules are those of Kafka 3.9.1 (``GroupCoordinator``, ``DelayedJoin``, ``InitialDelayedJoin``, ``DelayedSync``,
``DelayedHeartbeat``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ...protocol.bodies import ErrorCode
from ...storage import (
    Clock,
    GroupChange,
    GroupChangedError,
    GroupFence,
    GroupKey,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupsInUse,
)
from ..cluster.homes import Homes
from ..config import GatewayConfig
from ..consumer_groups.group import ConsumerGroup
from ..consumer_groups.partitions import Catalog
from ..threads.disk import Home
from ..threads.worker import Timer
from .group import Group, State
from .member import JoinResult, Member, SyncResult
from .reservations import Reservations
from .store import GroupStore, Written, run_later, stored_group_code

NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000  # the timeout of a member's first JoinGroup, which it may abandon and retry

logger = logging.getLogger(__name__)


@dataclass
class Groups:
    """The state that the parts of the coordinator share. It belongs to the coordinator's thread."""

    config: GatewayConfig
    clock: Clock
    home: Home
    store: GroupStore
    homes: Homes = field(default_factory=Homes)
    by_name: dict[str, Group] = field(default_factory=dict)  # with members or a generation, not only offsets
    consumers: dict[str, ConsumerGroup] = field(default_factory=dict)  # groups of Kafka 4, which are not in ``by_name``
    loaded: set[int] = field(default_factory=set)  # partitions whose groups are in ``by_name``
    unreadable: set[int] = field(default_factory=set)  # partitions that could not be read twice in a row
    reading: set[str] = field(default_factory=set)  # groups that must be read again, after a write failed
    catalog: Callable[[], Catalog] = dict  # the topics that groups of Kafka 4 can read
    is_stopped: bool = False
    on_changed: Callable[[], None] = lambda: None  # called when a partition must be loaded again
    in_use: GroupsInUse | None = None  # keeps commands away from groups with members; None: there are no commands

    def ids_of(self, names: Collection[str]) -> dict[str, str]:
        """Returns the ids of topics by their names, of those that have one."""
        topics = self.catalog()
        return {name: topics[name].id for name in names if name in topics}

    def check(self, group: str, *, may_be_empty: bool = False) -> ErrorCode:
        """Returns the error if this node cannot answer for a group now, else ``ErrorCode.none``.

        ``may_be_empty``: allows the empty name, which may have offsets but no members.
        """
        if not group and not may_be_empty:
            return ErrorCode.invalid_group_id
        if self.is_stopped:
            return ErrorCode.coordinator_not_available
        home = self.homes.home_of(group)
        if not self.homes.leads(home):
            return ErrorCode.not_coordinator
        is_known = home in self.loaded and group not in self.reading
        return ErrorCode.none if is_known else ErrorCode.coordinator_load_in_progress

    def check_all(self) -> ErrorCode:
        """Returns the error if this node cannot answer for all of its groups now, else ``ErrorCode.none``.

        Groups that may stay unreadable do not count: clients would ask for the others in vain, for ever.
        """
        if self.is_stopped:
            return ErrorCode.coordinator_not_available
        is_loading = self.homes.own() - self.loaded - self.unreadable
        return ErrorCode.coordinator_load_in_progress if is_loading else ErrorCode.none

    def write_record(self, group: Group, value: GroupMetadataValue, done: Written) -> None:
        """Stores a group; if another coordinator has stored it since it was read, the error is GroupChangedError."""
        fence, before = self.fence(group), group.expected
        group.expected = value  # the next record to be written follows it

        def written(failure: Exception | None) -> None:
            if failure is not None and group.expected is value:
                group.expected = before
            self.note(group.name, failure)
            done(failure)

        self.store.write([fence, GroupChange(GroupMetadataKey(group.name), value)], written)

    def write_offsets(
        self, group: Group | ConsumerGroup | None, changes: Sequence[GroupChange | GroupFence], done: Written
    ) -> None:
        """Like :meth:`write_record`, for other records of a group; ``group``: None if it never had members."""
        if group is None:
            self.store.write(changes, done)
            return

        def written(failure: Exception | None) -> None:
            self.note(group.name, failure)
            done(failure)

        self.store.write([self.fence(group), *changes], written)

    def fence(self, group: Group | ConsumerGroup) -> GroupFence:
        """Returns the condition for a write: that no other coordinator has stored the group since it was read."""
        if isinstance(group, ConsumerGroup):
            return GroupFence(group.key, group.stored.get(group.key))
        return GroupFence(GroupMetadataKey(group.name), group.expected)

    def note(self, name: str, failure: Exception | None) -> None:
        """If a write failed with GroupChangedError, reads all groups of that partition again."""
        if isinstance(failure, GroupChangedError):
            logger.warning("%s; its members must find the coordinator again", failure)
            self.loaded.discard(self.homes.home_of(name))
            self.on_changed()

    def find(self, name: str, records: Collection[GroupKey]) -> Group | None:
        """Returns a group that has or had members. Forgets it if ``records`` show that another process deleted it."""
        group = self.by_name.get(name)
        if group is None or group.state is not State.EMPTY or group.expected is None:
            return group
        if GroupMetadataKey(name) in records:
            return group
        logger.info("group %r was deleted by another process", name)
        self.forget(group)
        return None

    def find_consumers(self, name: str, records: Collection[GroupKey]) -> ConsumerGroup | None:
        """Like :meth:`find`, for a group of Kafka 4."""
        group = self.consumers.get(name)
        if group is None or group.members or group.key in records:
            return group
        logger.info("group %r was deleted by another process", name)
        del self.consumers[name]
        return None

    def hold(self, group: Group | ConsumerGroup) -> bool:
        """Marks a group that gets members as in use, so commands cannot change it; False while one is changing it."""
        group.is_held = group.is_held or self.in_use is None or self.in_use.take(group.name)
        return group.is_held

    def let_go(self, group: Group | ConsumerGroup) -> None:
        """Lets commands change a group that no longer has members."""
        if group.is_held and self.in_use is not None:
            self.in_use.give(group.name)
        group.is_held = False

    def forget(self, group: Group) -> None:
        """Drops a group that was deleted, or that another node now coordinates."""
        group.enter(State.DEAD)
        self.let_go(group)
        for member_id in list(group.pending):
            group.drop_pending(member_id)
        del self.by_name[group.name]

    def forget_unused(self, group: Group) -> None:
        """Drops a group that nobody ever joined: a refused JoinGroup leaves nothing, nor does an id without a member.

        Otherwise a name of up to 32 KiB from a client would stay.
        """
        if group.is_unused and self.by_name.get(group.name) is group:
            self.forget(group)


class Rebalancing:
    """The steps of a rebalance."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self.reservations = Reservations(groups.home, self.drop_pending)

    def _later(self, delay_ms: float, task: Callable[[], None]) -> Timer:
        return run_later(self._groups.home, delay_ms, task)

    # Members that fall silent

    def expect(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """Starts the timer that removes a member unless a request of it arrives; default: its session timeout."""
        member.stop_waiting()
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.silence = self._later(timeout_ms, partial(self._on_silence, group, member))

    def _on_silence(self, group: Group, member: Member) -> None:
        if group.state is not State.DEAD and group.members.get(member.id) is member and member.is_expected:
            logger.info("group %r: member %r is removed, because it sent nothing in time", group.name, member.id)
            self.remove_member(group, member)

    def drop_pending(self, group: Group, member_id: str) -> None:
        """Forgets a reserved id, so a rebalance does not wait for it any longer."""
        group.drop_pending(member_id)
        self.try_complete(group)
        self._groups.forget_unused(group)

    def remove_member(self, group: Group, member: Member) -> None:
        """Removes a member. Answers its waiting request, so a client that is still alive tries again.

        Kafka does not answer a waiting SyncGroup, so there the client runs into its timeout.
        """
        member.answer_join(JoinResult(ErrorCode.unknown_member_id, ""))
        member.answer_sync(SyncResult(ErrorCode.unknown_member_id))
        group.remove(member.id)
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare(group, f"member {member.id!r} left")
        self.try_complete(group)

    # All join

    def maybe_prepare(self, group: Group, reason: str) -> None:
        """Begins a rebalance, unless one is in progress."""
        if group.can_rebalance:
            self.prepare(group, reason)

    def prepare(self, group: Group, reason: str) -> None:
        """Begins a rebalance: waits until all members have joined, or for the largest of their rebalance timeouts.

        The first members of a group wait for others, for ``group.initial.rebalance.delay.ms`` and as much again while
        more come, but not for longer than the rebalance timeout.
        """
        if group.state is State.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
            self._answer_syncs(group, ErrorCode.rebalance_in_progress)
        self._end_sync_wait(group)
        was_empty = group.state is State.EMPTY
        group.enter(State.PREPARING_REBALANCE)
        logger.info("group %r, generation %d: rebalance: %s", group.name, group.generation, reason)
        if was_empty:
            delay_ms = self._groups.config.group_initial_rebalance_delay_ms
            self._gather(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        else:
            self._wait_for_joins(group)

    def _gather(self, group: Group, delay_ms: int, remaining_ms: int) -> None:
        def on_time() -> None:
            if group.has_new_member and remaining_ms:
                group.has_new_member = False
                next_ms = min(self._groups.config.group_initial_rebalance_delay_ms, remaining_ms)
                self._gather(group, next_ms, max(remaining_ms - delay_ms, 0))
            else:
                self._complete(group)

        group.is_gathering = True
        group.join_timer = self._later(delay_ms, on_time)

    def _wait_for_joins(self, group: Group) -> None:
        group.is_gathering = False
        group.join_timer = self._later(group.rebalance_timeout_ms, partial(self._complete, group))
        self.try_complete(group)

    def try_complete(self, group: Group) -> None:
        """Begins the next generation if all members have joined."""
        if group.state is State.PREPARING_REBALANCE and not group.is_gathering and group.has_all_joined:
            self._complete(group)

    def _complete(self, group: Group) -> None:
        """Begins the next generation with the members that have joined, and with all static members."""
        if group.join_timer is not None:
            group.join_timer.cancel()
            group.join_timer = None
        group.is_gathering = False
        if group.state is not State.PREPARING_REBALANCE:
            return
        for each in [each for each in group.members.values() if each.join_done is None and each.instance_id is None]:
            logger.info("group %r: member %r is removed, because it did not join again", group.name, each.id)
            group.remove(each.id)
        if group.members and not group.elect_joined():
            logger.error("group %r: the rebalance cannot end, because no member joined", group.name)
            self._wait_for_joins_again(group)
            return
        group.begin_generation()
        if group.members:
            self._answer_joins(group)
        else:
            self._store_empty(group)

    def _wait_for_joins_again(self, group: Group) -> None:
        """Waits for joins for another rebalance timeout, in which members may join or their sessions time out."""
        group.join_timer = self._later(group.rebalance_timeout_ms, partial(self._complete, group))

    def _answer_joins(self, group: Group) -> None:
        for member in list(group.members.values()):
            member.answer_join(group.joined(member))
            self.expect(group, member)
            member.is_new = False
            group.unsynced.add(member.id)
        logger.info("group %r, generation %d: %d members", group.name, group.generation, len(group.members))
        group.sync_timer = self._later(
            group.rebalance_timeout_ms, partial(self._on_sync_timeout, group, group.generation)
        )

    def _store_empty(self, group: Group) -> None:
        def done(error: Exception | None) -> None:
            if error is not None:  # after a crash its last generation returns, and its members time out
                logger.warning("group %r: could not store that the group is empty: %s", group.name, error)
            if group.state is State.EMPTY:
                self._groups.let_go(group)

        logger.info("group %r, generation %d: empty", group.name, group.generation)
        self._groups.write_record(group, group.stored({}), done)

    # All sync

    def note_synced(self, group: Group, member: Member) -> None:
        """Notes that a member has sent SyncGroup in this generation."""
        group.unsynced.discard(member.id)
        if not group.unsynced:
            self._end_sync_wait(group)

    def _end_sync_wait(self, group: Group) -> None:
        group.unsynced.clear()
        if group.sync_timer is not None:
            group.sync_timer.cancel()
            group.sync_timer = None

    def _on_sync_timeout(self, group: Group, generation: int) -> None:
        if generation != group.generation or group.state not in (State.COMPLETING_REBALANCE, State.STABLE):
            return
        late = group.unsynced & group.members.keys()
        for member_id in late:
            group.remove(member_id)
        if late:
            self.prepare(group, f"members {sorted(late)} sent no SyncGroup")

    def store_assignment(self, group: Group, given: Mapping[str, bytes]) -> None:
        """Stores what the leader assigned, then answers all members and makes the group stable."""
        generation = group.generation
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}

        def done(error: Exception | None) -> None:
            if group.state is not State.COMPLETING_REBALANCE or generation != group.generation:
                return  # another member has joined since
            if error is not None:
                self._answer_syncs(group, stored_group_code(error))
                self.maybe_prepare(group, f"the assignment could not be stored: {error}")
                return
            for member in group.members.values():
                member.assignment = assignments.get(member.id, b"")
            group.enter(State.STABLE)
            self._answer_syncs(group, ErrorCode.none)

        self._groups.write_record(group, group.stored(assignments), done)

    def _answer_syncs(self, group: Group, error: ErrorCode) -> None:
        is_right = error is ErrorCode.none
        for member in list(group.members.values()):
            result = (
                SyncResult(error, group.protocol_type, group.protocol, member.assignment)
                if is_right
                else SyncResult(error)
            )
            if member.answer_sync(result):
                self.expect(group, member)

    # The end

    def give_up(self, group: Group, error: ErrorCode = ErrorCode.not_coordinator) -> None:
        """Answers all waiting requests with an error, because the coordinator stops, or the protocol changes."""
        for member in list(group.members.values()):
            member.stop_waiting()
            member.answer_join(JoinResult(error, member.id))
            member.answer_sync(SyncResult(error))
        self._end_sync_wait(group)
        if group.join_timer is not None:
            group.join_timer.cancel()
