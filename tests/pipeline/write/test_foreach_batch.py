from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions as F

from pyspark_commitlog.pipeline.write.foreach_batch import CommitLogSink, commitlog_sink
from pyspark_commitlog.storage import (
    CommittedOffset,
    DumpFindings,
    DumpOptions,
    GroupOffsets,
    InvalidConfigError,
    InvalidRecordError,
    LogDirLockedError,
    LogManager,
    TopicExistsError,
    TransactionCoordinator,
    dump_file,
)
from tests.pipeline.write.both_ends import log_of_either_end
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.spark.settings import settings
from tests.support.waiting import soon

# Holds the file of its argument as a broker holds .lock (Java's FileChannel.tryLock is lockf), until a line comes.
BROKER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
input()
"""


# What is not run on an object store, by test; what is there instead is in test_on_bucket.py and publication/.
MOVES = "moves files of the log"
OF_DIRECTORIES = {
    "test_topic_recreated_under_a_long_lived_session_is_written_again": MOVES,
    "test_log_that_is_older_than_the_checkpoint_is_refused_with_both_and_the_way_out": MOVES,
    "test_missing_log_is_refused_and_nothing_is_created_in_its_place": MOVES,
    "test_log_that_was_moved_is_known_by_its_topic": MOVES,
    "test_log_set_back_under_a_query_that_runs_is_refused": MOVES,
    "test_codec_of_the_producer_counts_if_the_topic_leaves_it_open": "reads a .log file",
    "test_others_may_write_under_its_name_when_the_query_has_ended": "others always may: the later one goes on",
    "test_plan_is_not_checked_if_an_older_version_stored_none": "writes offsets as to a directory",
    "test_row_that_the_topic_for_them_refuses_too_fails_the_query": "creates a topic as in a directory",
    "test_recovery_points_follow_while_the_log_stays_open": "there is no recovery",
    "test_speculation": "it is allowed",
    "test_directory_that_a_broker_holds_which_may_still_be_read": "no broker runs on an object store",
}
log_dir = log_of_either_end(OF_DIRECTORIES)


def sink(log_dir: str, *, topic: str | None = "t", app_id: str | None = "app", **more: object) -> CommitLogSink:
    return commitlog_sink(topic=topic, log_dir=log_dir, txnAppId=app_id, **more)  # type: ignore[arg-type]


def test_history_older_than_its_topics_retention_is_warned_of_once(
    spark: SparkSession, log_dir: str, caplog: pytest.LogCaptureFixture
) -> None:
    old = numbers(spark, 0, 10).withColumn("timestamp", F.timestamp_millis(F.lit(1_400_000_000_000)))
    kept = sink(log_dir, topic="kept", app_id="kept", configs={"retention.ms": "-1"})
    compacted = sink(log_dir, topic="compacted", app_id="compacted", configs={"cleanup.policy": "compact"})
    writing = sink(log_dir)
    writing(numbers(spark, 0, 10), 0)
    for function in (kept, compacted):
        function(old, 0)
    assert "retention.ms" not in caplog.text
    for batch_id in (1, 2):
        writing(old, batch_id)
    told = [record.getMessage() for record in caplog.records if "retention.ms" in record.getMessage()]
    assert len(told) == 1
    assert "batch 1 of app: the newest record for topic t is from 2014-05-13 16:53:20.000 UTC" in told[0]


def numbers(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end).select(
        (F.col("id") % 7).cast("string").alias("key"), F.col("id").cast("string").alias("value")
    )


def values(spark: SparkSession, log_dir: str, topic: str = "t") -> list[int]:
    frame = spark.read.format("commitlog").option("subscribe", topic).load(log_dir)
    return sorted(int(bytes(row.value)) for row in frame.collect())


def committed(log_dir: str, group: str = "app", topic: str = "t") -> tuple[int, dict[str, object]]:
    with LogManager.open(log_dir) as manager:
        found = GroupOffsets(manager).fetch(group)["__sink." + topic, 0]
    return found.offset, json.loads(found.metadata)


class Query:
    """A streaming query from text files into topic t."""

    def __init__(self, spark: SparkSession, directory: Path, log_dir: str) -> None:
        self.spark = spark
        self.input = directory / "input"
        self.input.mkdir()
        self.checkpoint = directory / "checkpoint"
        self.location = str(self.checkpoint)
        self.log_dir = log_dir
        self._sinks: list[CommitLogSink] = []

    def sink(self, app_id: str = "app", **more: object) -> CommitLogSink:
        """Returns a sink that is closed after the next run, so that nobody holds the log directory."""
        self._sinks.append(sink(self.log_dir, app_id=app_id, **more))
        return self._sinks[-1]

    def feed(self, *numbers: int) -> None:
        """Adds a file, which is a micro-batch."""
        path = self.input / f"{numbers[0]}"
        path.with_name(f".{path.name}").write_text("".join(f"{n}\n" for n in numbers))
        os.utime(
            path.with_name(f".{path.name}"), (numbers[0], 1_700_000_000 + numbers[0])
        )  # Spark takes the older first
        path.with_name(f".{path.name}").rename(path)

    def run(self, function: object = None) -> None:
        stream = self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.input))
        writer = stream.writeStream.foreachBatch(function or self.sink())  # type: ignore[arg-type]
        query = writer.option("checkpointLocation", self.location).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            for each in self._sinks:
                each.close()

    def feed_and_run(self, *numbers: int) -> None:
        self.feed(*numbers)
        self.run()

    def forget_batch(self, number: int) -> None:
        for folder in ("offsets", "commits", "sources/0"):
            for name in (f"{number}", f".{number}.crc"):
                (self.checkpoint / folder / name).unlink()

    def content(self) -> list[int]:
        return values(self.spark, self.log_dir)


def await_checkpoint() -> None:
    """Waits for the thread that continues to work in the log directory after a batch was written."""
    for thread in threading.enumerate():
        if thread.name == "commitlog checkpoint":
            thread.join()


def test_batches_are_appended_and_reported_by_partition(spark: SparkSession, log_dir: str) -> None:
    write = sink(log_dir, partitions=3)
    written = [*write(numbers(spark, 0, 100), 0), *write(numbers(spark, 100, 150), 1)]
    assert values(spark, log_dir) == list(range(150))
    assert sum(each.records for each in written) == 150
    by_partition = spark.read.format("commitlog").option("subscribe", "t").load(log_dir).groupBy("partition").count()
    for partition, count in by_partition.collect():
        assert sum(each.records for each in written if each.partition == partition) == count


def test_rows_of_a_key_keep_their_order_in_one_partition(spark: SparkSession, log_dir: str) -> None:
    sink(log_dir, partitions=3)(numbers(spark, 0, 700).coalesce(1), 0)
    rows = spark.read.format("commitlog").option("subscribe", "t").load(log_dir).orderBy("offset").collect()
    for key in {row.key for row in rows}:
        mine = [row for row in rows if row.key == key]
        assert len({row.partition for row in mine}) == 1
        assert [int(bytes(row.value)) for row in mine] == list(range(int(bytes(key)), 700, 7))


def test_batch_that_was_written_is_skipped_and_so_is_any_before_it(spark: SparkSession, log_dir: str) -> None:
    write = sink(log_dir)
    write(numbers(spark, 0, 10), 4)
    assert write(numbers(spark, 0, 10), 4) == []
    assert write(numbers(spark, 0, 10), 3) == []
    assert values(spark, log_dir) == list(range(10))
    assert committed(log_dir)[0] == 5


def test_spark_ui_shows_the_batch_of_a_job_after_the_threads_description(spark: SparkSession, log_dir: str) -> None:
    context = spark.sparkContext
    sink(log_dir)(numbers(spark, 0, 10), 0)
    context.setJobDescription("mine")
    sink(log_dir)(numbers(spark, 0, 10), 1)
    assert context.getLocalProperty("spark.job.description") == "mine"
    context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    store = context._jsc.sc().statusStore()  # type: ignore[union-attr]
    jobs = store.jobsList(None)
    told = {jobs.apply(n).description().toString() for n in range(jobs.size())}
    assert {"Some(batch 0 of app into t)", "Some(mine<br/>batch 1 of app into t)"} <= told


def test_recovery_points_follow_while_the_log_stays_open(spark: SparkSession, log_dir: str) -> None:
    sink(log_dir)(numbers(spark, 0, 10), 0)
    with LogManager.open(log_dir) as manager:
        soon(lambda: manager.marks(("t", 0)).recovery_point == 11)  # ten records and the marker


@pytest.mark.parametrize("app_id", ["", "x" * 2**15, "\ud800"], ids=["empty", "too long", "no text"])
def test_name_that_no_transaction_can_have_is_refused_at_once(log_dir: str, app_id: str) -> None:
    with pytest.raises(InvalidConfigError, match="txnAppId"):
        sink(log_dir, app_id=app_id)


@pytest.mark.parametrize("batch_id", [-1, 2**63 - 1, "0", None])
def test_batch_id_that_no_offset_can_tell_is_refused(spark: SparkSession, log_dir: str, batch_id: object) -> None:
    with pytest.raises(InvalidConfigError, match=f"batch id is .* from 0 to {2**63 - 2}"):
        sink(log_dir)(numbers(spark, 0, 1), batch_id)  # type: ignore[arg-type]
    assert not os.path.exists(f"{log_dir}/t-0")


def test_empty_batch_counts_as_written(spark: SparkSession, log_dir: str) -> None:
    assert sink(log_dir)(numbers(spark, 0, 0), 0) == []
    assert committed(log_dir)[0] == 1
    assert values(spark, log_dir) == []


def test_two_groups_write_to_a_topic_side_by_side(spark: SparkSession, log_dir: str) -> None:
    sink(log_dir, app_id="one")(numbers(spark, 0, 10), 0)
    sink(log_dir, app_id="two")(numbers(spark, 10, 20), 0)
    assert values(spark, log_dir) == list(range(20))


def test_large_table_is_written_in_several_arrow_and_record_batches(spark: SparkSession, log_dir: str) -> None:
    with settings(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "1000"}):
        sink(log_dir, partitions=2, producer={"batch.size": "4096"})(numbers(spark, 0, 20_000), 0)
    assert values(spark, log_dir) == list(range(20_000))


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_topic_keeps_its_batches_in_the_codec_asked_for(spark: SparkSession, log_dir: str, codec: str) -> None:
    sink(log_dir, configs={"compression.type": codec})(numbers(spark, 0, 1000), 0)
    assert values(spark, log_dir) == list(range(1000))


def test_topic_recreated_under_a_long_lived_session_is_written_again(spark: SparkSession, log_dir: str) -> None:
    sink(log_dir)(numbers(spark, 0, 10), 0)
    os.rename(log_dir, log_dir + ".gone")
    sink(log_dir)(numbers(spark, 20, 30), 0)
    assert values(spark, log_dir) == list(range(20, 30))


class TestAsForeachBatch:
    """The sink in a streaming query, whose ids Spark sets."""

    def run(self, spark: SparkSession, tmp_path: Path, function: object, checkpoint: str = "checkpoint") -> None:
        stream = spark.readStream.schema("key string, value string").json(str(tmp_path / "input"))
        writer = stream.writeStream.foreachBatch(function)  # type: ignore[arg-type]
        query = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    def put(self, spark: SparkSession, tmp_path: Path, start: int, end: int) -> None:
        numbers(spark, start, end).coalesce(1).write.mode("append").json(str(tmp_path / "input"))

    def test_query_resumes_where_it_stopped(self, spark: SparkSession, tmp_path: Path, log_dir: str) -> None:
        for start in (0, 50):
            self.put(spark, tmp_path, start, start + 50)
            self.run(spark, tmp_path, sink(log_dir, app_id=None))
        assert values(spark, log_dir) == list(range(100))

    def test_others_may_write_under_its_name_when_the_query_has_ended(
        self, spark: SparkSession, tmp_path: Path, log_dir: str
    ) -> None:
        self.put(spark, tmp_path, 0, 50)
        self.run(spark, tmp_path, sink(log_dir))

        def is_free() -> bool:
            with LogManager.open(log_dir) as manager:
                TransactionCoordinator.open(manager, "app", holder="another").close()
            return True

        soon(is_free, LogDirLockedError)

    def test_metadata_tells_query_run_and_records(self, spark: SparkSession, tmp_path: Path, log_dir: str) -> None:
        self.put(spark, tmp_path, 0, 50)
        self.run(spark, tmp_path, sink(log_dir))
        offset, metadata = committed(log_dir)
        checkpoint_id = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
        assert offset == 1
        assert metadata["queryId"] == checkpoint_id
        assert metadata["records"] == 50
        assert metadata["runId"] not in ("", checkpoint_id)

    def test_batch_whose_checkpoint_was_lost_after_the_write_is_not_written_twice(
        self, spark: SparkSession, tmp_path: Path, log_dir: str
    ) -> None:
        self.put(spark, tmp_path, 0, 50)
        self.run(spark, tmp_path, sink(log_dir))
        for name in ("0", ".0.crc"):
            (tmp_path / "checkpoint" / "commits" / name).unlink()  # as a kill before Spark's own commit leaves it
        self.run(spark, tmp_path, sink(log_dir))
        assert values(spark, log_dir) == list(range(50))

    def test_new_checkpoint_with_an_old_name_is_refused_and_both_queries_are_named(
        self, spark: SparkSession, tmp_path: Path, log_dir: str
    ) -> None:
        self.put(spark, tmp_path, 0, 50)
        self.run(spark, tmp_path, sink(log_dir))
        first = committed(log_dir)[1]["queryId"]
        with pytest.raises(StreamingQueryException, match=rf"query {first}.*delete the offsets of group 'app'"):
            self.run(spark, tmp_path, sink(log_dir), checkpoint="another")
        assert values(spark, log_dir) == list(range(50))

    def test_second_write_to_a_topic_in_one_batch_is_an_error_not_a_skip(
        self, spark: SparkSession, tmp_path: Path, log_dir: str
    ) -> None:
        write = sink(log_dir)

        def twice(frame: DataFrame, batch_id: int) -> None:
            write(frame, batch_id)
            write(frame, batch_id)

        self.put(spark, tmp_path, 0, 50)
        with pytest.raises(StreamingQueryException, match="was already written to topic t in this run"):
            self.run(spark, tmp_path, twice)


class TestCheckpointAndLogThatDoNotFit:
    """Each input file is a micro-batch. The log or the checkpoint is set back."""

    @pytest.fixture
    def query(self, spark: SparkSession, tmp_path: Path, log_dir: str) -> Query:
        return Query(spark, tmp_path, log_dir)

    def test_log_that_is_older_than_the_checkpoint_is_refused_with_both_and_the_way_out(self, query: Query) -> None:
        query.feed_and_run(0)
        shutil.copytree(query.log_dir, query.log_dir + ".old")
        query.feed_and_run(1)
        query.feed_and_run(2)
        shutil.rmtree(query.log_dir)
        os.rename(query.log_dir + ".old", query.log_dir)
        with pytest.raises(
            StreamingQueryException, match=r"notes that batch 2 of .*'app'.*has batches up to 0:.*delete"
        ):
            query.feed_and_run(3)
        assert query.content() == [0]
        (note,) = (query.checkpoint / "commitlog").iterdir()
        note.unlink()
        query.run()
        assert query.content() == [0, 3]

    def test_missing_log_is_refused_and_nothing_is_created_in_its_place(self, query: Query) -> None:
        query.feed_and_run(0)
        shutil.rmtree(query.log_dir)
        with pytest.raises(StreamingQueryException, match=r"notes that batch 0 .* has no batch of it"):
            query.feed_and_run(1)
        assert os.listdir(query.log_dir) == []

    def test_log_that_was_moved_is_known_by_its_topic(self, query: Query) -> None:
        query.feed_and_run(0)
        shutil.copytree(query.log_dir, query.log_dir + ".moved")
        query.feed_and_run(1)
        query.log_dir += ".moved"
        with pytest.raises(StreamingQueryException, match=r"notes that batch 1 .*\.moved, which has batches up to 0"):
            query.feed_and_run(2)

    def test_another_log_is_begun_on_purpose_by_naming_another_directory(self, query: Query, tmp_path: Path) -> None:
        query.feed_and_run(0)
        query.log_dir = directory_with_internal_topics(tmp_path / "another")
        query.feed_and_run(1)
        assert query.content() == [1]

    def test_log_set_back_under_a_query_that_runs_is_refused(self, query: Query) -> None:
        query.feed(0)
        write = query.sink()

        def set_back(frame: DataFrame, batch_id: int) -> None:
            write(frame, batch_id)
            await_checkpoint()
            if batch_id == 0:
                shutil.copytree(query.log_dir, query.log_dir + ".old")
            if batch_id == 1:
                shutil.rmtree(query.log_dir)
                os.rename(query.log_dir + ".old", query.log_dir)

        for n in (1, 2):
            query.feed(n)
        with pytest.raises(StreamingQueryException, match=r"that batch 1 of .* has batches up to 0"):
            query.run(set_back)
        assert query.content() == [0]

    @pytest.mark.parametrize("checkpoint", ["checkpoint", "copy of the checkpoint"])
    def test_rows_are_written_once_if_spark_stops_a_run_for_a_second_one(
        self, query: Query, tmp_path: Path, checkpoint: str
    ) -> None:
        """Spark does so when a query starts twice in one application; the first run ends without an error."""
        write, second, batches = query.sink(), copy(query), list[int]()
        second.location = str(tmp_path / checkpoint)

        def start_again(frame: DataFrame, batch_id: int) -> None:
            batches.append(batch_id)
            if batch_id == 1:
                if second.location != query.location:
                    shutil.copytree(query.location, second.location)
                first = query.spark.streams.get(
                    frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
                )
                running.append(pool.submit(second.run))
                soon(lambda: not first.isActive)
            write(frame, batch_id)

        for n in range(4):
            query.feed(n)
        with ThreadPoolExecutor(1) as pool:
            running = list[Future[None]]()
            query.run(start_again)
        running[0].result()
        assert batches == [0, 1]
        assert query.content() == [0, 1, 2, 3]

    def test_checkpoint_without_its_newest_entries_is_refused_with_both_plans(self, query: Query) -> None:
        """The checkpoint is as after a power cut, or from a backup: the batch now has another file."""
        query.feed_and_run(0)
        query.feed_and_run(1)
        planned = committed(query.log_dir)[1]["plan"]
        query.forget_batch(1)
        with pytest.raises(StreamingQueryException, match=rf"{planned}, but batch 1 has another plan in .*offsets/1"):
            query.feed_and_run(2)
        assert query.content() == [0, 1]

    def test_checkpoint_several_batches_old_is_refused(self, query: Query) -> None:
        query.feed_and_run(0)
        shutil.copytree(query.checkpoint, str(query.checkpoint) + ".old")
        for n in (1, 2, 3):
            query.feed_and_run(n)
        shutil.rmtree(query.checkpoint)
        os.rename(str(query.checkpoint) + ".old", query.checkpoint)
        with pytest.raises(StreamingQueryException, match=r"has batches up to 3 of .* but batch 1 has another plan"):
            query.feed_and_run(4)
        assert query.content() == [0, 1, 2, 3]

    def test_batch_is_not_skipped_for_an_offset_without_the_digest_of_its_plan(self, query: Query) -> None:
        query.feed_and_run(0)
        offset, metadata = committed(query.log_dir)
        del metadata["plan"]
        with LogManager.open(query.log_dir) as manager:
            GroupOffsets(manager).commit("app", {("__sink.t", 0): CommittedOffset(offset, json.dumps(metadata))})
        shutil.rmtree(query.checkpoint / "commitlog")
        query.forget_batch(0)
        with pytest.raises(StreamingQueryException, match=r"has no digest of the plan.*Skipping batch 0 might lose"):
            query.feed_and_run(1)
        assert query.content() == [0]

    def test_plan_is_known_on_a_file_system_of_hadoop_too(self, query: Query) -> None:
        """No note is written on such a file system, since nothing there has to be synced."""
        query.spark.conf.set("fs.viewfs.mounttable.m.link./c", query.checkpoint.parent.absolute().as_uri())
        query.location = "viewfs://m/c/checkpoint"
        query.feed_and_run(0)
        query.feed_and_run(1)
        query.forget_batch(1)
        with pytest.raises(
            StreamingQueryException, match=r"batch 1 has another plan in viewfs://m/c/checkpoint/offsets/1"
        ):
            query.feed_and_run(2)
        assert not (query.checkpoint / "commitlog").exists()

    def test_batches_for_which_the_sink_was_not_called_are_no_gap(self, query: Query) -> None:
        write = query.sink()
        for n in range(4):
            query.feed(n)
            query.run(lambda frame, batch: write(frame, batch) if batch % 2 else None)
        assert query.content() == [1, 3]

    def test_refused_batch_that_its_function_skipped_is_no_gap(self, query: Query) -> None:
        write = query.sink(configs={"cleanup.policy": "compact"})

        def write_or_pass_over(frame: DataFrame, batch_id: int) -> None:
            with suppress(InvalidRecordError):
                write(frame.withColumn("key", F.when(F.lit(batch_id != 1), F.lit("k"))), batch_id)

        for n in range(3):
            query.feed(n)
        query.run(write_or_pass_over)
        assert query.content() == [0, 2]

    def test_second_write_of_a_batch_is_refused_in_every_further_run_too(self, query: Query) -> None:
        write = query.sink()

        def halves(frame: DataFrame, batch_id: int) -> None:
            write(frame.where("value % 2 = 0"), batch_id)
            write(frame.where("value % 2 = 1"), batch_id)

        query.feed(0, 1)
        for _ in range(3):
            with pytest.raises(StreamingQueryException, match="batch 0 was already written to topic t in this run"):
                query.run(halves)
            assert query.content() == [0]

        others = query.sink(app_id="others")
        query.run(lambda frame, n: [write(frame.where("value % 2 = 0"), n), others(frame.where("value % 2 = 1"), n)])
        assert query.content() == [0, 1]

    def test_function_may_number_its_writes_itself(self, query: Query) -> None:
        write = query.sink()

        def halves(frame: DataFrame, batch_id: int) -> None:
            write(frame.where("value % 2 = 0"), 2 * batch_id)
            write(frame.where("value % 2 = 1"), 2 * batch_id + 1)

        for n in (0, 2, 4):
            query.feed(n, n + 1)
            query.run(halves)
            (query.checkpoint / "commits" / str(n // 2)).unlink()
            (query.checkpoint / "commits" / f".{n // 2}.crc").unlink()
            query.run(halves)
        assert query.content() == [0, 1, 2, 3, 4, 5]

    def test_checkpoint_at_a_path_with_signs_that_addresses_quote(self, query: Query) -> None:
        query.location = str(query.checkpoint) + " 100%25 é"
        query.feed_and_run(0)
        query.feed_and_run(1)
        assert [name for name in os.listdir(query.location) if name == "commitlog"]


@pytest.fixture(params=["false", "true"], ids=["offsets of 32 bits", "offsets of 64 bits"])
def offset_bits(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """The width of offsets in what Spark sends."""
    with settings(spark, {"spark.sql.execution.arrow.useLargeVarTypes": request.param}):
        yield


@pytest.mark.usefixtures("offset_bits")
def test_bytes_that_are_not_text_are_not_changed(spark: SparkSession, log_dir: str) -> None:
    """In good rows and in bad ones, however wide the offsets are."""
    octets = bytes(range(256)) + b"\xc3\x28\xed\xa0\x80"
    rows = [(octets, octets[::-1], 0, [("h", octets)]), (None, b"", 0, None), (octets[::-1], octets, 9, [])]
    schema = "key binary, value binary, partition int, headers array<struct<key: string, value: binary>>"
    sink(log_dir, badRecords="bad")(spark.createDataFrame(rows, schema).coalesce(1), 0)
    read = spark.read.format("commitlog").option("includeHeaders", "true")
    good = read.option("subscribe", "t").load(log_dir).collect()
    assert [(row.key, row.value) for row in good] == [(octets, octets[::-1]), (None, b"")]
    assert [(header.key, header.value) for header in good[0].headers] == [("h", octets)]
    (bad,) = read.option("subscribe", "bad").load(log_dir).collect()
    assert (bad.key, bad.value) == (octets[::-1], octets)


# A row of each kind that cannot be written, the settings under which it cannot, and the error.
BAD_ROWS = [
    pytest.param(
        "'k' as key, repeat('x', 2000) as value",
        {"configs": {"max.message.bytes": "1000"}},
        r"alone makes a batch of 2071 bytes, but max\.message\.bytes allows 1000",
        id="too large",
    ),
    pytest.param(
        "cast(null as string) as key, 'v' as value",
        {"configs": {"cleanup.policy": "compact"}},
        "the topic is compacted and takes no record without a key",
        id="no key",
    ),
    pytest.param(
        "'k' as key, 'v' as value, 7 as partition",
        {},
        "partition 7: column partition is 7, but the topic has partitions 0 to 1",
        id="partition",
    ),
    pytest.param(
        "'k' as key, 'v' as value, cast(null as int) as partition",
        {"producer": {"partitioner.class": "column"}},
        "column partition is null",
        id="no partition",
    ),
    pytest.param(
        "'k' as key, 'v' as value, timestamp'2001-01-01' as timestamp",
        {"configs": {"message.timestamp.before.max.ms": "3600000"}},
        "its timestamp 978307200000 lies outside",
        id="time",
    ),
    pytest.param(
        "'k' as key, 'v' as value, array(struct(cast(null as string) as key, cast('h' as binary) as value)) as headers",
        {},
        "a header has no key",
        id="header",
    ),
]


class TestRowsThatCannotBeWritten:
    """One bad row among good ones."""

    def rows(self, spark: SparkSession, columns: str) -> DataFrame:
        bad = spark.sql(f"select {columns}")
        extra = {"partition": "id % 2", "timestamp": "now()", "headers": "null"}
        good = ["'k' as key", "string(id) as value", *(f"{extra[c]} as {c}" for c in bad.columns if c in extra)]
        good = [
            f"cast({each.rsplit(' as ', 1)[0]} as {bad.schema[i].dataType.simpleString()}) as {bad.columns[i]}"
            for i, each in enumerate(good)
        ]
        return spark.range(10).selectExpr(*good).union(bad).coalesce(1)

    @pytest.mark.parametrize(("columns", "more", "told"), BAD_ROWS)
    def test_query_fails_names_the_row_and_nothing_is_seen(
        self, spark: SparkSession, log_dir: str, columns: str, more: dict[str, object], told: str
    ) -> None:
        with pytest.raises(InvalidRecordError, match=rf"^row 10 of task 0 cannot be written to topic t\b.*{told}"):
            sink(log_dir, partitions=2, **more)(self.rows(spark, columns), 0)
        assert values(spark, log_dir) == []
        assert sink(log_dir, partitions=2, **more)(self.rows(spark, columns).limit(10), 0)  # the next try goes well
        assert values(spark, log_dir) == list(range(10))

    @pytest.mark.parametrize(("columns", "more", "told"), BAD_ROWS)
    def test_with_a_topic_for_them_they_are_written_there_with_the_reason(
        self, spark: SparkSession, log_dir: str, columns: str, more: dict[str, object], told: str
    ) -> None:
        sink(log_dir, partitions=2, badRecords="bad", **more)(self.rows(spark, columns), 7)
        assert values(spark, log_dir) == list(range(10))
        read = spark.read.format("commitlog").option("subscribe", "bad").option("includeHeaders", "true")
        (row,) = read.load(log_dir).collect()
        headers = {header.key: header.value if header.value is None else bytes(header.value) for header in row.headers}
        assert row.value == (b"x" * 2000 if "repeat" in columns else b"v")
        assert row.key == (None if columns.startswith("cast(null") else b"k")
        assert re.search(told.removeprefix("partition 7: "), headers["commitlog.error.reason"].decode())
        assert headers["commitlog.error.topic"] == b"t"
        assert (headers["commitlog.error.txnAppId"], headers["commitlog.error.txnVersion"]) == (b"app", b"7")
        assert (headers["commitlog.error.task"], headers["commitlog.error.row"]) == (b"0", b"10")
        assert headers.get("commitlog.error.timestamp") in (None, b"978307200000")
        assert headers.get("?") == (b"h" if "headers" in columns else None)

    def test_row_that_the_topic_for_them_refuses_too_fails_the_query(self, spark: SparkSession, log_dir: str) -> None:
        with LogManager.open(log_dir) as manager:
            manager.create_topic("bad", partitions=1, configs={"max.message.bytes": "500"})
        rows = self.rows(spark, "'k' as key, repeat('x', 2000) as value")
        with pytest.raises(InvalidRecordError, match=r"alone makes .* nor to topic bad: alone makes a batch of"):
            sink(log_dir, badRecords="bad", configs={"max.message.bytes": "1000"})(rows, 0)
        assert values(spark, log_dir) == []


class TestSeveralTopics:
    """Rows that name their topics."""

    def rows(self, spark: SparkSession, *topics: str | None) -> DataFrame:
        return spark.createDataFrame(
            [(t, str(i)) for i, t in enumerate(topics)], "topic string, value string"
        ).coalesce(1)

    def test_each_row_is_written_to_its_topic_in_one_transaction(self, spark: SparkSession, log_dir: str) -> None:
        write = sink(log_dir, topic=None, topics="a,b", partitions=2)
        written = write(self.rows(spark, "a", "b", "b", "a", "b"), 0)
        assert values(spark, log_dir, "a") == [0, 3]
        assert values(spark, log_dir, "b") == [1, 2, 4]
        assert {each.topic for each in written} == {"a", "b"}
        assert committed(log_dir, topic="a")[0] == committed(log_dir, topic="b")[0] == 1

    def test_row_with_an_unlisted_topic_cannot_be_written(self, spark: SparkSession, log_dir: str) -> None:
        for wrong, told in (("c", "topic c: it is not one of a, b"), (None, "column topic is null")):
            with pytest.raises(InvalidRecordError, match=f"row 1 of task 0.*{told}"):
                sink(log_dir, topic=None, topics=["a", "b"])(self.rows(spark, "a", wrong), 0)
        assert values(spark, log_dir, "a") == []

    def test_topic_added_at_a_restart_gets_its_rows_of_a_batch_that_the_others_have(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        keyless = F.expr("if(value = '4', array(named_struct('key', string(null), 'value', binary('v'))), null)")
        rows = self.rows(spark, "a", "b", "a", None, "a").withColumn("headers", keyless)
        sink(log_dir, topic=None, topics="a", badRecords="bad")(rows, 0)
        sink(log_dir, topic=None, topics="a,b", badRecords="bad")(rows, 0)
        assert values(spark, log_dir, "a") == [0, 2]
        assert values(spark, log_dir, "b") == [1]
        assert values(spark, log_dir, "bad") == [1, 3, 4]  # what the first run made of it

    def test_two_sinks_of_one_name_write_one_after_the_other(self, spark: SparkSession, log_dir: str) -> None:
        one, two = sink(log_dir, topic="a"), sink(log_dir, topic="b")
        for batch in range(2):
            one(numbers(spark, batch * 10, batch * 10 + 10), batch)
            two(numbers(spark, batch * 10, batch * 10 + 10), batch)
        assert values(spark, log_dir, "a") == values(spark, log_dir, "b") == list(range(20))

    def test_a_row_that_one_of_two_sinks_of_a_name_refuses_does_not_stop_the_other(
        self, spark: SparkSession, tmp_path: Path, log_dir: str
    ) -> None:
        one, two = sink(log_dir, topic="a"), sink(log_dir, topic="b")

        def both(frame: DataFrame, batch_id: int) -> None:
            one(frame, batch_id)
            with suppress(InvalidRecordError):
                two(frame.withColumn("partition", F.lit(7 if batch_id == 1 else 0)), batch_id)

        query = Query(spark, tmp_path, log_dir)
        for number in range(3):
            query.feed(number)
        query.run(both)
        assert values(spark, log_dir, "a") == [0, 1, 2]
        assert values(spark, log_dir, "b") == [0, 2]


class TestProducerSettings:
    def partitions(self, spark: SparkSession, log_dir: str) -> list[int]:
        frame = spark.read.format("commitlog").option("subscribe", "t").load(log_dir)
        return [row.partition for row in sorted(frame.collect(), key=lambda row: int(bytes(row.value)))]

    def test_round_robin_changes_partition_with_each_row_whatever_the_key(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        settings = {"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}
        sink(log_dir, partitions=3, producer=settings)(numbers(spark, 0, 9).coalesce(1), 0)
        assert self.partitions(spark, log_dir) == [0, 1, 2] * 3

    def test_codec_of_the_producer_counts_if_the_topic_leaves_it_open(self, spark: SparkSession, log_dir: str) -> None:
        settings = {"compression.type": "zstd", "compression.zstd.level": "1"}
        sink(log_dir, producer=settings)(numbers(spark, 0, 100), 0)
        sink(log_dir, topic="own", producer=settings, configs={"compression.type": "gzip"})(numbers(spark, 0, 100), 0)
        found = {}
        for topic in ("t", "own"):
            path = Path(log_dir) / f"{topic}-0" / "00000000000000000000.log"
            lines = [line for lines in dump_file(str(path), DumpOptions(), DumpFindings()) for line in lines]
            found[topic] = re.findall(r"compresscodec: (\w+)", "".join(lines))[0]
        assert found == {"t": "zstd", "own": "gzip"}

    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            ({"acks": "all"}, "unknown producer setting 'acks'"),
            ({"batch.sise": "1"}, "did you mean 'batch.size'"),
            ({"compression.type": "producer"}, "must be one of none, gzip, snappy, lz4, zstd"),
            ({"compression.type": "zstd", "compression.zstd.level": "99"}, "compression.zstd.level"),
            ({"partitioner.class": "Mine"}, "partitioner.class = 'Mine'"),
        ],
    )
    def test_wrong_ones_are_named(self, log_dir: str, settings: dict[str, str], told: str) -> None:
        with pytest.raises(InvalidConfigError, match=told):
            sink(log_dir, producer=settings)


class TestRefusals:
    """Each error names its cause, and no record is written."""

    @pytest.mark.parametrize(
        ("columns", "told"),
        [
            pytest.param("'a' as vlaue", "no column 'value' \\(did you mean 'vlaue'", id="value missing"),
            pytest.param("1 as value", "column 'value' must be binary or string, not int", id="value of another type"),
            pytest.param("1 as key, 'a' as value", "column 'key' must be", id="key of another type"),
            pytest.param(
                "'a' as value, 1L as partition", "'partition' must be int, not bigint", id="partition too wide"
            ),
            pytest.param("'a' as value, 'now' as timestamp", "'timestamp' must be timestamp, not string", id="time"),
            pytest.param("'a' as value, map('k', 'v') as headers", "'headers' must be array<struct", id="headers"),
        ],
    )
    def test_columns(self, spark: SparkSession, log_dir: str, columns: str, told: str) -> None:
        with pytest.raises(InvalidConfigError, match=f"topic t: .*{told}"):
            sink(log_dir)(spark.sql(f"select {columns}"), 0)
        with LogManager.open(log_dir) as manager:
            assert "t" not in manager.topics()

    @pytest.mark.parametrize(
        ("more", "told"),
        [
            pytest.param({"configs": {"retention.mss": "1"}}, "retention.mss.*retention.ms", id="unknown config"),
            pytest.param({"configs": {"retention.ms": "soon"}}, "retention.ms = 'soon'", id="bad value"),
            pytest.param({"producer": {"batch.size": "0"}}, "batch.size = '0'", id="batch size"),
            pytest.param({"partitions": 0}, "it must be 1 or more", id="no partition"),
            pytest.param({"topics": "a,b"}, "give either topic, .* or topics", id="topic and topics"),
            pytest.param({"topic": None, "topics": " , "}, "topics names no topic", id="no topic"),
            pytest.param({"badRecords": "t"}, "would refuse them again", id="bad records where they came from"),
            pytest.param({"configs": {"batch.size": "7"}}, "is a setting of the producer", id="of the producer"),
        ],
    )
    def test_settings_that_are_wrong_in_themselves(self, log_dir: str, more: dict[str, object], told: str) -> None:
        with pytest.raises(InvalidConfigError, match=told):
            sink(log_dir, **more)

    @pytest.mark.parametrize(
        ("more", "told"),
        [
            pytest.param({"partitions": 5}, "has 2 partitions, but 5 were requested", id="partitions"),
            pytest.param(
                {"configs": {"retention.ms": "7"}}, "has retention.ms = 604800000, but 7 was requested", id="a setting"
            ),
        ],
    )
    def test_topic_with_other_settings(
        self, spark: SparkSession, log_dir: str, more: dict[str, object], told: str
    ) -> None:
        sink(log_dir, partitions=2)(numbers(spark, 0, 10), 0)
        with pytest.raises(TopicExistsError, match=told):
            sink(log_dir, **more)(numbers(spark, 10, 20), 1)
        assert values(spark, log_dir) == list(range(10))

    def test_speculation(self, spark: SparkSession, log_dir: str) -> None:
        rows = numbers(spark, 0, 10)
        spark.conf._jconf.sqlConf().setConfString("spark.speculation", "true")  # no session's to set, but to see
        try:
            with pytest.raises(InvalidConfigError, match=r"spark\.speculation=true"):
                sink(log_dir)(rows, 0)
        finally:
            spark.conf._jconf.sqlConf().unsetConf("spark.speculation")

    def test_no_name_outside_a_streaming_query(self, spark: SparkSession, log_dir: str) -> None:
        with pytest.raises(InvalidConfigError, match="txnAppId must be given"):
            sink(log_dir, app_id=None)(numbers(spark, 0, 10), 0)

    def test_directory_that_a_broker_holds_which_may_still_be_read(self, spark: SparkSession, log_dir: str) -> None:
        with LogManager.open(log_dir, create=True) as manager:
            manager.create_topic("t", partitions=1)
        command = [sys.executable, "-c", BROKER, f"{log_dir}/.lock"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as held:
            assert held.stdout is not None
            assert held.stdout.readline() == "held\n"
            with pytest.raises(LogDirLockedError, match=log_dir):
                sink(log_dir)(numbers(spark, 0, 10), 0)
            assert values(spark, log_dir) == []
            held.communicate("\n")
