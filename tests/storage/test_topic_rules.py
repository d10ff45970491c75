"""Names that stand for the progress of writers: no topic gets one, in a directory or on an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from pyspark_commitlog.storage import topic_rules
from pyspark_commitlog.storage.bucket.topics import ensure_topic
from pyspark_commitlog.storage.directory.admin import add_partitions, alter_configs, delete_records, delete_topic
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import InvalidTopicError
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.topic_rules import SINK_PREFIX
from pyspark_commitlog.storage.transactions.idempotent import IdempotentProducer
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from pyspark_commitlog.storage.transfer.to_directory import copy_to_directory
from tests.support.logs.building import records
from tests.support.stores.served import ServedStores

RESERVED = f"{SINK_PREFIX}orders"
REFUSED = f"topic name '{RESERVED}' is reserved: .* choose another name"
URL, OTHER_URL = "s3://memory/logs", "s3://memory/others"


@pytest.fixture(params=["directory", "object store"])
def manager(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogManager]:
    if request.param == "directory":
        opened = LogManager.open(str(tmp_path / "log"), create=True)
    else:
        ServedStores(monkeypatch).create(URL)
        opened = LogManager.open(URL)
    with opened:
        yield opened


def with_old_topic(manager: LogManager) -> LogManager:
    """A log in which an older version has created a topic with a reserved name, and a writer keeps its progress."""
    with mock.patch.object(topic_rules, "is_reserved", return_value=False):
        manager.create_topic(RESERVED, partitions=1)
    GroupOffsets(manager).commit("job", {TopicPartition(RESERVED, 0): CommittedOffset(3)})
    return manager


def test_the_refusal_of_a_reserved_name_is_short_however_long_the_name() -> None:
    with pytest.raises(InvalidTopicError) as refused:
        topic_rules.check_not_reserved(RESERVED + "x" * 30_000)
    assert len(str(refused.value)) < 500  # a client gets it once for each partition


def test_no_topic_gets_a_reserved_name(manager: LogManager) -> None:
    for create in (manager.create_topic, manager.ensure_topic):
        with pytest.raises(InvalidTopicError, match=REFUSED):
            create(RESERVED, partitions=1)
    log = manager.bucket
    if log is not None:  # as writers of a log on an object store create their topics
        with pytest.raises(InvalidTopicError, match=REFUSED):
            log.commit(lambda state: ensure_topic(state, RESERVED))
    assert not manager.topics()


def test_no_topic_gets_the_name_under_which_a_directory_has_a_brokers_settings(manager: LogManager) -> None:
    with pytest.raises(InvalidTopicError, match="settings of a broker; choose another name"):
        manager.create_topic("__cluster_metadata", partitions=1)
    assert not manager.topics()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda manager: alter_configs(manager, RESERVED, {"retention.ms": "1"}), id="configs"),
        pytest.param(lambda manager: add_partitions(manager, RESERVED, 2), id="partitions"),
    ],
)
def test_a_topic_that_has_one_is_not_changed(manager: LogManager, change: Callable[[LogManager], object]) -> None:
    with pytest.raises(InvalidTopicError, match=REFUSED):
        change(with_old_topic(manager))
    (deleted,) = delete_records(manager, {(RESERVED, 0): -1})
    assert isinstance(deleted.error, InvalidTopicError)


def test_no_records_are_written_into_a_topic_that_has_one(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        with_old_topic(manager)
        with pytest.raises(InvalidTopicError, match=REFUSED):
            IdempotentProducer(manager).append(RESERVED, 0, records([b"v"]))


def test_progress_outlives_the_deletion_of_a_topic_with_its_name(manager: LogManager) -> None:
    """On an object store a deletion is one with that of the offsets, so it is refused there."""
    with_old_topic(manager)
    if manager.bucket is None:
        delete_topic(manager, RESERVED)
        assert not manager.find_topic(RESERVED)
    else:
        with pytest.raises(InvalidTopicError, match=REFUSED):
            delete_topic(manager, RESERVED)
    assert GroupOffsets(manager).fetch("job")[RESERVED, 0].offset == 3


def test_a_topic_that_has_one_is_not_copied(
    manager: LogManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_old_topic(manager)
    if manager.bucket is None:
        copy = partial(copy_to_bucket, manager, ServedStores(monkeypatch).create(OTHER_URL))
    else:
        copy = partial(copy_to_directory, manager, LogManager.open(str(tmp_path / "copy"), create=True))
    assert RESERVED in manager.topics()
    assert RESERVED not in {each.topic for each in copy()}
    with pytest.raises(InvalidTopicError, match=REFUSED):
        list(copy([RESERVED]))
