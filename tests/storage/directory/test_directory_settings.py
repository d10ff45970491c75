"""Settings for all topics of a directory: where they are, what they reach, and what ranks above them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.admin import add_partitions, alter_configs, delete_topic
from pyspark_commitlog.storage.directory.directory_settings import alter_broker_settings
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import CorruptionError, InvalidConfigError, LogDirLockedError, TopicExistsError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.maintenance.partitions import compact_partitions, in_this_process, retain_partitions
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from tests.support.logs.building import records


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """Topics plain, and own with a retention of its own; every topic rolls and is deleted by the directory's limits."""
    path = str(tmp_path / "log")
    with LogManager.open(path, create=True) as manager:
        manager.create_topic("plain", partitions=1)
        manager.create_topic("own", partitions=1, configs={"retention.ms": "-1", "segment.bytes": "1000000"})
        alter_broker_settings(manager, {"log.retention.ms": "1000", "log.segment.bytes": "300"})
    return path


def append(manager: LogManager, topic: str, times: int = 4) -> None:
    log = manager.open_log(topic, 0)
    for _ in range(times):
        log.append_records(records([b"x" * 100]))


def segments(directory: str, topic: str) -> int:
    return len(list(Path(directory, f"{topic}-0").glob("*.log")))


def retain(directory: str, **config: str) -> None:
    overrides = ConfigOverrides.parse(f"{key.replace('_', '.')}={value}" for key, value in config.items())
    run = MaintenanceRun(directory, overrides=overrides)
    with run.manager() as manager:
        selection = select_partitions(manager, [], overrides)
    for outcome in retain_partitions(run, selection, in_this_process):
        assert outcome.status.value == "done", outcome.text


def test_they_are_in_the_topics_file_and_survive_changes_of_topics(directory: str) -> None:
    with LogManager.open(directory) as manager:
        alter_configs(manager, "plain", {"segment.ms": "5"})
        add_partitions(manager, "plain", 2)
        manager.create_topic("more", partitions=1)
        delete_topic(manager, "own")
        assert manager.broker_settings() == {"log.retention.ms": "1000", "log.segment.bytes": "300"}
    assert json.loads(Path(directory, "topics.json").read_text())["broker"] == {
        "log.retention.ms": "1000",
        "log.segment.bytes": "300",
    }


def test_appends_roll_by_them_unless_the_topic_has_its_own(directory: str) -> None:
    with LogManager.open(directory) as manager:
        append(manager, "plain")
        append(manager, "own")
    assert (segments(directory, "plain"), segments(directory, "own")) == (4, 1)


def test_retention_deletes_by_them_unless_the_topic_or_the_run_has_others(directory: str) -> None:
    with LogManager.open(directory) as manager:
        append(manager, "plain")
        append(manager, "own")
    retain(directory, log_retention_ms="-1")
    assert segments(directory, "plain") == 4
    retain(directory)
    assert (segments(directory, "plain"), segments(directory, "own")) == (1, 1)
    with LogManager.open(directory) as manager, manager.open_reader("own", 0) as log:
        assert log.log_start_offset == 0


def test_of_two_keys_for_one_setting_the_one_that_kafka_prefers_counts(directory: str) -> None:
    with LogManager.open(directory) as manager:
        alter_broker_settings(manager, {"log.retention.hours": "2", "log.retention.minutes": "3"})
        assert manager.config("plain").retention_ms == 1000
        alter_broker_settings(manager, {"log.retention.ms": None})
        assert manager.config("plain").retention_ms == 180_000
        alter_broker_settings(manager, {"log.retention.minutes": None})
        assert manager.config("plain").retention_ms == 7_200_000
        alter_configs(manager, "plain", {"retention.ms": "7"})
        assert manager.config("plain").retention_ms == 7


def test_indexes_flush_and_new_topics_follow_them(directory: str) -> None:
    with LogManager.open(directory) as manager:
        alter_broker_settings(manager, {"log.index.interval.bytes": "1", "log.flush.interval.ms": "9"})
        manager.create_topic("new", partitions=1)
        found = manager.config("new")
        assert (found.index_interval_bytes, found.flush_ms, found.segment_bytes) == (1, 9, 300)
        assert manager.topic("new").configs == {}


def test_the_cleaner_and_the_check_interval_follow_them(directory: str) -> None:
    with LogManager.open(directory) as manager:
        changes = {"log.cleaner.enable": "false", "log.retention.check.interval.ms": "60000"}
        alter_broker_settings(manager, {**changes, "log.cleanup.policy": "compact"})
    run = MaintenanceRun(directory)
    assert run.check_interval_ms == 60_000
    assert not run.cleaner_config.enable
    with run.manager() as manager:
        selection = select_partitions(manager, ["plain"], run.overrides)
    (outcome,) = compact_partitions(run, selection, in_this_process)
    assert "log.cleaner.enable" in outcome.text
    over = MaintenanceRun(directory, overrides=ConfigOverrides.parse(["log.retention.check.interval.ms=5"]))
    assert over.check_interval_ms == 5


def test_a_topic_that_is_asked_for_with_other_settings_than_theirs_is_refused(directory: str) -> None:
    with LogManager.open(directory) as manager:
        manager.ensure_topic("plain", configs={"retention.ms": "1000"})
        with pytest.raises(TopicExistsError, match=r"retention\.ms = 1000, but 604800000 was requested"):
            manager.ensure_topic("plain", configs={"retention.ms": "604800000"})


def test_a_directory_without_the_file_has_none_and_none_of_its_limits_count(directory: str) -> None:
    with LogManager.open(directory) as manager:
        append(manager, "plain")
    Path(directory, "topics.json").unlink()
    retain(directory)
    assert segments(directory, "plain") == 4


def test_in_a_brokers_directory_they_do_not_count_as_a_limit_of_its_topics(directory: str) -> None:
    """The topic may have another limit of its own, which only the broker knows."""
    with LogManager.open(directory) as manager:
        append(manager, "plain")
    Path(directory, "topics.json").unlink()
    with LogManager.open(directory) as manager:
        alter_broker_settings(manager, {"log.retention.ms": "1", "log.segment.bytes": "500"})
        assert manager.config("plain").segment_bytes == 500
    retain(directory)
    assert segments(directory, "plain") == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"log.retention.m": "1"}, "unknown broker config log.retention.m .did you mean 'log.retention.ms'"),
        ({"retention.ms": "1"}, "that is a topic's key; for a broker it is log.retention.ms"),
        ({"log.retention.ms": "soon"}, "log.retention.ms = 'soon': must be a whole number"),
        ({"log.retention.check.interval.ms": "0"}, "log.retention.check.interval.ms = '0': must be"),
        ({"log.cleaner.threads": "0"}, "log.cleaner.threads = '0': must be"),
        ({"log.flush.interval.ms": None}, "no config log.flush.interval.ms for all topics to reset"),
        ({"log.cleaner.max.compaction.lag.ms": "5"}, "beside the settings of topic 'late': min.compaction.lag.ms"),
    ],
)
def test_what_cannot_be_set_is_refused_and_changes_nothing(
    directory: str, changes: dict[str, str | None], message: str
) -> None:
    with LogManager.open(directory) as manager:
        manager.create_topic("late", partitions=1, configs={"min.compaction.lag.ms": "10"})
        before = Path(directory, "topics.json").read_bytes()
        with pytest.raises(InvalidConfigError, match=message):
            alter_broker_settings(manager, changes)
    assert Path(directory, "topics.json").read_bytes() == before


def test_while_a_broker_runs_they_are_not_changed(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFileSystem, "lock_shared_with_broker", lambda *_: None)
    with LogManager.open(directory) as manager, pytest.raises(LogDirLockedError):
        alter_broker_settings(manager, {"log.retention.ms": "1"})


@pytest.mark.parametrize("broker", [[], "x", {"log.retention.ms": 1}, 5, None])
def test_damaged_ones_are_reported_with_the_file(directory: str, broker: object) -> None:
    path = Path(directory, "topics.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "broker": broker}))
    with (
        LogManager.open(directory) as manager,
        pytest.raises(CorruptionError, match=r"topics\.json: the content is not what this engine writes"),
    ):
        manager.topics()
