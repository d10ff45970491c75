"""Faults of groups: their members, their offsets and the coordinator that they move to."""

from __future__ import annotations

from tests.faults.fault import Fault, Mutation, by_itself
from tests.gateway.groups import (
    test_consumers,
    test_coordinator,
    test_membership,
    test_migration,
    test_offsets,
    test_rebalancing,
    test_takeover,
)
from tests.support.groups import Bench

_MEMBERSHIP = "gateway.groups.membership:Membership"
_REBALANCING = "gateway.groups.rebalancing:Rebalancing"
_COORDINATOR = "gateway.groups.coordinator:GroupCoordinator"


def _bench() -> Bench:
    return Bench().started()


def _newer() -> Bench:
    return Bench().topics(t=4, u=2).started()


def _pair() -> tuple[Bench, Bench]:
    old = _bench()
    old.stable("a")
    return old, old.restarted()


FAULTS = [
    Fault(
        57,
        "KAFKA-10284",
        "A static member comes back; its new member id is not stored, and after a restart it is fenced.",
        by_itself(test_membership.test_a_static_member_that_is_back_keeps_its_assignment_and_fences_its_old_id, _bench),
        (
            Mutation(
                f"{_MEMBERSHIP}._store_replaced",
                "self._groups.write_record(group, group.stored(assignments), done)",
                "done(None)",
            ),
        ),
    ),
    Fault(
        58,
        "KAFKA-8220",
        "A static member that restarts during a rebalance is removed when the rebalance timeout is over.",
        by_itself(test_rebalancing.test_a_leader_that_does_not_join_again_is_replaced_by_one_that_did, _bench),
        (Mutation(f"{_REBALANCING}._complete", " and each.instance_id is None]", "]"),),
    ),
    Fault(
        59,
        "KAFKA-8500",
        "A static member that joins during a rebalance keeps its old id, so two consumers use one.",
        by_itself(test_membership.test_a_static_member_whose_second_instance_joins_is_fenced, _bench),
        (Mutation("gateway.groups.group:Group.replace_static", "self.static_ids[instance_id] = new_id", "pass"),),
    ),
    Fault(
        60,
        "KAFKA-9801",
        "A static member comes back while assignments are awaited; the leader assigns to its old id, and it gets "
        "nothing.",
        by_itself(
            test_membership.test_a_static_member_that_is_back_before_the_assignment_begins_the_rebalance_again, _bench
        ),
        (Mutation(f"{_MEMBERSHIP}._replace_static", "if group.state is State.COMPLETING_REBALANCE:", "if False:"),),
    ),
    Fault(
        61,
        "KAFKA-7909",
        "An id that was given out is never used; the rebalance that waits for it does not end.",
        by_itself(
            test_rebalancing.test_an_id_that_was_given_out_holds_up_the_rebalance_until_its_session_timeout, _bench
        ),
        (Mutation(f"{_REBALANCING}.drop_pending", "self.try_complete(group)", "pass"),),
    ),
    Fault(
        62,
        "KAFKA-9752",
        "A new member whose client is gone still waits in JoinGroup after its timeout; the rebalance is stuck.",
        by_itself(
            test_rebalancing.test_a_new_member_whose_first_join_waits_for_five_minutes_is_told_to_begin_again, _bench
        ),
        (
            Mutation(
                "gateway.groups.member:Member.is_expected",
                "self.is_new or (self.join_done is None and self.sync_done is None)",
                "self.join_done is None and self.sync_done is None",
            ),
        ),
    ),
    Fault(
        63,
        "KAFKA-12890",
        "A member that sends heartbeats but no SyncGroup keeps its group waiting for assignments forever.",
        by_itself(test_rebalancing.test_members_that_send_no_sync_within_the_rebalance_timeout_are_removed, _bench),
        (Mutation(f"{_REBALANCING}._on_sync_timeout", "group.unsynced & group.members.keys()", "set()"),),
    ),
    Fault(
        64,
        "KAFKA-9885",
        "The largest size of a group is lowered and its coordinator moves; members that had joined are evicted.",
        by_itself(test_coordinator.test_a_group_that_grew_too_large_by_a_lowered_limit_is_rebalanced, _bench),
        (
            Mutation(
                f"{_MEMBERSHIP}._has_room",
                "return (member is not None and member.join_done is not None) or group.waiting_count < most",
                "return len(group.members) <= most",
            ),
        ),
    ),
    Fault(
        65,
        "KAFKA-13636",
        "Offsets expire while a group rebalances, because its subscriptions are then unknown.",
        by_itself(test_offsets.test_nothing_of_a_group_expires_while_it_rebalances),
        (Mutation("gateway.groups.expiry:expired_offsets", " and group.state is State.STABLE:", ":"),),
    ),
    Fault(
        66,
        "KAFKA-8069",
        "A commit that has no expiry time of its own is loaded with one that is over, and expires at once.",
        by_itself(test_offsets.test_offsets_of_a_client_outside_of_groups_expire_after_their_commit),
        (Mutation("gateway.groups.expiry:expired_offsets", "if value.expire_timestamp != NO_TIMESTAMP:", "if True:"),),
    ),
    Fault(
        67,
        "KAFKA-10401",
        "A group is stored without the time of its state; its offsets do not expire as configured.",
        by_itself(test_coordinator.test_a_group_is_stored_byte_for_byte_as_kafka_stored_it_and_as_empty_too),
        (Mutation("gateway.groups.group:Group.stored", "self.state_since_ms,", "NO_TIMESTAMP,"),),
    ),
    Fault(
        68,
        "KAFKA-8386",
        "Members of a group that is being deleted are called unknown, and give up the ids that fence older ones.",
        by_itself(test_coordinator.test_nobody_joins_or_commits_while_a_group_is_being_deleted, _bench),
        (Mutation(f"{_MEMBERSHIP}._refuse", "ErrorCode.coordinator_not_available", "ErrorCode.unknown_member_id"),),
    ),
    Fault(
        69,
        "KAFKA-5600",
        "A partition of groups is loaded again, and requests are answered by members and offsets of before.",
        by_itself(test_takeover.test_a_group_that_moved_away_and_back_is_as_the_other_node_left_it),
        (Mutation(f"{_COORDINATOR}.reassign", "self._groups.loaded &= own", "pass"),),
    ),
    Fault(
        70,
        "KAFKA-4362",
        "The partition of a group moves; the error of its last coordinator does not send consumers to the next one.",
        by_itself(test_takeover.test_members_of_a_group_that_moves_are_told_and_go_on_at_the_other_node),
        (Mutation("gateway.groups.rebalancing:Groups.check", "if not self.homes.leads(home):", "if False:"),),
    ),
    Fault(
        71,
        "KAFKA-4704",
        "The name of a deleted group is used for offsets again; the coordinator fails to load them.",
        by_itself(test_takeover.test_a_group_that_a_command_deleted_can_be_committed_to, _pair),
        (Mutation("storage.groups.coordinated:_check_fence", "if found is None or found is", "if found is"),),
    ),
    Fault(
        72,
        "KAFKA-16367",
        "A member sends a full heartbeat, and is answered without its assignment, which it has lost.",
        by_itself(test_consumers.test_a_member_that_says_everything_is_told_everything, _newer),
        (Mutation("gateway.consumer_groups.heartbeat:result_of", "beat.is_full or ", ""),),
    ),
    Fault(
        73,
        "KAFKA-17228",
        "A static member that changes to the new protocol is refused, as its classic self has the instance id.",
        by_itself(test_migration.test_a_static_member_on_the_new_protocol_takes_the_place_of_its_classic_self, _newer),
        (
            Mutation(
                "gateway.consumer_groups.heartbeat:_known_static",
                "if member.epoch != STATIC_LEAVING and not member.is_classic:",
                "if member.epoch != STATIC_LEAVING:",
            ),
        ),
    ),
    Fault(
        74,
        "KAFKA-9232",
        "The five minutes that a new member may wait go on after it has joined; it is removed though it is alive.",
        by_itself(test_rebalancing.test_a_member_whose_request_waits_need_not_send_heartbeats, _bench),
        (Mutation(f"{_REBALANCING}._answer_joins", "member.is_new = False", "pass"),),
    ),
    Fault(
        75,
        "KAFKA-16371",
        "Offsets with too much metadata are refused, but stay pending in memory; fetches of stable offsets fail.",
        why_not="What is pending is read from the log, where only accepted offsets are.",
    ),
]
