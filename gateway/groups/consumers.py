"""Consumers: groups of Kafka 4, whose coordinator assigns: their heartbeats, timers and stored changes.

A member is answered once all that its group has changed so far is durable, so that after a crash nobody has a partition
that the log gives to another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
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
from ..consumer_groups.group import ConsumerGroup
from ..consumer_groups.heartbeat import Heartbeat, HeartbeatResult, beaten, check_heartbeat, check_instance, result_of
from ..consumer_groups.member import STATIC_LEAVING, ConsumerMember, MemberState
from ..threads.worker import Timer
from .group import State
from .rebalancing import Groups
from .settings import GroupTimes
from .store import run_later, stored_offset_code, tombstones_of

READ_AGAIN_MS = 1000
HeartbeatDone = Callable[[HeartbeatResult], None]

logger = logging.getLogger(__name__)


class Consumers:
    """Answers members of groups of Kafka 4. Only for the coordinator's thread."""

    def __init__(self, groups: Groups, times: GroupTimes) -> None:
        self._groups, self._times = groups, times
        self._silences: dict[tuple[str, str], Timer] = {}  # by group and member: rings when the session is over
        self._revocations: dict[tuple[str, str], Timer] = {}  # rings when a member keeps what it must give up
        self._reading: set[str] = set()  # groups that are read again, after a write failed

    # Heartbeats

    def heartbeat(self, beat: Heartbeat, done: HeartbeatDone) -> None:
        """Calls ``done`` with the answer, when what the heartbeat changes is durable."""
        try:
            self._check(beat)
            group = self._group_of(beat)
            result = self._left(group, beat) if beat.is_leaving else self._beaten(group, beat)
        except RequestError as error:
            done(HeartbeatResult(error.code, message_of(error)))
            return
        self._store(group, partial(self._answer, done, result))

    def _check(self, beat: Heartbeat) -> None:
        check_heartbeat(beat, self._groups.config.consumer_assignors)
        error = self._groups.check(beat.group)
        if not error and beat.group in self._reading:
            error = ErrorCode.coordinator_load_in_progress
        if error:
            raise RequestError(error, "the coordinator cannot answer for the group now")

    def _group_of(self, beat: Heartbeat) -> ConsumerGroup:
        """Returns the group of a heartbeat; a member that joins makes it, in the place of an empty classic group."""
        name, group = beat.group, self._groups.consumers.get(beat.group)
        classic = self._groups.by_name.get(name)
        if classic is not None and (classic.state is not State.EMPTY or classic.pending or beat.epoch != 0):
            raise RequestError(ErrorCode.group_id_not_found, f"Group {name} is not a consumer group.")
        if group is None and beat.epoch != 0:
            raise RequestError(ErrorCode.unknown_member_id, f"Group {name} has no members here: join again.")
        group = group or ConsumerGroup(name)
        self._check_room(group, beat)
        return group

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
        self._groups.consumers[group.name] = group
        if before is None:
            logger.info("group %r: member %r joins, epoch %d", group.name, after.id, group.epoch)
        self._expect(group, after)
        interval_ms = self._times.heartbeat_interval_ms(group.name)
        return result_of(beat, () if before is None else before.assigned, after, interval_ms)

    def _left(self, group: ConsumerGroup, beat: Heartbeat) -> HeartbeatResult:
        member = self._leaving(group, beat)
        if beat.epoch == STATIC_LEAVING:
            group.leave_for_now(member)
        else:
            logger.info("group %r: member %r leaves", group.name, member.id)
            self._remove(group, member)
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
        if not error and name in self._reading:
            error = ErrorCode.coordinator_load_in_progress
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

    def _expect(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Starts the timers of a member that was heard of."""
        key = group.name, member.id
        silence = partial(self._on_silence, group, member.id)
        self._restart(self._silences, key, self._times.session_timeout_ms(group.name), silence)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            _cancel(self._revocations, key)
        elif key not in self._revocations:
            late = partial(self._on_late_revocation, group, member.id, member.epoch)
            self._restart(self._revocations, key, member.rebalance_timeout_ms, late)

    def _restart(
        self, timers: dict[tuple[str, str], Timer], key: tuple[str, str], delay_ms: int, task: Callable[[], None]
    ) -> None:
        _cancel(timers, key)
        timers[key] = run_later(self._groups.home, delay_ms, task)

    def _on_silence(self, group: ConsumerGroup, member_id: str) -> None:
        self._silences.pop((group.name, member_id), None)
        self._fence(group, member_id, "it sent nothing in time")

    def _on_late_revocation(self, group: ConsumerGroup, member_id: str, epoch: int) -> None:
        self._revocations.pop((group.name, member_id), None)
        member = group.members.get(member_id)
        if member is not None and member.epoch == epoch and member.state is MemberState.UNREVOKED_PARTITIONS:
            self._fence(group, member_id, "it did not give up partitions in time")

    def _fence(self, group: ConsumerGroup, member_id: str, reason: str) -> None:
        member = group.members.get(member_id)
        if member is None or self._groups.consumers.get(group.name) is not group or self._groups.is_stopped:
            return
        logger.info("group %r: member %r is removed, because %s", group.name, member_id, reason)
        self._remove(group, member)
        self._store(group, lambda failure: None)

    def _remove(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._forget_timers(group, member.id)
        group.remove(member.id, self._groups.catalog())

    def _forget_timers(self, group: ConsumerGroup, member_id: str) -> None:
        _cancel(self._silences, (group.name, member_id))
        _cancel(self._revocations, (group.name, member_id))

    # What is stored

    def _store(self, group: ConsumerGroup, done: Callable[[Exception | None], None]) -> None:
        """Writes what a group has changed, all or nothing; without changes, waits for those before."""
        noted = group.take_changes()
        changes: list[GroupChange | GroupFence] = []
        if noted:  # another coordinator that changed any of its records would have other owners
            changes += [GroupFence(key, value) for key, value in group.before(noted).items()]
            changes += [GroupChange(each.key, each.value) for each in noted]
        classic = self._groups.by_name.get(group.name)
        if classic is not None and changes:  # an empty one, in whose place the group comes
            changes[:0] = [self._groups.fence(classic), GroupChange(GroupMetadataKey(group.name), None)]
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
        """Reads a group again whose changes may, or may not, be in the log."""
        if self._groups.consumers.get(group.name) is not group:
            return
        logger.warning("group %r could not be stored, and is read again: %s", group.name, failure)
        self.forget(group)
        self._groups.note(group.name, failure)
        if not isinstance(failure, GroupChangedError):
            self._reading.add(group.name)
            self._read(group.name)

    def _read(self, name: str) -> None:
        def read(records: Mapping[GroupKey, GroupValue]) -> None:
            self._reading.discard(name)
            if not self._groups.check(name):
                self.restore(records, {self._groups.homes.home_of(name)})

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
            self._reading.add(name)
            return
        self._groups.consumers[name] = group
        self._reading.discard(name)
        for member in group.members.values():
            self._expect(group, member)
        self._hold(group)

    def _hold(self, group: ConsumerGroup) -> None:
        is_here = group.members and self._groups.consumers.get(group.name) is group
        if is_here and not self._groups.hold(group):
            run_later(self._groups.home, READ_AGAIN_MS, partial(self._hold, group))

    def forget_others(self) -> None:
        """Drops the groups that this node no longer coordinates, or that are read again."""
        for group in list(self._groups.consumers.values()):
            if self._groups.homes.home_of(group.name) not in self._groups.loaded:
                self.forget(group)

    def forget(self, group: ConsumerGroup) -> None:
        """Drops a group that was deleted, that another node now coordinates, or that is read again."""
        for member_id in group.members:
            self._forget_timers(group, member_id)
        self._groups.let_go(group)
        if self._groups.consumers.get(group.name) is group:
            del self._groups.consumers[group.name]

    def replace_empty(self, name: str) -> ErrorCode:
        """Deletes an empty group, since a classic member joins; an error if it has members."""
        group = self._groups.consumers.get(name)
        if name in self._reading:
            return ErrorCode.coordinator_load_in_progress
        if group is None:
            return ErrorCode.none
        if group.members:
            return ErrorCode.inconsistent_group_protocol
        self.forget(group)
        self._groups.store.write(tombstones_of(group.stored), lambda failure: self._groups.note(name, failure))
        return ErrorCode.none


def _cancel(timers: dict[tuple[str, str], Timer], key: tuple[str, str]) -> None:
    timer = timers.pop(key, None)
    if timer is not None:
        timer.cancel()
