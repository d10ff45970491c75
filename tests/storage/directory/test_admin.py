"""Changes to topics: configs, partitions, deletion; in directories of ours and of brokers, and after crashes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.admin import (
    add_partitions,
    alter_configs,
    check_whole,
    delete_topic,
    partition_topic_id,
    topic_ids,
)
from pyspark_commitlog.storage.directory.log_directory import TOPICS_FILE
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import (
    InvalidConfigError,
    LogDirLockedError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.reading.marks import Marks
from tests.storage.directory.broker_settings.test_metadata_log import (
    metadata_log,
    partition as partition_record,
    topic as topic_record,
)
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.kafka import broker_dirs
from tests.support.logs.building import NOW_MS, append, rows


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    """Topics orders, of two partitions with three records each, and other."""
    made = LogManager.open(str(tmp_path / "log"), create=True, clock=ManualClock(NOW_MS))
    fill(made)
    return made


def fill(made: LogManager) -> None:
    made.create_topic("orders", partitions=2, configs={"segment.bytes": "1000"})
    made.create_topic("other", partitions=1)
    for place in (("orders", 0), ("orders", 1), ("other", 0)):
        append(made.open_log(*place), b"a", b"b", b"c")
    made.close()


# Configs


def test_configs_are_set_replaced_and_reset(manager: LogManager) -> None:
    altered = alter_configs(manager, "orders", {"segment.bytes": "2000", "retention.ms": "5"})
    assert altered == manager.topic("orders")
    assert altered.configs == {"segment.bytes": "2000", "retention.ms": "5"}
    assert alter_configs(manager, "orders", {"segment.bytes": None}).configs == {"retention.ms": "5"}
    assert manager.topic("other").configs == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"retention.ms": "soon"}, "retention.ms = 'soon'"),
        ({"retention.mss": "1"}, "retention.ms"),
        ({"retention.ms": None}, "no config retention.ms of its own to reset"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "must be at most"),
    ],
)
def test_a_config_that_cannot_be_is_refused_and_nothing_is_changed(
    manager: LogManager, changes: dict[str, str | None], said: str
) -> None:
    before = manager.topics()
    with pytest.raises(InvalidConfigError, match=said):
        alter_configs(manager, "orders", changes)
    assert manager.topics() == before


def test_the_first_change_of_a_brokers_topic_gives_it_a_place_in_topics_json(tmp_path: Path) -> None:
    directory = broker_dirs.copy_to(tmp_path / "log", "plain/final")
    known = json.loads((directory / TOPICS_FILE).read_text())["topics"]["plain"]
    (directory / TOPICS_FILE).unlink()
    with LogManager.open(str(directory)) as manager:
        found = manager.topic("plain")
        altered = alter_configs(manager, "plain", {"retention.ms": "7"})
    assert (altered.partitions, altered.topic_id) == (found.partitions, known["id"])
    assert json.loads((directory / TOPICS_FILE).read_text())["topics"] == {
        "plain": {"id": known["id"], "partitions": known["partitions"], "configs": {"retention.ms": "7"}}
    }


def test_a_brokers_topic_with_parts_elsewhere_is_not_changed(tmp_path: Path) -> None:
    for partition in (1, 2):
        (tmp_path / f"t-{partition}").mkdir()
        (tmp_path / f"t-{partition}" / file_names.segment_file(0, file_names.LOG)).touch()
    with (
        LogManager.open(str(tmp_path)) as manager,
        pytest.raises(UnknownTopicOrPartitionError, match=r"only .* \[1, 2\]"),
    ):
        alter_configs(manager, "t", {"retention.ms": "7"})


# Partitions


def test_partitions_are_added_after_the_existing_ones(manager: LogManager) -> None:
    larger = add_partitions(manager, "orders", 4)
    assert larger == manager.topic("orders")
    assert larger.partitions == (0, 1, 2, 3)
    assert append(manager.open_log("orders", 3), b"x").first_offset == 0
    assert [len(rows(manager.open_reader("orders", each))) for each in range(4)] == [3, 3, 0, 1]


@pytest.mark.parametrize("total", [2, 1, 0, 100_001])
def test_a_topic_never_gets_fewer_partitions(manager: LogManager, total: int) -> None:
    with pytest.raises(InvalidConfigError, match=f"has 2 partitions, so it cannot get {total}"):
        add_partitions(manager, "orders", total)


# Deletion


def test_a_deleted_topic_is_removed_and_others_are_unchanged(manager: LogManager) -> None:
    delete_topic(manager, "orders")
    assert [*manager.topics()] == ["other"]
    assert [name for name in manager.filesystem.list(manager.directory) if name.startswith("orders")] == []
    assert {topic for topic, _ in manager.all_marks()} == {"other"}
    assert len(rows(manager.open_reader("other", 0))) == 3
    with pytest.raises(UnknownTopicOrPartitionError):
        delete_topic(manager, "orders")


def test_a_new_topic_of_the_same_name_begins_empty(manager: LogManager) -> None:
    manager.open_log("orders", 0).delete_records(2)
    delete_topic(manager, "orders")
    manager.create_topic("orders", partitions=1)
    assert append(manager.open_log("orders", 0), b"new").first_offset == 0
    assert rows(manager.open_reader("orders", 0)) == [(0, b"new")]


def test_checkpoint_entries_of_a_deleted_partition_do_not_apply_to_a_new_one(manager: LogManager) -> None:
    manager.write_marks({("new", 0): Marks(7, 5)})
    manager.create_topic("new", partitions=1)
    assert manager.marks(("new", 0)) == Marks(0)


def test_a_brokers_topic_can_be_deleted(tmp_path: Path) -> None:
    directory = broker_dirs.copy_to(tmp_path / "log", "plain/final")
    (directory / TOPICS_FILE).unlink()
    with LogManager.open(str(directory)) as manager:
        delete_topic(manager, "plain")
        assert "plain" not in manager.topics()
    assert not [path for path in directory.iterdir() if path.name.startswith("plain")]


def test_a_topic_under_maintenance_is_not_changed(manager: LogManager) -> None:
    with (
        LogManager.open(manager.directory) as other,
        other.open_log("orders", 1).maintaining("compaction by cron"),
        pytest.raises(LogDirLockedError, match="compaction by cron"),
    ):
        delete_topic(manager, "orders")
    assert len(rows(manager.open_reader("orders", 0))) == 3


def test_a_process_with_an_open_log_of_it_gets_an_error_and_restores_nothing(manager: LogManager) -> None:
    with LogManager.open(manager.directory) as other:
        writer = other.open_log("orders", 0)
        delete_topic(manager, "orders")
        with pytest.raises(StorageError, match="orders-0"):
            append(writer, b"x")
    assert [*manager.topics()] == ["other"]


def synced() -> MemoryFileSystem:
    """A disk with topics orders, of two partitions, and other; one record each."""
    disk = MemoryFileSystem(ManualClock(NOW_MS))
    with manager_of(disk) as made:
        for topic, partitions in (("orders", 2), ("other", 1)):
            made.create_topic(topic, partitions=partitions)
            append(made.open_log(topic, 0), b"a")
    return disk.crash(0, unsynced="kept")


def test_after_a_power_cut_the_topic_can_be_deleted_or_is_gone() -> None:
    """At every change; and a topic of that name created afterwards is empty."""
    listed = set()
    for operation, disk in crash_points(lambda each: delete_topic(manager_of(each), "orders"), synced()):
        manager = manager_of(disk.crash(3))
        assert len(rows(manager.open_reader("other", 0))) == 1, operation
        listed.add("orders" in manager.topics())
        if "orders" in manager.topics():
            delete_topic(manager, "orders")
        manager.create_topic("orders", partitions=2)
        assert [rows(manager.open_reader("orders", each)) for each in (0, 1)] == [[], []], operation
    assert listed == {True, False}


@pytest.mark.parametrize("unstaged", [0, 100])
def test_after_a_power_cut_partitions_are_added_or_not(unstaged: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.directory.manager.UNSTAGED_MAX", unstaged)
    found = set()
    for operation, disk in crash_points(lambda each: add_partitions(manager_of(each), "orders", 3), synced()):
        for seed in (0, 3):
            manager = manager_of(disk.crash(seed))
            found.add(len(manager.topic("orders").partitions))
            if len(manager.topic("orders").partitions) == 2:
                add_partitions(manager, "orders", 3)
            counts = [len(rows(manager.open_reader("orders", each))) for each in range(3)]
            assert counts == [1, 0, 0], operation
    assert found == {2, 3}


@pytest.mark.parametrize("unstaged", [0, 100])
def test_after_a_power_cut_the_topic_is_created_or_not(unstaged: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.directory.manager.UNSTAGED_MAX", unstaged)
    found = set()
    for operation, disk in crash_points(lambda each: manager_of(each).create_topic("new", partitions=3), synced()):
        for seed in (0, 3):
            manager = manager_of(disk.crash(seed))
            found.add("new" in manager.topics())
            if "new" not in manager.topics():
                manager.create_topic("new", partitions=3)
            ids = {partition_topic_id(manager, "new", each) for each in range(3)}
            assert ids == {manager.topic("new").topic_id}, operation
            assert [len(rows(manager.open_reader("new", each))) for each in range(3)] == [0, 0, 0], operation
            delete_topic(manager, "new")
            assert not [name for name in manager.filesystem.list("/log") if name.endswith("-delete")], operation
    assert found == {True, False}


def test_many_partitions_are_made_before_the_root_lock_is_taken() -> None:
    disk = MemoryFileSystem(ManualClock(NOW_MS))
    with manager_of(disk) as made:
        lock = made.root_lock

        def checked() -> object:
            (staged,) = (name for name in disk.list("/log") if name.endswith("-delete"))
            assert len(disk.list(f"/log/{staged}")) == 150
            return lock()

        made.root_lock = checked  # type: ignore[method-assign, assignment]
        topic = made.create_topic("new", partitions=150)
        assert {partition_topic_id(made, "new", each) for each in range(150)} == {topic.topic_id}
        assert not [name for name in disk.list("/log") if name.endswith("-delete")]


def manager_of(disk: MemoryFileSystem) -> LogManager:
    return LogManager.open("/log", create=True, filesystem=disk, clock=ManualClock(NOW_MS))


# Topics of which only some partitions are here


def test_part_of_a_brokers_topic_is_recognized_by_a_gap_or_its_metadata(tmp_path: Path) -> None:
    made = LogManager.open(str(tmp_path / "log"), create=True, clock=ManualClock(NOW_MS))
    fill(made)
    check_whole(made, made.topic("orders"))
    (tmp_path / "log" / TOPICS_FILE).unlink()
    check_whole(made, made.topic("orders"))
    topic_id = b"o" * 16
    metadata_log(
        tmp_path / "log", [topic_record("orders", topic_id), *(partition_record(n, topic_id) for n in range(2))]
    )
    check_whole(made, made.topic("orders"))
    metadata_log(tmp_path / "log", [partition_record(2, topic_id)])
    with pytest.raises(UnknownTopicOrPartitionError, match=r"'orders' has only partitions \[0, 1\]"):
        check_whole(made, made.topic("orders"))
    check_whole(made, made.topic("other"))


def test_ids_of_topics_are_those_of_their_partitions_and_else_of_the_list_of_topics(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        listed = manager.create_topic("t", partitions=2).topic_id
        partitions = [TopicPartition("t", 1), TopicPartition("t", 0), TopicPartition("missing", 0)]
        assert topic_ids(manager, partitions) == {"t": listed}
        metadata = [tmp_path / "log" / f"t-{number}" / "partition.metadata" for number in range(2)]
        metadata[1].write_text("version: 0\ntopic_id: 5kvMfJ_dSQWdBJGa6rPy1A")  # by a broker that made it again
        metadata[0].write_text("damaged")
        assert topic_ids(manager, partitions) == {"t": "5kvMfJ_dSQWdBJGa6rPy1A"}
        for path in metadata:
            path.unlink()
        assert topic_ids(manager, partitions) == {"t": listed}
        (tmp_path / "log" / "topics.json").unlink()
        assert topic_ids(manager, partitions) == {}
