"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: situations, with the answers of Kafka's GroupCoordinator 3.9.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_commitlog.gateway.groups.member import JoinResult, Leaving
from pyspark_commitlog.protocol.bodies import ErrorCode
from tests.support.groups import PROTOCOLS, REBALANCE_MS, SESSION_MS, Bench, G

OTHER = (("roundrobin", b""),)


@pytest.fixture
def bench() -> Bench:
    return Bench().started()


def error_of(bench: Bench, name: str) -> ErrorCode | None:
    answer = bench.answers[name]
    return None if answer is None else answer.error


# --- joining


@pytest.mark.parametrize(
    ("changes", "error", "member_id"),
    [
        ({"group": ""}, ErrorCode.invalid_group_id, ""),
        ({"session_timeout_ms": 5_999}, ErrorCode.invalid_session_timeout, ""),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.invalid_session_timeout, ""),
        ({"protocols": ()}, ErrorCode.inconsistent_group_protocol, ""),
        ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol, ""),
        ({"member_id": "x"}, ErrorCode.unknown_member_id, "x"),
        ({"requires_member_id": True}, ErrorCode.member_id_required, "a-1"),
    ],
    ids=lambda each: str(each) if isinstance(each, dict) else "",
)
def test_a_first_join_is_refused(bench: Bench, changes: dict[str, Any], error: ErrorCode, member_id: str) -> None:
    member = changes.pop("member_id", "")
    assert bench.join("a", member, **changes) == JoinResult(error, member_id)


def test_a_member_joins_with_the_id_it_was_given(bench: Bench) -> None:
    first = bench.join("a", requires_member_id=True)
    assert first is not None
    assert bench.join("a", first.member_id, requires_member_id=True) is None
    bench.home.advance(0)
    assert bench.answers["a"] == JoinResult(
        ErrorCode.none, "a-1", 1, "consumer", "range", "a-1", False, [("a-1", None, b"subscription")]
    )


def test_a_static_member_gets_no_id_first_and_is_named_by_its_instance(bench: Bench) -> None:
    bench.join("a", instance_id="i", requires_member_id=False)
    bench.home.advance(0)
    assert bench.answers["a"].member_id == "i-1"
    assert bench.answers["a"].members == [("i-1", "i", b"subscription")]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"protocols": OTHER}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"member_id": "x"}, ErrorCode.unknown_member_id),
        ({"member_id": "a-1", "instance_id": "i"}, ErrorCode.unknown_member_id),
    ],
    ids=str,
)
def test_a_join_of_a_group_with_members_is_refused(bench: Bench, changes: dict[str, Any], error: ErrorCode) -> None:
    bench.stable("a")
    answer = bench.join("b", changes.pop("member_id", ""), **changes)
    assert answer is not None
    assert answer.error == error
    assert bench.state == "Stable"


def test_a_group_has_no_more_members_than_it_may() -> None:
    bench = Bench(group_max_size=1).started()
    (a,) = bench.stable("a")
    assert bench.join("b") == JoinResult(ErrorCode.group_max_size_reached, "")
    assert bench.heartbeat(a) is ErrorCode.none
    answer = bench.join("a", a.member_id)
    assert answer is not None
    assert answer.error is ErrorCode.none


def test_members_with_large_metadata_wait_for_memory_and_others_do_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_commitlog.gateway.groups.membership.LARGE_BYTES_MAX", 150_000)
    large = (("range", bytes(100_000)),)
    (a,) = bench.stable("a", protocols=large)
    for group in (G, "other"):
        refused = bench.join("b", group=group, protocols=large)
        assert refused == JoinResult(ErrorCode.coordinator_load_in_progress, "")
    assert bench.join("c", group="other") is None
    bench.join("a", a.member_id, protocols=large)
    bench.home.advance(0)
    assert error_of(bench, "a") is ErrorCode.none
    assert bench.leave(a) == [ErrorCode.none]
    assert bench.join("b", group="third", protocols=large) is None


def test_thousands_of_empty_protocols_count_as_large_metadata(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_commitlog.gateway.groups.membership.LARGE_BYTES_MAX", 150_000)
    many = tuple((str(number), b"") for number in range(1000))
    assert bench.join("b", protocols=many) == JoinResult(ErrorCode.coordinator_load_in_progress, "")


def test_a_join_that_is_sent_again_is_answered_in_the_place_of_the_first(bench: Bench) -> None:
    (a,) = bench.stable("a")
    bench.join("b")
    assert bench.join("b again", "b-2") is None
    bench.join("a", a.member_id)
    assert bench.answers["b"] is None
    assert bench.answers["b again"].generation == 2


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_follower_that_joins_again_unchanged_gets_the_same_generation(bench: Bench, is_synced: bool) -> None:
    if is_synced:
        leader, follower = bench.stable("a", "b")
    else:
        bench.join("a")
        bench.join("b")
        bench.home.advance(0)
        leader, follower = bench.answers["a"], bench.answers["b"]
    assert bench.join("b", follower.member_id) == JoinResult(
        ErrorCode.none, follower.member_id, 1, "consumer", "range", leader.member_id
    )


def test_a_leader_whose_answer_was_lost_gets_the_members_again(bench: Bench) -> None:
    bench.join("a")
    bench.home.advance(0)
    first = bench.answers["a"]
    assert bench.join("a", first.member_id) == first


@pytest.mark.parametrize(
    ("who", "changes"),
    [("a", {}), ("b", {"protocols": (("range", b"other topics"),)})],
    ids=["the leader, for topics may have changed", "a follower with another subscription"],
)
def test_a_member_of_a_stable_group_asks_for_a_rebalance(bench: Bench, who: str, changes: dict[str, Any]) -> None:
    joined = dict(zip("ab", bench.stable("a", "b"), strict=True))
    other = joined["b" if who == "a" else "a"]
    assert bench.join(who, joined[who].member_id, **changes) is None
    assert bench.state == "PreparingRebalance"
    assert bench.heartbeat(other) is ErrorCode.rebalance_in_progress
    answer = bench.join("other", other.member_id)
    assert answer is not None
    assert (answer.generation, bench.answers[who].generation) == (2, 2)


def test_a_new_member_interrupts_the_wait_for_assignments(bench: Bench) -> None:
    bench.join("a")
    bench.join("b")
    bench.home.advance(0)
    bench.sync("sync b", bench.answers["b"])
    bench.join("c")
    assert error_of(bench, "sync b") is ErrorCode.rebalance_in_progress


# --- syncing


def test_followers_get_their_assignments_once_the_leaders_is_stored(bench: Bench) -> None:
    bench.join("a")
    bench.join("b")
    bench.home.advance(0)
    a, b = bench.answers["a"], bench.answers["b"]
    assert bench.sync("b", b) is None
    bench.disk_thread.waits = True
    assert bench.sync("a", a, {a.member_id: b"A", b.member_id: b"B"}) is None
    assert bench.state == "CompletingRebalance"
    bench.disk_thread.work()
    assert [bench.answers[each].assignment for each in "ab"] == [b"A", b"B"]
    assert [bench.answers[each].protocol for each in "ab"] == ["range", "range"]
    again = bench.sync("b", b)
    assert again is not None
    assert again.assignment == b"B"


def test_a_member_without_assignment_gets_an_empty_one(bench: Bench) -> None:
    bench.join("a")
    bench.home.advance(0)
    answer = bench.sync("a", bench.answers["a"], {"nobody": b"x"})
    assert answer is not None
    assert (answer.error, answer.assignment) == (ErrorCode.none, b"")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group": ""}, ErrorCode.invalid_group_id),
        ({"group": "other"}, ErrorCode.unknown_member_id),
        ({"member_id": "x"}, ErrorCode.unknown_member_id),
        ({"instance_id": "i"}, ErrorCode.unknown_member_id),
        ({"generation": 0}, ErrorCode.illegal_generation),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol": "roundrobin"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": None, "protocol": None}, ErrorCode.none),
    ],
    ids=str,
)
def test_a_sync_is_checked(bench: Bench, changes: dict[str, Any], error: ErrorCode) -> None:
    (a,) = bench.stable("a")
    answer = bench.sync("a", a, **changes)
    assert answer is not None
    assert answer.error is error


def test_a_sync_during_a_rebalance_is_sent_back_to_join(bench: Bench) -> None:
    (a,) = bench.stable("a")
    bench.join("b")
    answer = bench.sync("a", a)
    assert answer is not None
    assert answer.error is ErrorCode.rebalance_in_progress


# --- heartbeats and leaving


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda a: a, ErrorCode.none),
        (lambda a: JoinResult(a.error, "x", a.generation), ErrorCode.unknown_member_id),
        (lambda a: JoinResult(a.error, a.member_id, 7), ErrorCode.illegal_generation),
    ],
    ids=["right", "unknown member", "another generation"],
)
def test_a_heartbeat_is_checked(bench: Bench, change: Callable[[JoinResult], JoinResult], error: ErrorCode) -> None:
    (a,) = bench.stable("a")
    assert bench.heartbeat(change(a)) is error
    assert Bench().started().heartbeat(a) is ErrorCode.unknown_member_id


def test_members_that_leave_are_gone_and_the_rest_joins_again(bench: Bench) -> None:
    a, b = bench.stable("a", "b")
    assert bench.leave(b, Leaving("x"), Leaving("", "i")) == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    ]
    assert bench.heartbeat(a) is ErrorCode.rebalance_in_progress
    answer = bench.join("a", a.member_id)
    assert answer is not None
    assert [each[0] for each in answer.members] == [a.member_id]


def test_an_id_that_was_given_out_can_leave_and_then_holds_up_nobody(bench: Bench) -> None:
    (a,) = bench.stable("a")
    pending = bench.join("p", requires_member_id=True)
    assert pending is not None
    assert bench.join("a", a.member_id) is None
    assert bench.leave(pending) == [ErrorCode.none]
    assert bench.answers["a"].generation == 2


def test_the_last_member_leaves_an_empty_group_that_is_stored(bench: Bench) -> None:
    (a,) = bench.stable("a")
    bench.leave(a)
    assert bench.state == "Empty"
    assert bench.stored is not None
    assert (bench.stored.members, bench.stored.generation, bench.stored.protocol) == ((), 2, None)
    assert bench.leave(a) == [ErrorCode.unknown_member_id]
    assert bench.heartbeat(a) is ErrorCode.unknown_member_id


def test_a_member_that_is_removed_while_its_sync_waits_is_told_so(bench: Bench) -> None:
    bench.join("a")
    bench.join("b")
    bench.home.advance(0)
    assert bench.sync("sync b", bench.answers["b"]) is None
    bench.leave(bench.answers["b"])
    assert error_of(bench, "sync b") is ErrorCode.unknown_member_id


# --- static members


def test_a_static_member_that_is_back_keeps_its_assignment_and_fences_its_old_id(bench: Bench) -> None:
    bench.join("a")
    bench.join("s", instance_id="i")
    bench.home.advance(0)
    a, s = bench.answers["a"], bench.answers["s"]
    bench.sync("s", s)
    bench.sync("a", a, {a.member_id: b"A", s.member_id: b"S"})
    back = bench.join("s", instance_id="i")
    assert back == JoinResult(ErrorCode.none, "i-3", 1, "consumer", "range", a.member_id)
    assert bench.state == "Stable"
    assert bench.heartbeat(s, instance_id="i") is ErrorCode.fenced_instance_id
    assert bench.heartbeat(back, instance_id="i") is ErrorCode.none
    answer = bench.sync("s", back, instance_id="i")
    assert answer is not None
    assert answer.assignment == b"S"
    assert bench.stored is not None
    assert {each.member_id for each in bench.stored.members} == {a.member_id, "i-3"}


@pytest.mark.parametrize(
    ("skips", "leader", "members"), [(True, "i-2", 1), (False, "i-1", 0)], ids=["version 9", "before version 9"]
)
def test_a_static_leader_that_is_back_does_not_assign_again(
    bench: Bench, skips: bool, leader: str, members: int
) -> None:
    bench.stable("s", instance_id="i")
    back = bench.join("s", instance_id="i", may_skip_assignment=skips)
    assert back is not None
    assert (back.member_id, back.leader, back.skip_assignment) == ("i-2", leader, skips)
    assert len(back.members) == members


def test_a_static_member_that_is_back_with_other_protocols_causes_a_rebalance_if_the_choice_changes(
    bench: Bench,
) -> None:
    bench.stable("s", instance_id="i")
    assert bench.join("s", instance_id="i", protocols=(("range", b"new"), *OTHER)) is not None
    assert bench.join("s", instance_id="i", protocols=(*OTHER, ("range", b"new"))).protocol == "roundrobin"  # type: ignore[union-attr]
    assert bench.answers["s"].generation == 2


def test_a_static_member_that_is_back_before_the_assignment_begins_the_rebalance_again(bench: Bench) -> None:
    bench.join("a")
    bench.join("s", instance_id="i")
    bench.home.advance(0)
    a, s = bench.answers["a"], bench.answers["s"]
    bench.sync("sync s", s)
    assert bench.join("s", instance_id="i") is None
    assert error_of(bench, "sync s") is ErrorCode.fenced_instance_id
    assert bench.heartbeat(a) is ErrorCode.rebalance_in_progress


def test_a_static_member_whose_second_instance_joins_is_fenced(bench: Bench) -> None:
    (first,) = bench.stable("s", instance_id="i")
    assert bench.join("twin", instance_id="i") is not None
    answer = bench.join("s", first.member_id, instance_id="i")
    assert answer is not None
    assert answer.error is ErrorCode.fenced_instance_id


def test_an_administrator_removes_a_static_member_by_its_instance(bench: Bench) -> None:
    bench.stable("s", instance_id="i")
    assert bench.leave(Leaving("x", "i"), Leaving("", "i")) == [ErrorCode.fenced_instance_id, ErrorCode.none]
    assert bench.state == "Empty"


def test_a_static_member_that_is_silent_during_a_rebalance_stays(bench: Bench) -> None:
    bench.join("a")
    bench.join("s", instance_id="i", session_timeout_ms=REBALANCE_MS * 2)
    bench.home.advance(0)
    a, s = bench.answers["a"], bench.answers["s"]
    bench.sync("s", s)
    bench.sync("a", a)
    bench.join("a", a.member_id)
    bench.home.advance(REBALANCE_MS)
    assert {each[0] for each in bench.answers["a"].members} == {a.member_id, s.member_id}


# --- the disk


def test_members_hear_that_their_group_could_not_be_stored_in_time(bench: Bench) -> None:
    bench.join("a", session_timeout_ms=SESSION_MS)
    bench.home.advance(0)
    bench.disk_thread.waits = True
    bench.sync("a", bench.answers["a"])
    bench.home.advance(5_000)
    assert error_of(bench, "a") is ErrorCode.rebalance_in_progress
    bench.disk_thread.work()
    assert bench.state == "PreparingRebalance"


def test_a_protocol_that_a_member_names_twice_counts_once(bench: Bench) -> None:
    twice = (("range", b"first"), ("range", b"second"))
    bench.join("a", protocols=twice)
    bench.home.advance(0)
    assert bench.answers["a"].protocol == "range"
    refused = bench.join("b", protocols=(("other", b""), ("other", b"")))
    assert refused is not None
    assert refused.error is ErrorCode.inconsistent_group_protocol
    bench.join("c")
    bench.join("a", bench.answers["a"].member_id, protocols=(*twice, *twice))
    assert [bench.answers[each].protocol for each in "ac"] == ["range"] * 2


def test_protocols_that_no_member_has_any_more_are_forgotten(bench: Bench) -> None:
    (joined,) = bench.stable("a")
    for number in range(10):
        bench.join("a", joined.member_id, protocols=(*PROTOCOLS, (f"p{number}", b"")))
    group = bench.coordinator.group(G)
    assert group._supported.keys() == {"range", "p9"}
    bench.leave(joined)
    assert not group._supported
