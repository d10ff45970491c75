"""Which partition of a coordinator's topic holds a name, whatever part of the topic is in the directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import (
    CorruptRecordError,
    InvalidConfigError,
    LogStoreError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.internal.internal_topics import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    partition_for,
)
from pyspark_commitlog.storage.groups import coordinator_logs
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets, group_logs
from pyspark_commitlog.storage.transactions.abandoned import Resolution, open_transactions, resolve_dead_transactions
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.hanging import find_hanging
from pyspark_commitlog.storage.transactions.producer_ids import PRODUCER_IDS_FILE
from pyspark_commitlog.storage.transactions.states import TransactionStates
from tests.storage.directory.broker_settings.test_metadata_log import metadata_log, partition, topic
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS, append, write_transactional

GROUPS = [f"group-{n}" for n in range(12)]
PLACE = ("t", 0)
DAY_MS = 86_400_000


def managed(directory: Path) -> LogManager:
    return LogManager.open(str(directory), create=True, clock=ManualClock(NOW_MS))


def committed_as(group: str) -> dict[tuple[str, int], CommittedOffset]:
    return {PLACE: CommittedOffset(1 + GROUPS.index(group) if group in GROUPS else 99)}


def broker_left(
    directory: Path, here: Iterable[int] | None = None, *, partitions: int = 50, groups: Iterable[str] = GROUPS
) -> Path:
    """A directory without topics.json, as a broker leaves it, with some partitions of the groups' topic."""
    with managed(directory) as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log(*PLACE), b"v")
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=partitions)
        for group in groups:
            GroupOffsets(manager).commit(group, committed_as(group))
        for number in range(partitions) if here is None else here:  # a broker's partition always has a segment
            manager.open_log(GROUP_METADATA_TOPIC, number)
    (directory / "topics.json").unlink()
    for number in set(range(partitions)) - set(range(partitions) if here is None else here):
        shutil.rmtree(directory / f"{GROUP_METADATA_TOPIC}-{number}")
    return directory


def written_to(directory: Path, work: Callable[[], object]) -> list[int]:
    """The partitions whose logs grow, or that are created."""

    def sizes() -> dict[int, int]:
        found = directory.glob(f"{GROUP_METADATA_TOPIC}-*")
        return {
            int(each.name.rpartition("-")[2]): sum(log.stat().st_size for log in each.glob("*.log")) for each in found
        }

    before = sizes()
    work()
    return [number for number, size in sizes().items() if before.get(number) != size]


@pytest.mark.parametrize("here", [range(0, 50, 3), range(17), [49, 0], range(50)], ids=str)
def test_a_group_is_in_the_partition_of_its_hash_modulo_50_however_few_are_here(
    here: Iterable[int], tmp_path: Path
) -> None:
    directory = broker_left(tmp_path / "log", here)
    with managed(directory) as manager:
        groups = GroupOffsets(manager)
        there = [group for group in GROUPS if partition_for(group, 50) in here]
        assert sorted(groups.groups()) == sorted(there)
        for group in [*GROUPS, "new", "newer", "newest"]:
            home = partition_for(group, 50)
            if home in here:
                assert groups.fetch(group) == ({} if group.startswith("new") else committed_as(group))
                assert written_to(directory, lambda group=group: groups.commit(group, committed_as(group))) == [home]
                continue
            for work in (
                lambda group=group: groups.fetch(group),
                lambda group=group: groups.commit(group, committed_as(group)),
                lambda group=group: groups.delete(group),
                lambda group=group: groups.check_here(group),
            ):
                with pytest.raises(
                    UnknownTopicOrPartitionError, match=f"__consumer_offsets-{home}, which holds '{group}'"
                ):
                    work()
        assert written_to(directory, lambda: None) == []


def test_missing_partitions_are_listed_by_number(tmp_path: Path) -> None:
    with managed(broker_left(tmp_path / "some", range(47))) as manager:
        assert GroupOffsets(manager).missing() == (
            f"3 of the 50 partitions of __consumer_offsets are not in {manager.directory}: 47, 48, 49"
        )
    with managed(broker_left(tmp_path / "few", range(5, 10))) as manager:
        assert "45 of the 50 partitions" in str(GroupOffsets(manager).missing())
        assert str(GroupOffsets(manager).missing()).endswith(": 0, 1, 2, 3, 4, 10, 11, 12, 13, 14 and 35 more")
    with managed(broker_left(tmp_path / "all")) as manager:
        assert GroupOffsets(manager).missing() is None
    with managed(tmp_path / "none") as manager:
        assert GroupOffsets(manager).missing() is None


def test_a_topic_with_more_than_50_partitions_has_as_many_as_its_largest_number_says(tmp_path: Path) -> None:
    here = {3, 59, *(partition_for(group, 60) for group in GROUPS[:6])}
    directory = broker_left(tmp_path / "log", here, partitions=60)
    with managed(directory) as manager:
        assert GroupOffsets(manager).fetch(GROUPS[0]) == committed_as(GROUPS[0])
        name = next(f"n{n}" for n in range(1000) if partition_for(f"n{n}", 60) == 59)
        assert written_to(directory, lambda: GroupOffsets(manager).commit(name, committed_as(name))) == [59]


def test_half_of_a_topic_with_fewer_partitions_is_not_mistaken_for_all_of_it(tmp_path: Path) -> None:
    directory = broker_left(tmp_path / "log", range(4), partitions=8)
    (directory / file_names.RECOVERY_POINT_CHECKPOINT).unlink()  # which would show that partitions are lost
    with managed(directory) as manager:
        groups = GroupOffsets(manager)
        for group in GROUPS:
            if partition_for(group, 8) in range(4):  # its partition is visible
                assert groups.fetch(group) == committed_as(group)
                home = [partition_for(group, 8)]
                assert written_to(directory, lambda group=group: groups.commit(group, committed_as(group))) == home
            else:
                with pytest.raises(UnknownTopicOrPartitionError, match=r"it is unknown which holds .*; state how many"):
                    groups.commit(group, committed_as(group))
        assert "it is unknown whether it has more" in str(groups.missing())


def test_names_determine_the_number_of_partitions_if_only_one_fits(tmp_path: Path) -> None:
    directory = broker_left(tmp_path / "log", partitions=4)
    with managed(directory) as manager:
        groups = GroupOffsets(manager)
        assert groups.missing() is None
        for name in ("new", "newer", "newest"):
            home = [partition_for(name, 4)]
            assert written_to(directory, lambda name=name: groups.commit(name, committed_as(name))) == home


def test_a_number_can_be_given_and_is_kept(tmp_path: Path) -> None:
    directory = broker_left(tmp_path / "log", range(4), partitions=8)
    with managed(directory) as manager:
        for wrong, said in (
            (5, "cannot have 5 partitions: 'group-"),
            (3, "cannot have 3 partitions: the directory has partition 3"),
            (7, "would be in"),
        ):
            with pytest.raises(InvalidConfigError, match=said):
                GroupOffsets(manager).describe_partitions(wrong)
        assert GroupOffsets(manager).describe_partitions(8).partitions == tuple(range(8))
        with pytest.raises(TopicExistsError, match="lists __consumer_offsets with 8 partitions already"):
            GroupOffsets(manager).describe_partitions(20)
    with managed(directory) as manager:
        groups = GroupOffsets(manager)
        assert "4 of the 8 partitions" in str(groups.missing())
        for name in [f"n{n}" for n in range(10)]:
            home = partition_for(name, 8)
            if home < 4:
                assert written_to(directory, lambda name=name: groups.commit(name, committed_as(name))) == [home]
            else:
                with pytest.raises(UnknownTopicOrPartitionError, match=f"__consumer_offsets-{home}, which holds"):
                    groups.commit(name, committed_as(name))
    assert not (directory / f"{GROUP_METADATA_TOPIC}-7").exists()


def test_a_brokers_metadata_log_has_the_number(tmp_path: Path) -> None:
    directory = broker_left(tmp_path / "log", range(5), partitions=10, groups=())
    number_id = b"g" * 16
    metadata_log(directory, [topic(GROUP_METADATA_TOPIC, number_id), *(partition(n, number_id) for n in range(10))])
    with managed(directory) as manager:
        groups = GroupOffsets(manager)
        assert "5 of the 10 partitions" in str(groups.missing())
        name = next(f"n{n}" for n in range(100) if partition_for(f"n{n}", 10) == 3)
        assert written_to(directory, lambda: groups.commit(name, committed_as(name))) == [3]
        other = next(f"n{n}" for n in range(100) if partition_for(f"n{n}", 10) == 8)
        with pytest.raises(UnknownTopicOrPartitionError, match="__consumer_offsets-8, which holds"):
            groups.fetch(other)


# Directories created by this engine


def test_a_lost_topics_json_moves_no_group_of_ours(tmp_path: Path) -> None:
    """Partitions without any commit have no segment, and exist all the same."""
    with managed(tmp_path) as manager:
        for group in GROUPS[:3]:
            GroupOffsets(manager).commit(group, committed_as(group))
    (tmp_path / "topics.json").unlink()
    with managed(tmp_path) as manager:
        groups = GroupOffsets(manager)
        assert groups.missing() is None
        assert groups.groups() == {group: committed_as(group) for group in GROUPS[:3]}
        for group in GROUPS:
            home = [partition_for(group, 50)]
            assert written_to(tmp_path, lambda group=group: groups.commit(group, committed_as(group))) == home
        assert groups.groups() == {group: committed_as(group) for group in sorted(GROUPS)}


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("count", [3, 60])
def test_a_topic_that_lost_all_records_is_not_created_again(count: int, left: int, tmp_path: Path) -> None:
    """With ``topics.json``; only the recovery points show it, with a line for each partition."""
    with managed(tmp_path) as manager:
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=count)
        group = next(group for group in GROUPS if partition_for(group, count) != 0)
        GroupOffsets(manager).commit(group, committed_as(group))
    (tmp_path / "topics.json").unlink()
    for number in range(left, count):
        shutil.rmtree(tmp_path / f"{GROUP_METADATA_TOPIC}-{number}")
    with managed(tmp_path) as manager:
        groups = GroupOffsets(manager)
        for work in (groups.fetch, lambda group: groups.commit(group, committed_as(group))):
            with pytest.raises(UnknownTopicOrPartitionError, match="as the recovery points show; it was lost"):
                work(group)
        assert len(list(tmp_path.glob("__consumer_offsets-*"))) == left


def test_lost_partitions_count_if_nothing_else_shows_how_many_existed(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=60)
        for group in GROUPS:
            GroupOffsets(manager).commit(group, committed_as(group))
    (tmp_path / "topics.json").unlink()
    home = partition_for(GROUPS[0], 60)
    for number in range(60):
        if number != home:
            shutil.rmtree(tmp_path / f"{GROUP_METADATA_TOPIC}-{number}")
    with managed(tmp_path) as manager:
        assert GroupOffsets(manager).fetch(GROUPS[0]) == committed_as(GROUPS[0])
        elsewhere = next(group for group in GROUPS if partition_for(group, 60) != home)
        with pytest.raises(UnknownTopicOrPartitionError, match="1 of its 60 partitions"):
            GroupOffsets(manager).fetch(elsewhere)


def test_partitions_of_a_topic_that_was_never_finished_are_used_and_completed(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=7)
    (tmp_path / "topics.json").unlink()
    with managed(tmp_path) as manager:
        GroupOffsets(manager).commit("g", committed_as("g"))
        assert len(manager.topic(GROUP_METADATA_TOPIC).partitions) == 50


def test_a_lost_directory_costs_the_groups_in_it_and_is_not_made_again(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        for group in GROUPS:
            GroupOffsets(manager).commit(group, committed_as(group))
    home = partition_for(GROUPS[0], 50)
    shutil.rmtree(tmp_path / f"{GROUP_METADATA_TOPIC}-{home}")
    with managed(tmp_path) as manager:
        groups = GroupOffsets(manager)
        kept = [group for group in GROUPS if partition_for(group, 50) != home]
        assert groups.groups() == {group: committed_as(group) for group in sorted(kept)}
        assert groups.missing() == f"1 of the 50 partitions of __consumer_offsets is not in {tmp_path}: {home}"
        for work in (groups.fetch, lambda group: groups.commit(group, committed_as(group)), groups.delete):
            with pytest.raises(
                UnknownTopicOrPartitionError, match=f"__consumer_offsets-{home}.* it was lost: restore it"
            ):
                work(GROUPS[0])
        assert not (tmp_path / f"{GROUP_METADATA_TOPIC}-{home}").exists()
        (tmp_path / f"{GROUP_METADATA_TOPIC}-{home}").mkdir()  # the way out that the error names
        manager.forget_partitions({(GROUP_METADATA_TOPIC, home)})
        assert groups.fetch(GROUPS[0]) == {}
        groups.commit(GROUPS[0], committed_as(GROUPS[0]))


def test_a_damaged_partition_can_be_skipped(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        for group in GROUPS:
            GroupOffsets(manager).commit(group, committed_as(group))
    home = partition_for(GROUPS[0], 50)
    [log] = (tmp_path / f"{GROUP_METADATA_TOPIC}-{home}").glob("*.log")
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    log.write_bytes(data)
    failures: list[LogStoreError] = []
    with managed(tmp_path) as manager:
        found = {key.group for key in GroupOffsets(manager).contents(failures)}
        with pytest.raises(LogStoreError):
            GroupOffsets(manager).groups()
    assert found == {group for group in GROUPS if partition_for(group, 50) != home}
    assert [str(log) in str(each) for each in failures] == [True]


# Transactions


IDS = [f"query-{n}" for n in range(6)]


@pytest.fixture
def states(tmp_path: Path) -> Path:
    """Each of six transactional ids has an open transaction."""
    with managed(tmp_path) as manager:
        manager.create_topic("t", partitions=1)
        for each in IDS:
            with TransactionCoordinator.open(manager, each) as coordinator:
                coordinator.begin([PLACE])
    return tmp_path


@pytest.mark.parametrize("is_described", [True, False], ids=["beside topics.json", "without topics.json"])
def test_a_lost_partition_of_transaction_states_stops_looks_at_its_own_ids_only(
    states: Path, is_described: bool
) -> None:
    home = partition_for(IDS[0], 50)
    shutil.rmtree(states / f"{TRANSACTION_STATE_TOPIC}-{home}")
    if not is_described:
        (states / "topics.json").unlink()
    kept = {each for each in IDS if partition_for(each, 50) != home}
    with managed(states) as manager:
        looked_up = TransactionStates(manager)
        assert {name for name, _ in looked_up.all()} == kept
        assert {each.transactional_id for each in open_transactions(manager)} == kept
        assert f"1 of the 50 partitions of __transaction_state is not in {states}: {home}" == looked_up.missing()
        with pytest.raises(UnknownTopicOrPartitionError, match=f"__transaction_state-{home}, which holds '{IDS[0]}'"):
            looked_up.newest(IDS[0])
        with pytest.raises(UnknownTopicOrPartitionError, match="which holds"):
            TransactionCoordinator.open(manager, IDS[0])
        for each in kept:
            with TransactionCoordinator.open(manager, each) as coordinator:
                coordinator.begin([PLACE])
    assert not (states / f"{TRANSACTION_STATE_TOPIC}-{home}").exists()


def test_a_damaged_partition_of_transaction_states_stops_looks_at_its_own_ids_only(states: Path) -> None:
    home = partition_for(IDS[0], 50)
    [log] = (states / f"{TRANSACTION_STATE_TOPIC}-{home}").glob("*.log")
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    (states / PRODUCER_IDS_FILE).unlink()
    kept = {each for each in IDS if partition_for(each, 50) != home}
    with managed(states) as manager:
        for look in (TransactionStates(manager).all, partial(open_transactions, manager)):
            with pytest.raises(CorruptRecordError):
                [*look()]
        failures: list[LogStoreError] = []
        assert {name for name, _ in TransactionStates(manager).all(failures)} == kept
        found = {each.transactional_id for each in open_transactions(manager, failures=failures)}
        assert kept <= found <= {*kept, None}
        assert [str(log) in str(each) for each in failures] == [True] * len(failures)
        for each in kept:
            with TransactionCoordinator.open(manager, each) as coordinator:
                coordinator.begin([PLACE])
        with TransactionCoordinator.open(manager, "another") as coordinator:
            coordinator.begin([PLACE])


def test_a_lost_partition_of_a_topic_hides_no_transaction_of_others(states: Path) -> None:
    with managed(states) as manager:
        manager.create_topic("u", partitions=2)
        for partition in range(2):
            write_transactional(manager.open_log("u", partition), 7 + partition, 0, b"hangs")
    shutil.rmtree(states / "u-0")
    with managed(states) as manager:
        for look in (open_transactions, partial(find_hanging, max_timeout_ms=0)):
            failures: list[LogStoreError] = []
            found = look(manager, failures=failures)
            assert [each.producer_id for each in found if each.transactional_id is None] == [8]
            assert ["u-0" in str(each) for each in failures] == [True]
        failures = []
        resolved = resolve_dead_transactions(manager, now_ms=NOW_MS + DAY_MS, failures=failures)
        aborted = {each.transaction.transactional_id for each in resolved if each.resolution is Resolution.ABORTED}
        assert (aborted, len(failures)) == ({*IDS}, 1)


def test_a_lost_topics_json_moves_no_transactional_id_of_ours(states: Path) -> None:
    (states / "topics.json").unlink()
    with managed(states) as manager:
        looked_up = TransactionStates(manager)
        assert all(looked_up.newest(each) is not None for each in IDS)
        assert looked_up.newest("query-new") is None
        assert looked_up.missing() is None


def test_the_names_of_clients_take_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_logs, "KEPT_MAX", 1000)
    with managed(tmp_path) as manager:
        logs = group_logs(manager, 50)
        first = [logs.partition_of(f"group-{number}", create=True) for number in range(500)]
        assert sum(map(len, logs._homes)) <= 1000
        assert [logs.partition_of(f"group-{number}") for number in range(500)] == first


def test_one_look_at_a_missing_topic_answers_for_all_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with managed(tmp_path) as manager:
        logs, listed = group_logs(manager, 2), list[str]()
        find = manager.partitions_found
        monkeypatch.setattr(manager, "partitions_found", lambda topic: listed.append(topic) or find(topic))
        with logs.one_look():
            assert [logs.named_to_write(group) for group in GROUPS] == [{}] * len(GROUPS)
        assert len(listed) == 1
        GroupOffsets(manager).commit(GROUPS[0], committed_as(GROUPS[0]))
        assert len(logs.named_to_write(GROUPS[0])) == 1, "the next look sees the topic"


def test_one_look_reads_each_partition_once_and_returns_what_many_looks_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with managed(tmp_path) as manager:
        offsets = GroupOffsets(manager, partitions=2)
        for group in GROUPS:
            offsets.commit(group, committed_as(group))
        logs, read = group_logs(manager, 2), list[int]()
        alone = [logs.named_to_write(group) for group in [*GROUPS, "other"]]
        find = logs.current_to_write
        monkeypatch.setattr(logs, "current_to_write", lambda partition: read.append(partition) or find(partition))
        with logs.one_look():
            assert [logs.named_to_write(group) for group in [*GROUPS, "other"]] == alone
        assert sorted(read) == [0, 1]
        assert [len(each) for each in alone] == [1] * len(GROUPS) + [0]


def test_one_look_raises_the_error_of_a_damaged_partition_for_each_name_and_reads_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with managed(tmp_path) as manager:
        offsets = GroupOffsets(manager, partitions=1)
        for group in GROUPS:
            offsets.commit(group, committed_as(group))
    [segment] = (tmp_path / "__consumer_offsets-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[80] ^= 1
    segment.write_bytes(data)
    with managed(tmp_path) as manager:
        logs, read = group_logs(manager, 2), list[int]()
        find = logs.current_to_write
        monkeypatch.setattr(logs, "current_to_write", lambda partition: read.append(partition) or find(partition))
        with logs.one_look():
            for group in GROUPS:
                with pytest.raises(CorruptRecordError):
                    logs.values_to_write(group)
        assert read == [0]
