"""Groups of Kafka 4: situations of members, with the answers of Kafka 4.3.1's coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import GroupChange, GroupRecordKey, GroupsInUse, encode_record
from tests.support.groups import REBALANCE_MS, Bench, G, parts, told, topic_id

SESSION_MS = 45_000


@pytest.fixture
def bench() -> Bench:
    return Bench().topics(t=4, u=2).started()


def beaten(bench: Bench, member: str, epoch: int, **fields: Any) -> tuple[ErrorCode, int, object]:
    result = bench.beat(member, epoch, **fields)
    assert result is not None
    return result.error, result.epoch, told(result)


def state(bench: Bench) -> str:
    found: list[str] = []
    bench.coordinator.consumers.describe(
        G, lambda error, group: found.append(group.state.value if group else error.name)
    )
    return found[0]


def error_of(bench: Bench, member: str, epoch: int, **fields: Any) -> ErrorCode:
    return beaten(bench, member, epoch, **fields)[0]


# --- joining and sharing


def test_the_first_member_gets_all_partitions_at_once(bench: Bench) -> None:
    result = bench.enter("a", "t")
    assert (result.error, result.member_id, result.epoch, result.interval_ms) == (ErrorCode.none, "a", 2, 5_000)
    assert told(result) == parts("t", 0, 1, 2, 3)
    assert state(bench) == "Stable"


def test_a_partition_is_given_only_after_its_owner_has_revoked_it(bench: Bench) -> None:
    bench.enter("a", "t")
    assert told(bench.enter("b", "t")) == frozenset()
    assert state(bench) == "Reconciling"
    assert beaten(bench, "a", 2) == (ErrorCode.none, 2, parts("t", 0, 1))
    assert beaten(bench, "b", 3) == (ErrorCode.none, 3, None)  # not yet
    assert beaten(bench, "a", 2, owned=parts("t", 0, 1, 2)) == (ErrorCode.none, 2, None)
    assert beaten(bench, "a", 2, owned=parts("t", 0, 1)) == (ErrorCode.none, 3, None)
    assert beaten(bench, "b", 3) == (ErrorCode.none, 3, parts("t", 2, 3))
    assert state(bench) == "Stable"


def test_a_member_that_leaves_gives_up_all_at_once(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.enter("b", "t")
    assert beaten(bench, "a", -1)[:2] == (ErrorCode.none, -1)
    assert beaten(bench, "b", 3) == (ErrorCode.none, 4, parts("t", 0, 1, 2, 3))


def test_members_that_fall_silent_are_removed_after_the_session_timeout(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.home.advance(SESSION_MS - 1)
    assert state(bench) == "Stable"
    bench.home.advance(1)
    assert state(bench) == "Empty"
    assert error_of(bench, "a", 2) is ErrorCode.unknown_member_id


def test_a_member_that_keeps_what_it_must_revoke_is_removed_after_its_rebalance_timeout() -> None:
    bench = Bench(group_consumer_session_timeout_ms=REBALANCE_MS).topics(t=4).started()
    bench.enter("a", "t")
    bench.enter("b", "t")
    for _ in range(4):
        error_of(bench, "a", 2, owned=parts("t", 0, 1, 2, 3))
        error_of(bench, "b", 3)
        bench.home.advance(REBALANCE_MS // 4)
    assert error_of(bench, "a", 2) is ErrorCode.unknown_member_id
    assert told(bench.beat("b", 3)) == parts("t", 0, 1, 2, 3)


def test_a_topic_that_grows_is_assigned_at_the_next_heartbeat(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.topics(t=6, u=2)
    assert beaten(bench, "a", 2) == (ErrorCode.none, 3, parts("t", *range(6)))


def test_another_topic_that_grows_changes_nothing(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.topics(t=4, u=3)
    assert beaten(bench, "a", 2) == (ErrorCode.none, 2, None)


def test_a_member_that_says_everything_is_told_everything(bench: Bench) -> None:
    bench.enter("a", "t")
    again = {"rebalance_timeout_ms": REBALANCE_MS, "topics": ("t",), "owned": parts("t", 0, 1, 2, 3)}
    assert beaten(bench, "a", 2, **again) == (ErrorCode.none, 2, parts("t", 0, 1, 2, 3))


def test_the_assignor_that_most_members_ask_for_is_used(bench: Bench) -> None:
    bench.enter("a", "t", "u", assignor="range")
    bench.enter("b", "t", "u")
    assert told(bench.beat("a", 2)) == parts("t", 0, 1) | parts("u", 0)


# --- regular expressions


def test_a_regular_expression_matches_whole_names_now_and_later(bench: Bench) -> None:
    bench.topics(t=1, u=1, tt=1)
    assert told(bench.enter("a", regex="[tu]")) == parts("t", 0) | parts("u", 0)
    bench.topics(t=1, u=1, tt=1, v=1)
    assert told(bench.beat("a", 2)) is None
    bench.topics(t=1)
    assert told(bench.beat("a", 2)) == parts("t", 0)
    assert beaten(bench, "a", 2, owned=parts("t", 0))[1] == 3
    assert GroupRecordKey(16, G, "[tu]") in bench.records()
    bench.beat("a", 3, regex="", topics=("t",))
    assert GroupRecordKey(16, G, "[tu]") not in bench.records()


def test_topics_that_the_client_may_not_see_are_not_matched(bench: Bench) -> None:
    assert told(bench.enter("a", regex=".*", may_see=lambda topic: topic == "u")) == parts("u", 0, 1)


@pytest.mark.parametrize("regex", ["(", "a)|(b", "a{1001}", "(?=a)"])
def test_an_invalid_regular_expression_is_refused_and_leaves_nothing(bench: Bench, regex: str) -> None:
    assert bench.enter("a", regex=regex).error is ErrorCode.invalid_regular_expression
    assert state(bench) == "group_id_not_found"
    assert not bench.records()


def test_a_regular_expression_that_others_take_ages_for_is_matched_in_no_time(bench: Bench) -> None:
    bench.topics(**{"a" * 200: 1})
    assert told(bench.enter("a", regex="(a+)+b")) == frozenset()


# --- refused


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group": ""}, "GroupId can't be empty."),
        ({"instance_id": " "}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"epoch": -3}, "MemberEpoch is invalid."),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": parts("t", 0)}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"topics": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
    ],
    ids=str,
)
def test_a_request_that_says_too_little_is_invalid(bench: Bench, fields: dict[str, Any], text: str) -> None:
    whole = {"rebalance_timeout_ms": 1, "topics": ("t",), "owned": frozenset(), **fields}
    result = bench.beat(whole.pop("member_id", "a"), whole.pop("epoch", 0), **whole)
    assert result is not None
    assert (result.error, result.message) == (ErrorCode.invalid_request, text)


def test_an_assignor_that_is_not_configured_is_refused() -> None:
    bench = Bench(group_consumer_assignors="range").topics(t=1).started()
    assert bench.enter("a", "t", assignor="uniform").error is ErrorCode.unsupported_assignor


def test_a_group_has_no_more_members_than_it_may() -> None:
    bench = Bench(group_consumer_max_size=1).topics(t=1).started()
    bench.enter("a", "t")
    assert bench.enter("b", "t").error is ErrorCode.group_max_size_reached
    assert error_of(bench, "a", 2) is ErrorCode.none


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_member_with_another_epoch_is_fenced(bench: Bench, epoch: int) -> None:
    bench.enter("a", "t")
    assert error_of(bench, "a", epoch, owned=parts("t", 0)) is ErrorCode.fenced_member_epoch


def test_a_member_whose_answer_was_lost_goes_on_with_its_last_epoch(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.topics(t=5)
    assert beaten(bench, "a", 2)[1] == 3
    assert error_of(bench, "a", 2, owned=parts("u", 0)) is ErrorCode.fenced_member_epoch
    assert beaten(bench, "a", 2, owned=parts("t", 0)) == (ErrorCode.none, 3, None)


def test_a_fenced_member_joins_again_under_its_id(bench: Bench) -> None:
    bench.enter("a", "t")
    assert error_of(bench, "a", 7) is ErrorCode.fenced_member_epoch
    assert told(bench.enter("a", "t")) == parts("t", 0, 1, 2, 3)


# --- static members


def test_a_static_member_that_is_back_in_time_gets_what_it_had(bench: Bench) -> None:
    bench.enter("a", "t", instance_id="i")
    bench.enter("b", "t")
    bench.beat("a", 2, instance_id="i")
    bench.beat("a", 2, instance_id="i", owned=parts("t", 0, 1))
    assert beaten(bench, "a", -2, instance_id="i")[:2] == (ErrorCode.none, -2)
    assert beaten(bench, "b", 3)[2] == parts("t", 2, 3)
    assert told(bench.enter("c", "t", instance_id="i")) == parts("t", 0, 1)
    assert error_of(bench, "a", 3, instance_id="i") is ErrorCode.fenced_instance_id
    assert {key.name for key in bench.records() if isinstance(key, GroupRecordKey) and key.kind == 5} == {"b", "c"}


def test_a_static_member_that_stays_away_is_removed(bench: Bench) -> None:
    bench.enter("a", "t", instance_id="i")
    bench.beat("a", -2, instance_id="i")
    bench.home.advance(SESSION_MS)
    assert state(bench) == "Empty"


def test_an_instance_id_that_is_in_use_is_refused(bench: Bench) -> None:
    bench.enter("a", "t", instance_id="i")
    assert bench.enter("b", "t", instance_id="i").error is ErrorCode.unreleased_instance_id
    assert error_of(bench, "b", -1, instance_id="i") is ErrorCode.fenced_instance_id
    assert error_of(bench, "b", 2, instance_id="j") is ErrorCode.unknown_member_id


# --- beside classic groups


def test_a_classic_member_takes_over_an_empty_group(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.beat("a", -1)
    bench.stable("c")
    assert bench.state == "Stable"
    assert not [key for key in bench.records() if isinstance(key, GroupRecordKey)]
    assert bench.restarted().state == "Stable"


def test_a_member_takes_over_an_empty_classic_group(bench: Bench) -> None:
    (classic,) = bench.stable("c")
    bench.leave(classic)
    assert told(bench.enter("a", "t")) == parts("t", 0, 1, 2, 3)
    assert bench.stored is None
    assert state(bench.restarted()) == "Stable"


def test_commands_are_kept_away_from_a_group_that_was_classic_until_a_moment_ago(bench: Bench) -> None:
    command = GroupsInUse(bench.manager)
    bench.coordinator._groups.in_use = GroupsInUse(bench.manager)
    (classic,) = bench.stable("c")
    bench.disk_thread.waits = True
    bench.leave(classic)  # that the group is empty is not stored yet
    bench.beat("a", 0, rebalance_timeout_ms=REBALANCE_MS, topics=("t",), owned=frozenset())
    bench.disk_thread.work()
    assert told(bench.answers["a"]) == parts("t", 0, 1, 2, 3)
    assert not command.take(G)
    bench.disk_thread.waits = False
    bench.beat("a", -1)
    assert command.take(G)


# --- offsets


def test_offsets_are_committed_with_the_epoch_of_a_member(bench: Bench) -> None:
    bench.enter("a", "t")
    member = {"generation": 2, "member_id": "a"}
    assert bench.commit(5, **member) is ErrorCode.none
    assert bench.fetched() == 5
    assert bench.commit(6, **{**member, "generation": 1}) is ErrorCode.stale_member_epoch
    assert bench.commit(6, **{**member, "member_id": "x"}) is ErrorCode.unknown_member_id
    assert bench.commit(6, **member, version=8) is ErrorCode.unsupported_version
    assert bench.commit(6) is ErrorCode.unknown_member_id


def test_an_offset_is_committed_with_the_epoch_in_which_its_partition_came(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.topics(t=5, u=2)
    assert beaten(bench, "a", 2)[1] == 3  # the answer may be on its way while the client commits
    assert bench.commit(5, generation=2, member_id="a") is ErrorCode.none


def test_an_empty_group_takes_offsets_from_outside(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.beat("a", -1)
    assert bench.commit(5) is ErrorCode.none
    assert bench.fetched() == 5


@pytest.mark.parametrize(
    ("member", "error"),
    [
        (("a", 2), ErrorCode.none),
        ((None, -1), ErrorCode.none),
        (("a", 1), ErrorCode.stale_member_epoch),
        (("x", 2), ErrorCode.unknown_member_id),
    ],
)
def test_a_member_asks_for_offsets_with_its_epoch(bench: Bench, member: Any, error: ErrorCode) -> None:
    bench.enter("a", "t")
    found: list[ErrorCode] = []
    bench.coordinator.offsets.fetch(G, None, lambda code, _: found.append(code), member=member)
    assert found == [error]


# --- asking about groups, and deleting them


def listed(bench: Bench, **which: Any) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    bench.coordinator.list(lambda error, groups: found.extend(tuple(each) for each in groups), **which)
    return found


def test_groups_are_listed_with_type_and_state(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.commit(1, group="simple")
    assert listed(bench) == [(G, "consumer", "Stable", "consumer"), ("simple", "", "Empty", "classic")]
    assert listed(bench, types=["Consumer"]) == listed(bench, states=["stable"]) == listed(bench)[:1]
    assert listed(bench, types=["classic"]) == listed(bench)[1:]
    assert bench.state == "Dead"  # to those who ask for a classic group


def test_only_an_empty_group_is_deleted_and_with_all_its_records(bench: Bench) -> None:
    codes: list[ErrorCode] = []
    bench.enter("a", "t")
    bench.commit(5, generation=2, member_id="a")
    bench.coordinator.delete(G, codes.append)
    bench.beat("a", -1)
    bench.coordinator.delete(G, codes.append)
    assert codes == [ErrorCode.non_empty_group, ErrorCode.none]
    assert not bench.records()
    assert listed(bench) == []


def test_an_empty_group_and_its_offsets_expire_but_not_those_of_topics_that_are_read() -> None:
    bench = Bench(offsets_retention_minutes=1).topics(t=1, u=1).started()
    bench.enter("a", "t")
    bench.commit(5, generation=2, member_id="a")
    bench.commit(5, generation=2, member_id="a", topic="u")
    bench.clock.advance(60_000)
    bench.coordinator.offsets.expire()
    assert (bench.fetched(), bench.fetched(topic="u")) == (5, None)
    bench.beat("a", -1)
    bench.coordinator.offsets.expire()
    assert not bench.records()
    assert listed(bench) == []


# --- what is stored


def test_a_coordinator_that_starts_again_goes_on_where_the_last_one_was(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.enter("b", "t")
    bench.beat("a", 2)
    other = bench.restarted().topics(t=4, u=2)
    assert beaten(other, "b", 3) == (ErrorCode.none, 3, None)
    assert beaten(other, "a", 2, owned=parts("t", 0, 1)) == (ErrorCode.none, 3, None)
    assert beaten(other, "b", 3) == (ErrorCode.none, 3, parts("t", 2, 3))
    other.home.advance(SESSION_MS)
    assert state(other) == "Empty"


def test_nobody_is_answered_before_the_change_is_durable(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.enter("b", "t")
    bench.beat("a", 2)
    bench.disk_thread.waits = True
    assert bench.beat("a", 2, owned=parts("t", 0, 1)) is None
    assert bench.beat("b", 3) is None
    bench.disk_thread.work()
    assert told(bench.answers["b"]) == parts("t", 2, 3)


def test_a_group_that_another_coordinator_has_stored_is_read_again(bench: Bench) -> None:
    bench.enter("a", "t")
    other = bench.restarted().topics(t=5)
    assert beaten(other, "a", 2)[1] == 3
    bench.topics(t=6)
    assert error_of(bench, "a", 2) is not ErrorCode.none
    assert beaten(bench, "a", 3)[:2] == (ErrorCode.none, 4)


def test_a_group_with_a_record_that_does_not_decode_is_not_served_and_not_overwritten(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.groups.write([[GroupChange(GroupRecordKey(3, G), b"\0\7later")]])
    before = bench.records()
    other = bench.restarted().topics(t=4)
    assert other.enter("b", "t").error is ErrorCode.coordinator_load_in_progress
    assert other.records() == before


def test_a_group_with_a_record_that_does_not_decode_is_served_once_it_was_deleted(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.groups.write([[GroupChange(GroupRecordKey(3, G), b"\0\7later")]])
    other = bench.restarted().topics(t=4)
    assert other.enter("b", "t").error is ErrorCode.coordinator_load_in_progress
    codes: list[ErrorCode] = []
    other.coordinator.delete(G, codes.append)
    assert codes == [ErrorCode.none]
    other.enter("b", "t")  # finds that the records are gone
    assert told(other.enter("b", "t")) == parts("t", 0, 1, 2, 3)


def test_a_member_with_fewer_epochs_than_partitions_keeps_no_other_group_from_being_loaded(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.enter("b", "t", group="other")
    topic = {"topicId": topic_id("t"), "partitions": [0, 1], "assignmentEpochs": [2]}
    current = {"memberEpoch": 2, "previousMemberEpoch": 0, "state": 0, "assignedPartitions": [topic]}
    value = encode_record(8, {**current, "partitionsPendingRevocation": []})
    bench.groups.write([[GroupChange(GroupRecordKey(8, G, "a"), value)]])
    other = bench.restarted().topics(t=4)
    assert error_of(other, "a", 2) is ErrorCode.coordinator_load_in_progress
    assert error_of(other, "b", 2, group="other") is ErrorCode.none


def test_an_instance_id_that_a_member_has_changed_is_free_again(bench: Bench) -> None:
    bench.enter("a", "t", instance_id="i")
    bench.enter("a", "t", instance_id="j")
    assert bench.enter("b", "t", instance_id="i").error is ErrorCode.none
    bench.beat("a", -1, instance_id="j")
    assert bench.enter("c", "t", instance_id="j").error is ErrorCode.none
