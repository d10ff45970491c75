"""A log directory as Prometheus metrics: the names that dashboards know, the figures of Kafka's tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.metrics.directory import Consumer, DirectoryMetrics
from pyspark_commitlog.storage import (
    CommittedOffset,
    GroupOffsets,
    LogManager,
    TransactionalWriter,
    TransactionCoordinator,
)
from tests.support.kafka import broker_dirs
from tests.support.logs.building import append, write_transactional
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.logs.transactions import encoded
from tests.support.prometheus import Page, page_of

DESCRIBED = Path(__file__).parents[2] / "golden" / "groups" / "describe-all.txt"
GROUP_PARTITION = {"cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id"}
LABELS = {  # as the README of kafka-lag-exporter has them
    "kafka_consumergroup_group_offset": GROUP_PARTITION,
    "kafka_consumergroup_group_lag": GROUP_PARTITION,
    "kafka_consumergroup_group_lag_seconds": GROUP_PARTITION,
    "kafka_consumergroup_group_max_lag": {"cluster_name", "group"},
    "kafka_consumergroup_group_max_lag_seconds": {"cluster_name", "group"},
    "kafka_consumergroup_group_sum_lag": {"cluster_name", "group"},
    "kafka_consumergroup_group_topic_sum_lag": {"cluster_name", "group", "topic"},
    "kafka_partition_latest_offset": {"cluster_name", "topic", "partition"},
    "kafka_partition_earliest_offset": {"cluster_name", "topic", "partition"},
    "kafka_consumergroup_poll_time_ms": {"cluster_name"},
}


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LogManager]:
    """A log directory with topic t of two partitions, 3 records in the first."""
    with LogManager.open(directory_with_internal_topics(tmp_path / "events")) as manager:
        manager.create_topic("t", partitions=2)
        append(manager.open_log("t", 0), b"a", b"b", b"c")
        yield manager


@pytest.fixture
def metrics(manager: LogManager) -> Iterator[DirectoryMetrics]:
    collector = DirectoryMetrics(manager.directory)
    yield collector
    collector.close()


def look(metrics: DirectoryMetrics, *labels: str) -> Page:
    return Page(page_of(metrics), *labels)


# --- beside Kafka's tool, on a broker's directory


@pytest.fixture(scope="module")
def broker_page() -> str:
    return page_of(DirectoryMetrics(str(broker_dirs.stage("groups/final") / "log"), "kafka"))


def test_names_and_labels_are_those_of_dashboards_for_kafka(broker_page: str) -> None:
    found = Page(broker_page, "cluster_name")
    assert {name: found.labels_of(name) for name in LABELS} == LABELS
    assert found["commitlog_scrape_success"] == {("kafka",): 1}


def test_lag_is_what_kafkas_tool_says(broker_page: str) -> None:
    rows = [line.split() for line in DESCRIBED.read_text().splitlines() if line and not line.startswith("GROUP")]
    found = Page(broker_page, "group", "topic", "partition", "consumer_id", "member_host", "client_id")
    who = [tuple(cell if cell != "-" else "unknown" for cell in row[6:]) for row in rows]
    assert found["kafka_consumergroup_group_offset"] == {
        (*row[:3], *member): float(row[3]) for row, member in zip(rows, who, strict=True)
    }
    assert found["kafka_consumergroup_group_lag"] == {
        (*row[:3], *member): float(row[5]) for row, member in zip(rows, who, strict=True)
    }
    lags = Page(broker_page, "group")
    by_group = {group: [float(row[5]) for row in rows if row[0] == group] for group in {row[0] for row in rows}}
    assert lags["kafka_consumergroup_group_sum_lag"] == {(group,): sum(each) for group, each in by_group.items()}
    assert lags["kafka_consumergroup_group_max_lag"] == {(group,): max(each) for group, each in by_group.items()}


def test_lag_in_seconds_of_a_group_is_the_largest_of_its_partitions(broker_page: str) -> None:
    parts = Page(broker_page, "group", "partition")["kafka_consumergroup_group_lag_seconds"]
    groups = Page(broker_page, "group")["kafka_consumergroup_group_max_lag_seconds"]
    assert len(parts) == 15
    assert groups == {(group,): max(v for k, v in parts.items() if k[0] == group) for (group,) in groups}
    assert min(parts.values()) > 0


# --- on a directory of ours


def test_the_next_request_sees_what_was_appended_committed_and_created(
    manager: LogManager, metrics: DirectoryMetrics
) -> None:
    before = look(metrics, "topic", "partition")
    assert before["kafka_partition_latest_offset"] == {("t", "0"): 3, ("t", "1"): 0}
    assert "kafka_consumergroup_group_lag" not in before
    append(manager.open_log("t", 1), b"d")
    manager.open_log("t", 0).delete_records(2)
    manager.create_topic("u", partitions=1)
    GroupOffsets(manager).commit("g", {("t", 0): CommittedOffset(2), ("t", 1): CommittedOffset(1)})
    after = look(metrics, "topic", "partition")
    ends = {("t", "0"): 3, ("t", "1"): 1, ("u", "0"): 0}
    assert ends.items() <= after["kafka_partition_latest_offset"].items()
    assert after["kafka_partition_earliest_offset"]["t", "0"] == 2
    assert after["kafka_consumergroup_group_lag"] == {("t", "0"): 1, ("t", "1"): 0}
    assert after["kafka_consumergroup_group_lag_seconds"]["t", "1"] == 0
    assert after["commitlog_scrape_success"] == {(): 1}


def test_the_cluster_is_the_directory_unless_it_is_named(manager: LogManager) -> None:
    assert DirectoryMetrics(manager.directory).cluster_name == "events"
    assert DirectoryMetrics(manager.directory + "/").cluster_name == "events"
    assert DirectoryMetrics(manager.directory, "north").cluster_name == "north"


def test_sizes_are_those_of_the_files(manager: LogManager, metrics: DirectoryMetrics) -> None:
    manager.open_log("t", 0).roll()
    append(manager.open_log("t", 0), b"d" * 100)
    found = look(metrics, "topic", "partition")
    files = list(Path(manager.directory, "t-0").glob("*.log"))
    assert found["commitlog_partition_size_bytes"]["t", "0"] == sum(file.stat().st_size for file in files)
    assert found["commitlog_partition_segments"]["t", "0"] == len(files) == 2


def test_internal_partitions_without_records_are_left_out(manager: LogManager, metrics: DirectoryMetrics) -> None:
    GroupOffsets(manager).commit("g", {("t", 0): CommittedOffset(2)})
    found = look(metrics, "topic", "partition")
    assert sorted(topic for topic, _ in found["kafka_partition_latest_offset"]) == ["__consumer_offsets", "t", "t"]


def test_the_progress_of_a_sink_is_batches_and_no_lag(manager: LogManager, metrics: DirectoryMetrics) -> None:
    GroupOffsets(manager).commit("copy", {("__sink.t", 0): CommittedOffset(4)})
    found = look(metrics, "group", "topic")
    assert found["commitlog_sink_batches"] == {("copy", "t"): 4}
    assert "kafka_consumergroup_group_lag" not in found


def test_open_transactions_are_reported_with_their_age(manager: LogManager, metrics: DirectoryMetrics) -> None:
    write_transactional(manager.open_log("t", 1), 7, 0, b"x")
    with TransactionCoordinator.open(manager, "copy") as coordinator:
        transaction = coordinator.begin([("t", 0)])
        writer = TransactionalWriter(manager, transaction)
        writer.append("t", 0, encoded(b"x"))
        writer.sync()
        found = look(metrics, "state", "transactional_id")
        assert found["commitlog_open_transactions"] == {("Ongoing",): 1, ("Unknown",): 1}
        ages = found["commitlog_open_transaction_age_seconds"]
        assert ages.keys() == {("Ongoing", "copy"), ("Unknown", "")}
        assert ages["Ongoing", "copy"] >= 0
        hanging = look(metrics, "topic", "partition", "producer_id", "epoch", "first_offset")
        assert hanging["commitlog_hanging_transaction_age_seconds"].keys() == {("t", "1", "7", "0", "0")}
        partitions = look(metrics, "topic", "partition")
        assert partitions["commitlog_partition_last_stable_offset"]["t", "0"] == 3
        assert partitions["kafka_partition_latest_offset"]["t", "0"] == 4
        coordinator.abort(transaction)
    assert look(metrics, "state")["commitlog_open_transactions"] == {("Unknown",): 1}


def test_other_readers_are_reported_besides_the_groups(manager: LogManager) -> None:
    GroupOffsets(manager).commit("g", {("t", 0): CommittedOffset(3)})
    query = Consumer("query", {("t", 0): 1, ("gone", 0): 5}, {("t", 0): ("host", "run", "id")})
    metrics = DirectoryMetrics(manager.directory, consumers=lambda: [query])
    found = Page(page_of(metrics), "group", "topic", "consumer_id")
    assert found["kafka_consumergroup_group_lag"] == {("g", "t", "unknown"): 0, ("query", "t", "run"): 2}
    metrics.close()


def test_a_damaged_partition_is_reported_and_hides_no_other(manager: LogManager, metrics: DirectoryMetrics) -> None:
    GroupOffsets(manager).commit("g", {("t", 0): CommittedOffset(0), ("t", 1): CommittedOffset(0)})
    append(manager.open_log("t", 1), b"d")
    manager.close()
    path = Path(manager.directory, "t-0", "0" * 20 + ".log")
    content = bytearray(path.read_bytes())
    content[-1] ^= 0xFF
    path.write_bytes(content)
    found = look(metrics, "topic", "partition")
    assert found["commitlog_partition_unreadable"] == {("t", "0"): 1}
    assert found["commitlog_scrape_success"] == {(): 0}
    assert found["kafka_consumergroup_group_lag"] == {("t", "1"): 1}
    content[-1] ^= 0xFF
    path.write_bytes(content)
    found = look(metrics, "topic", "partition")
    assert found["commitlog_scrape_success"] == {(): 1}
    assert found["kafka_consumergroup_group_lag"] == {("t", "0"): 3, ("t", "1"): 1}


def test_damage_in_the_commits_of_some_groups_hides_no_other_group(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"a", b"b")
        groups = GroupOffsets(manager)
        for name in ("g1", "g2"):
            groups.commit(name, {("t", 0): CommittedOffset(1)})
        damaged, _ = sorted({groups.partition_of(name) for name in ("g1", "g2")})
        path = Path(manager.partition_path(*damaged), "0" * 20 + ".log")
        seen = "g2" if groups.partition_of("g1") == damaged else "g1"
    content = bytearray(path.read_bytes())
    content[-1] ^= 0xFF
    path.write_bytes(content + content)  # no torn end, which a reader passes over
    found = look(DirectoryMetrics(str(tmp_path)), "group")
    assert found["kafka_consumergroup_group_lag"] == {(seen,): 1}
    assert found["commitlog_scrape_success"] == {(): 0}


def test_a_missing_directory_may_be_created_later(tmp_path: Path) -> None:
    metrics = DirectoryMetrics(str(tmp_path / "later"))
    found = look(metrics, "topic")
    assert found["commitlog_scrape_success"] == {(): 0}
    assert found.samples.keys() == {"commitlog_scrape_success", "kafka_consumergroup_poll_time_ms"}
    with LogManager.open(str(tmp_path / "later"), create=True) as manager:
        manager.create_topic("t", partitions=1)
    found = look(metrics, "topic")
    assert found["commitlog_scrape_success"] == {(): 1}
    assert found["kafka_partition_latest_offset"] == {("t",): 0}


def test_a_deleted_topic_is_missing_in_the_next_request(manager: LogManager) -> None:
    directory = broker_like(manager)
    metrics = DirectoryMetrics(directory)
    assert look(metrics, "topic")["kafka_partition_latest_offset"].keys() == {("only",), ("other",)}
    for path in Path(directory, "other-0").iterdir():
        path.unlink()
    Path(directory, "other-0").rmdir()
    found = look(metrics, "topic")
    assert found["kafka_partition_latest_offset"].keys() == {("only",)}
    assert found["commitlog_scrape_success"] == {(): 1}


def broker_like(manager: LogManager) -> str:
    """Returns a directory without topics.json, whose topics are those with partition directories."""
    directory = Path(manager.directory).parent / "broker"
    with LogManager.open(str(directory), create=True) as made:
        for topic in ("only", "other"):
            made.create_topic(topic, partitions=1)
            append(made.open_log(topic, 0), b"x")
    (directory / "topics.json").unlink()
    return str(directory)
