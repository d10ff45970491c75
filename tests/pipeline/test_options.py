from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.offsets import TopicPartition
from pyspark_commitlog.pipeline.options import ReadOptions, local_directory
from pyspark_commitlog.storage import InvalidConfigError, Isolation, LogManager, UnknownTopicOrPartitionError

GIVEN = {"path": "/logs", "subscribe": "flights"}


def test_defaults_are_those_of_sparks_kafka_source_but_read_committed() -> None:
    options = ReadOptions.parse(GIVEN)
    assert options.directory == "/logs"
    assert (options.starting.everywhere, options.ending.everywhere) == (-2, -1)
    assert not options.include_headers
    assert options.isolation is Isolation.READ_COMMITTED


def test_option_names_and_words_are_read_in_any_case() -> None:
    given = {
        "PATH": "/logs",
        "SubscribePattern": "f.*",
        "INCLUDEHEADERS": "True",
        "isolation.LEVEL": "read_UNcommitted",
    }
    options = ReadOptions.parse(given)
    assert options.subscription == ("subscribePattern", "f.*")
    assert options.include_headers
    assert options.isolation is Isolation.READ_UNCOMMITTED


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param({"subscrbe": "b"}, "unknown option 'subscrbe'.*did you mean 'subscribe'", id="nearest name"),
        pytest.param(
            {"kafka.bootstrap.servers": "b:9092"}, "unknown option 'kafka.bootstrap.servers'", id="a broker's"
        ),
        pytest.param({"assign": '{"a": [0]}'}, "exactly one of .* not subscribe and assign", id="two subscriptions"),
        pytest.param({"startingOffsets": "newest"}, "option startingOffsets", id="offsets"),
        pytest.param({"includeHeaders": "yes"}, "includeHeaders is 'yes'; it can be true or false", id="a boolean"),
        pytest.param({"isolation.level": "serializable"}, "isolation.level is 'serializable'", id="isolation"),
        pytest.param({"path": "s3://bucket/logs"}, "a file system that every worker mounts", id="an object store"),
    ],
)
def test_bad_option_is_refused_by_name(change: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidConfigError, match=told):
        ReadOptions.parse(GIVEN | change)


@pytest.mark.parametrize("missing", [("path", "option path is missing"), ("subscribe", "exactly one of .* not none")])
def test_option_that_is_needed_is_asked_for(missing: tuple[str, str]) -> None:
    name, told = missing
    with pytest.raises(InvalidConfigError, match=told):
        ReadOptions.parse({key: value for key, value in GIVEN.items() if key != name})


def test_options_that_spark_reads_itself_pass() -> None:
    ReadOptions.parse(GIVEN | {"checkpointLocation": "/checkpoints"})


def test_paths_are_made_absolute_because_workers_run_elsewhere() -> None:
    assert local_directory("logs") == os.path.abspath("logs")
    assert local_directory("file:///data/my%20logs") == "/data/my logs"


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    manager = LogManager.open(str(tmp_path / "log"), create=True)
    for name, partitions in [("flights", 2), ("flown", 1), ("__consumer_offsets", 1)]:
        manager.create_topic(name, partitions=partitions)
    return manager


@pytest.mark.parametrize(
    ("option", "text", "read"),
    [
        pytest.param("subscribe", "flown, flights,flown", ["flights-0", "flights-1", "flown-0"], id="a list"),
        pytest.param("subscribe", "__consumer_offsets", ["__consumer_offsets-0"], id="an internal topic by its name"),
        pytest.param("assign", '{"flights": [1]}', ["flights-1"], id="partitions"),
        pytest.param("subscribePattern", "fl.*", ["flights-0", "flights-1", "flown-0"], id="a pattern"),
        pytest.param(
            "subscribePattern", ".*", ["flights-0", "flights-1", "flown-0"], id="no internal topics by pattern"
        ),
    ],
)
def test_subscription_names_partitions(manager: LogManager, option: str, text: str, read: list[str]) -> None:
    options = ReadOptions.parse({"path": "/logs", option: text})
    found = options.subscription.partitions(manager)
    assert [str(each) for each in found] == read
    assert all(isinstance(each, TopicPartition) for each in found)


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        pytest.param("subscribe", " , ", "names no topic", id="no topic"),
        pytest.param("assign", '{"flights": [2]}', "flights has no partition 2, only 0, 1", id="no such partition"),
        pytest.param("assign", '{"flights": 0}', "is not", id="not a list"),
        pytest.param("assign", "flights", "is not", id="not JSON"),
        pytest.param("subscribePattern", "(", "not a regular expression", id="not a pattern"),
        pytest.param("subscribePattern", "x.*", "no topic matches 'x.*'; there are .*flights", id="matches nothing"),
    ],
)
def test_subscription_to_nothing_is_refused(manager: LogManager, option: str, text: str, told: str) -> None:
    with pytest.raises(InvalidConfigError, match=told):
        ReadOptions.parse({"path": "/logs", option: text}).subscription.partitions(manager)


def test_unknown_topic_is_refused_with_the_nearest_name(manager: LogManager) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match=r"'fligths'.*'flights'"):
        ReadOptions.parse({"path": "/logs", "subscribe": "fligths"}).subscription.partitions(manager)
