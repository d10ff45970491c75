"""Internal topics keep queries' progress: nothing gives access to their settings or their records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.admin import add_partitions, alter_configs, delete_records, delete_topic
from pyspark_commitlog.storage.directory.directory_settings import alter_broker_settings
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.protected_topics import (
    COORDINATOR_TOPICS,
    INTERNAL_TOPICS,
    is_protected,
    is_state_of_a_tool,
)
from pyspark_commitlog.storage.errors import InvalidConfigError, InvalidTopicError, LogStoreError, PolicyViolationError
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.transactions.idempotent import IdempotentProducer
from tests.support.logs.building import records
from tests.support.logs.directories import directory_with_internal_topics

NAMES = tuple(COORDINATOR_TOPICS)


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    """Each internal topic has a record."""
    opened = LogManager.open(directory_with_internal_topics(tmp_path / "log"))
    for name in NAMES:
        opened.open_log(name, 0).append_records(records([b"progress"], keys=[b"query"]))
    return opened


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda manager, name: alter_configs(manager, name, {"retention.ms": "1"}), id="alter"),
        pytest.param(
            lambda manager, name: alter_configs(manager, name, {"cleanup.policy": "delete"}, dry_run=True), id="dry run"
        ),
        pytest.param(lambda manager, name: alter_configs(manager, name, {"cleanup.policy": None}), id="take back"),
        pytest.param(lambda manager, name: add_partitions(manager, name, 60), id="partitions"),
        pytest.param(delete_topic, id="delete"),
    ],
)
def test_a_change_of_an_internal_topic_is_refused(
    change: Callable[[LogManager, str], object], name: str, manager: LogManager
) -> None:
    before = manager.topics()
    with pytest.raises(PolicyViolationError, match=f"topic '{name}' is internal, and .* is refused"):
        change(manager, name)
    assert manager.topics() == before
    assert manager.open_reader(name, 0).log_start_offset == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_dry", [False, True])
def test_records_of_an_internal_topic_are_not_deleted_and_others_are(
    name: str, is_dry: bool, manager: LogManager
) -> None:
    manager.create_topic("orders", partitions=1)
    manager.open_log("orders", 0).append_records(records([b"a"]))
    results = list(delete_records(manager, {(name, 0): -1, ("orders", 0): -1}, dry_run=is_dry))
    assert [each.log_start_offset for each in results] == [None, 1]
    assert isinstance(results[0].error, PolicyViolationError)
    assert manager.open_reader(name, 0).log_start_offset == 0


@pytest.mark.parametrize("name", NAMES)
def test_it_stays_compacted_whatever_its_settings(name: str, tmp_path: Path) -> None:
    """``topics.json`` may contain other settings, from a version that accepted them."""
    directory = directory_with_internal_topics(tmp_path / "log")
    path = Path(directory) / "topics.json"
    path.write_text(path.read_text().replace('"compact"', '"delete"'))
    for overrides in ({}, {"cleanup.policy": "delete", "retention.ms": "1"}):
        with LogManager.open(directory, overrides=overrides) as manager:
            assert manager.config(name).cleanup_policy == {"compact"}
            log = manager.open_log(name, 0, LogConfig(cleanup_policy=frozenset({"delete"})))
            log.append_records(records([b"progress"], keys=[b"query"]))
            with pytest.raises(PolicyViolationError):
                log.delete_records(-1)


@pytest.mark.parametrize("policy", ["delete", "compact,delete", ""])
def test_an_internal_topic_is_made_compacted(policy: str, tmp_path: Path) -> None:
    with (
        LogManager.open(str(tmp_path), create=True) as manager,
        pytest.raises(LogStoreError) as refused,
    ):
        manager.create_topic(NAMES[0], partitions=1, configs={"cleanup.policy": policy})
    assert isinstance(refused.value, InvalidConfigError)


def test_an_internal_topic_without_records_may_be_deleted(tmp_path: Path) -> None:
    with LogManager.open(directory_with_internal_topics(tmp_path / "log")) as manager:
        for name in NAMES:
            delete_topic(manager, name)
        assert not manager.topics()


BROKERS = ("__share_group_state", "__remote_log_metadata")


@pytest.mark.parametrize("name", BROKERS)
def test_a_topic_that_only_brokers_keep_is_not_changed_either(name: str, manager: LogManager) -> None:
    manager.create_topic(name, partitions=1)
    log = manager.open_log(name, 0)
    log.append_records(records([b"state"], keys=[b"key"]))
    for change in (
        lambda: alter_configs(manager, name, {"retention.ms": "1"}),
        lambda: add_partitions(manager, name, 2),
        lambda: delete_topic(manager, name),
    ):
        with pytest.raises(PolicyViolationError, match=f"'{name}' is internal, and .*: a broker keeps its own state"):
            change()
    (deleted,) = delete_records(manager, {(name, 0): -1})
    assert isinstance(deleted.error, PolicyViolationError)
    assert log.log_start_offset == 0


@pytest.mark.parametrize("name", [*NAMES, *BROKERS])
def test_no_records_of_users_are_written_into_an_internal_topic(name: str, manager: LogManager) -> None:
    """A key that is no coordinator's hides the progress of each query in its partition."""
    with pytest.raises(InvalidTopicError, match=f"'{name}' is internal, and writing records into it is refused"):
        IdempotentProducer(manager).append(name, 0, records([b"value"], keys=[b"query"]))


def test_state_of_tools_is_known_by_the_names_that_they_give() -> None:
    kept = ("_schemas", "_confluent-command", "connect-configs", "docker-connect-status", "mm2-offsets.b.internal")
    assert all(map(is_state_of_a_tool, (*kept, "b.checkpoints.internal", "app-store-changelog")))
    assert not any(map(is_state_of_a_tool, (*NAMES, *BROKERS, "orders", "connect", "a_b")))


def test_internal_topics_are_those_of_kafkas_list() -> None:
    """``Topic.INTERNAL_TOPICS`` of Kafka 3.9.1; what only a broker writes is protected, too."""
    assert {"__consumer_offsets", "__transaction_state", "__share_group_state"} == INTERNAL_TOPICS
    assert all(map(is_protected, (*NAMES, *BROKERS)))
    assert not is_protected("_schemas")


def test_a_coordinators_topic_takes_records_of_the_default_size_whatever_all_topics_are_set_to(tmp_path: Path) -> None:
    with LogManager.open(directory_with_internal_topics(tmp_path / "log")) as manager:
        alter_broker_settings(manager, {"message.max.bytes": "1"})
    with LogManager.open(str(tmp_path / "log")) as manager:
        GroupOffsets(manager).commit("g", {("t", 0): CommittedOffset(7)})
        assert GroupOffsets(manager).fetch("g")[TopicPartition("t", 0)].offset == 7
