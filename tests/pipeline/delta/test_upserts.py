"""The newest record of each key: between partitions, with any division into micro-batches, and after a deletion."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession, functions as F

from pyspark_commitlog.pipeline.delta.tables import table_sink
from tests.pipeline.delta.table_topics import Topic, raw, rows, run
from tests.support.logs.building import NOW_MS
from tests.support.logs.directories import directory_with_internal_topics

KEY = b"k"


@pytest.fixture
def topic(spark: SparkSession, tmp_path: Path) -> Topic:
    """A topic with one partition."""
    return Topic(spark, directory_with_internal_topics(tmp_path / "log"), partitions=1)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def held(topic: Topic, path: str) -> list[tuple[object, ...]]:
    return [raw(row) for row in rows(topic.spark, path, "_key", "value", "_partition")]


@pytest.mark.parametrize(
    "read_first",
    [
        pytest.param(0, id="the old partition", marks=pytest.mark.matrix),
        pytest.param(1, id="the new one", marks=pytest.mark.matrix),
        pytest.param(None, id="both at once"),
    ],
)
def test_newer_record_counts_in_whatever_order_partitions_are_read(
    topic: Topic, path: str, read_first: int | None
) -> None:
    """Between partitions by time, then by partition number; within one by offset, even if times decrease."""
    topic.append([(b"moved", b"old"), (b"deleted", b"old"), (b"at once", b"0"), (b"stays", b"1")], at_ms=NOW_MS)
    topic.append([(b"stays", b"2")], at_ms=NOW_MS - 1000)
    topic.grow(2)
    topic.append([(b"at once", b"1")], partition=1, at_ms=NOW_MS)
    topic.append([(b"moved", b"new"), (b"deleted", None)], partition=1, at_ms=NOW_MS + 60_000)
    write = table_sink(path=path, mode="upsert", txnAppId="export")
    if read_first is not None:  # of the old partition all but the last record
        write(topic.batch_up_to({read_first: 4 if read_first == 0 else 3, 1 - read_first: 0}), 0)
    write(topic.next_batch(), 1)
    assert held(topic, path) == [(b"stays", b"2", 0), (b"at once", b"1", 1), (b"moved", b"new", 1)]


@pytest.mark.only_all
def test_deleted_key_does_not_come_back_when_records_are_read_again(topic: Topic, path: str) -> None:
    topic.append([(KEY, b"old"), (b"other", b"x"), (KEY, None)])
    for app_id, expected in (("export", [(KEY, b"old", 0)]), ("after the checkpoint was lost", [])):
        write = table_sink(path=path, mode="upsert", txnAppId=app_id)
        topic.read_to = {0: 0}
        write(topic.batch_up_to({0: 1}), 0)
        assert held(topic, path) == [*expected, *[(b"other", b"x", 0)] * (not expected)]
        write(topic.batch_up_to({0: 3}), 1)
        assert held(topic, path) == [(b"other", b"x", 0)]
    topic.append([(KEY, b"new")])
    write(topic.next_batch(), 2)
    assert held(topic, path) == [(b"other", b"x", 0), (KEY, b"new", 0)]


@pytest.mark.only_all
def test_table_without_stored_tombstones_continues(topic: Topic, path: str, tmp_path: Path) -> None:
    topic.append([(KEY, b"old"), (b"other", b"x")])
    first = topic.read().selectExpr("key _key", "partition _partition", "offset _offset", "timestamp _timestamp",
                                    "headers _headers", "value")  # fmt: skip
    first.write.format("delta").save(path)
    topic.append([(KEY, None), (b"third", b"y")])
    run(topic.stream('{"t": {"0": 2}}'), table_sink(path=path, mode="upsert"), tmp_path / "checkpoint")
    assert held(topic, path) == [(b"other", b"x", 0), (b"third", b"y", 0)]


@pytest.mark.only_all
def test_any_division_into_micro_batches_leads_to_the_newest_of_each_key(
    spark: SparkSession, topic: Topic, path: str
) -> None:
    """Records with few keys, each of which moves when the topic grows; read in steps of random size."""
    chance, newest, ms = random.Random(7), {}, itertools.count(NOW_MS, 1000)
    for partitions in (1, 2, 3):
        if partitions > 1:
            topic.grow(partitions)
        for _ in range(8):
            key = b"%d" % chance.randrange(5)
            value = None if chance.random() < 0.3 else b"%d" % chance.randrange(1000)
            topic.append([(key, value)], int(key) % partitions, at_ms=next(ms))
            newest[key] = value
    ends, write, number = dict(topic.read_to), table_sink(path=path, mode="upsert", txnAppId="export"), 0
    topic.read_to = dict.fromkeys(ends, 0)
    last = {row.partition: row.offset + 1 for row in
            topic.read().groupBy("partition").agg(F.max("offset").alias("offset")).collect()}  # fmt: skip
    while topic.read_to != last:
        step = {part: min(last[part], at + chance.randrange(12)) for part, at in topic.read_to.items()}
        write(topic.batch_up_to(step), number)
        number += 1
    assert {key: value for key, value, _ in held(topic, path)} == {k: v for k, v in newest.items() if v is not None}
