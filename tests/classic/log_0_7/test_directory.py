"""A log directory of 0.7: its lock, its marker, its partitions and its failures."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pyspark_commitlog.classic.log_0_7.directory import PositionLogDirectory, position_partitions
from pyspark_commitlog.classic.log_0_7.entries import encode, messages_in
from pyspark_commitlog.classic.log_0_7.log import PositionLog
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.classic.log_0_7.topics import PositionTopics
from pyspark_commitlog.classic.upgrade.run import UpgradeRun
from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.errors import (
    CorruptRecordError,
    InvalidTopicError,
    LogDirLockedError,
    NotALogDirError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import append

MARKER = ".kafka_cleanshutdown"
EACH = PositionLogSettings(flush_interval=1)


def texts(logs: PositionLogDirectory, topic: str = "t") -> list[bytes]:
    log = logs.log(topic, 0)
    assert log is not None
    return [one.payload for each in log.segments for one in messages_in(log.read(each.start, 10**6).read())]


def test_the_marker_is_there_only_while_nobody_has_the_directory(tmp_path: Path) -> None:
    with PositionLogDirectory(str(tmp_path)) as logs:
        logs.log_to_append("t", 0).append(encode(b"a"))
        assert not (tmp_path / MARKER).exists()
    assert (tmp_path / MARKER).exists()
    with PositionLogDirectory(str(tmp_path)) as logs:
        assert not (tmp_path / MARKER).exists()
        assert texts(logs) == [b"a"]


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_log_of_today_is_refused_and_stays_as_it_is(is_ours: bool, tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"a")
    if not is_ours:
        (tmp_path / "topics.json").unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for read in (PositionLogDirectory, lambda path: PositionTopics(path).topics(), _upgraded):
        with pytest.raises(NotALogDirError, match="a log of Kafka 0"):
            read(str(tmp_path))
    assert {path: path.read_bytes() for path in before} == before
    assert not [*tmp_path.rglob("*.kafka"), *tmp_path.rglob(MARKER)]


def _upgraded(path: str) -> object:
    return UpgradeRun(path, f"{path}-new", f"{path}-positions").source_partitions()


def test_two_processes_cannot_have_one_directory(tmp_path: Path) -> None:
    with PositionLogDirectory(str(tmp_path)), pytest.raises(LogDirLockedError, match="another process"):
        PositionLogDirectory(str(tmp_path))
    PositionLogDirectory(str(tmp_path)).close()


def test_a_directory_that_cannot_be_opened_stays_as_it_is_and_unlocked(tmp_path: Path) -> None:
    (tmp_path / MARKER).touch()
    (tmp_path / "no partition").mkdir()
    for _ in range(2):
        with pytest.raises(NotALogDirError, match="no partition"):
            PositionLogDirectory(str(tmp_path))
    assert (tmp_path / MARKER).exists()


def test_no_log_is_opened_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "partition.metadata").write_text("somebody's")
    (tmp_path / "t-0").symlink_to(outside)
    with pytest.raises(NotALogDirError, match="is a link"):
        PositionLog(LocalFileSystem(), str(tmp_path / "t-0"), EACH, SystemClock(), topic="t", recovers=True)
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("partition.metadata", "somebody's")]


def test_topics_have_as_many_partitions_as_the_settings_say(tmp_path: Path) -> None:
    settings = PositionLogSettings.from_mapping({"num.partitions": "2", "topic.partition.count.map": "wide:9,one:1"})
    with PositionLogDirectory(str(tmp_path), settings) as logs:
        for topic, count in (("other", 2), ("wide", 9), ("one", 1)):
            assert logs.log(topic, count - 1) is None
            assert {logs.any_partition(topic) for _ in range(300)} == set(range(count))
            for partition in (-1, count):
                with pytest.raises(UnknownTopicOrPartitionError, match=f"topic {topic} has {count} partitions"):
                    logs.log(topic, partition)


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a\0b", "a\x1f", "\x7f", "x" * 256, "\ufffd", "\U0001f600"])
def test_names_that_0_7_refuses_are_refused(topic: str, tmp_path: Path) -> None:
    with PositionLogDirectory(str(tmp_path)) as logs, pytest.raises(InvalidTopicError):
        logs.log_to_append(topic, 0)


@pytest.mark.parametrize("topic", ["a", "with-dash-1", "under_score_2", "日志", "x" * 200, "a b", "a.b"])
def test_other_names_are_topics(topic: str, tmp_path: Path) -> None:
    with PositionLogDirectory(str(tmp_path), EACH) as logs:
        logs.log_to_append(topic, 0).append(encode(b"a"))
    assert (tmp_path / f"{topic}-0").is_dir()
    with PositionLogDirectory(str(tmp_path)) as logs:
        assert list(logs.logs) == [(topic, 0)]


def test_directories_with_an_underscore_are_partitions_too(tmp_path: Path) -> None:
    for name in ("my_topic_0", "my_topic-1", "topic-x", "7", "-7", "t-99999999999"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").touch()
    assert position_partitions(LocalFileSystem(), str(tmp_path)) == {
        "my_topic_0": ("my_topic", 0),
        "my_topic-1": ("my_topic", 1),
    }
    (tmp_path / "my_topic_1").mkdir()
    with pytest.raises(NotALogDirError, match="twice"):
        position_partitions(LocalFileSystem(), str(tmp_path))


def test_after_a_failed_sync_nothing_is_appended_any_more_and_the_next_start_recovers() -> None:
    disk = MemoryFileSystem()
    PositionLogDirectory("/log", filesystem=disk).close()
    faulty = FaultyFileSystem(disk, [fail("sync", "*.kafka", call=2)])
    logs = PositionLogDirectory("/log", EACH, filesystem=faulty)
    log = logs.log_to_append("t", 0)
    log.append(encode(b"synced"))
    with pytest.raises(StorageError):
        log.append(encode(b"not synced"))
    for attempt in (lambda: log.append(encode(b"more")), log.sync):
        with pytest.raises(StorageError, match="an earlier write failed"):
            attempt()
    assert texts(logs) == [b"synced"]
    with pytest.raises(StorageError, match="the next start recovers"):
        logs.close()
    assert disk.status(f"/log/{MARKER}") is None
    with PositionLogDirectory("/log", filesystem=disk) as again:
        assert texts(again)[:1] == [b"synced"]


def test_threads_append_and_read_at_the_same_time(tmp_path: Path) -> None:
    settings = PositionLogSettings(flush_interval=3, file_size=200)
    payloads = [f"{thread} {number}".encode() for thread in range(4) for number in range(40)]
    with PositionLogDirectory(str(tmp_path), settings) as logs:

        def append(mine: list[bytes]) -> None:
            for payload in mine:
                log = logs.log_to_append("t", 0)
                log.append(encode(payload))
                log.read(log.start, 1000).read()

        threads = [threading.Thread(target=append, args=(payloads[n * 40 : n * 40 + 40],)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        log = logs.log("t", 0)
        assert log is not None
        log.sync()
        assert sorted(texts(logs)) == sorted(payloads)


def test_a_set_with_an_empty_compressed_message_is_synced_before_a_roll(tmp_path: Path) -> None:
    """Kafka 0.7.2 counts no message in it, and gives the next file a name that is too small."""
    empty = encode(bytes.fromhex("1f8b0800000000000003030000000000000000 00".replace(" ", "")), attributes=1)
    with PositionLogDirectory(str(tmp_path), PositionLogSettings(file_size=20)) as logs:
        log = logs.log_to_append("t", 0)
        assert log.append(empty).messages == 0
        log.append(encode(b"next"))
        assert [each.start for each in log.segments] == [0, len(empty)]


def test_a_message_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    with PositionLogDirectory(str(tmp_path), EACH) as logs:
        log = logs.log_to_append("t", 0)
        with pytest.raises(CorruptRecordError):
            log.append(encode(b"good") + encode(b"bad")[:-1] + b"x")
        assert log.end == 0


def test_a_bad_end_of_a_log_that_was_closed_in_order_is_reported_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka 0.7.2 keeps it and appends behind it."""
    with PositionLogDirectory(str(tmp_path), EACH) as logs:
        logs.log_to_append("t", 0).append(encode(b"whole"))
    path = tmp_path / "t-0" / f"{0:020}.kafka"
    whole = path.read_bytes()
    PositionLogDirectory(str(tmp_path)).close()
    assert not caplog.records
    path.write_bytes(whole + encode(b"torn")[:-1])
    PositionLogDirectory(str(tmp_path)).close()
    assert path.read_bytes() == whole + encode(b"torn")[:-1]
    assert f"{path}, position {len(whole)}: a message of 10 bytes begins here" in caplog.text
    assert "remove .kafka_cleanshutdown" in caplog.text
