"""The records of groups, as a coordinator writes and reads them beside other processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import (
    GroupChangedError,
    InvalidTxnStateError,
    RecordBatchTooLargeError,
    StorageError,
)
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.format.internal.internal_topics import (
    GROUP_METADATA_TOPIC,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    partition_for,
)
from pyspark_commitlog.storage.groups.compacted_values import DELETED_MAX
from pyspark_commitlog.storage.groups.coordinated import CoordinatedGroups
from pyspark_commitlog.storage.groups.coordinator_port import GroupChange, GroupFence, ReadFailures
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.recovery.producer_state import Producer
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import NOW_MS, end_transaction
from tests.support.logs.transactions import write_transactional

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PARTITIONS = 3
A, B, C = "a", "b", "c"  # in partitions 1, 2 and 0


def managed(disk: MemoryFileSystem | FaultyFileSystem) -> LogManager:
    return LogManager.open("/logs", create=True, clock=ManualClock(NOW_MS), filesystem=disk)


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def manager(disk: MemoryFileSystem) -> Iterator[LogManager]:
    with managed(disk) as manager:
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=PARTITIONS)
        yield manager


def commit(group: str, offset: int, *, metadata: str = "") -> list[GroupChange]:
    return [GroupChange(OffsetCommitKey(group, *T0), OffsetCommitValue(offset, metadata, NOW_MS, leader_epoch=4))]


def batches(manager: LogManager, group: str) -> int:
    data = manager.open_reader(GROUP_METADATA_TOPIC, partition_for(group, PARTITIONS)).read(0)
    return 0 if data is None else len(data.window.headers)


def test_all_that_waits_for_a_partition_shares_one_batch_and_all_is_there_after_a_power_cut(
    manager: LogManager, disk: MemoryFileSystem
) -> None:
    groups = CoordinatedGroups(manager)
    metadata = GroupMetadataValue("consumer", 1, None, None, (), NOW_MS)
    writes = [commit(A, 1), commit(B, 2), commit(A, 3), [GroupChange(GroupMetadataKey(A), metadata)], []]
    assert groups.write(writes) == [None] * 5
    assert (batches(manager, A), batches(manager, B), batches(manager, C)) == (1, 1, 0)
    for seed in range(5):
        with managed(disk.crash(seed)) as after:
            found = CoordinatedGroups(after)
            assert found.offsets(A, [T0, T1]) == {T0: OffsetCommitValue(3, "", NOW_MS, leader_epoch=4)}
            assert found.records(A)[GroupMetadataKey(A)] == metadata
            assert found.offsets(B, [T0])[T0].offset == 2


def test_contents_name_a_partition_that_cannot_be_read_and_have_the_others(
    manager: LogManager, disk: MemoryFileSystem
) -> None:
    CoordinatedGroups(manager).write([commit(A, 1), commit(B, 2), commit(C, 3)])
    faulty = FaultyFileSystem(disk)
    with managed(faulty) as other:
        faulty.rules.append(fail("open", f"/logs/{GROUP_METADATA_TOPIC}-1/*.log", lasting=True))
        with pytest.raises(StorageError, match=f"{GROUP_METADATA_TOPIC}-1"):
            CoordinatedGroups(other).contents()
        failures: ReadFailures = {}
        assert {key.group for key in CoordinatedGroups(other).contents(failures)} == {B, C}
        assert [*failures] == [1]


def test_what_other_processes_committed_since_is_read(manager: LogManager, disk: MemoryFileSystem) -> None:
    groups = CoordinatedGroups(manager)
    groups.write([commit(A, 1)])
    assert groups.offsets(A, [T0])[T0].offset == 1
    with managed(disk) as other:
        GroupOffsets(other).commit(A, {T0: CommittedOffset(9)})
    assert groups.offsets(A, [T0])[T0].offset == 9
    groups.write([commit(A, 10)])
    assert groups.offsets(A, [T0])[T0].offset == 10


def test_a_record_is_deleted_only_while_it_has_the_value_that_was_looked_at(
    manager: LogManager, disk: MemoryFileSystem
) -> None:
    groups = CoordinatedGroups(manager)
    groups.write([commit(A, 1), commit(B, 1)])
    old = groups.offsets(A, [T0])[T0]
    with managed(disk) as other:
        GroupOffsets(other).commit(A, {T0: CommittedOffset(9)})
    deletions = [[GroupChange(OffsetCommitKey(group, *T0), None, only_if=old)] for group in (A, B)]
    assert groups.write(deletions) == [None, None]
    assert groups.offsets(A, [T0])[T0].offset == 9
    assert groups.offsets(B, [T0]) == {}


def test_a_commit_that_shares_the_batch_with_a_deletion_is_not_deleted(manager: LogManager) -> None:
    groups = CoordinatedGroups(manager)
    groups.write([commit(A, 1)])
    old = groups.offsets(A, [T0])[T0]
    groups.write([commit(A, 2), [GroupChange(OffsetCommitKey(A, *T0), None, only_if=old)]])
    assert groups.offsets(A, [T0])[T0].offset == 2


def test_a_record_that_is_too_large_fails_alone(manager: LogManager) -> None:
    config = LogConfig.from_mapping({"cleanup.policy": "compact", "segment.bytes": "500"})
    manager.open_log(GROUP_METADATA_TOPIC, 1, config)
    groups = CoordinatedGroups(manager)
    first, second, third = groups.write([commit(A, 1), commit(A, 2, metadata="m" * 500), commit("d", 3)])
    assert isinstance(second, RecordBatchTooLargeError)
    assert (first, third) == (None, None)
    assert (groups.offsets(A, [T0])[T0].offset, groups.offsets("d", [T0])[T0].offset) == (1, 3)


def test_a_disk_that_fails_in_one_partition_fails_only_the_writes_to_it(disk: MemoryFileSystem) -> None:
    faulty = FaultyFileSystem(disk)
    with managed(faulty) as manager:
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=PARTITIONS)
        groups = CoordinatedGroups(manager)
        groups.write([commit(A, 1), commit(B, 1)])
        faulty.rules.append(fail("sync", f"*{GROUP_METADATA_TOPIC}-1*.log"))
        first, second = groups.write([commit(A, 2), commit(B, 2)])
        assert isinstance(first, StorageError)
        assert second is None
        assert groups.write([commit(A, 3)]) == [None]  # the log is opened again
        assert groups.offsets(A, [T0])[T0].offset == 3


def test_offsets_of_an_open_transaction_are_undecided_until_its_marker(manager: LogManager) -> None:
    groups, producer = CoordinatedGroups(manager), Producer(7, 0)
    groups.write([commit(A, 1)])
    value = OffsetCommitValue(5, "", NOW_MS)
    write_transactional(groups, A, {T0: value, T1: value}, producer, lambda: None)
    assert groups.undecided(A) == {T0, T1}
    assert groups.undecided("d") == set()
    assert groups.offsets(A, [T0, T1]) == {T0: OffsetCommitValue(1, "", NOW_MS, leader_epoch=4)}
    end_transaction(manager.open_log(GROUP_METADATA_TOPIC, 1), 7, commit=True)
    assert groups.undecided(A) == set()
    assert groups.offsets(A, [T0, T1]) == {T0: value, T1: value}


def test_nothing_is_written_for_a_transaction_that_ended_meanwhile(manager: LogManager) -> None:
    def ended() -> None:
        raise InvalidTxnStateError("ended")

    groups = CoordinatedGroups(manager)
    with pytest.raises(InvalidTxnStateError):
        write_transactional(groups, A, {T0: OffsetCommitValue(5, "", NOW_MS)}, Producer(7, 0), ended)
    assert batches(manager, A) == 0


def test_a_group_without_records_has_nothing(disk: MemoryFileSystem) -> None:
    with managed(disk) as manager:
        groups = CoordinatedGroups(manager)
        assert (groups.contents(), groups.records(A), groups.offsets(A, [T0]), groups.undecided(A)) == (
            {},
            {},
            {},
            set(),
        )


def test_deleted_keys_take_no_memory_and_an_older_value_of_an_open_transaction_does_not_count(
    manager: LogManager,
) -> None:
    groups = CoordinatedGroups(manager)
    write_transactional(groups, A, {T0: OffsetCommitValue(5, "", NOW_MS)}, Producer(7, 0), lambda: None)
    groups.write([[GroupChange(OffsetCommitKey(A, *T0), None)]])
    for first in range(0, 2 * DELETED_MAX, 500):
        keys = [OffsetCommitKey(A, "t", number) for number in range(first + 1, first + 501)]
        groups.write([[GroupChange(key, OffsetCommitValue(1, "", NOW_MS)) for key in keys]])
        groups.write([[GroupChange(key, None) for key in keys]])
    assert len(groups._logs.latest(1)._offsets) < 2 * DELETED_MAX
    end_transaction(manager.open_log(GROUP_METADATA_TOPIC, 1), 7, commit=True)
    assert groups.offsets(A, [T0]) == {}


# --- fences


def state(generation: int, *members: str, at_ms: int = NOW_MS) -> GroupMetadataValue:
    described = tuple(MemberMetadata(each, "", "", 1, b"", b"") for each in members)
    return GroupMetadataValue("consumer", generation, "range", None, described, at_ms)


def stored(value: GroupMetadataValue) -> list[GroupChange]:
    return [GroupChange(GroupMetadataKey(A), value)]


@pytest.mark.parametrize(
    "newer", [state(2), state(1, "a"), state(1, at_ms=NOW_MS + 1)], ids=["generation", "members", "time"]
)
def test_a_fence_refuses_what_comes_with_it_once_the_group_was_stored_by_another(
    manager: LogManager, newer: GroupMetadataValue
) -> None:
    groups, fence = CoordinatedGroups(manager), GroupFence(GroupMetadataKey(A), state(1))
    assert groups.write([[fence, *commit(A, 1)]]) == [None]  # no group is stored yet, or it was deleted
    assert groups.write([stored(state(1)), [fence, *commit(A, 2)]]) == [None, None]
    (_, refused, other) = groups.write([stored(newer), [fence, *commit(A, 3)], commit(B, 4)])
    assert isinstance(refused, GroupChangedError)
    assert other is None
    assert groups.offsets(A, [T0])[T0].offset == 2
    assert groups.offsets(B, [T0])[T0].offset == 4


def test_a_fence_of_a_group_that_its_coordinator_never_stored_refuses_anothers(manager: LogManager) -> None:
    groups, fence = CoordinatedGroups(manager), GroupFence(GroupMetadataKey(A), None)
    assert groups.write([[fence, *commit(A, 1)]]) == [None]
    groups.write([stored(state(1))])
    (refused,) = groups.write([[fence, *commit(A, 2)]])
    assert isinstance(refused, GroupChangedError)


def test_a_fence_holds_for_offsets_in_a_transaction(manager: LogManager) -> None:
    groups, fence = CoordinatedGroups(manager), GroupFence(GroupMetadataKey(A), state(1))
    groups.write([stored(state(2))])
    offsets = {T0: OffsetCommitValue(5, "", NOW_MS)}
    with pytest.raises(GroupChangedError):
        write_transactional(groups, A, offsets, Producer(7, 0), lambda: None, fence)
    assert groups.undecided(A) == set()
