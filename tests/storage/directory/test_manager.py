"""A directory of logs: its topics, its locks, its checkpoints, and what a broker left there."""

from __future__ import annotations

import errno
import json
import multiprocessing
import shutil
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.log_directory import TOPICS_FILE
from pyspark_commitlog.storage.directory.manager import UNSTAGED_MAX, LogManager
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    InvalidConfigError,
    InvalidTopicError,
    MissingSegmentError,
    NotALogDirError,
    StorageError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.format.files.file_names import PARTITIONS_MAX
from pyspark_commitlog.storage.topic_rules import check_requested
from pyspark_commitlog.storage.transactions.idempotent import IdempotentProducer
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.logs.building import append, open_log, records, rows
from tests.support.logs.directories import managed

SPAWN = multiprocessing.get_context("spawn")


# Topics


def test_a_created_topic_is_visible_to_everyone(tmp_path: Path) -> None:
    created = managed(tmp_path / "deep" / "logs").create_topic("t", partitions=3, configs={"segment.bytes": "1000"})
    manager = managed(tmp_path / "deep" / "logs")
    assert manager.topics() == {"t": created}
    assert (created.partitions, created.configs) == ((0, 1, 2), {"segment.bytes": "1000"})
    assert manager.config("t").segment_bytes == 1000
    for partition in range(3):
        metadata = (tmp_path / "deep" / "logs" / f"t-{partition}" / file_names.PARTITION_METADATA_FILE).read_bytes()
        assert checkpoints.encode_id(checkpoints.decode_partition_metadata(metadata)) == created.topic_id


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ä", "x" * 250, "a b"])
def test_names_that_kafka_does_not_allow_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidTopicError):
        managed(tmp_path).create_topic(name, partitions=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("other", ["a.b_c", "a_b.c", "a.b.c"])
def test_names_that_kafka_cannot_distinguish_collide(tmp_path: Path, other: str) -> None:
    manager = managed(tmp_path)
    manager.create_topic("a.b_c", partitions=1)
    with pytest.raises(TopicExistsError, match=r"a\.b_c"):
        manager.create_topic(other, partitions=1)


@pytest.mark.parametrize("partitions", [0, -1, PARTITIONS_MAX + 1])
def test_a_number_of_partitions_that_cannot_be_meant_is_refused(tmp_path: Path, partitions: int) -> None:
    with pytest.raises(InvalidConfigError, match=f"cannot have {partitions} partitions: give a number from 1 to"):
        managed(tmp_path).create_topic("t", partitions=partitions)


def test_a_wrong_setting_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match=r"segment\.byte"):
        managed(tmp_path).create_topic("t", partitions=1, configs={"segment.byte": "1"})
    assert list(tmp_path.iterdir()) == []


def test_an_existing_topic_is_accepted_if_it_has_the_requested_settings(tmp_path: Path) -> None:
    manager = managed(tmp_path)
    made = manager.ensure_topic("t", partitions=2, configs={"segment.bytes": "1000"})
    assert manager.ensure_topic("t") == manager.ensure_topic("t", partitions=2) == made
    assert manager.ensure_topic("t", configs={"segment.bytes": "1000", "cleanup.policy": "delete"}) == made
    assert manager.ensure_topic("one").partitions == (0,)
    with pytest.raises(TopicExistsError, match="has 2 partitions, but 3 were requested"):
        manager.ensure_topic("t", partitions=3)
    with pytest.raises(TopicExistsError, match=r"has segment\.bytes = 1000, but 2000 was requested"):
        manager.ensure_topic("t", configs={"segment.bytes": "2000"})


def test_no_requested_settings_fit_any_topic_also_one_of_a_newer_version() -> None:
    newer = {"segment.bytes.of.tomorrow": "many"}
    check_requested("t", {}, newer)
    with pytest.raises(InvalidConfigError, match="tomorrow"):
        check_requested("t", {"retention.ms": "5"}, newer)


@pytest.mark.parametrize(("partitions", "times"), [(1, 1), (UNSTAGED_MAX + 1, 2)])
def test_the_topics_are_listed_twice_only_where_many_directories_would_be_made_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, times: int
) -> None:
    manager, listed, topics = managed(tmp_path), [], LogManager.topics
    monkeypatch.setattr(LogManager, "topics", lambda self: listed.append(1) or topics(self))
    manager.create_topic("t", partitions=partitions)
    assert len(listed) == times
    with pytest.raises(TopicExistsError):
        manager.create_topic("t", partitions=partitions)


def test_internal_topics_are_compacted(tmp_path: Path) -> None:
    manager = managed(tmp_path)
    manager.create_topic("__consumer_offsets", partitions=1)
    assert manager.config("__consumer_offsets").compact


def test_a_name_not_found_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    manager = managed(tmp_path)
    with pytest.raises(UnknownTopicOrPartitionError, match="it holds no topics"):
        manager.topic("orders")
    manager.create_topic("orders", partitions=1)
    with pytest.raises(UnknownTopicOrPartitionError, match="did you mean 'orders'"):
        manager.open_reader("order", 0)
    with pytest.raises(UnknownTopicOrPartitionError, match=r"has partitions \[0\], but not 1"):
        manager.open_log("orders", 1)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"{}",
        b'"\\ud800"',
        b"\xff",
        b'{"version": 1, "topics": []}',
        b'{"version": 1, "topics": {"t": {}}}',
        b'{"version": 1, "topics": {"t": {"id": "x", "partitions": 1, "configs": {}}}}',
        b'{"version": 1, "topics": {"t": {"id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 1e300, "configs": {}}}}',
        b'{"version": 1, "topics": {"t": {"id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": "3", "configs": {}}}}',
        b'{"version": 1, "topics": {"t": {"id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 99999999999, "configs": {}}}}',
        b'{"version": 1, "topics": {"t": {"id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 1, "configs": {"a": 1}}}}',
    ],
)
def test_a_damaged_list_of_topics_is_reported_with_its_path(tmp_path: Path, content: bytes) -> None:
    (tmp_path / TOPICS_FILE).write_bytes(content)
    for ask in (lambda: managed(tmp_path).topics(), lambda: managed(tmp_path).create_topic("t", partitions=1)):
        with pytest.raises(CorruptionError, match=rf"{TOPICS_FILE}: the content is not what this engine writes"):
            ask()
    assert (tmp_path / TOPICS_FILE).read_bytes() == content


def test_a_list_of_topics_by_a_newer_version_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / TOPICS_FILE).write_text(json.dumps({"version": 2, "topics": {}}))
    with pytest.raises(CorruptionError, match="version 2, but this engine knows 1"):
        managed(tmp_path).create_topic("t", partitions=1)


def test_a_half_created_topic_does_not_exist_and_can_be_created_again(tmp_path: Path) -> None:
    faulty = FaultyFileSystem(LocalFileSystem(), [fail("rename", f"*{TOPICS_FILE}*", error=errno.EIO)])
    with pytest.raises(OSError, match="Input/output"):
        managed(tmp_path, faulty).create_topic("t", partitions=2)
    manager = managed(tmp_path)
    assert manager.topics() == {}
    created = manager.create_topic("t", partitions=3)
    assert manager.topics() == {"t": created}


# Directories


def test_a_directory_without_a_log_is_distinguished_from_one_with_a_log(tmp_path: Path) -> None:
    with pytest.raises(NotALogDirError, match="no such directory"):
        LogManager.open(str(tmp_path / "missing"))
    (tmp_path / "file").touch()
    with pytest.raises(NotALogDirError, match="this is a file, where"):
        LogManager.open(str(tmp_path / "file"))
    with pytest.raises(NotALogDirError, match="neither"):
        LogManager.open(str(tmp_path))
    with pytest.raises(NotALogDirError, match="neither"):
        LogManager.open(str(tmp_path), create=True)  # somebody else's: not to be littered


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["t-0/00000000000000000000.kafka"], "a log directory of Kafka 0.7: read it with layout kafka-0.7"),
        (["notes/a", "t_0/00000000000000000000.kafka"], "a log directory of Kafka 0.7"),
        (["t-0/a"], "neither"),
        (["t/00000000000000000000.kafka"], "neither"),
        (["t-0.kafka", "t-1"], "neither"),
    ],
)
def test_a_directory_of_kafka_0_7_is_named_as_one(tmp_path: Path, files: list[str], told: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(NotALogDirError, match=told):
        LogManager.open(str(tmp_path))


def broker_directory(directory: Path) -> Path:
    """A broker's directory: partitions, checkpoints, no topics.json."""
    for name in ("plain-0", "plain-1", "with-dash-7", "keyed-0", "__consumer_offsets-3"):
        with open_log(directory / name) as log:
            append(log, name.encode())
    (directory / "__cluster_metadata-0").mkdir()
    (directory / "plain-2.0123456789abcdef0123456789abcdef-delete").mkdir()
    (directory / "plain-9").write_text("a file")
    (directory / file_names.CLEANER_OFFSET_CHECKPOINT).write_bytes(checkpoints.encode_offsets({("keyed", 0): 1}))
    (directory / file_names.CLEAN_SHUTDOWN_FILE).touch()
    return directory


def test_the_topics_of_a_broker_are_found_by_their_directories(tmp_path: Path) -> None:
    manager = LogManager.open(str(broker_directory(tmp_path)))
    found = {name: (topic.partitions, dict(topic.configs)) for name, topic in manager.topics().items()}
    assert found == {
        "__consumer_offsets": ((3,), {"cleanup.policy": "compact", "segment.bytes": "104857600"}),
        "keyed": ((0,), {"cleanup.policy": "compact"}),
        "plain": ((0, 1), {}),
        "with-dash": ((7,), {}),
    }
    assert rows(manager.open_reader("with-dash", 7)) == [(0, b"with-dash-7")]


def test_a_topic_beside_a_brokers_may_not_use_their_names(tmp_path: Path) -> None:
    manager = managed(broker_directory(tmp_path))
    with pytest.raises(TopicExistsError):
        manager.create_topic("plain", partitions=1)
    manager.create_topic("new", partitions=1)
    assert set(manager.topics()) == {"__consumer_offsets", "keyed", "new", "plain", "with-dash"}


def test_the_first_writer_removes_a_brokers_clean_shutdown_mark(tmp_path: Path) -> None:
    manager = managed(broker_directory(tmp_path))
    manager.open_reader("plain", 0)
    assert (tmp_path / file_names.CLEAN_SHUTDOWN_FILE).exists()
    manager.open_log("plain", 0)
    assert not (tmp_path / file_names.CLEAN_SHUTDOWN_FILE).exists()


def test_a_missing_partition_is_reported(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        manager.create_topic("t", partitions=2)
        append(manager.open_log("t", 1), b"a")
    for path in (tmp_path / "t-1").iterdir():
        path.unlink()
    (tmp_path / "t-1").rmdir()
    manager = managed(tmp_path)
    with pytest.raises(StorageError, match=r"t-1: no such directory"):
        manager.open_reader("t", 1)
    for _ in range(2):
        with pytest.raises(MissingSegmentError, match=r"t-1: no such directory.*restore it"):
            manager.open_log("t", 1)
    (tmp_path / "t-1").mkdir()
    with pytest.raises(MissingSegmentError, match="below offset 1 was synced"):
        manager.open_log("t", 1)


@pytest.mark.parametrize("has_recovery_point", [False, True])
def test_a_writer_makes_no_empty_partition_where_one_was_lost(tmp_path: Path, has_recovery_point: bool) -> None:
    """Records may have been acknowledged above the recovery point, which is 0 until the first clean stop."""
    with managed(tmp_path) as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"a")
    shutil.rmtree(tmp_path / "t-0")
    if not has_recovery_point:
        (tmp_path / file_names.RECOVERY_POINT_CHECKPOINT).unlink()
    with managed(tmp_path) as manager:
        with pytest.raises(MissingSegmentError, match="it was lost"):
            IdempotentProducer(manager).append("t", 0, records([b"b"]))
        assert not manager.is_here("t", 0)
        (tmp_path / "t-0").mkdir()  # the way out
        (tmp_path / file_names.RECOVERY_POINT_CHECKPOINT).unlink(missing_ok=True)
        assert append(manager.open_log("t", 0), b"b").first_offset == 0


# Logs


def test_a_log_is_opened_once_and_again_after_a_failure(tmp_path: Path) -> None:
    faulty = FaultyFileSystem(LocalFileSystem())
    manager = managed(tmp_path, faulty)
    manager.create_topic("t", partitions=1)
    log = manager.open_log("t", 0)
    assert manager.open_log("t", 0) is log
    append(log, b"a")
    faulty.rules.append(fail("sync", "*.log"))
    with pytest.raises(StorageError):
        append(log, b"b")
    again = manager.open_log("t", 0)
    assert again is not log
    append(again, b"c")
    assert rows(again)[0] == (0, b"a")
    assert rows(again)[-1][1] == b"c"


def test_closing_gives_everything_back_even_where_a_log_cannot_be_closed(tmp_path: Path) -> None:
    faulty = FaultyFileSystem(LocalFileSystem())
    manager = managed(tmp_path, faulty)
    manager.create_topic("t", partitions=3)
    for partition in range(3):
        append(manager.open_log("t", partition), b"a")
    rule = fail("truncate", "*/t-1/*.index")
    faulty.rules.append(rule)
    with pytest.raises(StorageError, match="t-1"):
        manager.close()
    assert rule.struck == 1
    other = managed(tmp_path)
    assert [other.marks(("t", partition)).recovery_point for partition in range(3)] == [1, 0, 1]
    lock = LocalFileSystem().lock(str(tmp_path / "t-1" / ".append.lock"), wait=False)
    assert lock is not None
    lock.release()
    for partition in range(3):
        assert rows(other.open_log("t", partition)) == [(0, b"a")]
    manager.close()
