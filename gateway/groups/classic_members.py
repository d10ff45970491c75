"""ClassicMembers: members that use the classic protocol in groups of Kafka 4, while a group changes its protocol."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...storage import CONSUMER, InvalidRecordError
from ..consumer_groups.classic import (
    ClassicMember,
    Joining,
    assignment_of,
    checked_classic,
    checked_member,
    is_behind,
    joined,
    must_join,
    supports,
)
from ..consumer_groups.conversion import DISABLED, may_downgrade
from ..consumer_groups.group import ConsumerGroup
from ..consumer_groups.member import ConsumerMember, MemberState
from ..consumer_groups.timers import Limit
from .consumers import Consumers
from .member import Join, JoinDone, JoinResult, Leaving, Sync, SyncResult
from .rebalancing import Groups
from .store import stored_group_code

LeaveDone = Callable[[ErrorCode, Sequence[ErrorCode]], None]

logger = logging.getLogger(__name__)


class ClassicMembers:
    """Answers them. Only for the coordinator's thread."""

    def __init__(self, groups: Groups, consumers: Consumers, new_id: Callable[[], object]) -> None:
        """``new_id`` returns the id of a new member."""
        self._groups, self._consumers, self._new_id = groups, consumers, new_id

    def group(self, name: str) -> ConsumerGroup | None:
        """Returns the group of Kafka 4 to which the requests of classic members go; None if it has no members."""
        group = self._groups.consumers.get(name)
        return group if group is not None and group.members else None

    # JoinGroup

    def join(self, group: ConsumerGroup, join: Join, done: JoinDone) -> None:
        """Calls ``done`` with the member's epoch as its generation, once the changes are durable."""
        member_id = join.member_id or str(self._new_id())
        error = self._refuse(group, join, member_id)
        if error:
            done(JoinResult(error, member_id if error is ErrorCode.member_id_required else ""))
            return
        try:
            member = self._joined(group, join, member_id)
        except RequestError as refused:
            done(JoinResult(refused.code, ""))
            return

        def stored(failure: Exception | None) -> None:
            if failure is not None:
                done(JoinResult(stored_group_code(failure), ""))
                return
            done(JoinResult(ErrorCode.none, member.id, member.epoch, CONSUMER, member.protocols[0][0]))

        self._consumers.store(group, stored)

    def _refuse(self, group: ConsumerGroup, join: Join, member_id: str) -> ErrorCode:
        config = self._groups.config
        if config.group_consumer_migration_policy == DISABLED:
            logger.info("group %r: no classic member may join, because migration is disabled", group.name)
            return ErrorCode.inconsistent_group_protocol
        if member_id not in group.members and len(group.members) >= config.group_consumer_max_size:
            return ErrorCode.group_max_size_reached
        if not supports(group, join.protocol_type, join.protocols):
            return ErrorCode.inconsistent_group_protocol
        if join.requires_member_id and not join.member_id:
            return ErrorCode.member_id_required
        return ErrorCode.none if self._groups.hold(group) else ErrorCode.coordinator_load_in_progress

    def _joined(self, group: ConsumerGroup, join: Join, member_id: str) -> ConsumerMember:
        config, epoch = self._groups.config, group.epoch
        replaced = group.members.get(group.static_ids.get(join.instance_id or "", ""))
        if join.member_id or replaced is None:
            is_last = False
        else:
            is_last = may_downgrade(group, [replaced], config, len(group.members))
        given = ClassicMember(
            *(member_id, join.instance_id, join.client_id, join.client_host),
            *(join.rebalance_timeout_ms, join.session_timeout_ms, join.protocols),
        )
        how = Joining(is_named=bool(join.member_id), is_last_replaced=is_last)
        is_new = member_id not in group.members
        assignor, now_ms = config.consumer_assignors[0], self._groups.clock.now_ms()
        member = joined(group, given, how, self._groups.catalog(), assignor=assignor, now_ms=now_ms)
        if replaced is not None and replaced.id not in group.members:
            self._consumers.timers.forget(group.name, replaced.id)
        is_stale = group.epoch > group.target_epoch
        if is_last and self._consumers.downgrade(group, (), epoch=epoch, waits=is_stale):
            return member
        self._consumers.admit(group, member, is_new=is_new)
        self._consumers.timers.cancel(Limit.JOIN, group.name, member.id)
        self._limit(Limit.SYNC, group, member, "it did not send SyncGroup in time")
        return member

    def _limit(self, limit: Limit, group: ConsumerGroup, member: ConsumerMember, reason: str) -> None:
        """Removes a member unless it takes its next step within its rebalance timeout."""
        start = self._consumers.timers.start if limit is Limit.SYNC else self._consumers.timers.start_if_absent
        late = partial(self._consumers.fence, group, member.id, reason)
        start(limit, group.name, member.id, member.rebalance_timeout_ms, late)

    def _ask_to_join(self, group: ConsumerGroup, member: ConsumerMember) -> ErrorCode:
        self._limit(Limit.JOIN, group, member, "it did not join again in time")
        return ErrorCode.rebalance_in_progress

    # SyncGroup

    def sync(self, group: ConsumerGroup, sync: Sync) -> SyncResult:
        """Returns a member's partitions, which were durable when its JoinGroup was answered."""
        try:
            member = checked_classic(group, sync.member_id, sync.instance_id, sync.generation)
            name, metadata = member.protocols[0]
            if sync.protocol_type not in (None, CONSUMER) or sync.protocol not in (None, name):
                return SyncResult(ErrorCode.inconsistent_group_protocol)
            if is_behind(group, member) and member.state is not MemberState.UNREVOKED_PARTITIONS:
                return SyncResult(self._ask_to_join(group, member))
            assignment = assignment_of(member.assigned, metadata, self._groups.catalog())
        except RequestError as error:
            return SyncResult(error.code)
        except InvalidRecordError:
            return SyncResult(ErrorCode.unknown_server_error)
        self._consumers.timers.cancel(Limit.SYNC, group.name, member.id)
        self._consumers.expect(group, member)
        return SyncResult(ErrorCode.none, sync.protocol_type, sync.protocol, assignment)

    # Heartbeat

    def heartbeat(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Returns REBALANCE_IN_PROGRESS if a member must give up partitions, or can get more, by joining again."""
        try:
            member = checked_classic(group, member_id, instance_id, generation)
        except RequestError as error:
            return error.code
        self._consumers.expect(group, member)
        return self._ask_to_join(group, member) if must_join(group, member) else ErrorCode.none

    # LeaveGroup

    def leave(self, group: ConsumerGroup, leaving: Sequence[Leaving], done: LeaveDone) -> None:
        """Removes members of either protocol; calls ``done`` with the error of each once the removal is durable."""
        found: dict[str, ConsumerMember] = {}
        codes = []
        for each in leaving:
            try:
                member = self._leaving(group, each)
            except RequestError as error:
                codes.append(error.code)
            else:
                logger.info("group %r: member %r leaves", group.name, member.id)
                found[member.id] = member
                codes.append(ErrorCode.none)
        if not found:
            done(ErrorCode.none, codes)
            return
        self._consumers.remove(group, list(found.values()))
        self._consumers.store(
            group, lambda failure: done(ErrorCode.none if failure is None else stored_group_code(failure), codes)
        )

    def _leaving(self, group: ConsumerGroup, leaving: Leaving) -> ConsumerMember:
        member_id = leaving.member_id
        if not member_id and leaving.instance_id is not None:  # an administrator removes a static member
            member_id = group.static_ids.get(leaving.instance_id, "")
        return checked_member(group, member_id, leaving.instance_id)
