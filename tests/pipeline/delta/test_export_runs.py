"""Runs of the export job: after a failure, with a lost checkpoint, and with a record that a table refuses."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog.pipeline.delta import upserts
from pyspark_commitlog.pipeline.delta.command.arguments import parser
from pyspark_commitlog.pipeline.delta.export import advice, query
from pyspark_commitlog.storage import InvalidConfigError, ProgressMismatchError
from tests.pipeline.delta.table_topics import Topic, rows
from tests.support.logs.building import NOW_MS
from tests.support.logs.directories import directory_with_internal_topics

Write = Callable[[DataFrame, int], object]


@pytest.fixture
def topic(spark: SparkSession, tmp_path: Path) -> Topic:
    return Topic(spark, directory_with_internal_topics(tmp_path / "log"), partitions=1)


class Export:
    """A command line that is run repeatedly."""

    def __init__(self, topic: Topic | Stored, tmp_path: Path, *flags: str) -> None:
        self.topic, self.checkpoint, self.table = topic, tmp_path / "checkpoint", str(tmp_path / "table")
        self.flags = ["--log-dir", topic.log_dir, "--table", self.table, *flags]

    def options(self, *flags: str) -> Namespace:
        return parser("").parse_args(
            ["to-table", "--topic", "t", "--checkpoint", str(self.checkpoint), *self.flags, *flags]
        )

    def run(self, *flags: str, through: Callable[[Write], Write] = lambda write: write) -> None:
        stream, write, *_ = query(self.topic.spark, self.options(*flags))
        writer = stream.writeStream.foreachBatch(through(write))  # type: ignore[arg-type]
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    def fail(self, *flags: str, told: str = "no space left", through: Callable[[Write], Write] | None = None) -> str:
        with pytest.raises(PySparkException, match=told) as failed:
            self.run(*flags, through=through or (lambda _: no_space))
        return advice(self.options(*flags), failed.value)

    def offsets(self) -> list[tuple[int, int]]:
        return [tuple(row) for row in rows(self.topic.spark, self.table, "_partition", "_offset")]


def no_space(_frame: DataFrame, _batch_id: object) -> None:
    raise OSError("no space left on device")


def then_no_space(write: Write) -> Write:
    """Fails as if the driver had been killed before it recorded that the micro-batch is done."""

    def both(frame: DataFrame, batch_id: int) -> None:
        write(frame, batch_id)
        no_space(frame, batch_id)

    return both


@pytest.mark.only_all
@pytest.mark.parametrize("mode", ["append", pytest.param("upsert", marks=pytest.mark.matrix)])
def test_an_export_begins_where_the_table_ends_whatever_failed_before(topic: Topic, tmp_path: Path, mode: str) -> None:
    export = Export(topic, tmp_path, "--mode", mode)
    topic.append([(b"a", b"1"), (b"b", b"2")])
    export.fail()
    topic.append([(b"c", b"3")])
    topic.grow(2)
    topic.append([(b"d", b"4")], partition=1)
    export.run()
    assert export.offsets() == [(0, 0), (0, 1), (0, 2), (1, 0)]

    shutil.rmtree(export.checkpoint)
    export.checkpoint.mkdir()
    topic.append([(b"e", b"5")])
    export.fail(through=then_no_space)
    topic.append([(b"f", b"6")])
    export.run()
    assert export.offsets() == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0)]


@pytest.mark.parametrize(
    ("keeps_older", "has"),
    [(False, "none of its batches"), pytest.param(True, "its batches only up to 0", marks=pytest.mark.only_all)],
)
def test_a_table_that_lacks_batches_of_the_checkpoint_is_refused(
    topic: Topic, tmp_path: Path, keeps_older: bool, has: str
) -> None:
    export, older = Export(topic, tmp_path), tmp_path / "older"
    for number in range(2):
        topic.append([(b"a", b"%d" % number)])
        export.run()
        if number == 0:
            shutil.copytree(export.table, older)
    shutil.rmtree(export.table)
    if keeps_older:
        older.rename(export.table)
    topic.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]  # as a new process
    topic.append([(b"a", b"2")])
    with pytest.raises(
        ProgressMismatchError, match=f"has completed batch 1, but table .* has {has}: .* new checkpoint"
    ):
        export.run()
    shutil.rmtree(export.checkpoint)
    export.run()
    assert export.offsets() == [(0, 0), (0, 1), (0, 2)]


class Stored(NamedTuple):
    """A topic t on an object store."""

    spark: SparkSession
    log_dir: str

    def append(self, first: int, last: int) -> None:
        frame = self.spark.range(first, last).selectExpr("cast(id % 3 as string) key", "cast(id as string) value")
        frame.write.format("commitlog").mode("append").options(topic="t", partitions=2).save(self.log_dir)

    def offsets(self) -> list[tuple[int, int]]:
        frame = self.spark.read.format("commitlog").option("subscribe", "t").load(self.log_dir)
        return sorted((row.partition, row.offset) for row in frame.collect())


@pytest.mark.only_all
def test_a_log_on_an_object_store_is_exported_once_whatever_failed_before(
    spark: SparkSession, tmp_path: Path, bucket: str
) -> None:
    topic = Stored(spark, bucket)
    export = Export(topic, tmp_path)
    topic.append(0, 10)
    export.fail(through=then_no_space)
    topic.append(10, 14)
    export.run()
    shutil.rmtree(export.checkpoint)
    topic.append(14, 20)
    export.run()
    assert export.offsets() == topic.offsets()
    assert len(topic.offsets()) == 20


@pytest.mark.only_all
def test_changes_of_a_table_are_all_in_the_topic_though_the_first_micro_batch_failed(
    topic: Topic, tmp_path: Path
) -> None:
    spark, path = topic.spark, str(tmp_path / "table")
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta "
              "TBLPROPERTIES (delta.enableChangeDataFeed = true)")  # fmt: skip
    flags = ["--table", path, "--log-dir", topic.log_dir, "--topic", "changes", "--format", "json"]
    flags += ["--schema", "v string", "--key", "id", "--checkpoint", str(tmp_path / "checkpoint")]
    for number in range(2):
        spark.sql(f"INSERT INTO delta.`{path}` VALUES ({number}, 'x')")
        stream, write, *_ = query(spark, parser("").parse_args(["to-topic", *flags]))
        writer = stream.writeStream.foreachBatch(write if number else no_space)  # type: ignore[arg-type]
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        if number:
            writer.start().awaitTermination()
        else:
            with pytest.raises(PySparkException, match="no space left"):
                writer.start().awaitTermination()
    found = spark.read.format("commitlog").option("subscribe", "changes").load(topic.log_dir).collect()
    assert sorted(bytes(row.key) for row in found) == [b"0", b"1"]


class TestBadRecords:
    """Values that are not JSON; with mode upsert, also a record without a key."""

    JSON = ("--format", "json", "--schema", "v int")

    @pytest.fixture
    def bad(self, topic: Topic) -> Topic:
        topic.append([(b"a", b'{"v":1}'), (b"b", b"no JSON"), (None, b'{"v":2}'), (b"c", None)])
        topic.append([(b"d", b'{"v":"text"}'), (b"e", b'{"v":3}')])
        return topic

    @pytest.mark.only_all
    @pytest.mark.parametrize("mode", ["append", pytest.param("upsert", marks=pytest.mark.matrix)])
    def test_export_continues_and_stores_them_with_the_reason(self, bad: Topic, tmp_path: Path, mode: str) -> None:
        export = Export(bad, tmp_path, *self.JSON, "--mode", mode)
        told = export.fail(told="is not the JSON that was expected|has no key", through=lambda write: write)
        assert "--bad-records PATH" in told
        aside = str(tmp_path / "bad")
        for _ in range(2):  # the first time as if it was killed before the end
            export.fail("--bad-records", aside, through=then_no_space)
        export.run("--bad-records", aside)
        keyless = [] if mode == "upsert" else [(0, 2)]
        tombstone = [] if mode == "upsert" else [(0, 3)]
        assert export.offsets() == [(0, 0), *keyless, *tombstone, (0, 5)]
        found = rows(bad.spark, aside, "_topic", "_offset", "_key", "value", "_reason")
        expected = [(1, b"b", b"no JSON"), (2, None, b'{"v":2}'), (4, b"d", b'{"v":"text"}')]
        if mode == "append":
            del expected[1]
        assert [(row._offset, row._key, row.value) for row in found] == expected
        assert {row._topic for row in found} == {"t"}
        reasons = [row._reason.split(":")[0] for row in found]
        assert reasons[0] == reasons[-1] == "its value is not the JSON that was expected"
        assert reasons[1] == ("it has no key" if mode == "upsert" else reasons[0])
        shutil.rmtree(export.checkpoint)
        bad.append([(b"f", b"no JSON")])
        export.run("--bad-records", aside)
        assert [row._offset for row in rows(bad.spark, aside, "_offset")] == [*[row._offset for row in found], 6]

    @pytest.mark.only_all
    def test_bad_records_and_tombstones_do_not_count_as_the_end_of_the_table(
        self, bad: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The job is killed after it wrote bad records and tombstones, and before it wrote the rows."""
        export = Export(bad, tmp_path, *self.JSON, "--mode", "upsert", "--bad-records", str(tmp_path / "bad"))
        bad.append([(b"g", b'{"v":4}'), (b"c", None), (b"b", b"no JSON")])
        with monkeypatch.context() as patched:
            patched.setattr(upserts, "_merge", no_space)
            export.fail(through=lambda write: write)
        assert len(rows(bad.spark, str(tmp_path / "bad"))) == 4
        export.run()
        assert export.offsets() == [(0, 0), (0, 5), (0, 6)]

    def test_values_become_null_on_request(self, bad: Topic, tmp_path: Path) -> None:
        export = Export(bad, tmp_path, *self.JSON, "--serde-mode", "permissive")
        export.run()
        assert [row.v for row in rows(bad.spark, export.table, "v")] == [1, None, 2, None, None, 3]

    @pytest.mark.parametrize(
        ("values", "mode"),
        [((), "--read-mode"), pytest.param(JSON, "--serde-mode", marks=pytest.mark.only_all)],
    )
    def test_time_that_spark_does_not_hold_becomes_null_where_that_is_asked_for(
        self, topic: Topic, tmp_path: Path, values: tuple[str, ...], mode: str
    ) -> None:
        topic.append([(b"a", b'{"v":1}')])
        topic.append([(b"b", b'{"v":2}')], at_ms=NOW_MS * 1_000_000)
        export = Export(topic, tmp_path, "--mode", "upsert", *values)
        told = export.fail(told="offset 1 of t-0: its time is", through=lambda write: write)
        assert "--read-mode permissive" in told
        export.run(mode, "permissive")
        found = rows(topic.spark, export.table, "_offset", "_timestamp")
        assert [(row._offset, row._timestamp is None) for row in found] == [(0, False), (1, True)]

    @pytest.mark.only_all
    def test_export_begins_after_them_with_a_new_checkpoint(
        self, bad: Topic, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        export = Export(bad, tmp_path, *self.JSON)
        export.fail(told="not the JSON", through=lambda write: write)
        after = ("--starting-offsets", json.dumps({"t": {"0": 5}}))
        with pytest.raises(InvalidConfigError, match="give a new --checkpoint"):
            export.run(*after)
        export.checkpoint = tmp_path / "another"
        for _ in range(2):
            export.run(*after)
        assert export.offsets() == [(0, 5)]
        assert "--starting-offsets has no effect" in caplog.text
        export.checkpoint = tmp_path / "third"
        for text, told in (('{"t": {"0": 3}}', "rows of t-0 up to offset 5"), ("earliest", "twice"),
                           ('{"t": {"7": 3}}', "no partition t-7"), ("soon", "is not")):  # fmt: skip
            with pytest.raises(InvalidConfigError, match=told):
                export.run("--starting-offsets", text)


@pytest.mark.only_all
def test_records_that_are_not_bad_leave_no_table_of_bad_ones(topic: Topic, tmp_path: Path) -> None:
    topic.append([(b"a", b"1")])
    Export(topic, tmp_path, "--bad-records", str(tmp_path / "bad")).run()
    assert not (tmp_path / "bad").exists()
