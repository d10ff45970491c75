"""Queries that a table knows: another query with a known name, a checkpoint set back, a repeated batch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog.pipeline.delta import table_progress
from pyspark_commitlog.pipeline.delta.provenance.next_offsets import NextOffsets
from pyspark_commitlog.pipeline.delta.table_progress import TableProgress, beyond_plan, newest_batch, set_properties
from pyspark_commitlog.pipeline.delta.tables import starting_offsets, table_sink
from pyspark_commitlog.pipeline.rows.topic_ids import KnownOffsets
from pyspark_commitlog.pipeline.write.classic_session import committed_version
from pyspark_commitlog.pipeline.write.exactly_once.checkpoint import LocalCheckpoint
from pyspark_commitlog.pipeline.write.exactly_once.progress import Run
from pyspark_commitlog.storage import ProgressMismatchError, TopicPartition
from tests.pipeline.delta.table_topics import Pair, Topic, rows, run
from tests.support.disk.memory_filesystem import MemoryFileSystem
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


@MODES
def test_batches_that_delta_has_forgotten_are_known_by_its_commits(topic: Topic, tmp_path: Path, mode: str) -> None:
    path, checkpoint = str(tmp_path / "table[1]"), tmp_path / "checkpoint"
    sink = table_sink(path=path, mode=mode, txnAppId="mine")
    run(two_by_two(topic), sink, checkpoint)
    set_properties(topic.spark, path, {"delta.setTransactionRetentionDuration": "interval 1 milliseconds"})
    assert committed_version(topic.spark, path, "mine") is None
    assert newest_batch(topic.spark, path, "mine") == 1
    assert newest_batch(topic.spark, path, "other") is None
    lose(checkpoint / "commits" / "1")
    for late in (b"late", b"later"):
        topic.append([(late, b"z")])
        run(two_by_two(topic), sink, checkpoint)
    assert offsets(topic, path) == [0, 1, 2, 3, 4]


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


@MODES
@pytest.mark.parametrize(
    ("keeps_older", "has"),
    [(False, "none of its batches"), pytest.param(True, "its batches only up to 0", marks=pytest.mark.only_all)],
)
def test_table_that_a_function_for_foreachbatch_wrote_is_refused_if_it_was_set_back_or_deleted(
    topic: Topic, path: str, tmp_path: Path, mode: str, *, keeps_older: bool, has: str
) -> None:
    def write(frame: DataFrame, batch_id: int) -> None:
        table_sink(path=path, mode=mode, txnAppId="mine")(frame, batch_id)

    older = tmp_path / "older"
    for number in range(2):
        topic.append([(b"new %d" % number, b"y")])
        run(topic.stream(), write, tmp_path / "checkpoint")
        if number == 0:
            shutil.copytree(path, older)
    shutil.rmtree(path)
    if keeps_older:
        older.rename(path)
    topic.append([(b"late", b"z")])
    with pytest.raises(PySparkException, match=f"notes that batch 1 of txnAppId 'mine' was written, but .* has {has}"):
        run(topic.stream(), write, tmp_path / "checkpoint")
    assert Path(path).exists() == keeps_older
    for note in (tmp_path / "checkpoint" / "commitlog").iterdir():
        note.unlink()
    run(topic.stream(), write, tmp_path / "checkpoint")
    assert offsets(topic, path) == ([0, 1, 2, 3, 5] if keeps_older else [5])


@pytest.mark.only_all
def test_function_that_leaves_out_micro_batches_is_not_taken_for_one_whose_table_was_set_back(
    topic: Topic, path: str, tmp_path: Path
) -> None:
    def write(frame: DataFrame, batch_id: int) -> None:
        if batch_id in {1, 3}:
            table_sink(path=path, txnAppId="mine")(frame, batch_id)

    for number in range(5):
        topic.append([(b"%d" % number, b"y")])
        run(topic.stream(), write, tmp_path / "checkpoint")
    assert offsets(topic, path) == [4, 6]


@pytest.fixture
def checkpoint() -> LocalCheckpoint:
    disk = MemoryFileSystem()
    disk.make_directory("/cp")
    return LocalCheckpoint("/cp", disk)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, checkpoint: LocalCheckpoint) -> Callable[..., TableProgress]:
    """Returns the progress of a query that is about to write a version to a table that has versions up to ``done``."""

    def made(version: int, *, done: int | None) -> TableProgress:
        monkeypatch.setattr(table_progress, "newest_batch", lambda *_: done)
        return TableProgress(None, "/table", Run("mine", "query", "run"), version, checkpoint)  # type: ignore[arg-type]

    return made


@pytest.mark.parametrize(("version", "done"), [(3, None), (3, 1), (4, None), (4, 2), (9, 2)])
def test_table_must_have_what_the_checkpoint_notes_once_spark_has_gone_on(
    at: Callable[..., TableProgress], version: int, done: int | None
) -> None:
    with at(3, done=2).noted():
        pass
    lacking = r"/cp/commitlog/.*\.json notes that batch 3 .* or forgets batches \(delta\..*, delete /cp/commit"
    with pytest.raises(ProgressMismatchError, match=lacking):
        at(version, done=done).check_has_noted()


@pytest.mark.parametrize(("version", "done"), [(3, 2), (3, 3), (4, 3), (9, 3), (9, 8), (2, 2), (1, 0)])
def test_table_that_has_all_that_the_checkpoint_notes_is_accepted(
    at: Callable[..., TableProgress], version: int, done: int
) -> None:
    with at(3, done=2).noted():
        pass
    at(version, done=done).check_has_noted()


def test_micro_batch_that_failed_need_not_be_in_the_table(at: Callable[..., TableProgress]) -> None:
    with at(3, done=2).noted():
        pass
    with pytest.raises(RuntimeError, match="of a user"), at(4, done=3).noted():
        raise RuntimeError("of a user")
    at(5, done=3).check_has_noted()


def test_only_larger_offsets_of_the_same_topic_are_beyond_a_plan() -> None:
    """A table may have rows of several topics, and of one that was deleted and made again."""

    def next_offsets(offset: int, topic: str = "t", id_: str = "a") -> NextOffsets:
        return NextOffsets(KnownOffsets({TopicPartition(topic, 0): offset}, {topic: id_}))

    assert beyond_plan(next_offsets(5), next_offsets(8)) == {0: 7}
    assert beyond_plan(next_offsets(5), next_offsets(5)) == {}
    assert beyond_plan(next_offsets(5), next_offsets(8, topic="u")) == {}
    assert beyond_plan(next_offsets(5), next_offsets(8, id_="b")) == {}
    assert beyond_plan(next_offsets(5), None) == {}
