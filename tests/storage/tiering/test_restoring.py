"""Topics come back from a tier alone, or with what is left of the log directory that was copied there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, Isolation, LogManager, TopicPartition
from pyspark_commitlog.storage.errors import PolicyViolationError, UnknownTopicOrPartitionError
from pyspark_commitlog.storage.format.files import file_names as names
from pyspark_commitlog.storage.remote_metadata.topic import MetadataTopic
from pyspark_commitlog.storage.tiering.contents import contents_of
from pyspark_commitlog.storage.tiering.copying import copy_to_tier
from pyspark_commitlog.storage.tiering.restoring import (
    AheadGroup,
    check_publishable,
    opened_to_restore,
    restore_groups,
    restore_to_directory,
)
from pyspark_commitlog.storage.tiers.objects import DirectoryObjects
from pyspark_commitlog.storage.transfer.pieces import CopiedPartition
from pyspark_commitlog.storage.verify.log import verify_log
from tests.support.kafka.broker_dirs import rows
from tests.support.logs.building import append, end_transaction, write_transactional
from tests.support.tiers import TOPICS, Broker, broker

DELETED_START = 210  # of t-delrec; the tier's first segment begins at 159
PLAIN_END = 618  # where the tier of t-plain ends
GROUPS = {"readers": {"t-plain": 100, "t-txn": 5}, "ahead": {"t-plain": PLAIN_END + 12, "gone": 3}}


@pytest.fixture(scope="module", params=["kafka", "aiven"])
def of_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Broker:
    return broker(request.param, tmp_path_factory.mktemp(request.param))


def commit(directory: Path) -> None:
    """Groups of a log directory."""
    with LogManager.open(str(directory), create=True) as manager:
        for group, offsets in GROUPS.items():
            found = {TopicPartition(topic, 0): CommittedOffset(offset) for topic, offset in offsets.items()}
            GroupOffsets(manager, partitions=2).commit(group, found)


@contextmanager
def opened(tier: Path, known: Path | None, topics: Sequence[str] | None = None) -> Iterator[LogManager]:
    if known is None:
        with opened_to_restore(str(tier), topics=topics) as source:
            yield source
        return
    with LogManager.open(str(known)) as found, opened_to_restore(str(tier), topics=topics, known=found) as source:
        yield source


def restore(tier: Path, target: Path, known: Path | None = None, *topics: str) -> list[CopiedPartition]:
    with opened(tier, known, topics or None) as source, LogManager.open(str(target), create=True) as restored:
        return [*restore_to_directory(source, restored)]


def check_whole(target: LogManager, topic: str) -> None:
    with target.open_reader(topic, 0) as reader:
        assert not verify_log(reader.context).findings
        assert reader.last_stable_offset == reader.log_end_offset


def test_a_tier_alone_becomes_a_log_directory_that_keeps_everything(of_broker: Broker, tmp_path: Path) -> None:
    copied = {each.topic: each for each in restore(of_broker.tier, tmp_path / "log")}
    assert copied.keys() == set(TOPICS)
    with LogManager.open(str(tmp_path / "log")) as target:
        for topic in TOPICS:
            check_whole(target, topic)
            reader, start = target.open_reader(topic, 0), of_broker.log_start(topic)
            for isolation in Isolation:
                wanted = [row for row in of_broker.rows(topic, isolation) if row[0] < copied[topic].log_end_offset]
                assert [row for row in rows(reader, isolation) if row[0] >= start] == wanted
            assert (reader.context.config.retention_ms, reader.context.config.retention_bytes) == (-1, -1)


def test_what_is_left_of_the_log_directory_tells_log_starts_and_settings(of_broker: Broker, tmp_path: Path) -> None:
    copied = restore(of_broker.tier, tmp_path / "log", of_broker.log, "t-delrec", "t-plain")
    assert [each.log_start_offset for each in copied] == [DELETED_START, 0]
    with LogManager.open(str(tmp_path / "log")) as target:
        assert [*target.topics()] == ["t-delrec", "t-plain"]
        for isolation in Isolation:
            found = rows(target.open_reader("t-delrec", 0), isolation)
            wanted = of_broker.rows("t-delrec", isolation)
            assert found == wanted[: len(found)]
            assert found


def test_groups_stand_where_they_were_and_never_ahead(of_broker: Broker, tmp_path: Path) -> None:
    commit(tmp_path / "left")
    restore(of_broker.tier, tmp_path / "log", tmp_path / "left", "t-plain", "t-txn")
    with LogManager.open(str(tmp_path / "left")) as known, LogManager.open(str(tmp_path / "log")) as target:
        _, ahead = restore_groups(known, target, ["t-plain", "t-txn"])
        assert ahead == [AheadGroup("ahead", TopicPartition("t-plain", 0), PLAIN_END + 12, PLAIN_END)]
        found = GroupOffsets(target).groups()
    assert {group: {place.topic: each.offset for place, each in own.items()} for group, own in found.items()} == {
        "readers": {"t-plain": 100, "t-txn": 5},
        "ahead": {"t-plain": PLAIN_END},
    }


def test_a_second_run_has_nothing_left_to_do_and_a_topic_that_is_not_there_is_named(
    of_broker: Broker, tmp_path: Path
) -> None:
    assert len(restore(of_broker.tier, tmp_path / "log", None, "t-plain")) == 1
    assert restore(of_broker.tier, tmp_path / "log", None, "t-plain") == []
    with pytest.raises(UnknownTopicOrPartitionError, match=r"no segment of a topic 't-plane'.*did you mean 't-plain'"):
        restore(of_broker.tier, tmp_path / "log", None, "t-plane")


def test_a_tier_from_which_no_broker_serves_what_is_published_is_refused(of_broker: Broker) -> None:
    if (of_broker.tier / "kafka-tiered-storage").exists():
        check_publishable(str(of_broker.tier))
        return
    with pytest.raises(PolicyViolationError, match="no broker serves from here"):
        check_publishable(str(of_broker.tier))


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """Three partitions; the tier has one of them, up to a transaction whose marker is not copied. Returns the log."""
    directory = tmp_path / "left"
    with LogManager.open(str(directory), create=True) as manager:
        configs = {"remote.storage.enable": "true", "retention.ms": "-1", "segment.bytes": "1048576"}
        manager.create_topic("t", partitions=3, configs=configs)
        log = manager.open_log("t", 1)
        append(log, b"plain")
        write_transactional(log, 7, 0, b"whose end is not in the tier")
        write_transactional(log, 8, 0, b"also")
        log.roll()
        end_transaction(log, 7, commit=True)
        end_transaction(log, 8, commit=True)
        place, store = TopicPartition("t", 1), DirectoryObjects(str(tmp_path / "tier"))
        copy_to_tier(manager, store, log, place, MetadataTopic(manager))
    return directory


def test_a_transaction_whose_end_the_tier_lacks_is_aborted(left: Path) -> None:
    (copied,) = [each for each in restore(left.parent / "tier", left.parent / "log", left) if each.size]
    assert copied == CopiedPartition("t", 1, 0, 5, 1, copied.size)
    with LogManager.open(str(left.parent / "log")) as target, target.open_reader("t", 1) as reader:
        assert [row[0] for row in rows(reader, Isolation.READ_COMMITTED)] == [0]
        assert [row[0] for row in rows(reader, Isolation.READ_UNCOMMITTED)] == [0, 1, 2]
        assert not verify_log(reader.context).findings
        assert reader.last_stable_offset == 5


def test_partitions_and_settings_are_those_of_the_topic(left: Path) -> None:
    with opened(left.parent / "tier", left) as source, LogManager.open(str(left)) as was:
        found, wanted = source.topic("t"), was.topic("t")
    assert (found.partitions, found.configs, found.topic_id) == (wanted.partitions, wanted.configs, wanted.topic_id)
    with opened(left.parent / "tier", None) as source:
        assert source.topic("t").partitions == (0, 1)


def test_segments_for_a_broker_end_open_transactions_too(left: Path) -> None:
    with opened(left.parent / "tier", left) as source, source.open_reader("t", 1) as reader:
        *_, last = contents_of(reader, 0, reader.log_end_offset, aborts_open=True)
        again = [*contents_of(reader, 0, reader.log_end_offset, aborts_open=True)][-1]
    assert (last.start_offset, last.end_offset) == (3, 4)
    assert names.TXN_INDEX in last.files
    assert again == last  # so that a second run finds what the first one has written
