"""Groups that move from one coordinator to another, which may come back late."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_commitlog.gateway.cluster.homes import Homes
from pyspark_commitlog.gateway.groups.offsets import Commit
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import (
    GROUP_METADATA_TOPIC,
    GroupOffsets,
    LogManager,
    OffsetCommitValue,
    Producer,
    TopicPartition,
)
from pyspark_commitlog.storage.groups.coordinator_logs import CoordinatorLogs
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.groups import Bench, G, parts, told


class Leadership:
    """Whether a node leads the partition of all groups."""

    def __init__(self, *, leads: bool) -> None:
        self.leads = leads
        self.homes = Homes(leads=lambda _: self.leads)


def test_a_node_that_does_not_lead_a_groups_partition_says_so() -> None:
    bench = Bench(homes=Leadership(leads=False).homes).started()
    joined = bench.join("a")
    assert joined is not None
    assert joined.error is ErrorCode.not_coordinator
    assert bench.commit(1) is ErrorCode.not_coordinator
    assert bench.fetched() is ErrorCode.not_coordinator


def test_members_of_a_group_that_moves_are_told_and_go_on_at_the_other_node() -> None:
    first, second = Leadership(leads=True), Leadership(leads=False)
    old = Bench(homes=first.homes).started()
    new = Bench(old.disk, homes=second.homes).started()
    (member,) = old.stable("a")
    assert old.commit(5, member) is ErrorCode.none
    old.join("b")  # waits for a
    first.leads, second.leads = False, True
    old.coordinator.reassign()
    assert old.answers["b"].error is ErrorCode.not_coordinator
    assert old.heartbeat(member) is ErrorCode.not_coordinator
    new.disk_thread.waits = True
    new.coordinator.reassign()
    assert new.commit(7, member) is ErrorCode.coordinator_load_in_progress
    new.disk_thread.work()
    assert new.heartbeat(member) is ErrorCode.none
    assert new.fetched() == 5
    assert new.commit(6, member) is ErrorCode.none
    assert old.home.timers <= 1  # the look for offsets that expired: nothing waits for members that went


def test_a_group_of_kafka_4_goes_on_at_the_other_node_without_a_new_assignment() -> None:
    first, second = Leadership(leads=True), Leadership(leads=False)
    old = Bench(homes=first.homes).topics(t=4).started()
    new = Bench(old.disk, homes=second.homes).topics(t=4).started()
    old.enter("a", "t")
    old.enter("b", "t")
    old.beat("a", 2)
    first.leads, second.leads = False, True
    for each in (old, new):
        each.coordinator.reassign()
    refused = old.beat("a", 2)
    assert refused is not None
    assert refused.error is ErrorCode.not_coordinator
    new.beat("a", 2, owned=parts("t", 0, 1))
    assert told(new.beat("b", 3)) == parts("t", 2, 3)
    assert old.home.timers <= 1  # the look for offsets that expired


def test_a_late_change_of_the_last_coordinator_gives_no_partition_twice() -> None:
    old = Bench().topics(t=2).started()
    old.enter("a", "t")
    old.enter("b", "t")
    old.beat("a", 2)
    old.disk_thread.waits = True
    new = Bench(old.disk).topics(t=2).started()  # reads the group before the last one's change is there
    assert old.beat("a", 2, owned=parts("t", 0)) is None
    assert old.beat("b", 3) is None
    old.disk_thread.work()
    assert told(old.answers["b"]) == parts("t", 1)
    late = new.enter("c", "t")
    assert late.error is not ErrorCode.none
    assert told(new.enter("c", "t")) == frozenset()
    assert told(new.enter("b", "t")) == parts("t", 1)


def test_a_group_that_moved_away_and_back_is_as_the_other_node_left_it() -> None:
    first, second = Leadership(leads=True), Leadership(leads=False)
    old = Bench(homes=first.homes).started()
    new = Bench(old.disk, homes=second.homes).started()
    (member,) = old.stable("a")
    first.leads, second.leads = False, True
    for each in (old, new):
        each.coordinator.reassign()
    new.leave(member)
    new.ids = old.ids
    new.stable("b")
    first.leads, second.leads = True, False
    for each in (old, new):
        each.coordinator.reassign()
    assert old.heartbeat(member) is ErrorCode.unknown_member_id
    assert old.coordinator.group(G).generation == 3


def test_only_the_partitions_of_groups_that_came_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryFileSystem()
    with LogManager.open("/logs", create=True, filesystem=disk) as manager:
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=5)
    own, read = {1, 4}, []
    current = CoordinatorLogs.current_to_write

    def noted(logs: CoordinatorLogs[Any, Any], partition: int) -> Any:
        read.append(partition)
        return current(logs, partition)

    monkeypatch.setattr(CoordinatorLogs, "current_to_write", noted)
    bench = Bench(disk, homes=Homes(lambda: 5, own.__contains__)).started()
    for change, expected in (({1, 2, 4}, [2]), ({2, 4}, []), ({1, 3, 4}, [1, 3])):
        assert read
        read.clear()
        own.clear()
        own.update(change)
        bench.coordinator.reassign()
        assert read == expected
        bench.coordinator.list(lambda *_: None)
        assert read == [*expected, *sorted(own)]
        bench.coordinator.offsets.expire()
        assert read == [*expected, *sorted(own), *sorted(own)]


@pytest.mark.parametrize("returns", [False, True])
def test_a_deletion_is_answered_if_the_group_moves_before_it_is_written(returns: bool) -> None:
    leadership = Leadership(leads=True)
    bench = Bench(homes=leadership.homes).started()
    assert bench.commit(5) is ErrorCode.none
    answers: list[ErrorCode] = []
    bench.disk_thread.waits = True
    bench.coordinator.delete(G, answers.append)
    bench.disk_thread.work(once=True)  # looks its records up; the deletion waits
    leadership.leads = False
    bench.coordinator.reassign()
    if returns:
        leadership.leads = True
        bench.coordinator.reassign()
    bench.disk_thread.work()
    assert answers == [ErrorCode.none]
    assert bench.fetched() == (None if returns else ErrorCode.not_coordinator)


@pytest.fixture
def pair() -> tuple[Bench, Bench]:
    """Two coordinators of one group that both believe that they are the one; the second is ahead."""
    old = Bench().started()
    old.stable("a")
    new = old.restarted()
    return old, new


def test_a_coordinator_that_was_stopped_commits_nothing_for_a_group_that_another_one_took_over(
    pair: tuple[Bench, Bench],
) -> None:
    old, new = pair
    (member,) = old.coordinator.group(G).members.values()
    joined = old.coordinator.group(G).joined(member)
    assert new.commit(5, joined) is ErrorCode.none
    new.join("b")
    rejoined = new.join("a", joined.member_id)
    assert rejoined is not None
    new.sync("a", rejoined, {rejoined.member_id: b"all"})
    assert new.answers["a"].error is ErrorCode.none
    assert old.commit(3, joined) is ErrorCode.not_coordinator
    assert new.fetched() == 5
    assert old.heartbeat(joined) is ErrorCode.illegal_generation  # it has read the group again


def test_a_generation_is_stored_by_one_of_two_coordinators(pair: tuple[Bench, Bench]) -> None:
    old, new = pair
    member_id = next(iter(old.coordinator.group(G).members))
    both = [each.join("a", member_id, protocols=(("range", b"more"),)) for each in (old, new)]
    assert [each.generation for each in both if each] == [2, 2]
    for each, joined, found in zip((old, new), both, (ErrorCode.none, ErrorCode.not_coordinator), strict=True):
        assert joined is not None
        each.sync("a", joined, {member_id: b"all"})
        assert each.answers["a"].error is found


def test_offsets_in_a_transaction_are_refused_too(pair: tuple[Bench, Bench]) -> None:
    old, new = pair
    (member,) = old.coordinator.group(G).members.values()
    joined = new.join("a", member.id, protocols=(("range", b"more"),))
    assert joined is not None
    new.sync("a", joined, {member.id: b"all"})
    place = TopicPartition("t", 0)
    commit = Commit(G, 1, member.id, None, {place: OffsetCommitValue(9, "", 0)})
    codes: list[ErrorCode] = []
    old.coordinator.offsets.commit_transactional(
        commit, Producer(7, 0), lambda: None, lambda found: codes.append(found[place])
    )
    assert codes == [ErrorCode.not_coordinator]
    assert new.fetched() is None


def test_a_group_that_a_command_deleted_can_be_committed_to(pair: tuple[Bench, Bench]) -> None:
    old, _ = pair
    (member,) = old.coordinator.group(G).members.values()
    GroupOffsets(old.manager).delete(G)
    assert old.commit(4, old.coordinator.group(G).joined(member)) is ErrorCode.none
