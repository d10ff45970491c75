"""Offsets of groups: who may commit and when, what fetches find, what expires and what may be deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pyspark_commitlog.gateway.groups.member import JoinResult
from pyspark_commitlog.gateway.groups.offsets import Commit
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.protocol.errors import RequestError
from pyspark_commitlog.storage import (
    SINK_PREFIX,
    CommittedOffset,
    CoordinatedGroups,
    GroupMetadataKey,
    GroupOffsets,
    Isolation,
    LogManager,
    OffsetCommitKey,
    OffsetCommitValue,
    Producer,
    TopicPartition,
    TransactionalOffsets,
)
from tests.support.groups import PROTOCOLS, SESSION_MS, Bench, G
from tests.support.logs.building import end_transaction

SUBSCRIBED_TO_T = bytes.fromhex("0000 00000001 0001 74 ffffffff")
RETENTION_MS = 60_000
T0 = TopicPartition("t", 0)


@pytest.fixture
def bench() -> Bench:
    return Bench().started()


# --- committing


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({}, ErrorCode.none),
        ({"generation": 0}, ErrorCode.illegal_generation),
        ({"member_id": "x"}, ErrorCode.unknown_member_id),
        ({"instance_id": "i"}, ErrorCode.unknown_member_id),
        ({"generation": -1, "member_id": ""}, ErrorCode.unknown_member_id),
        ({"generation": -1}, ErrorCode.illegal_generation),
        ({"group": "other"}, ErrorCode.illegal_generation),
    ],
    ids=str,
)
def test_a_commit_to_a_group_with_members_is_checked(bench: Bench, change: dict[str, Any], error: ErrorCode) -> None:
    (a,) = bench.stable("a")
    fields = {"group": G, "generation": a.generation, "member_id": a.member_id, "instance_id": None, **change}
    found: list[Any] = []
    commit = Commit(**fields, offsets={T0: OffsetCommitValue(5, "", bench.clock.now_ms())})
    bench.coordinator.offsets.commit(commit, found.append)
    assert found == [{T0: error}]
    assert bench.fetched() == (None if error else 5)


def test_a_client_outside_of_a_group_commits_while_the_group_is_empty(bench: Bench) -> None:
    assert bench.commit(1) is ErrorCode.none
    (a,) = bench.stable("a")
    assert bench.commit(2) is ErrorCode.unknown_member_id
    bench.leave(a)
    assert bench.commit(3) is ErrorCode.none
    assert bench.fetched() == 3
    assert bench.commit(1, group="") is ErrorCode.none  # the group without a name


def test_a_member_commits_during_a_rebalance_but_not_while_assignments_are_awaited(bench: Bench) -> None:
    (a,) = bench.stable("a")
    bench.join("b")
    assert bench.commit(1, a) is ErrorCode.none
    bench.join("a", a.member_id)
    assert bench.state == "CompletingRebalance"
    assert bench.commit(2, bench.answers["a"]) is ErrorCode.rebalance_in_progress
    assert bench.fetched() == 1


def test_metadata_that_is_too_long_is_refused_and_the_rest_committed(bench: Bench) -> None:
    short, long = T0, TopicPartition("t", 1)
    offsets = {short: OffsetCommitValue(1, "x" * 4096, 0), long: OffsetCommitValue(1, "x" * 4097, 0)}
    found: list[Any] = []
    bench.coordinator.offsets.commit(Commit(G, -1, "", None, offsets), found.append)
    bench.coordinator.offsets.commit(Commit(G, -1, "", None, {long: offsets[long]}), found.append)
    assert found == [{short: ErrorCode.none, long: ErrorCode.offset_metadata_too_large}, {long: found[0][long]}]


def test_commits_that_wait_share_one_batch(bench: Bench) -> None:
    bench.disk_thread.waits = True
    for number, group in enumerate(("a", "b", "c")):
        bench.commit(number, group=group)
    bench.disk_thread.work()
    reader = bench.manager.open_reader("__consumer_offsets", 0).read(0)
    assert reader is not None
    assert reader.window.headers.table["count"].tolist() == [3]
    assert [bench.fetched(each) for each in "abc"] == [0, 1, 2]


def test_a_commit_is_answered_after_its_timeout_and_may_still_be_written(bench: Bench) -> None:
    bench.disk_thread.waits = True
    assert bench.commit(7) is None
    bench.home.advance(4_999)
    assert bench.answers["commit g"] is None
    bench.home.advance(1)
    assert bench.answers["commit g"] is ErrorCode.request_timed_out
    bench.disk_thread.work()
    assert bench.fetched() == 7


# --- fetching


def test_what_was_never_committed_is_nothing_and_no_error(bench: Bench) -> None:
    assert bench.fetched() is None


def test_a_fetch_finds_what_another_process_committed(bench: Bench) -> None:
    bench.commit(1)
    with LogManager.open("/logs", clock=bench.clock, filesystem=bench.disk) as other:
        GroupOffsets(other).commit(G, {T0: CommittedOffset(9)})
    assert bench.fetched() == 9


def test_all_offsets_of_a_group_and_of_no_other_are_fetched(bench: Bench) -> None:
    bench.commit(1)
    bench.commit(2, topic="u")
    bench.commit(3, group="other")
    found: list[Any] = []
    bench.coordinator.offsets.fetch(G, None, lambda _, offsets: found.append(offsets))
    assert {each: value.offset for each, value in found[0].items()} == {T0: 1, TopicPartition("u", 0): 2}


# --- transactions


def commit_in_transaction(bench: Bench, offset: int, joined: JoinResult | None = None, **changes: Any) -> ErrorCode:
    generation, member_id = (-1, "") if joined is None else (joined.generation, joined.member_id)
    place = TopicPartition(changes.pop("topic", T0.topic), 0)
    commit = Commit(G, generation, member_id, None, {place: OffsetCommitValue(offset, "", bench.clock.now_ms())})
    found: list[Any] = []
    check = changes.pop("check", lambda: None)
    bench.coordinator.offsets.commit_transactional(commit, Producer(5, 0), check, found.append)
    code: ErrorCode = found[0][place]
    return code


def test_offsets_of_a_transaction_are_there_after_its_marker_and_unstable_before(bench: Bench) -> None:
    bench.commit(1)
    assert commit_in_transaction(bench, 8) is ErrorCode.none
    assert (bench.fetched(), bench.fetched(require_stable=True)) == (1, ErrorCode.unstable_offset_commit)
    end_transaction(bench.manager.open_log("__consumer_offsets", 0), 5, commit=True)
    assert (bench.fetched(), bench.fetched(require_stable=True)) == (8, 8)


def test_offsets_of_a_transaction_are_checked_against_the_group(bench: Bench) -> None:
    (a,) = bench.stable("a")
    assert commit_in_transaction(bench, 1) is ErrorCode.none  # an old client says nothing of a member
    assert commit_in_transaction(bench, 1, a) is ErrorCode.none
    assert commit_in_transaction(bench, 1, JoinResult(a.error, a.member_id, 9)) is ErrorCode.illegal_generation
    assert commit_in_transaction(bench, 1, JoinResult(a.error, "x", 1)) is ErrorCode.unknown_member_id
    bench.leave(a)
    assert commit_in_transaction(bench, 1, a) is ErrorCode.unknown_member_id


def test_offsets_of_a_transaction_that_has_ended_are_refused(bench: Bench) -> None:
    def ended() -> None:
        raise RequestError(ErrorCode.invalid_txn_state)

    assert commit_in_transaction(bench, 1, check=ended) is ErrorCode.invalid_txn_state
    assert bench.fetched(require_stable=True) is None


@pytest.mark.parametrize("is_last", [False, True])
def test_offsets_that_wait_are_written_in_their_order_and_those_of_transactions_together(
    bench: Bench, is_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    together: list[int] = []
    write = CoordinatedGroups.write_transactional

    def counted(groups: CoordinatedGroups, writes: Sequence[TransactionalOffsets]) -> Sequence[Exception | None]:
        together.append(len(writes))
        return write(groups, writes)

    monkeypatch.setattr(CoordinatedGroups, "write_transactional", counted)
    bench.disk_thread.waits = True
    codes: list[Any] = []
    if is_last:
        bench.commit(1)
    for offset in (2, 3):
        commit = Commit(G, -1, "", None, {T0: OffsetCommitValue(offset, "", bench.clock.now_ms())})
        bench.coordinator.offsets.commit_transactional(commit, Producer(5, 0), lambda: None, codes.append)
    if not is_last:
        bench.commit(1)
    assert codes == []
    bench.home.advance(60_000)  # a client that is answered too early could go on with another transaction
    assert codes == []
    bench.disk_thread.work()
    assert codes == [{T0: ErrorCode.none}] * 2
    assert together == [2]
    reader = bench.manager.open_reader("__consumer_offsets", 0).read(0, isolation=Isolation.READ_UNCOMMITTED)
    assert reader is not None
    assert reader.window.headers.is_transactional.tolist() == ([False, True, True] if is_last else [True, True, False])


# --- expiring


def expiring(**settings: Any) -> Bench:
    settings = {"offsets_retention_minutes": 1, "offsets_retention_check_interval_ms": 1_000, **settings}
    return Bench(**settings).started()


def test_offsets_of_a_client_outside_of_groups_expire_after_their_commit() -> None:
    bench = expiring()
    bench.commit(1)
    bench.home.advance(RETENTION_MS // 2)
    bench.commit(2, topic="u")
    bench.home.advance(RETENTION_MS // 2)
    assert (bench.fetched(), bench.fetched(topic="u")) == (None, 2)
    bench.home.advance(RETENTION_MS)
    assert bench.records() == {}


def test_offsets_of_a_group_expire_after_it_became_empty_and_the_group_with_them() -> None:
    bench = expiring()
    (a,) = bench.stable("a")
    bench.commit(1, a)
    for _ in range(20):
        bench.home.advance(SESSION_MS // 2)
        bench.heartbeat(a)
    bench.leave(a)
    bench.home.advance(RETENTION_MS - 1)
    assert (bench.fetched(), bench.state) == (1, "Empty")
    bench.home.advance(1_000)
    assert (bench.fetched(), bench.state, bench.stored) == (None, "Dead", None)


def test_members_that_read_a_topic_keep_its_offsets_alive() -> None:
    bench = expiring()
    (a,) = bench.stable("a", protocols=(("range", SUBSCRIBED_TO_T),))
    bench.commit(1, a)
    bench.commit(2, a, topic="u")
    for _ in range(20):
        bench.home.advance(SESSION_MS // 2)
        bench.heartbeat(a)
    assert (bench.fetched(), bench.fetched(topic="u")) == (1, None)


def test_nothing_of_a_group_expires_while_it_rebalances() -> None:
    """Members may be about to subscribe to other topics."""
    bench = expiring()
    (a,) = bench.stable("a", protocols=(("range", SUBSCRIBED_TO_T),), rebalance_timeout_ms=RETENTION_MS * 9)
    bench.commit(2, a, topic="u")
    bench.join("b")
    for _ in range(20):
        bench.home.advance(SESSION_MS // 2)
        assert bench.heartbeat(a) is ErrorCode.rebalance_in_progress
    assert bench.fetched(topic="u") == 2


def test_nothing_of_a_group_with_unknown_subscriptions_expires() -> None:
    bench = expiring()
    (a,) = bench.stable("a", protocol_type="connect", protocols=PROTOCOLS)
    bench.commit(1, a)
    for _ in range(20):
        bench.home.advance(SESSION_MS // 2)
        bench.heartbeat(a)
    assert bench.fetched() == 1


def test_the_progress_of_a_sink_never_expires_while_what_else_its_group_committed_does() -> None:
    bench = expiring()
    bench.commit(3, topic=f"{SINK_PREFIX}orders")
    bench.commit(4)
    bench.home.advance(RETENTION_MS * 100)
    assert (bench.fetched(topic=f"{SINK_PREFIX}orders"), bench.fetched()) == (3, None)


def test_a_commit_with_its_own_time_to_expire_keeps_to_that() -> None:
    bench = expiring()
    now_ms = bench.clock.now_ms()
    soon, late = (
        OffsetCommitValue(1, "", now_ms, expire_timestamp=now_ms + each) for each in (1_000, RETENTION_MS * 2)
    )
    offsets = {T0: soon, TopicPartition("u", 0): late}
    bench.coordinator.offsets.commit(Commit(G, -1, "", None, offsets), lambda _: None)
    bench.home.advance(1_000)
    assert bench.fetched() is None
    bench.home.advance(RETENTION_MS)
    assert bench.fetched(topic="u") == 1


def test_an_offset_that_was_committed_again_since_it_was_looked_at_stays() -> None:
    bench = expiring()
    bench.commit(1)
    bench.disk_thread.waits = True
    bench.home.advance(RETENTION_MS)
    bench.commit(2)
    bench.disk_thread.work()
    assert bench.fetched() == 2


# --- deleting


def deleted(bench: Bench, *topics: str, group: str = G) -> tuple[ErrorCode, dict[str, ErrorCode]]:
    found: list[Any] = []
    partitions = [TopicPartition(each, 0) for each in topics]
    bench.coordinator.offsets.delete(group, partitions, lambda *answer: found.append(answer))
    return found[0][0], {each.topic: code for each, code in found[0][1].items()}


def test_offsets_that_no_member_needs_are_deleted() -> None:
    bench = Bench().started()
    (a,) = bench.stable("a", protocols=(("range", SUBSCRIBED_TO_T),))
    for topic in ("t", "u", f"{SINK_PREFIX}orders"):
        bench.commit(1, a, topic=topic)
    assert deleted(bench, "t", "u", f"{SINK_PREFIX}orders", "never") == (
        ErrorCode.none,
        {
            "t": ErrorCode.group_subscribed_to_topic,
            "u": ErrorCode.none,
            f"{SINK_PREFIX}orders": ErrorCode.group_subscribed_to_topic,
            "never": ErrorCode.none,
        },
    )
    assert [bench.fetched(topic=each) for each in ("t", "u", f"{SINK_PREFIX}orders")] == [1, None, 1]
    bench.leave(a)
    assert deleted(bench, "t") == (ErrorCode.none, {"t": ErrorCode.none})
    assert bench.fetched() is None


def test_progress_of_a_sink_that_only_an_open_transaction_has_is_not_deleted(bench: Bench) -> None:
    topic = f"{SINK_PREFIX}orders"
    assert commit_in_transaction(bench, 8, topic=topic) is ErrorCode.none
    assert deleted(bench, topic) == (ErrorCode.none, {topic: ErrorCode.group_subscribed_to_topic})
    refused: list[ErrorCode] = []
    bench.coordinator.delete(G, refused.append)
    assert refused == [ErrorCode.non_empty_group]
    end_transaction(bench.manager.open_log("__consumer_offsets", 0), 5, commit=True)
    assert bench.fetched(topic=topic) == 8


def test_offsets_of_no_group_and_of_a_group_in_use_are_not_deleted(bench: Bench) -> None:
    assert deleted(bench, "t") == (ErrorCode.group_id_not_found, {})
    bench.stable("a", protocol_type="connect")
    assert deleted(bench, "t") == (ErrorCode.non_empty_group, {})
    assert deleted(bench, "t", group="") == (ErrorCode.invalid_group_id, {})


def test_offsets_of_a_deleted_topic_are_deleted_in_all_groups(bench: Bench) -> None:
    bench.commit(1)
    bench.commit(1, topic="u")
    bench.commit(1, group="other")
    bench.coordinator.offsets.delete_topics({"t"})
    assert (bench.fetched(), bench.fetched("other"), bench.fetched(topic="u")) == (None, None, 1)
    assert OffsetCommitKey(G, "u", 0) in bench.records()
    assert GroupMetadataKey(G) not in bench.records()


def test_offsets_of_a_deleted_topic_in_an_open_transaction_do_not_come_back(bench: Bench) -> None:
    assert commit_in_transaction(bench, 500) is ErrorCode.none
    assert commit_in_transaction(bench, 8, topic="u") is ErrorCode.none
    bench.coordinator.offsets.delete_topics({"t"})
    end_transaction(bench.manager.open_log("__consumer_offsets", 0), 5, commit=True)
    assert (bench.fetched(), bench.fetched(topic="u")) == (None, 8)
    assert bench.restarted().fetched() is None


def test_an_offset_that_is_committed_after_a_topic_was_made_again_stays(bench: Bench) -> None:
    bench.commit(10)
    bench.disk_thread.waits = True
    bench.commit(1, group="other", topic="u")  # its flush waits before the deletion
    bench.coordinator.offsets.delete_topics({"t"})
    bench.commit(3, by="later")
    bench.disk_thread.work()
    assert bench.answers["commit later"] is ErrorCode.none
    bench.disk_thread.waits = False
    assert (bench.fetched(), bench.fetched("other", "u")) == (3, 1)
