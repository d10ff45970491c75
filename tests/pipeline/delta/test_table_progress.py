"""Queries that a table knows: another query with a known name, a checkpoint set back, a repeated batch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog.pipeline.delta.provenance.next_offsets import NextOffsets
from pyspark_commitlog.pipeline.delta.table_progress import beyond_plan
from pyspark_commitlog.pipeline.delta.tables import starting_offsets, table_sink
from pyspark_commitlog.pipeline.rows.topic_ids import KnownOffsets
from pyspark_commitlog.storage import TopicPartition
from tests.pipeline.delta.table_topics import Pair, Topic, rows, run
from tests.support.logs.directories import directory_with_internal_topics

MODES = pytest.mark.parametrize("mode", ["append", pytest.param("upsert", marks=pytest.mark.matrix)])


@pytest.fixture
def topic(spark: SparkSession, tmp_path: Path) -> Topic:
    made = Topic(spark, directory_with_internal_topics(tmp_path / "log"), partitions=1)
    made.append(numbered(3))
    return made


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def numbered(count: int) -> list[Pair]:
    return [(b"%d" % number, b"x") for number in range(count)]


def two_by_two(topic: Topic) -> DataFrame:
    """Returns the three records in two micro-batches."""
    return topic.stream(maxOffsetsPerTrigger="2")


def offsets(topic: Topic, path: str) -> list[int]:
    return [row._offset for row in rows(topic.spark, path, "_offset")]


@MODES
def test_new_checkpoint_under_a_known_name_is_refused_with_both_queries_and_another_name_goes_on(
    topic: Topic, path: str, tmp_path: Path, mode: str
) -> None:
    run(two_by_two(topic), table_sink(path=path, mode=mode, txnAppId="it's"), tmp_path / "first")
    topic.append([(b"%d" % number, b"y") for number in range(3, 9)])
    starts = starting_offsets(topic.spark, path, topic.log_dir, "t")
    with pytest.raises(PySparkException, match=r"it's.* wrote 2 batches to table .* as query .*, but this is query"):
        run(topic.stream(starts), table_sink(path=path, mode=mode, txnAppId="it's"), tmp_path / "second")
    assert offsets(topic, path) == [0, 1, 2]
    run(topic.stream(starts), table_sink(path=path, mode=mode, txnAppId="another"), tmp_path / "third")
    assert offsets(topic, path) == list(range(9))
    run(topic.stream(), table_sink(path=path, mode=mode, txnAppId="it's"), tmp_path / "first")  # with nothing to do


@pytest.mark.only_all
@MODES
def test_table_without_a_noted_query_refuses_a_batch_below_its_last(
    topic: Topic, path: str, tmp_path: Path, mode: str
) -> None:
    for number in range(2):
        table_sink(path=path, mode=mode, txnAppId="x")(topic.batch_up_to({0: number + 1}), number)
    with pytest.raises(PySparkException, match="has batch 1 of txnAppId 'x', but this is batch 0"):
        run(topic.stream(), table_sink(path=path, mode=mode, txnAppId="x"), tmp_path / "checkpoint")
    assert offsets(topic, path) == [0, 1]


@pytest.mark.only_all
@MODES
def test_checkpoint_that_was_set_back_is_refused(topic: Topic, path: str, tmp_path: Path, mode: str) -> None:
    now, before = tmp_path / "checkpoint", tmp_path / "backup"
    run(topic.stream(), table_sink(path=path, mode=mode), now)
    shutil.copytree(now, before)
    for number in range(3, 5):
        topic.append([(b"%d" % number, b"y")])
        run(topic.stream(), table_sink(path=path, mode=mode), now)
    topic.append([(b"late", b"z")])
    with pytest.raises(PySparkException, match=r"has batch 2 .* this is batch 1: the checkpoint was set back"):
        run(topic.stream(), table_sink(path=path, mode=mode), before)


def test_batch_that_is_repeated_with_more_records_is_refused(topic: Topic, path: str, tmp_path: Path) -> None:
    """The batch's commit and plan were lost, so Spark plans it again, up to the current end."""
    checkpoint = tmp_path / "checkpoint"
    run(topic.stream(), table_sink(path=path), checkpoint)
    lose_batch(checkpoint, 0)
    topic.append([(b"late", b"z")])
    with pytest.raises(PySparkException, match="has other records now: the table lacks offset 3 of partition 0"):
        run(topic.stream(), table_sink(path=path), checkpoint)


@pytest.mark.only_all
def test_batch_that_is_repeated_with_fewer_records_is_refused(topic: Topic, path: str, tmp_path: Path) -> None:
    """Otherwise the next micro-batch would add the others again."""
    checkpoint = tmp_path / "checkpoint"
    run(topic.stream(), table_sink(path=path), checkpoint)
    lose_batch(checkpoint, 0)
    with pytest.raises(PySparkException, match="has other records now: the table has offset 2 of partition 0 already"):
        run(two_by_two(topic), table_sink(path=path), checkpoint)
    assert offsets(topic, path) == [0, 1, 2]


@pytest.mark.only_all
def test_batch_that_is_repeated_with_more_records_is_merged(topic: Topic, path: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    run(topic.stream(), table_sink(path=path, mode="upsert"), checkpoint)
    lose_batch(checkpoint, 0)
    topic.append([(b"late", b"z")])
    run(topic.stream(), table_sink(path=path, mode="upsert"), checkpoint)
    assert offsets(topic, path) == [0, 1, 2, 3]


@MODES
def test_batch_whose_commit_was_lost_is_skipped(topic: Topic, path: str, tmp_path: Path, mode: str) -> None:
    checkpoint = tmp_path / "checkpoint"
    run(two_by_two(topic), table_sink(path=path, mode=mode), checkpoint)
    lose(checkpoint / "commits" / "1")
    topic.append([(b"late", b"z")])
    run(two_by_two(topic), table_sink(path=path, mode=mode), checkpoint)
    assert offsets(topic, path) == [0, 1, 2, 3]


def lose_batch(checkpoint: Path, number: int) -> None:
    for folder in ("offsets", "commits"):
        lose(checkpoint / folder / str(number))


def lose(entry: Path) -> None:
    entry.unlink()
    (entry.parent / f".{entry.name}.crc").unlink(missing_ok=True)


@pytest.mark.only_all
@MODES
def test_two_calls_for_two_halves_of_a_batch_are_refused(topic: Topic, path: str, tmp_path: Path, mode: str) -> None:
    def in_halves(first: Callable[..., None], second: Callable[..., None]) -> Callable[[DataFrame, int], None]:
        def write(frame: DataFrame, batch_id: int) -> None:
            first(frame.where("offset < 2"), batch_id)
            second(frame.where("offset >= 2"), batch_id)

        return write

    sinks = [table_sink(path=path, mode=mode, txnAppId=name) for name in ("one", "one", "two")]
    with pytest.raises(PySparkException, match=r"was already written to table .* in this run"):
        run(topic.stream(), in_halves(*sinks[:2]), tmp_path / "checkpoint")
    run(topic.stream(), in_halves(*sinks[1:]), tmp_path / "checkpoint")
    assert offsets(topic, path) == [0, 1, 2]


def test_only_larger_offsets_of_the_same_topic_are_beyond_a_plan() -> None:
    """A table may have rows of several topics, and of one that was deleted and made again."""

    def next_offsets(offset: int, topic: str = "t", id_: str = "a") -> NextOffsets:
        return NextOffsets(KnownOffsets({TopicPartition(topic, 0): offset}, {topic: id_}))

    assert beyond_plan(next_offsets(5), next_offsets(8)) == {0: 7}
    assert beyond_plan(next_offsets(5), next_offsets(5)) == {}
    assert beyond_plan(next_offsets(5), next_offsets(8, topic="u")) == {}
    assert beyond_plan(next_offsets(5), next_offsets(8, id_="b")) == {}
    assert beyond_plan(next_offsets(5), None) == {}
