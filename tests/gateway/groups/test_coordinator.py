"""The whole coordinator: loading, listing, describing and deleting groups, and what is stored of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.gateway.groups.coordinator import DescribedGroup, DescribedMember, ListedGroup
from pyspark_commitlog.gateway.groups.member import JoinResult, SyncResult
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import (
    GROUP_METADATA_TOPIC,
    SINK_PREFIX,
    CommittedOffset,
    GroupChange,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupOffsets,
    LocalFileSystem,
    LogManager,
    MemberMetadata,
    TopicPartition,
    decode_group_key,
)
from pyspark_commitlog.storage.filesystem.operations import remove_tree
from tests.cli.in_process import commitlog
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.groups import REBALANCE_MS, SESSION_MS, Bench, G
from tests.support.logs.building import open_reader
from tests.support.logs.sidecars import SIDECARS

T0 = TopicPartition("t", 0)


@pytest.fixture
def bench() -> Bench:
    return Bench().started()


def listed(bench: Bench, **filters: Any) -> list[ListedGroup]:
    found: list[Any] = []
    bench.coordinator.list(lambda error, groups: found.append(groups), **filters)
    return list(found[0])


def described(bench: Bench, group: str = G) -> DescribedGroup:
    found: list[DescribedGroup] = []
    bench.coordinator.describe(group, found.append)
    return found[0]


def deleted(bench: Bench, group: str = G) -> ErrorCode:
    found: list[ErrorCode] = []
    bench.coordinator.delete(group, found.append)
    return found[0]


# --- what is stored, and restarts


def test_a_group_is_stored_before_its_members_are_answered(bench: Bench) -> None:
    bench.join("a")
    bench.join("s", instance_id="i")
    bench.home.advance(0)
    a, s = bench.answers["a"], bench.answers["s"]
    since_ms = bench.clock.now_ms()
    bench.home.advance(5)
    bench.disk_thread.waits = True
    bench.sync("a", a, {a.member_id: b"A", s.member_id: b"S"})
    assert (bench.answers["a"], bench.stored) == (None, None)
    bench.disk_thread.work()
    times = {"session_timeout": SESSION_MS, "rebalance_timeout": REBALANCE_MS, "subscription": b"subscription"}
    assert bench.stored == GroupMetadataValue(
        "consumer",
        1,
        "range",
        a.member_id,
        (
            MemberMetadata(a.member_id, "a", "/127.0.0.1", assignment=b"A", **times),  # type: ignore[arg-type]
            MemberMetadata(s.member_id, "s", "/127.0.0.1", assignment=b"S", group_instance_id="i", **times),  # type: ignore[arg-type]
        ),
        since_ms,
    )


def test_after_a_restart_the_members_go_on_as_if_nothing_had_happened(bench: Bench) -> None:
    a, b = bench.stable("a", "b")
    bench.commit(5, a)
    after = bench.restarted()
    assert [after.heartbeat(each) for each in (a, b)] == [ErrorCode.none] * 2
    assert after.commit(6, b) is ErrorCode.none
    answer = after.sync("b", b)
    assert answer is not None
    assert answer.assignment == b"b"
    after.home.advance(SESSION_MS)
    assert after.state == "Empty"


def test_until_all_is_loaded_requests_are_told_so_and_heartbeats_are_accepted(bench: Bench) -> None:
    (a,) = bench.stable("a")
    after = Bench(bench.disk)
    after.disk_thread.waits = True
    after.coordinator.load()
    assert after.join("a", a.member_id) == JoinResult(ErrorCode.coordinator_load_in_progress, a.member_id)
    answer = after.sync("a", a)
    assert answer is not None
    assert answer.error is ErrorCode.rebalance_in_progress
    assert after.heartbeat(a) is ErrorCode.none
    assert after.commit(1, a) is ErrorCode.coordinator_load_in_progress
    assert after.fetched() is ErrorCode.coordinator_load_in_progress
    assert described(after).error is ErrorCode.coordinator_load_in_progress
    assert deleted(after) is ErrorCode.coordinator_load_in_progress
    after.disk_thread.work()
    assert after.heartbeat(a) is ErrorCode.none
    assert after.commit(1, a) is ErrorCode.none


def test_a_generation_that_was_not_stored_is_forgotten_by_a_restart_and_members_join_again(bench: Bench) -> None:
    (a,) = bench.stable("a")
    bench.disk_thread.waits = True
    bench.join("a", a.member_id)
    after = bench.restarted()
    assert after.heartbeat(bench.answers["a"]) is ErrorCode.illegal_generation


def test_a_group_that_grew_too_large_by_a_lowered_limit_is_rebalanced(bench: Bench) -> None:
    a, b = bench.stable("a", "b")
    after = bench.restarted(group_max_size=1)
    assert after.heartbeat(a) is ErrorCode.rebalance_in_progress
    assert after.join("a", a.member_id) is None
    assert after.join("b", b.member_id) == JoinResult(ErrorCode.group_max_size_reached, "")
    assert len(after.answers["a"].members) == 1


def test_a_coordinator_that_stops_answers_members_that_wait(bench: Bench) -> None:
    bench.stable("a")
    bench.join("b")
    bench.coordinator.stop()
    assert bench.answers["b"].error is ErrorCode.not_coordinator
    assert bench.join("c") == JoinResult(ErrorCode.coordinator_not_available, "")


def test_what_was_answered_survives_a_power_cut(bench: Bench) -> None:
    (a,) = bench.stable("a")
    bench.commit(5, a)
    for seed in range(5):
        after = Bench(bench.disk.crash(seed)).started()
        assert after.heartbeat(a) is ErrorCode.none
        assert after.fetched() == 5


# --- what is shown


def test_groups_are_listed_with_those_that_only_have_offsets(bench: Bench) -> None:
    bench.stable("a")
    bench.commit(1, group="of offsets")
    with LogManager.open("/logs", clock=bench.clock, filesystem=bench.disk) as other:
        GroupOffsets(other).commit("of a query", {T0: CommittedOffset(9)})
    empty = [ListedGroup("of a query", "", "Empty"), ListedGroup("of offsets", "", "Empty")]
    assert listed(bench) == [ListedGroup(G, "consumer", "Stable"), *empty]
    assert listed(bench, states=["empty"]) == empty
    assert listed(bench, types=["Classic"], states=["Stable"]) == [ListedGroup(G, "consumer", "Stable")]
    assert listed(bench, types=["consumer"]) == []


def test_a_group_is_described_with_members_and_with_assignments_once_it_is_stable(bench: Bench) -> None:
    assert described(bench) == DescribedGroup(ErrorCode.none, "Dead")
    bench.commit(1)
    assert described(bench) == DescribedGroup(ErrorCode.none, "Empty")
    bench.join("a")
    bench.home.advance(0)
    a = bench.answers["a"]
    waiting = DescribedMember(a.member_id, None, "a", "/127.0.0.1", b"", b"")
    assert described(bench) == DescribedGroup(ErrorCode.none, "CompletingRebalance", "consumer", "", [waiting])
    bench.sync("a", a, {a.member_id: b"A"})
    stable = DescribedMember(a.member_id, None, "a", "/127.0.0.1", b"subscription", b"A")
    assert described(bench) == DescribedGroup(ErrorCode.none, "Stable", "consumer", "range", [stable])


# --- deleting


def test_an_empty_group_is_deleted_with_its_offsets(bench: Bench) -> None:
    assert deleted(bench) is ErrorCode.group_id_not_found
    (a,) = bench.stable("a")
    bench.commit(1, a)
    assert deleted(bench) is ErrorCode.non_empty_group
    bench.leave(a)
    assert deleted(bench) is ErrorCode.none
    assert (bench.records(), described(bench).state, listed(bench)) == ({}, "Dead", [])
    assert deleted(bench) is ErrorCode.group_id_not_found


def test_a_group_that_only_has_offsets_is_deleted(bench: Bench) -> None:
    bench.commit(1)
    assert deleted(bench) is ErrorCode.none
    assert (bench.records(), described(bench).state) == ({}, "Dead")


def test_the_group_of_a_sink_is_not_deleted(bench: Bench) -> None:
    bench.commit(1, topic=f"{SINK_PREFIX}orders")
    bench.commit(1)
    assert deleted(bench) is ErrorCode.non_empty_group
    assert len(bench.records()) == 2


def test_nobody_joins_or_commits_while_a_group_is_being_deleted(bench: Bench) -> None:
    bench.commit(1)
    found: list[ErrorCode] = []
    bench.disk_thread.waits = True
    bench.coordinator.delete(G, found.append)
    bench.disk_thread.work(once=True)
    assert bench.join("a") == JoinResult(ErrorCode.coordinator_not_available, "")
    assert bench.commit(2) is ErrorCode.coordinator_not_available
    assert described(bench).state == "Dead"
    bench.disk_thread.work()
    assert found == [ErrorCode.none]
    assert bench.records() == {}
    assert bench.commit(3) is ErrorCode.none


# --- beside Kafka's records and our commands


def stored_by_kafka() -> dict[str, list[bytes]]:
    """The records of groups that Kafka 3.9.1 wrote, by group: of each generation one."""
    found: dict[str, list[bytes]] = {}
    for partition in (1, 2):
        with open_reader(SIDECARS / f"{GROUP_METADATA_TOPIC}-{partition}", cleanup_policy="compact") as reader:
            for part in reader.records(0, reader.log_end_offset):
                assert part.keys is not None
                assert part.values is not None
                for key_bytes, value in zip(part.keys.to_list(), part.values.to_list(), strict=True):
                    key = decode_group_key(key_bytes or b"")
                    if isinstance(key, GroupMetadataKey) and value is not None:
                        found.setdefault(key.group, []).append(value)
    return found


def test_a_group_is_stored_byte_for_byte_as_kafka_stored_it_and_as_empty_too() -> None:
    first, second = stored_by_kafka()["members-a"]
    one, two = GroupMetadataValue.decode(first), GroupMetadataValue.decode(second)
    (member,) = one.members
    bench = Bench(now_ms=one.current_state_timestamp).started()
    bench.ids = iter([member.member_id.removeprefix(f"{member.client_id}-")])
    (a,) = bench.stable(
        member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout,
        session_timeout_ms=member.session_timeout,
        protocol_type=one.protocol_type,
        protocols=((one.protocol or "", member.subscription),),
        assignment=member.assignment,
    )
    assert bench.stored is not None
    assert bench.stored.encode() == first
    bench.clock.advance(two.current_state_timestamp - one.current_state_timestamp)
    bench.leave(a)
    assert bench.stored.encode() == second


def test_a_group_that_kafka_stored_goes_on() -> None:
    (raw,) = stored_by_kafka()["members-b"]
    value = GroupMetadataValue.decode(raw)
    bench = Bench()
    bench.groups.write([[GroupChange(GroupMetadataKey(G), value)]])
    bench.coordinator.load()
    (member,) = value.members
    joined = JoinResult(ErrorCode.none, member.member_id, value.generation)
    assert bench.heartbeat(joined) is ErrorCode.none
    answer = bench.sync("a", joined)
    assert answer is not None
    assert answer.assignment == member.assignment
    assert bench.stored == value


def test_our_command_shows_what_the_coordinator_stored(tmp_path: Path) -> None:
    bench = Bench(LocalFileSystem(), directory=str(tmp_path)).started()
    (a,) = bench.stable("a")
    bench.commit(5, a)
    bench.manager.close()
    assert a.member_id in commitlog("groups", "--log-dir", tmp_path, "--describe", "--group", G, "--members").stdout
    assert "Stable" in commitlog("groups", "--log-dir", tmp_path, "--describe", "--group", G, "--state").stdout


@dataclass
class Said:
    """What the coordinator answered before the power went."""

    member: JoinResult | None = None
    offsets: list[int] = field(default_factory=list)
    is_deleting: bool = False
    is_deleted: bool = False


def live(disk: MemoryFileSystem, said: Said) -> None:
    bench = Bench(disk).started()
    (member,) = bench.stable("a")
    said.member = member
    for offset in (5, 6):
        if bench.commit(offset, member) is ErrorCode.none:
            said.offsets.append(offset)
    said.member = None
    bench.leave(member)
    said.is_deleting = True
    said.is_deleted = deleted(bench) is ErrorCode.none


def test_whatever_was_answered_is_there_after_a_power_cut_at_any_step(bench: Bench) -> None:
    bench.manager.close()
    lives: list[Said] = []

    def program(disk: MemoryFileSystem) -> None:
        lives.append(Said())
        live(disk, lives[-1])

    for operation, disk in crash_points(program, bench.disk):
        said = lives[-1]
        for seed in range(4):
            after = Bench(disk.crash(seed)).started()
            found, expected = after.fetched(), said.offsets[-1] if said.offsets else None
            if said.is_deleted:
                assert (found, after.state) == (None, "Dead"), operation
            elif said.is_deleting:
                assert found in (None, 6), operation
            else:
                assert expected is None or (isinstance(found, int) and found >= expected), operation
            assert said.member is None or after.heartbeat(said.member) is ErrorCode.none, operation
    assert lives[-1].is_deleted
    assert len(lives) > 10


def test_a_group_whose_partition_is_not_in_the_directory_is_logged_at_once_and_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryFileSystem()
    with LogManager.open("/logs", create=True, filesystem=disk) as manager:
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=50)
        manager.open_log(GROUP_METADATA_TOPIC, 0)
        for number in range(1, 50):  # as in one of several log.dirs of a broker
            remove_tree(disk, f"/logs/{GROUP_METADATA_TOPIC}-{number}")
        disk.remove("/logs/topics.json")
    bench = Bench(disk).started()
    for name in ("a", "b"):
        bench.join(name, group=name)
        bench.home.advance(0)
        joined = bench.answers[name]
        assert bench.sync(name, joined, {joined.member_id: b""}, group=name) == SyncResult(
            ErrorCode.coordinator_not_available
        )
        assert bench.commit(1, group=f"offsets of {name}") is ErrorCode.coordinator_not_available
    errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(errors) == 1
    assert errors[0].startswith("groups and their offsets cannot be read or stored: __consumer_offsets-")
    assert "commitlog topics --create --topic __consumer_offsets --partitions NUMBER" in errors[0]
