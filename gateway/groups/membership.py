"""Membership: the requests of members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Order of checks, error codes and answers are those of Kafka 3.9.1 (``GroupCoordinator``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ..threads.said import Said
from .classic_members import ClassicMembers, LeaveDone
from .group import Group, State
from .member import Join, JoinDone, JoinResult, Leaving, Member, Protocols, Sync, SyncDone, SyncResult, large_bytes
from .rebalancing import NEW_MEMBER_TIMEOUT_MS, Groups, Rebalancing
from .store import stored_group_code

LARGE_BYTES_MAX = 256 << 20  # of the large protocols of members, in all groups

logger = logging.getLogger(__name__)
_said = Said(logger)


class Membership:
    """Answers requests of members."""

    def __init__(
        self,
        groups: Groups,
        rebalancing: Rebalancing,
        new_id: Callable[[], object],
        replace_empty: Callable[[str], ErrorCode],
        in_newer: ClassicMembers,
    ) -> None:
        """``replace_empty`` deletes an empty group of Kafka 4 to make room for a classic one, or returns an error.

        ``in_newer`` answers members that are in groups of Kafka 4.
        """
        self._groups, self._replace_empty = groups, replace_empty
        self._new_id = new_id
        self._in_newer = in_newer
        self.rebalancing = rebalancing

    # JoinGroup

    def join(self, join: Join, done: JoinDone) -> None:
        """Calls ``done`` when the rebalance that the member starts or joins has ended, or at once with an error."""
        error = self._groups.check(join.group)
        config = self._groups.config
        least, most = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not error and not least <= join.session_timeout_ms <= most:
            error = ErrorCode.invalid_session_timeout
        newer, group = self._in_newer.group(join.group), self._groups.by_name.get(join.group)
        if not error and newer is not None:
            self._in_newer.join(newer, join, done)
            return
        if not error and group is None:
            error = self._replace_empty(join.group)
        if not error and group is None and join.member_id:
            error = ErrorCode.unknown_member_id
        if not error and not self._has_memory(group, join):
            error = ErrorCode.coordinator_load_in_progress  # the client tries again
        if error:
            done(JoinResult(error, join.member_id))
            return
        if group is None:
            group = self._groups.by_name[join.group] = Group(join.group, self._groups.clock)
        if not self._has_room(group, join.member_id):
            group.remove(join.member_id)
            done(JoinResult(ErrorCode.group_max_size_reached, ""))
        elif join.member_id:
            self._join_again(group, join, done)
        else:
            self._join_new(group, join, done)
        self.rebalancing.try_complete(group)
        self._groups.forget_unused(group)

    def _has_memory(self, group: Group | None, join: Join) -> bool:
        """Whether the large protocols of other members leave room for those of this one, which are kept.

        Members with small ones always join, and so do those that join again with no larger ones.
        """
        size = large_bytes(join.protocols)
        before = 0
        if group is not None:  # a static member that starts again has no id yet
            member = group.members.get(join.member_id or group.static_ids.get(join.instance_id or "", ""))
            before = 0 if member is None else large_bytes(member.protocols)
        if size <= before:
            return True
        held = sum(each.large_bytes for each in self._groups.by_name.values())
        has_memory = held - before + size <= LARGE_BYTES_MAX
        if not has_memory:
            text = f"one of group {join.group[:200]!r} has {size} bytes, and those of all groups have {held} already"
            _said.log("members with large metadata cannot join", RequestError(ErrorCode.policy_violation, text))
        return has_memory

    def _has_room(self, group: Group, member_id: str) -> bool:
        """Whether a member may join; a client without an id needs one, and reserved ids count, too."""
        most = self._groups.config.group_max_size - (0 if member_id else len(group.pending))
        member = group.members.get(member_id)
        if group.state in (State.EMPTY, State.DEAD):
            return most > 0
        if group.state is State.PREPARING_REBALANCE:  # if the limit was lowered, members that joined before stay
            return (member is not None and member.join_done is not None) or group.waiting_count < most
        return member is not None or len(group.members) < most

    def _refuse(self, group: Group, join: Join) -> ErrorCode:
        if group.state is State.DEAD:  # is being deleted
            return ErrorCode.coordinator_not_available
        if not group.supports(join.protocol_type, join.protocols):
            return ErrorCode.inconsistent_group_protocol
        return ErrorCode.none

    def _join_new(self, group: Group, join: Join, done: JoinDone) -> None:
        error = self._refuse(group, join)
        if error:
            done(JoinResult(error, ""))
            return
        member_id = f"{join.client_id if join.instance_id is None else join.instance_id}-{self._new_id()}"
        if join.instance_id is not None and join.instance_id in group.static_ids:
            self._replace_static(group, join, member_id, done)
        elif join.instance_id is None and join.requires_member_id:
            self.rebalancing.reservations.give_out(group, member_id, join.session_timeout_ms, join.client)
            done(JoinResult(ErrorCode.member_id_required, member_id))
        else:
            self._add(group, join, member_id, done)

    def _add(self, group: Group, join: Join, member_id: str, done: JoinDone) -> None:
        if not self._groups.hold(group):  # a command deletes it, or resets its offsets: the client tries again
            done(JoinResult(ErrorCode.coordinator_load_in_progress, join.member_id))
            return
        ids = (member_id, join.instance_id, join.client_id, join.client_host)
        member = Member(*ids, join.rebalance_timeout_ms, join.session_timeout_ms, join.protocols)
        member.is_new, member.join_done = True, done
        if group.state is State.PREPARING_REBALANCE and group.generation == 0:
            group.has_new_member = True
        group.add(member, join.protocol_type)
        self.rebalancing.expect(group, member, NEW_MEMBER_TIMEOUT_MS)
        self.rebalancing.maybe_prepare(group, f"new member {member_id!r}; the client says: {join.reason!r}")

    def _join_again(self, group: Group, join: Join, done: JoinDone) -> None:
        error = self._refuse(group, join)
        if not error and join.member_id in group.pending and join.instance_id is None:
            self._add(group, join, join.member_id, done)
            return
        if error is ErrorCode.none:
            error = group.check_member(join.member_id, join.instance_id)
        if not error and group.state is State.EMPTY:
            error = ErrorCode.unknown_member_id
        if error:
            done(JoinResult(error, join.member_id))
            return
        member = group.members[join.member_id]
        is_unchanged = member.matches(join.protocols)
        is_leader = group.leader == member.id
        if is_unchanged and group.state is State.COMPLETING_REBALANCE:
            done(group.joined(member))  # the first answer may have been lost
        elif is_unchanged and group.state is State.STABLE and not is_leader:
            done(group.joined(member))
        else:  # a leader joins again to get a new assignment: topics may have changed
            group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
            member.join_done = done
            self.rebalancing.maybe_prepare(group, f"{member.id!r} joined again; the client says: {join.reason!r}")

    def _replace_static(self, group: Group, join: Join, member_id: str, done: JoinDone) -> None:
        """Handles a static member that joins again under a new id; if the group is stable, it keeps its assignment."""
        assert join.instance_id is not None
        old_id, old_leader = group.static_ids[join.instance_id], group.leader
        member = group.replace_static(join.instance_id, old_id, member_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
        member.join_done = done
        self.rebalancing.expect(group, member)
        if group.state is State.COMPLETING_REBALANCE:  # the leader may assign to the old id
            self.rebalancing.prepare(group, f"static member {join.instance_id!r} joined again")
        elif group.state is State.STABLE and group.select_protocol() != group.protocol:
            self.rebalancing.maybe_prepare(
                group, f"static member {join.instance_id!r} joined again with other protocols"
            )
        elif group.state is State.STABLE:
            self._store_replaced(group, join, member, old_id, old_leader, before)

    def _store_replaced(
        self,
        group: Group,
        join: Join,
        member: Member,
        old_id: str,
        old_leader: str | None,
        before: tuple[Protocols, int, int],
    ) -> None:
        """Stores the new id of a static member, then answers; if that fails, restores the old id."""
        instance_id, member_id = join.instance_id or "", member.id

        def done(error: Exception | None) -> None:
            if group.members.get(member_id) is not member or group.state is State.DEAD:
                return  # gone, or replaced again, and answered then
            if error is None:
                # Before version 9, naming the old leader keeps a leader that is back from assigning in vain.
                skips = join.may_skip_assignment
                leader = None if skips else old_leader
                is_leader = group.leader == member_id
                if group.state is State.STABLE:
                    member.answer_join(group.joined(member, leader=leader, skip_assignment=skips and is_leader))
                return
            logger.warning("group %r: static member %r could not be stored: %s", group.name, instance_id, error)
            answer, member.join_done = member.join_done, None
            refused = replace(group.joined(member, leader=old_leader or ""), member_id="", members=())
            group.update(member, *before)
            group.replace_static(instance_id, member_id, old_id)
            self.rebalancing.expect(group, member)
            if answer is not None:
                answer(replace(refused, error=stored_group_code(error)))

        assignments = {each.id: each.assignment for each in group.members.values()}
        self._groups.write_record(group, group.stored(assignments), done)

    # SyncGroup

    def sync(self, sync: Sync, done: SyncDone) -> None:
        """Calls ``done`` with the member's assignment when the leader's is stored; with an error at once."""
        newer, error = self._in_newer.group(sync.group), self._groups.check(sync.group)
        if newer is not None and not error:
            done(self._in_newer.sync(newer, sync))
            return
        error = self._check_sync(sync)
        if error:
            done(SyncResult(error))
            return
        group = self._groups.by_name[sync.group]
        member = group.members[sync.member_id]
        if group.state is State.STABLE:
            self.rebalancing.note_synced(group, member)
            done(SyncResult(error, group.protocol_type, group.protocol, member.assignment))
            self.rebalancing.expect(group, member)
            return
        member.sync_done = done
        self.rebalancing.note_synced(group, member)
        if group.leader == member.id:
            self.rebalancing.store_assignment(group, sync.assignments)

    def _check_sync(self, sync: Sync) -> ErrorCode:
        error = self._groups.check(sync.group)
        if error is ErrorCode.coordinator_load_in_progress:  # old clients do not expect it, and must join again anyway
            return ErrorCode.rebalance_in_progress
        error = error or self._check_member(sync.group, sync.member_id, sync.instance_id, sync.generation)
        if error:
            return error
        group = self._groups.by_name[sync.group]
        if sync.protocol_type not in (None, group.protocol_type) or sync.protocol not in (None, group.protocol):
            return ErrorCode.inconsistent_group_protocol
        if group.state is State.EMPTY:
            return ErrorCode.unknown_member_id
        return ErrorCode.rebalance_in_progress if group.state is State.PREPARING_REBALANCE else ErrorCode.none

    def _check_member(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        group = self._groups.by_name.get(name)
        if group is None:
            return ErrorCode.unknown_member_id
        if group.state is State.DEAD:
            return ErrorCode.coordinator_not_available
        error = group.check_member(member_id, instance_id)
        return error or (ErrorCode.none if generation == group.generation else ErrorCode.illegal_generation)

    # Heartbeat

    def heartbeat(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Returns the error code for the member, such as REBALANCE_IN_PROGRESS if it must join again."""
        error = self._groups.check(name)
        if error is ErrorCode.coordinator_load_in_progress:
            return ErrorCode.none  # its session is not known yet, and is renewed when it is
        newer = self._in_newer.group(name)
        if not error and newer is not None:
            return self._in_newer.heartbeat(newer, member_id, instance_id, generation)
        error = error or self._check_member(name, member_id, instance_id, generation)
        if error:
            return error
        group = self._groups.by_name[name]
        if group.state is State.EMPTY:
            return ErrorCode.unknown_member_id
        self.rebalancing.expect(group, group.members[member_id])
        is_preparing = group.state is State.PREPARING_REBALANCE
        return ErrorCode.rebalance_in_progress if is_preparing else ErrorCode.none

    # LeaveGroup

    def leave(self, name: str, leaving: Sequence[Leaving], done: LeaveDone) -> None:
        """Removes members; calls ``done`` with the error of the request, and that of each member."""
        newer, error = self._in_newer.group(name), self._groups.check(name)
        if newer is not None and not error:
            self._in_newer.leave(newer, leaving, done)
        else:
            done(*((error, ()) if error else self._leave_classic(name, leaving)))

    def _leave_classic(self, name: str, leaving: Sequence[Leaving]) -> tuple[ErrorCode, Sequence[ErrorCode]]:
        error = ErrorCode.none
        group = self._groups.by_name.get(name)
        if group is None:
            return error, [ErrorCode.unknown_member_id] * len(leaving)
        if group.state is State.DEAD:
            return ErrorCode.coordinator_not_available, ()
        return error, [self._leave(group, each) for each in leaving]

    def _leave(self, group: Group, leaving: Leaving) -> ErrorCode:
        member_id: str | None = leaving.member_id
        if not member_id:
            member_id = group.static_ids.get(leaving.instance_id or "")
            if member_id is None:
                return ErrorCode.unknown_member_id
        elif member_id in group.pending:
            self.rebalancing.drop_pending(group, member_id)
            return ErrorCode.none
        else:
            error = group.check_member(member_id, leaving.instance_id)
            if error:
                return error
        logger.info("group %r: member %r leaves", group.name, member_id)
        self.rebalancing.remove_member(group, group.members[member_id])
        return ErrorCode.none
