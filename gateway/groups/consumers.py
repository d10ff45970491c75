"""Consumers: groups of Kafka 4, whose coordinator assigns: their heartbeats, timers and stored changes.

A member is answered once all changes of its group so far are durable; so no member has a partition that, after a crash,
the log gives to another one. A group may change its protocol when a member joins or leaves; then its former records and
its new ones change in one write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError, message_of
from ...storage import (
    GroupChange,
    GroupChangedError,
    GroupFence,
    GroupKey,
    GroupMetadataKey,
    GroupRecordKey,
    GroupValue,
    InvalidRecordError,
)
from ..consumer_groups.classic import ClassicMember, assignment_of
from ..consumer_groups.conversion import check_upgrade, may_downgrade, upgraded
from ..consumer_groups.group import ConsumerGroup
from ..consumer_groups.heartbeat import Heartbeat, HeartbeatResult, beaten, check_heartbeat, check_instance, result_of
from ..consumer_groups.member import STATIC_LEAVING, ConsumerMember, MemberState
from ..consumer_groups.settings import GroupTimes
from ..consumer_groups.timers import Limit, MemberTimers
from .group import Group, State
from .member import Member
from .rebalancing import Groups, Rebalancing
from .store import run_later, stored_offset_code, tombstones_of

READ_AGAIN_MS = 1000
HeartbeatDone = Callable[[HeartbeatResult], None]
Restore = Callable[[Mapping[GroupKey, GroupValue], Collection[int]], None]

logger = logging.getLogger(__name__)


class Consumers:
    """Answers members of groups of Kafka 4. Only for the coordinator's thread."""

    def __init__(self, groups: Groups, times: GroupTimes, rebalancing: Rebalancing, restore: Restore) -> None:
        """``rebalancing``: of classic groups. ``restore`` takes over the groups of both kinds in records."""
        self._groups, self._times, self._rebalancing = groups, times, rebalancing
        self._restore_all = restore
        self.timers = MemberTimers(partial(run_later, groups.home))
        self._damaged: set[str] = set()  # groups with records that do not decode

    # Heartbeats

    def heartbeat(self, beat: Heartbeat, done: HeartbeatDone) -> None:
        """Calls ``done`` with the answer, once the changes of the heartbeat are durable."""
        try:
            self._check(beat)
            group = self._group_of(beat)
            result = self._left(group, beat) if beat.is_leaving else self._beaten(group, beat)
        except RequestError as error:
            done(HeartbeatResult(error.code, message_of(error)))
            return
        self.store(group, partial(self._answer, done, result))

    def _check(self, beat: Heartbeat) -> None:
        check_heartbeat(beat, self._groups.config.consumer_assignors)
        error = self._groups.check(beat.group) or self.check(beat.group)
        if error:
            raise RequestError(error, "the coordinator cannot answer for the group now")

    def check(self, name: str) -> ErrorCode:
        """Returns the error for a group whose records do not decode, until they have been deleted."""
        if name not in self._damaged:
            return ErrorCode.none

        def read(records: Mapping[GroupKey, GroupValue]) -> None:
            if not ConsumerGroup.is_in(name, records):
                self._damaged.discard(name)

        self._groups.store.look(lambda store: store.records(name), read, lambda failure: None)
        return ErrorCode.coordinator_load_in_progress

    def _group_of(self, beat: Heartbeat) -> ConsumerGroup:
        """Returns the group of a heartbeat.

        A joining member creates the group; it may replace an empty classic group, or one that it upgrades.
        """
        name, group = beat.group, self._groups.consumers.get(beat.group)
        classic = self._groups.by_name.get(name)
        if classic is not None and classic.state is State.DEAD:  # is being deleted
            raise RequestError(ErrorCode.coordinator_not_available, f"Group {name} is being deleted.")
        if classic is not None and beat.epoch != 0:
            raise RequestError(ErrorCode.group_id_not_found, f"Group {name} is not a consumer group.")
        if group is None and beat.epoch != 0:
            raise RequestError(ErrorCode.unknown_member_id, f"Group {name} has no members here: join again.")
        if classic is not None and classic.state is not State.EMPTY:
            group = self._upgraded(classic)
        group = group or ConsumerGroup(name)
        self._check_room(group, beat)
        return group

    def _upgraded(self, classic: Group) -> ConsumerGroup:
        """Returns a classic group as one of Kafka 4; changes nothing yet."""
        check_upgrade(classic.name, classic.protocol_type, len(classic.members), self._groups.config)
        if not self._groups.hold(classic):
            raise RequestError(ErrorCode.coordinator_load_in_progress, "a command is changing the group")
        members = [
            ClassicMember(
                *(each.id, each.instance_id, each.client_id, each.client_host),
                *(each.rebalance_timeout_ms, each.session_timeout_ms, each.protocols, each.assignment),
            )
            for each in classic.members.values()
        ]
        group = upgraded(classic.name, classic.generation, classic.protocol, members, self._groups.catalog())
        group.is_held = True
        return group

    def _replace(self, classic: Group, group: ConsumerGroup) -> None:
        """Replaces a classic group by its upgraded form; waiting members must join again."""
        if classic.state is not State.EMPTY:
            logger.info("group %r: goes on as a group of Kafka 4, epoch %d", group.name, group.epoch)
            self._rebalancing.give_up(classic, ErrorCode.rebalance_in_progress)
            for each in group.members.values():
                self.expect(group, each)
        classic.is_held = False  # the new one is, also if the classic one became empty a moment ago

    def _check_room(self, group: ConsumerGroup, beat: Heartbeat) -> None:
        most = self._groups.config.group_consumer_max_size
        if beat.epoch == 0 and beat.member_id not in group.members and len(group.members) >= most:
            text = f"The consumer group has reached its maximum capacity of {most} members."
            raise RequestError(ErrorCode.group_max_size_reached, text)

    def _beaten(self, group: ConsumerGroup, beat: Heartbeat) -> HeartbeatResult:
        config, before = self._groups.config, group.members.get(beat.member_id)
        now_ms = self._groups.clock.now_ms()
        if not self._groups.hold(group):  # a command deletes it, or resets its offsets: the client tries again
            raise RequestError(ErrorCode.coordinator_load_in_progress, "a command is changing the group")
        try:
            after = beaten(group, beat, self._groups.catalog(), assignor=config.consumer_assignors[0], now_ms=now_ms)
        except RequestError:
            self._let_go_if_empty(group)
            raise
        self.admit(group, after, is_new=before is None)
        interval_ms = self._times.heartbeat_interval_ms(group.name)
        return result_of(beat, () if before is None else before.assigned, after, interval_ms)

    def admit(self, group: ConsumerGroup, member: ConsumerMember, *, is_new: bool) -> None:
        """Notes that a member has sent a request, and that its group is in use."""
        classic = self._groups.by_name.get(group.name)
        if classic is not None:
            self._replace(classic, group)
        self._groups.consumers[group.name] = group
        if is_new:
            logger.info("group %r: member %r joins, epoch %d", group.name, member.id, group.epoch)
        self.expect(group, member)

    def _left(self, group: ConsumerGroup, beat: Heartbeat) -> HeartbeatResult:
        member = self._leaving(group, beat)
        if beat.epoch == STATIC_LEAVING:
            group.leave_for_now(member)
        else:
            logger.info("group %r: member %r leaves", group.name, member.id)
            self.remove(group, [member])
        return HeartbeatResult(ErrorCode.none, None, beat.member_id, beat.epoch)

    def _leaving(self, group: ConsumerGroup, beat: Heartbeat) -> ConsumerMember:
        member_id = beat.member_id if beat.instance_id is None else group.static_ids.get(beat.instance_id, "")
        member = group.members.get(member_id)
        if member is None:
            text = f"Member {beat.member_id} is not a member of group {group.name}."
            raise RequestError(ErrorCode.unknown_member_id, text)
        if beat.instance_id is not None:
            check_instance(member, beat)
        return member

    def _answer(self, done: HeartbeatDone, result: HeartbeatResult, failure: Exception | None) -> None:
        if failure is None:
            done(result)
        else:
            code = stored_offset_code(failure)
            is_slow = code is ErrorCode.request_timed_out
            done(HeartbeatResult(ErrorCode.coordinator_not_available if is_slow else code, message_of(failure)))

    # Asking about groups

    def describe(self, name: str, done: Callable[[ErrorCode, ConsumerGroup | None], None]) -> None:
        """Calls ``done`` with a group, which must be read at once; with GROUP_ID_NOT_FOUND if there is none."""
        error = self._groups.check(name)
        group = self._groups.consumers.get(name)
        error = error or self.check(name)
        if error or group is None or group.members:
            done(error or (ErrorCode.group_id_not_found if group is None else ErrorCode.none), group)
            return

        def looked_up(records: Mapping[GroupKey, GroupValue]) -> None:
            found = self._groups.find_consumers(name, records)
            done(ErrorCode.group_id_not_found if found is None else ErrorCode.none, found)

        self._groups.store.look(
            lambda store: store.records(name), looked_up, lambda failure: done(stored_offset_code(failure), None)
        )

    def missing(self, name: str) -> str:
        """Returns the text of the error that there is no such group of Kafka 4."""
        return f"Group {name} is not a consumer group." if name in self._groups.by_name else f"Group {name} not found."

    # Time

    def expect(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Starts the timers of a member that has sent a request."""
        key, own_ms = (group.name, member.id), member.classic_session_ms
        session_ms = own_ms if member.is_classic else self._times.session_timeout_ms(group.name)
        silent = partial(self.fence, group, member.id, "it sent nothing in time")
        self.timers.start(Limit.SESSION, *key, session_ms, silent)
        if member.is_classic or member.state is not MemberState.UNREVOKED_PARTITIONS:
            self.timers.cancel(Limit.REVOCATION, *key)
        else:
            late = partial(self._on_late_revocation, group, member.id, member.epoch)
            self.timers.start_if_absent(Limit.REVOCATION, *key, member.rebalance_timeout_ms, late)

    def _on_late_revocation(self, group: ConsumerGroup, member_id: str, epoch: int) -> None:
        member = group.members.get(member_id)
        if member is not None and member.epoch == epoch and member.state is MemberState.UNREVOKED_PARTITIONS:
            self.fence(group, member_id, "it did not give up partitions in time")

    def fence(self, group: ConsumerGroup, member_id: str, reason: str) -> None:
        """Removes a member, if it is still there."""
        member = group.members.get(member_id)
        if member is None or self._groups.consumers.get(group.name) is not group or self._groups.is_stopped:
            return
        logger.info("group %r: member %r is removed, because %s", group.name, member_id, reason)
        self.remove(group, [member])
        self.store(group, lambda failure: None)

    def remove(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember]) -> None:
        """Removes members; if they were the last ones on the new protocol, the group may become a classic one."""
        for each in leaving:
            self.timers.forget(group.name, each.id)
        others = len(group.members) - len(leaving)
        if not (may_downgrade(group, leaving, self._groups.config, others) and self.downgrade(group, leaving)):
            group.remove([each.id for each in leaving], self._groups.catalog())

    # Going on as a classic group

    def downgrade(
        self, group: ConsumerGroup, leaving: Collection[ConsumerMember], *, epoch: int | None = None, waits: bool = True
    ) -> bool:
        """Makes a classic group of one whose members, but for ``leaving``, are on the classic protocol.

        ``epoch``: its generation, if not the group's. ``waits``: its members must join again. Returns False, with
        nothing changed, if a member's subscription does not decode.
        """
        left = {each.id for each in leaving}
        members = [
            Member(
                *(each.id, each.instance_id, each.client_id, each.client_host),
                *(each.rebalance_timeout_ms, each.classic_session_ms, each.protocols),
            )
            for each in group.members.values()
            if each.id not in left
        ]
        generation = group.epoch if epoch is None else epoch
        classic = Group.continued(group.name, generation, members, self._groups.clock)
        try:
            for each in members:
                targets, metadata = group.targets.get(each.id, frozenset()), each.metadata(classic.protocol or "")
                each.assignment = assignment_of(targets, metadata, self._groups.catalog())
        except InvalidRecordError as error:
            logger.warning("group %r stays a group of Kafka 4: a subscription does not decode: %s", group.name, error)
            return False
        logger.info("group %r: goes on as a classic group, generation %d", group.name, generation)
        classic.expected = classic.stored({each.id: each.assignment for each in members})
        self._succeed(group, classic)
        if waits:
            self._rebalancing.prepare(classic, "the group has become a classic one")
        return True

    def _succeed(self, group: ConsumerGroup, classic: Group) -> None:
        group.end()
        for member_id in group.members:
            self.timers.forget(group.name, member_id)
        classic.is_held, group.is_held = group.is_held, False
        del self._groups.consumers[group.name]
        self._groups.by_name[group.name] = classic
        for each in classic.members.values():
            self._rebalancing.expect(classic, each)

    # What is stored

    def store(self, group: ConsumerGroup, done: Callable[[Exception | None], None]) -> None:
        """Writes what a group has changed, all or nothing; without changes, waits for those before."""
        noted, key = group.take_changes(), GroupMetadataKey(group.name)
        changes: list[GroupChange | GroupFence] = []
        if noted:  # if another coordinator changed any of these records, the owners would differ
            changes += [GroupFence(key, value) for key, value in group.before(noted).items()]
            changes += [GroupChange(each.key, each.value) for each in noted]
        classic = self._groups.by_name.get(group.name)
        is_followed = classic is not None and self._groups.consumers.get(group.name) is not group
        if classic is not None and is_followed and changes:
            changes += [GroupFence(key, None), GroupChange(key, classic.expected)]
        elif classic is not None and changes:  # in whose place the group comes
            changes[:0] = [self._groups.fence(classic), GroupChange(key, None)]
            self._groups.forget(classic)

        def written(failure: Exception | None) -> None:
            if failure is not None:
                self._read_again(group, failure)
            self._let_go_if_empty(group)
            done(failure)

        self._groups.store.write(changes, written)

    def _let_go_if_empty(self, group: ConsumerGroup) -> None:
        if not group.members:
            self._groups.let_go(group)

    def _read_again(self, group: ConsumerGroup, failure: Exception) -> None:
        """Reads a group again, because its changes may or may not be in the log."""
        name, classic = group.name, self._groups.by_name.get(group.name)
        if self._groups.consumers.get(name) is group:
            self.forget(group)
        elif classic is not None and name not in self._groups.consumers:  # it went on as a classic one
            self._rebalancing.give_up(classic)
            self._groups.forget(classic)
        else:
            return
        logger.warning("group %r could not be stored, and is read again: %s", name, failure)
        self._groups.note(name, failure)
        if not isinstance(failure, GroupChangedError):
            self._groups.reading.add(name)
            self._read(name)

    def _read(self, name: str) -> None:
        def read(records: Mapping[GroupKey, GroupValue]) -> None:
            self._groups.reading.discard(name)
            if not self._groups.check(name):
                self._restore_all(records, {self._groups.homes.home_of(name)})

        def failed(failure: Exception) -> None:
            logger.warning("group %r cannot be read: %s", name, failure)
            run_later(self._groups.home, READ_AGAIN_MS, partial(self._read, name))

        self._groups.store.look(lambda store: store.records(name), read, failed)

    def restore(self, contents: Mapping[GroupKey, GroupValue], homes: Collection[int]) -> None:
        """Takes over the groups in records that belong to ``homes``; the sessions of their members begin now."""
        by_group: dict[str, dict[GroupRecordKey, bytes]] = {}
        for key, value in contents.items():
            if isinstance(key, GroupRecordKey) and isinstance(value, bytes):
                by_group.setdefault(key.group, {})[key] = value
        for name, records in by_group.items():
            is_here = self._groups.homes.home_of(name) in homes and name not in self._groups.by_name
            if is_here and ConsumerGroup.is_in(name, records):
                self._restore(name, records)

    def _restore(self, name: str, records: Mapping[GroupRecordKey, bytes]) -> None:
        try:
            group = ConsumerGroup.restored(name, records)
        except InvalidRecordError as error:
            logger.error("group %r has a record that does not decode, and is not served: %s", name, error)
            self._damaged.add(name)
            return
        self._groups.consumers[name] = group
        self._damaged.discard(name)
        for member in group.members.values():
            self.expect(group, member)
        self._hold(group)

    def _hold(self, group: ConsumerGroup) -> None:
        is_here = group.members and self._groups.consumers.get(group.name) is group
        if is_here and not self._groups.hold(group):
            run_later(self._groups.home, READ_AGAIN_MS, partial(self._hold, group))

    def forget_others(self) -> None:
        """Drops the groups that this node no longer coordinates, or that will be read again."""
        for group in list(self._groups.consumers.values()):
            if self._groups.homes.home_of(group.name) not in self._groups.loaded:
                self.forget(group)

    def forget(self, group: ConsumerGroup) -> None:
        """Drops a group that was deleted, that another node now coordinates, or that will be read again."""
        for member_id in group.members:
            self.timers.forget(group.name, member_id)
        self._groups.let_go(group)
        if self._groups.consumers.get(group.name) is group:
            del self._groups.consumers[group.name]

    def replace_empty(self, name: str) -> ErrorCode:
        """Deletes an empty group, since a classic member joins; an error if it has members."""
        group = self._groups.consumers.get(name)
        if group is None:
            return self.check(name)
        if group.members:
            return ErrorCode.inconsistent_group_protocol
        self.forget(group)
        self._groups.store.write(tombstones_of(group.to_delete()), lambda failure: self._groups.note(name, failure))
        return ErrorCode.none
