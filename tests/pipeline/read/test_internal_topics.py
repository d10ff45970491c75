"""Kafka's internal topics as columns, from directories that brokers wrote."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.arrow.batches import TimeBeyondSparkError
from pyspark_commitlog.pipeline.read.batch import BatchReader
from pyspark_commitlog.pipeline.read.options import ReadOptions
from pyspark_commitlog.storage import CorruptRecordError, GroupOffsets, InvalidConfigError, LogManager
from pyspark_commitlog.storage.format.internal.internal_topics import OffsetCommitKey, OffsetCommitValue
from pyspark_commitlog.storage.recovery.segment_recovery import read_markers
from tests.support.kafka.broker_dirs import stage
from tests.support.logs.building import NOW_MS, records


def read(directory: Path | str, topic: str, decode: str, **options: str) -> list[dict[str, Any]]:
    given = {"path": str(directory), "subscribe": topic, "decode": decode, "isolation.level": "read_uncommitted"}
    parsed = ReadOptions.parse(given | options)
    reader = BatchReader(parsed, parsed.columns.arrow_schema(parsed.columns.schema()))
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("name", ["groups/final", "groups/cleaned"])
def test_last_row_of_each_partition_is_what_its_group_committed(name: str) -> None:
    directory = stage(name) / "log"
    committed: dict[str, dict[tuple[str, int], int]] = {}
    for row in read(directory, "__consumer_offsets", "offsets", **{"isolation.level": "read_committed"}):
        of_group = committed.setdefault(row["group"], {})
        of_group[row["topic"], row["partition"]] = row["offset"]
    groups = GroupOffsets(LogManager.open(str(directory)))
    found = {group: {each: commit.offset for each, commit in groups.fetch(group).items()} for group in committed}
    assert {group: {k: v for k, v in of.items() if v is not None} for group, of in committed.items()} == found
    assert sum(map(len, found.values())) > 0


def test_offset_row_has_all_fields_of_a_commit() -> None:
    row = read(stage("groups/final") / "log", "__consumer_offsets", "offsets")[0]
    at = datetime.datetime(2026, 11, 20, 23, 42, 54, tzinfo=datetime.UTC)
    assert row == {
        "group": "payments",
        "topic": "g-in",
        "partition": 0,
        "offset": 102,
        "leaderEpoch": 0,
        "metadata": "meta-0",
        "commitTimestamp": at.replace(microsecond=92000),
        "expireTimestamp": None,
        "recordPartition": 1,
        "recordOffset": 0,
        "recordTimestamp": at.replace(microsecond=96000),
    }


def markers(directory: Path) -> Counter[tuple[str, int, str]]:
    """Returns how often each partition has each kind of transaction marker."""
    found: Counter[tuple[str, int, str]] = Counter()
    manager = LogManager.open(str(directory))
    for topic in manager.topics().values():
        for partition in topic.partitions:
            with manager.open_reader(topic.name, partition) as reader:
                for segment in reader.segments:
                    for window in segment.batches():
                        for marker in read_markers(window)[0].values():
                            found[topic.name, partition, "PrepareCommit" if marker.is_commit else "PrepareAbort"] += 1
    return found


def test_transactions_are_decided_for_the_partitions_that_have_their_markers() -> None:
    directory = stage("transactions/final") / "log"
    rows = read(directory, "__transaction_state", "transactions")
    decided: Counter[tuple[str, int, str]] = Counter()
    for row in rows:
        if row["transactionStatus"].startswith("Prepare"):
            for of_topic in row["transactionPartitions"]:
                decided.update((of_topic["topic"], each, row["transactionStatus"]) for each in of_topic["partitionIds"])
    assert decided == markers(directory)
    ongoing = next(row for row in rows if row["transactionStatus"] == "Ongoing")
    assert ongoing["transactionPartitions"] == [{"topic": "txn", "partitionIds": [0]}]
    assert ongoing["transactionStartTimestamp"] == ongoing["transactionLastUpdateTimestamp"]


def test_columns_choose_among_those_decoded() -> None:
    directory = stage("groups/final") / "log"
    first = read(directory, "__consumer_offsets", "offsets", columns="offset,group")[0]
    assert list(first.items()) == [("offset", 102), ("group", "payments")]
    with pytest.raises(InvalidConfigError, match=r"no column 'value'.*there are group, topic"):
        read(directory, "__consumer_offsets", "offsets", columns="value")


def test_deleted_offset_has_nulls_after_its_key_and_other_kinds_are_skipped(log_dir: str) -> None:
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("t", partitions=1)
        keys = [
            bytes.fromhex("0001 0001 67 0001 74 00000005"),
            bytes.fromhex("0002 0001 67"),
            bytes.fromhex("0063"),
            None,
        ]
        manager.open_log("t", 0).append_records(records([None] * 4, keys=keys, timestamps=7))
    rows = read(log_dir, "t", "offsets")
    assert [(row["group"], row["topic"], row["partition"], row["offset"]) for row in rows] == [("g", "t", 5, None)]


def test_record_of_another_format_is_an_error_with_its_offset(log_dir: str) -> None:
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("t", partitions=1)
        manager.open_log("t", 0).append_records(records([b"", b"x"], keys=[bytes.fromhex("0063"), b"\0\1\0\7g"]))
    with pytest.raises(CorruptRecordError, match="offset 1 of t-0"):
        read(log_dir, "t", "offsets")


def test_time_of_a_commit_beyond_timestamps_is_an_error_or_null(log_dir: str) -> None:
    late = 2**63 - 1
    key = OffsetCommitKey("g", "t", 0).encode()
    values = [OffsetCommitValue(offset, "", time).encode() for offset, time in ((5, NOW_MS), (6, late))]
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("offsets", partitions=1)
        manager.open_log("offsets", 0).append_records(records(values, keys=[key, key]))
    with pytest.raises(TimeBeyondSparkError, match=f"offset 1 of offsets-0: commitTimestamp is {late} ms"):
        read(log_dir, "offsets", "offsets")
    found = read(log_dir, "offsets", "offsets", mode="permissive")
    assert [(row["offset"], row["commitTimestamp"] is None) for row in found] == [(5, False), (6, True)]
    assert [row["offset"] for row in read(log_dir, "offsets", "offsets", columns="offset")] == [5, 6]
