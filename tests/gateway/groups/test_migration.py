"""Groups that change their protocol while they have members: time, restarts, broken disks, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_commitlog.gateway.groups.member import JoinResult, Leaving
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import GroupRecordKey, decode_whole_assignment
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.groups import REBALANCE_MS, SESSION_MS, Bench, G, parts, told
from tests.support.kafka.members import Owned, assigned, subscription

ALL, A, B = {"t": [0, 1, 2, 3]}, {"t": [0, 1, 2]}, {"t": [3]}
CONSUMER_SESSION_MS = 45_000
LONG_MS = REBALANCE_MS * 3
REBALANCE = ErrorCode.rebalance_in_progress


@pytest.fixture
def bench() -> Bench:
    return Bench().topics(t=4, u=2).started()


@pytest.fixture
def patient() -> Bench:
    """Whose sessions are longer than rebalances may take, if members ask for ``LONG_MS``."""
    return Bench(group_consumer_session_timeout_ms=LONG_MS).topics(t=4).started()


def classic(bench: Bench, *names: str, gives: tuple[Owned, ...] = (A, B), **changes: Any) -> dict[str, JoinResult]:
    """Members of a stable classic group; their ids are what the coordinator has made."""
    for name in names:
        bench.join(name, protocols=(("range", subscription(["t"])),), **changes)
    bench.home.advance(0)
    joined: dict[str, JoinResult] = {name: bench.answers[name] for name in names}
    given = {joined[name].member_id: assigned(each) for name, each in zip(names, gives, strict=False)}
    for name in names:
        bench.sync(name, joined[name], given)
    assert all(bench.answers[name].error is ErrorCode.none for name in names)
    return joined


def rejoin(bench: Bench, name: str, member: JoinResult, owned: Owned | None = None, **changes: Any) -> JoinResult:
    """A member joins again; what it is answered at once."""
    result = bench.join(name, member.member_id, protocols=(("range", subscription(["t"], owned)),), **changes)
    assert result is not None
    return result


def synced(bench: Bench, name: str, joined: JoinResult) -> list[tuple[str, list[int]]] | ErrorCode:
    result = bench.sync(name, joined)
    assert result is not None
    if result.error:
        return result.error
    found = decode_whole_assignment(result.assignment).assigned_partitions
    return [(each.topic, list(each.partition_ids)) for each in found]


def state(bench: Bench) -> str:
    found: list[str] = []
    bench.coordinator.consumers.describe(
        G, lambda error, group: found.append(group.state.value if group else error.name)
    )
    return found[0]


def kinds(bench: Bench) -> set[int | str]:
    return {int(key.kind) if isinstance(key, GroupRecordKey) else "classic" for key in bench.records()}


# --- policies


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        ("bidirectional", ErrorCode.none),
        ("upgrade", ErrorCode.none),
        ("downgrade", ErrorCode.group_id_not_found),
        ("disabled", ErrorCode.group_id_not_found),
    ],
)
def test_a_member_on_the_new_protocol_upgrades_a_group_if_the_policy_says_so(policy: str, error: ErrorCode) -> None:
    bench = Bench(group_consumer_migration_policy=policy).topics(t=4).started()
    members = classic(bench, "a", "b")
    assert bench.enter("c", "t").error is error
    assert bench.heartbeat(members["a"]) is (ErrorCode.none if error else REBALANCE)
    assert kinds(bench) == ({"classic"} if error else {3, 5, 6, 7, 8})


@pytest.mark.parametrize(("policy", "is_classic"), [("bidirectional", True), ("upgrade", False)])
def test_the_last_one_on_the_new_protocol_downgrades_a_group_if_the_policy_says_so(
    policy: str, is_classic: bool
) -> None:
    bench = Bench(group_consumer_migration_policy=policy).topics(t=4).started()
    members = classic(bench, "a", "b")
    bench.enter("c", "t")
    bench.beat("c", -1)
    assert bench.state == ("PreparingRebalance" if is_classic else "Dead")
    assert kinds(bench) == ({"classic"} if is_classic else {3, 5, 6, 7, 8})
    assert bench.heartbeat(members["a"]) is (ErrorCode.illegal_generation if is_classic else REBALANCE)


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        ("upgrade", ErrorCode.none),
        ("downgrade", ErrorCode.none),
        ("disabled", ErrorCode.inconsistent_group_protocol),
    ],
)
def test_a_classic_member_joins_a_group_of_the_new_protocol_unless_that_is_disabled(
    policy: str, error: ErrorCode
) -> None:
    bench = Bench(group_consumer_migration_policy=policy).topics(t=4).started()
    bench.enter("c", "t")
    joined = bench.join("a", protocols=(("range", subscription(["t"])),))
    assert joined is not None
    assert joined.error is error


def test_a_group_is_not_downgraded_to_more_members_than_a_classic_one_may_have() -> None:
    bench = Bench(group_max_size=1).topics(t=4).started()
    bench.enter("c", "t")
    for name in ("a", "b"):
        assert bench.join(name, protocols=(("range", subscription(["t"])),)) is not None
    bench.beat("c", -1)
    assert bench.state == "Dead"
    assert state(bench) == "Assigning"


def test_a_group_is_not_upgraded_to_more_members_than_one_of_the_new_protocol_may_have() -> None:
    bench = Bench(group_consumer_max_size=1).topics(t=4).started()
    classic(bench, "a", "b")
    refused = bench.enter("c", "t")
    assert (refused.error, refused.message) == (
        ErrorCode.group_id_not_found,
        "Cannot upgrade classic group g to consumer group because the group size exceeds the consumer group maximum "
        "size.",
    )


def test_a_group_in_its_first_rebalance_goes_on_as_one_of_the_new_protocol() -> None:
    bench = Bench(group_initial_rebalance_delay_ms=3000).topics(t=4, u=2).started()
    assert bench.join("a", protocols=(("range", subscription(["t"])),)) is None
    assert bench.enter("c", "u").error is ErrorCode.none
    refused = bench.answers["a"]
    assert refused.error is REBALANCE
    joined = rejoin(bench, "a", refused)
    assert synced(bench, "a", joined) == [("t", [0, 1, 2, 3])]


# --- what cannot be upgraded


def test_a_group_whose_assignor_has_data_of_its_own_stays_classic(bench: Bench) -> None:
    members = classic(bench, "a", gives=(ALL,))
    assert bench.heartbeat(members["a"]) is ErrorCode.none
    bench.leave(members["a"])
    joined = bench.join("a", protocols=(("own", subscription(["t"])),))
    bench.home.advance(0)
    joined = bench.answers["a"]
    data = assigned(ALL)[:-4] + b"\0\0\0\1x"
    bench.sync("a", joined, {joined.member_id: data})
    refused = bench.enter("c", "t")
    assert refused.error is ErrorCode.group_id_not_found
    assert "custom assignor" in str(refused.message)
    assert bench.heartbeat(joined) is ErrorCode.none


def test_a_group_in_which_two_members_have_a_partition_stays_classic(bench: Bench) -> None:
    members = classic(bench, "a", "b", gives=(ALL, B))
    assert bench.enter("c", "t").error is ErrorCode.group_id_not_found
    assert bench.heartbeat(members["b"]) is ErrorCode.none


def test_a_group_with_a_format_of_its_own_stays_classic(bench: Bench) -> None:
    (member,) = bench.stable("a")
    refused = bench.enter("c", "t")
    assert "the embedded consumer protocol is malformed" in str(refused.message)
    assert bench.heartbeat(member) is ErrorCode.none


def test_a_refused_member_leaves_the_classic_group_as_it_was(bench: Bench) -> None:
    members = classic(bench, "a", "b")
    refused = bench.enter("c", topics=None, regex="(")
    assert refused.error is ErrorCode.invalid_regular_expression
    assert [bench.heartbeat(each) for each in members.values()] == [ErrorCode.none] * 2
    assert (bench.state, kinds(bench)) == ("Stable", {"classic"})


# --- time


def test_a_classic_member_that_falls_silent_is_removed_after_its_own_session_timeout(bench: Bench) -> None:
    members = classic(bench, "a", "b")
    bench.enter("c", "t")
    bench.home.advance(SESSION_MS - 1)
    assert bench.heartbeat(members["a"]) is REBALANCE
    bench.home.advance(1)
    assert bench.heartbeat(members["b"]) is ErrorCode.unknown_member_id
    assert told(bench.beat("c", 2)) == parts("t", 3)


def test_a_classic_member_that_does_not_join_again_in_time_is_removed(patient: Bench) -> None:
    members = classic(patient, "a", "b", session_timeout_ms=LONG_MS)
    patient.enter("c", "t")
    assert patient.heartbeat(members["a"]) is REBALANCE
    patient.home.advance(REBALANCE_MS - 1)
    assert patient.heartbeat(members["a"]) is REBALANCE  # and does not start that time again
    patient.beat("c", 2)
    patient.home.advance(1)
    assert patient.heartbeat(members["a"]) is ErrorCode.unknown_member_id


def test_a_classic_member_that_does_not_sync_in_time_is_removed(patient: Bench) -> None:
    members = classic(patient, "a", "b", session_timeout_ms=LONG_MS)
    patient.enter("c", "t")
    joined = rejoin(patient, "a", members["a"], A, session_timeout_ms=LONG_MS)
    patient.home.advance(REBALANCE_MS // 2)
    patient.beat("c", 2)
    patient.home.advance(REBALANCE_MS // 2)
    assert patient.heartbeat(joined) is ErrorCode.unknown_member_id


def test_a_classic_member_that_joins_and_syncs_stays(patient: Bench) -> None:
    members = classic(patient, "a", "b", session_timeout_ms=LONG_MS)
    patient.enter("c", "t")
    patient.heartbeat(members["b"])
    joined = rejoin(patient, "b", members["b"], B, session_timeout_ms=LONG_MS)
    assert synced(patient, "b", joined) == [("t", [3])]
    for _ in range(4):
        patient.home.advance(REBALANCE_MS // 2)
        patient.beat("c", 2)
        assert patient.heartbeat(joined) in (ErrorCode.none, REBALANCE)  # the others end, so b may get more


def test_the_last_one_on_the_new_protocol_may_also_fall_silent(bench: Bench) -> None:
    members = classic(bench, "a", "b", session_timeout_ms=CONSUMER_SESSION_MS * 2)
    bench.enter("c", "t")
    bench.home.advance(CONSUMER_SESSION_MS)
    assert bench.state == "PreparingRebalance"
    for name in ("a", "b"):
        bench.join(name, members[name].member_id, protocols=(("range", subscription(["t"])),))
    assert {bench.answers[name].generation for name in ("a", "b")} == {3}


# --- members that come and go while nobody is on the new protocol


def test_classic_members_share_again_when_one_leaves_a_group_that_may_not_be_downgraded() -> None:
    bench = Bench(group_consumer_migration_policy="upgrade").topics(t=4).started()
    members = classic(bench, "a", "b")
    bench.enter("c", "t")
    bench.beat("c", -1)
    joined = {}
    for name, owned in (("a", A), ("b", B)):
        assert bench.heartbeat(members[name]) is REBALANCE
        joined[name] = rejoin(bench, name, members[name], owned)
        synced(bench, name, joined[name])
    bench.leave(joined["a"])
    assert bench.heartbeat(joined["b"]) is REBALANCE
    joined["b"] = rejoin(bench, "b", joined["b"], B)
    assert synced(bench, "b", joined["b"]) == [("t", [0, 1, 2, 3])]


def test_a_static_member_on_the_new_protocol_takes_the_place_of_its_classic_self(bench: Bench) -> None:
    """A classic static member does not leave the group when its client stops."""
    classic(bench, "a", gives=(ALL,), instance_id="i")
    assert told(bench.enter("new", "t", instance_id="i")) == parts("t", 0, 1, 2, 3)


def test_an_administrator_removes_a_static_member_of_the_new_protocol(bench: Bench) -> None:
    members = classic(bench, "a", gives=(ALL,))
    bench.enter("c", "t", instance_id="i")
    assert bench.leave(Leaving("", "i"), Leaving("", "j"), Leaving("x")) == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    ]
    assert bench.state == "PreparingRebalance"
    assert bench.heartbeat(members["a"]) is ErrorCode.illegal_generation


# --- restarts


def test_an_upgrade_goes_on_after_a_restart(bench: Bench) -> None:
    members = classic(bench, "a", "b")
    bench.enter("c", "t")
    again = bench.restarted().topics(t=4, u=2)
    assert [again.heartbeat(each) for each in members.values()] == [REBALANCE] * 2
    joined = rejoin(again, "a", members["a"], A)
    assert synced(again, "a", joined) == [("t", [0, 1])]
    assert again.heartbeat(joined) is REBALANCE
    last = again.restarted().topics(t=4, u=2)
    assert told(last.beat("c", 2)) is None
    joined = rejoin(last, "a", joined, {"t": [0, 1]})
    assert told(last.beat("c", 2)) == parts("t", 2)
    last.home.advance(SESSION_MS)  # also that is as before
    assert last.heartbeat(joined) is ErrorCode.unknown_member_id


def test_a_downgraded_group_goes_on_after_a_restart(bench: Bench) -> None:
    members = classic(bench, "a", "b")
    bench.enter("c", "t")
    bench.beat("c", -1)
    again = bench.restarted().topics(t=4, u=2)
    assert again.state == "Stable"
    stored = again.stored
    assert stored is not None
    assert (stored.generation, stored.protocol) == (2, "range")
    found = {each.member_id: decode_whole_assignment(each.assignment).assigned_partitions for each in stored.members}
    assert {name: [list(t.partition_ids) for t in found[each.member_id]] for name, each in members.items()} == {
        "a": [[0, 1]],
        "b": [[3]],
    }


# --- a disk that fails


@pytest.fixture
def broken() -> Bench:
    return Bench(FaultyFileSystem(MemoryFileSystem())).topics(t=4).started()


def test_a_group_whose_upgrade_could_not_be_stored_stays_classic(broken: Bench) -> None:
    members = classic(broken, "a", "b")
    broken.disk.rules.append(fault := fail("write", "*__consumer_offsets*.log"))
    assert broken.enter("c", "t").error is not ErrorCode.none
    assert fault.struck
    broken.home.advance(1000)
    assert [broken.heartbeat(each) for each in members.values()] == [ErrorCode.none] * 2
    assert broken.state == "Stable"


def test_a_group_whose_downgrade_could_not_be_stored_stays_one_of_the_new_protocol(broken: Bench) -> None:
    members = classic(broken, "a", "b")
    broken.enter("c", "t")
    broken.disk.rules.append(fault := fail("write", "*__consumer_offsets*.log"))
    broken.beat("c", -1)
    assert broken.answers["c"].error is not ErrorCode.none
    assert fault.struck
    broken.home.advance(1000)
    assert [broken.heartbeat(each) for each in members.values()] == [REBALANCE] * 2
    assert state(broken) == "Reconciling"
    assert told(broken.beat("c", 2)) is None


def test_members_that_wait_are_answered_while_the_upgrade_is_being_stored(bench: Bench) -> None:
    members = classic(bench, "a", "b")
    bench.join("d", protocols=(("range", subscription(["t"])),))
    bench.disk_thread.waits = True
    assert bench.beat("c", 0, rebalance_timeout_ms=REBALANCE_MS, topics=("t",), owned=frozenset()) is None
    assert bench.answers["d"].error is REBALANCE
    assert bench.join("a", members["a"].member_id, protocols=(("range", subscription(["t"], A)),)) is None
    bench.disk_thread.work()
    assert bench.answers["a"].error is bench.answers["c"].error is ErrorCode.none
