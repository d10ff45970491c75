from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyspark_commitlog.pipeline.sink import CommitLogSink, commitlog_sink
from pyspark_commitlog.storage import (
    GroupOffsets,
    InvalidConfigError,
    LogDirLockedError,
    LogManager,
    TopicExistsError,
)

# Holds the file of its argument as a broker holds .lock (Java's FileChannel.tryLock is lockf), until a line comes.
BROKER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
input()
"""


def sink(log_dir: str, *, topic: str = "t", app_id: str | None = "app", **more: object) -> CommitLogSink:
    return commitlog_sink(topic=topic, log_dir=log_dir, txnAppId=app_id, **more)  # type: ignore[arg-type]


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


def test_batches_are_appended_and_told_partition_by_partition(spark: SparkSession, log_dir: str) -> None:
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


def test_empty_batch_counts_as_written(spark: SparkSession, log_dir: str) -> None:
    assert sink(log_dir)(numbers(spark, 0, 0), 0) == []
    assert committed(log_dir)[0] == 1
    assert values(spark, log_dir) == []


def test_two_groups_write_to_a_topic_side_by_side(spark: SparkSession, log_dir: str) -> None:
    sink(log_dir, app_id="one")(numbers(spark, 0, 10), 0)
    sink(log_dir, app_id="two")(numbers(spark, 10, 20), 0)
    assert values(spark, log_dir) == list(range(20))


def test_large_table_goes_through_several_arrow_batches_and_record_batches(spark: SparkSession, log_dir: str) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    try:
        sink(log_dir, partitions=2, configs={"batch.size": "4096"})(numbers(spark, 0, 20_000), 0)
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
    assert values(spark, log_dir) == list(range(20_000))


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_topic_keeps_its_batches_in_the_codec_asked_for(spark: SparkSession, log_dir: str, codec: str) -> None:
    sink(log_dir, configs={"compression.type": codec})(numbers(spark, 0, 1000), 0)
    assert values(spark, log_dir) == list(range(1000))


def test_topic_deleted_and_made_again_under_a_long_lived_session_is_written_anew(
    spark: SparkSession, log_dir: str
) -> None:
    sink(log_dir)(numbers(spark, 0, 10), 0)
    os.rename(log_dir, log_dir + ".gone")
    sink(log_dir)(numbers(spark, 20, 30), 0)
    assert values(spark, log_dir) == list(range(20, 30))


class TestAsForeachBatch:
    """The sink in a streaming query, whose ids Spark gives."""

    def run(self, spark: SparkSession, tmp_path: Path, function: object, checkpoint: str = "checkpoint") -> None:
        stream = spark.readStream.schema("key string, value string").json(str(tmp_path / "input"))
        writer = stream.writeStream.foreachBatch(function)  # type: ignore[arg-type]
        query = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    def put(self, spark: SparkSession, tmp_path: Path, start: int, end: int) -> None:
        numbers(spark, start, end).coalesce(1).write.mode("append").json(str(tmp_path / "input"))

    def test_query_goes_on_where_it_stopped(self, spark: SparkSession, tmp_path: Path, log_dir: str) -> None:
        for start in (0, 50):
            self.put(spark, tmp_path, start, start + 50)
            self.run(spark, tmp_path, sink(log_dir, app_id=None))
        assert values(spark, log_dir) == list(range(100))

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
        with pytest.raises(StreamingQueryException, match="was written to topic t in this very run"):
            self.run(spark, tmp_path, twice)


class TestRefusals:
    """Each names the thing, and leaves no record."""

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
        assert not Path(log_dir).exists()

    @pytest.mark.parametrize(
        ("more", "told"),
        [
            pytest.param({"configs": {"retention.mss": "1"}}, "retention.mss.*retention.ms", id="unknown config"),
            pytest.param({"configs": {"retention.ms": "soon"}}, "retention.ms = 'soon'", id="bad value"),
            pytest.param({"configs": {"batch.size": "0"}}, "batch.size = '0'", id="batch size"),
            pytest.param({"partitions": 0}, "at least one partition", id="no partition"),
        ],
    )
    def test_settings_that_are_wrong_in_themselves(self, log_dir: str, more: dict[str, object], told: str) -> None:
        with pytest.raises(InvalidConfigError, match=told):
            sink(log_dir, **more)

    @pytest.mark.parametrize(
        ("more", "told"),
        [
            pytest.param({"partitions": 5}, "2 partitions, 5", id="partitions"),
            pytest.param({"configs": {"retention.ms": "7"}}, "retention.ms = 604800000, 7", id="a setting"),
        ],
    )
    def test_topic_with_other_settings(
        self, spark: SparkSession, log_dir: str, more: dict[str, object], told: str
    ) -> None:
        sink(log_dir, partitions=2)(numbers(spark, 0, 10), 0)
        with pytest.raises(TopicExistsError, match=told):
            sink(log_dir, **more)(numbers(spark, 10, 20), 1)
        assert values(spark, log_dir) == list(range(10))

    def test_record_above_max_message_bytes(self, spark: SparkSession, log_dir: str) -> None:
        rows = numbers(spark, 0, 10).union(spark.sql("select 'k', repeat('x', 2000)")).coalesce(1)
        with pytest.raises(PySparkException, match=r"RecordTooLargeError.*max\.message\.bytes"):
            sink(log_dir, partitions=2, configs={"max.message.bytes": "1000"})(rows, 0)
        assert values(spark, log_dir) == []

    def test_partition_the_topic_does_not_have(self, spark: SparkSession, log_dir: str) -> None:
        with pytest.raises(PySparkException, match="column partition holds 2, and the topic has the partitions 0 to 1"):
            sink(log_dir, partitions=2)(spark.sql("select 'a' as value, 2 as partition"), 0)
        assert values(spark, log_dir) == []

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
