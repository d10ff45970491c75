"""Retention and compaction of topics that a broker created: nothing is deleted by settings that nobody gave."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.directory.admin import add_partitions, alter_configs
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import InvalidConfigError
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.maintenance.describe import describe_partition
from pyspark_commitlog.storage.maintenance.outcome import PartitionOutcome
from pyspark_commitlog.storage.maintenance.partitions import compact_partitions, in_this_process, retain_partitions
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from pyspark_commitlog.storage.retention.apply import retain
from tests.storage.directory.broker_settings.test_metadata_log import ORDERS, metadata_log, setting, topic
from tests.support.clock import ManualClock
from tests.support.logs.building import records

NOW_MS = 1_800_000_000_000
MONTH_MS = 30 * 86_400_000
TOPICS = ("__consumer_offsets", "_schemas", "connect-offsets", "orders")
SEGMENTS = 4


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A broker's four topics: segments a month old, no settings; ``_schemas`` was compacted."""
    path = tmp_path / "log"
    with LogManager.open(str(path), create=True, clock=ManualClock(NOW_MS)) as manager:
        for name in TOPICS:
            manager.create_topic(name, partitions=1, configs={"cleanup.policy": "compact", "segment.bytes": "300"})
            log = manager.open_log(name, 0)
            for n in range(SEGMENTS):
                log.append_records(records([b"%d" % n * 200], keys=[b"key"], timestamps=NOW_MS - MONTH_MS + n))
    (path / "topics.json").unlink()
    (path / file_names.CLEANER_OFFSET_CHECKPOINT).write_bytes(checkpoints.encode_offsets({("_schemas", 0): 1}))
    return path


def run_over(directory: Path, *pairs: str, files: tuple[str, ...] = ()) -> MaintenanceRun:
    return MaintenanceRun(
        str(directory), holder="test", overrides=ConfigOverrides.parse(pairs, files), clock=ManualClock(NOW_MS)
    )


def done(what: Callable[..., Any], run: MaintenanceRun, *wanted: str) -> dict[str, PartitionOutcome]:
    with run.manager() as manager:
        chosen = select_partitions(manager, wanted, run.overrides)
    return {each.topic: each for each in what(run, chosen, in_this_process)}


def segments_of(directory: Path) -> dict[str, int]:
    """The number of segments with records of each topic."""
    return {
        name: sum(1 for file in (directory / f"{name}-0").glob("*.log") if file.stat().st_size)
        for name in TOPICS
        if (directory / f"{name}-0").exists()
    }


UNTOUCHED = dict.fromkeys(TOPICS, SEGMENTS)


@pytest.mark.parametrize(
    "pairs",
    [
        (),
        ("log.retention.ms=1",),  # a broker's default, which the topic may override
        ("cleanup.policy=delete",),
        ("segment.bytes=1000", "retention.bytes=-1"),
    ],
)
def test_settings_that_nobody_gave_delete_nothing_and_the_report_says_so(
    pairs: tuple[str, ...], directory: Path
) -> None:
    outcomes = done(retain_partitions, run_over(directory, *pairs))
    assert segments_of(directory) == UNTOUCHED
    assert "the retention.ms of this topic, which a broker created, is unknown" in str(outcomes["orders"])
    assert outcomes["orders"].facts["warnings"]
    assert "an internal topic, chosen only by its name" in str(outcomes["__consumer_offsets"])


def test_requested_deletions_happen_except_in_internal_topics(directory: Path) -> None:
    outcomes = done(retain_partitions, run_over(directory, "retention.ms=1000"))
    assert segments_of(directory) == UNTOUCHED | {"orders": 0}
    assert "warning" not in str(outcomes["orders"])
    assert "tools keep state for ever in topics of this name" in str(outcomes["connect-offsets"])


def test_a_limit_of_bytes_that_is_asked_for_counts_without_one_of_time(directory: Path) -> None:
    done(retain_partitions, run_over(directory, "retention.bytes=300"), "orders", "connect-offsets")
    assert segments_of(directory) == UNTOUCHED | {"orders": 2, "connect-offsets": 2}


@pytest.mark.parametrize("wanted", [(), (".*",), ("connect.*,_.*",)])
@pytest.mark.parametrize("limit", ["retention.ms=1", "retention.bytes=0", "local.retention.ms=1"])
@pytest.mark.parametrize("policy", [(), ("cleanup.policy=delete",), ("cleanup.policy=compact,delete",)])
def test_a_pattern_deletes_nothing_that_a_tool_keeps_for_ever_if_its_policy_is_unknown(
    wanted: tuple[str, ...], limit: str, policy: tuple[str, ...], directory: Path
) -> None:
    done(retain_partitions, run_over(directory, limit, *policy), *wanted)
    assert segments_of(directory) | {"orders": SEGMENTS} == UNTOUCHED


def test_a_tools_topics_are_deleted_by_a_policy_that_they_are_known_to_have(directory: Path) -> None:
    own = [setting("connect-offsets", "cleanup.policy", "delete"), setting("connect-offsets", "retention.ms", "1000")]
    metadata_log(directory, [topic("connect-offsets", b"c" * 16), *own])
    done(retain_partitions, run_over(directory))
    assert segments_of(directory) == UNTOUCHED | {"connect-offsets": 0}


@pytest.mark.parametrize("wanted", [(), (".*",), ("__.*,orders",), ("__consumer_offsets",)])
@pytest.mark.parametrize(
    "pairs",
    [
        ("retention.ms=1",),
        ("cleanup.policy=compact,delete", "retention.ms=1"),
        ("cleanup.policy=delete", "retention.bytes=0"),
    ],
)
def test_an_internal_topic_stays_compacted_whatever_a_run_requests(
    wanted: tuple[str, ...], pairs: tuple[str, ...], directory: Path
) -> None:
    if wanted == ("__consumer_offsets",) and "cleanup" in pairs[0]:
        with pytest.raises(InvalidConfigError, match="'__consumer_offsets' is internal and stays compacted"):
            done(retain_partitions, run_over(directory, *pairs), *wanted)
    else:
        done(retain_partitions, run_over(directory, *pairs), *wanted)
    assert segments_of(directory)["__consumer_offsets"] == SEGMENTS


def test_a_topic_that_was_given_no_limit_by_its_first_change_keeps_everything(directory: Path) -> None:
    with LogManager.open(str(directory), clock=ManualClock(NOW_MS)) as manager:
        alter_configs(manager, "orders", {"flush.ms": "1000"})
        add_partitions(manager, "connect-offsets", 2)
    assert json.loads((directory / "topics.json").read_text())["settings_elsewhere"] == ["orders", "connect-offsets"]
    done(retain_partitions, run_over(directory))
    assert segments_of(directory) == UNTOUCHED
    with LogManager.open(str(directory), clock=ManualClock(NOW_MS)) as manager:
        alter_configs(manager, "orders", {"retention.ms": "1000"})
    done(retain_partitions, run_over(directory))
    assert segments_of(directory) == UNTOUCHED | {"orders": 0}


def test_a_topic_that_topics_json_does_not_name_keeps_everything(directory: Path) -> None:
    with LogManager.open(str(directory), clock=ManualClock(NOW_MS)) as manager:
        manager.create_topic("ours", partitions=1, configs={"segment.bytes": "300"})
        log = manager.open_log("ours", 0)
        for n in range(SEGMENTS):
            log.append_records(records([b"x" * 200], timestamps=NOW_MS - MONTH_MS + n))
    outcomes = done(retain_partitions, run_over(directory))
    assert segments_of(directory) == UNTOUCHED
    assert len(outcomes["ours"].facts["segments"]) - 1 <= SEGMENTS
    assert outcomes["ours"].facts["bytes_removed"] > 0  # its settings are known: Kafka's defaults


def test_the_python_api_deletes_nothing_by_settings_that_nobody_gave_either(directory: Path) -> None:
    with LogManager.open(str(directory), clock=ManualClock(NOW_MS)) as manager:
        assert retain(manager.open_log("orders", 0)).plan.removed == ()
        described = describe_partition(manager, "orders", 0)
    assert described.retention.plan.removed == ()
    assert segments_of(directory) == UNTOUCHED


def test_settings_are_read_from_the_brokers_metadata_log(directory: Path) -> None:
    values = [
        *(topic("orders", ORDERS), setting("orders", "retention.ms", "1000")),
        *(topic("connect-offsets", b"c" * 16), setting("connect-offsets", "cleanup.policy", "compact")),
    ]
    metadata_log(directory, values)
    outcomes = done(retain_partitions, run_over(directory))
    assert segments_of(directory) == UNTOUCHED | {"orders": 0}
    assert "has no delete" in str(outcomes["connect-offsets"])
    with LogManager.open(str(directory), clock=ManualClock(NOW_MS)) as manager:
        assert describe_partition(manager, "connect-offsets", 0).cleanable is not None


def test_a_brokers_defaults_count_where_its_metadata_log_has_the_topics_own(directory: Path) -> None:
    metadata_log(directory, [topic("orders", ORDERS), setting("", "log.retention.ms", str(2 * MONTH_MS), kind=4)])
    done(retain_partitions, run_over(directory), "orders")
    assert segments_of(directory) == UNTOUCHED
    done(retain_partitions, run_over(directory, "log.retention.ms=1000"), "orders", "connect-offsets")
    assert segments_of(directory) == UNTOUCHED | {"orders": 0}


def test_settings_are_read_from_the_output_of_kafkas_tools(directory: Path, tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    said.write_text(
        "Topic: orders\tTopicId: x\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
        "Topic: connect-offsets\tTopicId: y\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: cleanup.policy=compact\n"
    )
    done(retain_partitions, run_over(directory, files=(str(said),)))
    assert segments_of(directory) == UNTOUCHED | {"orders": 0}
    with pytest.raises(InvalidConfigError, match=r"--topic-configs: .*missing\.txt"):
        run_over(directory, files=(str(tmp_path / "missing.txt"),))


# Compaction


def test_a_topic_whose_policy_nobody_gave_is_not_compacted(directory: Path) -> None:
    lower = "min.cleanable.dirty.ratio=0"
    outcomes = done(compact_partitions, run_over(directory, lower))
    assert segments_of(directory) == UNTOUCHED
    assert "its own cleanup.policy is not known" in outcomes["_schemas"].facts["reason"]
    assert "chosen only by its name" in outcomes["__consumer_offsets"].facts["reason"]
    done(compact_partitions, run_over(directory, lower, "cleanup.policy=compact"), "_schemas")
    assert segments_of(directory)["_schemas"] < SEGMENTS


def test_an_internal_topic_of_a_broker_is_compacted_when_it_is_named(directory: Path) -> None:
    done(compact_partitions, run_over(directory, "min.cleanable.dirty.ratio=0"), "__consumer_offsets")
    assert segments_of(directory)["__consumer_offsets"] < SEGMENTS


def test_an_internal_topic_of_ours_is_compacted_with_all_but_by_no_pattern(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True, clock=ManualClock(NOW_MS)) as manager:
        manager.create_topic("__consumer_offsets", partitions=1)
        log = manager.open_log("__consumer_offsets", 0)
        for n in range(SEGMENTS):
            log.append_records(records([b"%d" % n], keys=[b"key"]))
            log.roll()
    assert not done(compact_partitions, run_over(tmp_path), "__.*")["__consumer_offsets"].facts["compacted"]
    assert done(compact_partitions, run_over(tmp_path))["__consumer_offsets"].facts["compacted"]
