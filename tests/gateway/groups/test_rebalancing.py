"""The timers of a rebalance, those of Kafka 3.9.1 (DelayedJoin, InitialDelayedJoin, DelayedSync, DelayedHeartbeat)."""

from __future__ import annotations

import pytest

from pyspark_commitlog.protocol.bodies import ErrorCode
from tests.support.groups import REBALANCE_MS, SESSION_MS, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench().started()


# --- the first rebalance


@pytest.mark.parametrize(
    ("others_after_ms", "rebalance_ms", "ends_after_ms"),
    [
        ((), 60_000, 3_000),
        ((1_000,), 60_000, 6_000),
        ((1_000, 2_000), 60_000, 6_000),
        ((1_000, 4_000), 60_000, 9_000),
        ((1_000, 4_000, 7_000, 10_000), 10_000, 10_000),
        ((), 1_000, 3_000),
    ],
)
def test_the_first_members_wait_for_others_and_longer_when_more_come(
    others_after_ms: tuple[int, ...], rebalance_ms: int, ends_after_ms: int
) -> None:
    bench = Bench(group_initial_rebalance_delay_ms=3_000).started()
    bench.join("first", rebalance_timeout_ms=rebalance_ms)
    now_ms = 0
    for number, after_ms in enumerate(others_after_ms):
        bench.home.advance(min(after_ms, ends_after_ms - 1) - now_ms)
        now_ms = min(after_ms, ends_after_ms - 1)
        bench.join(f"other {number}", rebalance_timeout_ms=rebalance_ms)
    bench.home.advance(ends_after_ms - 1 - now_ms)
    assert bench.answers["first"] is None
    bench.home.advance(1)
    assert len(bench.answers["first"].members) == 1 + len(others_after_ms)


# --- later ones


def test_a_rebalance_ends_when_the_last_known_member_has_joined(bench: Bench) -> None:
    a, b = bench.stable("a", "b")
    bench.join("c")
    bench.join("a", a.member_id)
    assert bench.answers["c"] is None
    bench.join("b", b.member_id)
    assert [bench.answers[each].generation for each in "abc"] == [2, 2, 2]


def test_members_that_do_not_join_again_are_removed_after_the_largest_rebalance_timeout(bench: Bench) -> None:
    a, b = bench.stable("a", "b", session_timeout_ms=REBALANCE_MS * 2)
    bench.join("c", rebalance_timeout_ms=REBALANCE_MS // 2)
    bench.home.advance(REBALANCE_MS - 1)
    assert bench.answers["c"] is None
    bench.home.advance(1)
    assert [each[0] for each in bench.answers["c"].members] == [bench.answers["c"].member_id]
    assert bench.heartbeat(a) is bench.heartbeat(b) is ErrorCode.unknown_member_id


def test_a_leader_that_does_not_join_again_is_replaced_by_one_that_did(bench: Bench) -> None:
    bench.join("s", instance_id="i", session_timeout_ms=REBALANCE_MS * 2)
    bench.join("a")
    bench.home.advance(0)
    s, a = bench.answers["s"], bench.answers["a"]
    assert a.leader == s.member_id
    bench.join("a", a.member_id, protocols=(("range", b"changed"),))
    bench.home.advance(REBALANCE_MS)
    assert bench.answers["a"].leader == a.member_id
    assert len(bench.answers["a"].members) == 2  # the static one is still among them


def test_a_rebalance_in_which_nobody_joins_waits_for_session_timeouts(bench: Bench) -> None:
    bench.join("s", instance_id="i", session_timeout_ms=REBALANCE_MS * 3)
    bench.join("a")
    bench.home.advance(0)
    s, a = bench.answers["s"], bench.answers["a"]
    bench.sync("s", s)
    bench.sync("a", a)
    bench.leave(a)
    bench.home.advance(REBALANCE_MS)
    assert bench.state == "PreparingRebalance"
    bench.home.advance(REBALANCE_MS * 2)
    assert bench.state == "Empty"


def test_an_id_that_was_given_out_holds_up_the_rebalance_until_its_session_timeout(bench: Bench) -> None:
    (a,) = bench.stable("a")
    bench.join("p", requires_member_id=True)
    assert bench.join("a", a.member_id) is None
    bench.home.advance(SESSION_MS - 1)
    assert bench.answers["a"] is None
    bench.home.advance(1)
    assert bench.answers["a"].generation == 2


def test_the_protocol_with_most_votes_of_those_that_all_have_is_chosen(bench: Bench) -> None:
    for name, order in (("a", "xyz"), ("b", "yxw"), ("c", "yx"), ("d", "wyx")):
        bench.join(name, protocols=tuple((each, name.encode()) for each in order))
    bench.home.advance(0)
    assert bench.answers["a"].protocol == "y"  # all have x and y, and a votes for x
    assert [each[2] for each in bench.answers["a"].members] == [b"a", b"b", b"c", b"d"]


# --- silence


def test_a_member_that_sends_nothing_for_its_session_timeout_is_removed(bench: Bench) -> None:
    a, b = bench.stable("a", "b")
    bench.home.advance(SESSION_MS - 1)
    assert bench.heartbeat(a) is ErrorCode.none
    bench.home.advance(1)
    assert bench.heartbeat(b) is ErrorCode.unknown_member_id
    assert bench.heartbeat(a) is ErrorCode.rebalance_in_progress


@pytest.mark.parametrize("sign", ["commit", "sync", "heartbeat"])
def test_each_request_of_a_member_is_a_sign_of_life(bench: Bench, sign: str) -> None:
    (a,) = bench.stable("a")
    for _ in range(3):
        bench.home.advance(SESSION_MS - 1)
        if sign == "commit":
            bench.commit(1, a)
        elif sign == "sync":
            bench.sync("a", a)
        else:
            bench.heartbeat(a)
    bench.home.advance(SESSION_MS - 1)
    assert bench.state == "Stable"


def test_a_member_whose_request_waits_need_not_send_heartbeats(bench: Bench) -> None:
    a, b = bench.stable("a", "b")
    bench.join("c")
    bench.join("a", a.member_id)
    for _ in range(4):
        bench.home.advance(SESSION_MS // 2)
        assert bench.heartbeat(b) is ErrorCode.rebalance_in_progress
    assert (bench.answers["a"], bench.answers["c"]) == (None, None)
    bench.join("b", b.member_id)
    assert [bench.answers[each].error for each in "abc"] == [ErrorCode.none] * 3


def test_a_new_member_whose_first_join_waits_for_five_minutes_is_told_to_begin_again(bench: Bench) -> None:
    five_minutes = 5 * 60_000
    (a,) = bench.stable("a", rebalance_timeout_ms=five_minutes * 2, session_timeout_ms=five_minutes * 2)
    bench.join("new")
    bench.home.advance(five_minutes)
    assert bench.answers["new"].error is ErrorCode.unknown_member_id
    assert bench.heartbeat(a) is ErrorCode.rebalance_in_progress


def test_members_that_send_no_sync_within_the_rebalance_timeout_are_removed(bench: Bench) -> None:
    for name in "ab":
        bench.join(name, session_timeout_ms=REBALANCE_MS * 2)
    bench.home.advance(0)
    a, b = bench.answers["a"], bench.answers["b"]
    bench.sync("a", a)
    bench.home.advance(REBALANCE_MS)
    assert bench.heartbeat(b) is ErrorCode.unknown_member_id
    assert bench.heartbeat(a) is ErrorCode.rebalance_in_progress


def test_a_heartbeat_counts_though_the_timer_is_due_in_the_same_moment(bench: Bench) -> None:
    """A worker may have taken the timer's task already when the heartbeat comes before it."""
    (a,) = bench.stable("a")
    silence = bench.coordinator.group("g").members[a.member_id].silence
    assert silence is not None
    task = silence.task
    assert task is not None
    assert bench.heartbeat(a) is ErrorCode.none
    task()
    assert bench.heartbeat(a) is ErrorCode.none


# --- the disk


def test_heartbeats_are_answered_while_the_disk_is_slow(bench: Bench) -> None:
    (a,) = bench.stable("a")
    bench.disk_thread.waits = True
    assert bench.commit(1, a) is None
    assert bench.heartbeat(a) is ErrorCode.none


def test_an_assignment_that_is_stored_after_another_member_joined_is_forgotten(bench: Bench) -> None:
    bench.join("a")
    bench.home.advance(0)
    bench.disk_thread.waits = True
    bench.sync("sync a", bench.answers["a"], {"a-1": b"old"})
    bench.join("b")
    assert bench.answers["sync a"].error is ErrorCode.rebalance_in_progress
    bench.disk_thread.work()
    assert bench.state == "PreparingRebalance"
