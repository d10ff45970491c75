"""Arrow batches written to the log by a task."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from unittest import mock

import pyarrow as pa
import pytest

from pyspark_commitlog.arrow.table import read_table
from pyspark_commitlog.pipeline.write import task as writing
from pyspark_commitlog.pipeline.write.answers import Written
from pyspark_commitlog.pipeline.write.publication.log_directory import TransactionTicket
from pyspark_commitlog.pipeline.write.targets import Targets
from pyspark_commitlog.pipeline.write.task import PART_BYTES_MIN, Append, TaskWriter, WritePlan, table_bytes
from pyspark_commitlog.storage import (
    AppendInfo,
    EncodedBatches,
    LogManager,
    TransactionCoordinator,
    UnknownTopicOrPartitionError,
)

Batch = pa.RecordBatch
ROW_BYTES = 1004  # of an Arrow batch of one value


@dataclass
class Appends:
    """Discards appends, and stores the number of records in each."""

    counts: list[int] = field(default_factory=list)

    def __call__(self, _topic: str, _partition: int, batches: EncodedBatches) -> AppendInfo:
        first, count = sum(self.counts), int(batches.headers.table["count"].sum())
        self.counts.append(count)
        return AppendInfo(first, first + count - 1, 0, -1, batches.headers.end)


def written_by(tmp_path: Path, append: Append, batches: Iterator[Batch]) -> list[Written]:
    """Writes with a task of one partition that takes two rows at once, or more if they have arrived."""
    taken = mock.patch.object(writing, "table_bytes", return_value=(2 * ROW_BYTES, 2 * ROW_BYTES))
    with LogManager.open(str(tmp_path), create=True) as manager, taken:
        return writing._Task(plan_for(manager), 0, append).write(batches)


def test_rows_are_appended_many_at_once(tmp_path: Path) -> None:
    append = Appends()
    [written] = written_by(tmp_path, append, map(value, range(10)))
    assert all(2 <= count <= 3 for count in append.counts[:-1])
    assert sum(append.counts) == written.records == 10


def test_rows_of_a_partition_keep_their_order_among_others(tmp_path: Path) -> None:
    partitions = pa.array([2, 0, 2, 1, 2, 1], pa.int32())
    batches = [
        Batch.from_pydict({"value": pa.array([bytes([number, row]) for row in range(6)]), "partition": partitions})
        for number in range(3)
    ]
    with LogManager.open(str(tmp_path), create=True) as manager:
        answers = TaskWriter(plan_for(manager, partitions=3)).answers(iter(batches))
    assert [(answer.partition, answer.records) for answer in answers] == [(0, 3), (1, 6), (2, 9)]
    found = read_table(tmp_path, "t", isolation="read_uncommitted").select(["partition", "value"]).to_pylist()
    for partition, rows in enumerate([[1], [3, 5], [0, 2, 4]]):
        values = [row["value"] for row in found if row["partition"] == partition]
        assert values == [bytes([number, row]) for number in range(3) for row in rows]


@pytest.mark.parametrize("at", [0, 1, 9])
def test_error_of_an_append_is_raised_and_nothing_is_appended_after_it(tmp_path: Path, at: int) -> None:
    tried = Appends()

    def append(topic: str, partition: int, batches: EncodedBatches) -> AppendInfo:
        info = tried(topic, partition, batches)
        if info.first_offset <= at <= info.last_offset:
            raise OSError(f"no space for {at}")
        return info

    with pytest.raises(OSError, match=f"no space for {at}"):
        written_by(tmp_path, append, map(value, range(10)))
    assert sum(tried.counts[:-1]) <= at < sum(tried.counts)


def test_without_rows_nothing_is_appended(tmp_path: Path) -> None:
    append = Appends()
    assert written_by(tmp_path, append, iter([value(1)[:0]])) == []
    assert append.counts == []


def test_tables_are_larger_for_many_partitions() -> None:
    part = PART_BYTES_MIN
    sizes = [table_bytes(partitions) for partitions in (1, 512, 513, 769, 1024, 10_000)]
    few, most = (2**24, 3 * 2**23), (2**25, 2**25)
    assert sizes == [few, few, (513 * part, 3 * 2**23), (769 * part, 769 * part), most, most]


def test_bad_rows_are_numbered_within_the_task(tmp_path: Path) -> None:
    fine, keyless = [{"key": "h", "value": b"1"}], [{"key": None, "value": b"1"}]
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    first, second = (
        Batch.from_pydict(
            {
                "value": pa.array([b"a", b"b", b"c", b"d"], pa.binary()),
                "partition": pa.array([0, 0, wrong, 0], pa.int32()),
                "headers": pa.array([keyless, fine, fine, fine], headers),
            }
        )
        for wrong in (7, 8)
    )
    with LogManager.open(str(tmp_path), create=True) as manager:
        TaskWriter(plan_for(manager, bad_records="bad")).answers(iter([first, second]))
    good = read_table(tmp_path, "t", isolation="read_uncommitted")
    assert good.column("value").to_pylist() == [b"b", b"d"] * 2
    bad = read_table(tmp_path, "bad", columns=["value", "headers"], isolation="read_uncommitted")
    told = [dict(map(tuple, map(dict.values, headers))) for headers in bad.column("headers").to_pylist()]
    assert bad.column("value").to_pylist() == [b"a", b"c"] * 2
    assert [each["commitlog.error.row"] for each in told] == [b"0", b"2", b"4", b"6"]
    assert [b"7" in told[1]["commitlog.error.reason"], b"8" in told[3]["commitlog.error.reason"]] == [True, True]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("limiting", ["segment.bytes", "max.message.bytes"])
def test_batches_fit_the_topics_limit_and_rows_that_never_fit_are_bad(
    tmp_path: Path, codec: str, limiting: str
) -> None:
    random = Random(1)
    sizes = [*(random.randrange(900) for _ in range(200)), 2500, 1]
    batch = Batch.from_pydict({"value": pa.array([random.randbytes(size) for size in sizes])})
    plan = {"configs": {limiting: 2000}, "producer": {"compression.type": codec}}
    with LogManager.open(str(tmp_path), create=True) as manager:
        TaskWriter(plan_for(manager, bad_records="bad", **plan)).answers(iter([batch]))
    good, bad = (read_table(tmp_path, topic, isolation="read_uncommitted") for topic in ("t", "bad"))
    assert [len(each) for each in good.column("value").to_pylist()] == [*sizes[:200], 1]
    (headers,) = read_table(tmp_path, "bad", columns=["headers"], isolation="read_uncommitted")["headers"].to_pylist()
    assert [len(each) for each in bad.column("value").to_pylist()] == [2500]
    assert f"{limiting} allows 2000" in headers[0]["value"].decode()


def plan_for(
    manager: LogManager, bad_records: str | None = None, partitions: int = 1, **more: dict[str, object]
) -> WritePlan:
    """Returns the plan for one topic, and the one for bad records, in a transaction that has begun."""
    targets = Targets.parse(manager.directory, topic="t", partitions=partitions, bad_records=bad_records, **more)
    topics = targets.prepare(manager)
    with TransactionCoordinator.open(manager, "app") as coordinator:
        transaction = coordinator.begin(
            [(topic.name, number) for topic in topics.values() for number in topic.partitions]
        )
    return WritePlan.of(targets, topics, frozenset(), TransactionTicket(transaction), 0)


def value(number: int) -> Batch:
    return Batch.from_pydict({"value": pa.array([bytes([number]) * 1000], pa.binary())})


def test_a_topic_of_which_a_broker_has_partitions_elsewhere_is_refused(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=3)
        for number in (0, 2):
            manager.open_log("t", number)
    (tmp_path / "topics.json").unlink()
    shutil.rmtree(tmp_path / "t-1")
    targets = Targets.parse(str(tmp_path), topic="t")
    with (
        LogManager.open(str(tmp_path)) as manager,
        pytest.raises(UnknownTopicOrPartitionError, match=r"'t' has only partitions \[0, 2\]"),
    ):
        targets.prepare(manager)
