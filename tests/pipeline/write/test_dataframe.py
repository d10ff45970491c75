"""``df.write.format("commitlog")``: what is written, skipped and refused, and the state after a failure."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F

from pyspark_commitlog.pipeline.write.dataframe import WriteOptions
from pyspark_commitlog.storage import Codec, InvalidConfigError, LogManager, alter_broker_settings
from tests.pipeline.write.both_ends import log_of_either_end

# With Delta's jar, its own error comes first.
BOTH = "Both txnVersion and txnAppId|must be given together"


# What has no counterpart on an object store, by test; what is there instead is tested in test_on_bucket.py.
OF_DIRECTORIES = {
    "test_the_settings_for_all_topics_of_a_directory_reach_a_topic_that_has_none_of_its_own": "a broker's settings",
    "test_write_after_an_older_log_was_restored_but_for_a_partition_is_refused": "there are no files of a partition",
    "test_write_moves_from_sparks_kafka_sink_with_its_options": "looks into a .log file",
    "test_write_that_another_of_its_name_overtook_fails_and_is_not_seen": "takes the name by its lock",
    "test_stream_is_refused_and_the_line_that_works_is_shown": "writeStream.format writes to an object store",
}
log_dir = log_of_either_end(OF_DIRECTORIES)


def numbers(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end).select(
        (F.col("id") % 7).cast("string").alias("key"), F.col("id").cast("string").alias("value")
    )


def write(frame: DataFrame, log_dir: str, **options: object) -> None:
    frame.write.format("commitlog").mode("append").options(**{"topic": "t", **options}).save(log_dir)


def values(spark: SparkSession, log_dir: str, topic: str = "t") -> list[int]:
    frame = spark.read.format("commitlog").option("subscribe", topic).load(log_dir)
    return sorted(int(bytes(row.value)) for row in frame.collect())


def test_rows_are_written_with_their_columns_to_a_topic_created_as_requested(spark: SparkSession, log_dir: str) -> None:
    frame = spark.sql(
        "select 'k' as key, cast('1' as binary) as value, timestamp'2020-01-01' as timestamp, "
        "2 as partition, array(struct('h' as key, cast('x' as binary) as value)) as headers, 7 as more"
    )
    write(frame, log_dir, partitions=3, configs='{"retention.ms": -1, "cleanup.policy": "delete"}')
    (row,) = (
        spark.read.format("commitlog").option("subscribe", "t").option("includeHeaders", True).load(log_dir).collect()
    )
    assert (bytes(row.key), bytes(row.value), row.partition) == (b"k", b"1", 2)
    assert row.timestamp.year == 2020
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("h", b"x")]
    with LogManager.open(log_dir) as manager:
        assert dict(manager.topic("t").configs) == {"retention.ms": "-1", "cleanup.policy": "delete"}
        assert len(manager.topic("t").partitions) == 3


def test_the_settings_for_all_topics_of_a_directory_reach_a_topic_that_has_none_of_its_own(
    spark: SparkSession, log_dir: str
) -> None:
    with LogManager.open(log_dir) as manager:
        sizes = {"log.segment.bytes": "1000", "message.max.bytes": "1000", "compression.type": "zstd"}
        alter_broker_settings(manager, sizes)
        manager.create_topic("own", partitions=1, configs={"segment.bytes": "1000000", "compression.type": "lz4"})
    for topic in ("t", "own"):
        for start in (0, 100, 200):
            write(numbers(spark, start, start + 100), log_dir, topic=topic, partitions=1)
        with pytest.raises(PySparkException, match=r"max\.message\.bytes allows 1000"):
            write(spark.sql("select string(uuid()) as value from range(1)").select(random_text()), log_dir, topic=topic)
    assert len(list(Path(log_dir, "t-0").glob("*.log"))) > 1
    assert len(list(Path(log_dir, "own-0").glob("*.log"))) == 1
    with LogManager.open(log_dir) as manager:
        codecs = {topic: codecs_in(manager, topic) for topic in ("t", "own")}
    assert codecs == {"t": {Codec.ZSTD}, "own": {Codec.LZ4}}


def codecs_in(manager: LogManager, topic: str) -> set[int]:
    """The codecs of a partition's batches of rows."""
    headers = [window.headers for segment in manager.open_reader(topic, 0).segments for window in segment.batches()]
    return {int(codec) for each in headers for codec in each.codec[~each.is_control]}


def random_text() -> Column:
    """A value of 4,000 characters that no codec makes much smaller."""
    return F.concat_ws("", *[F.sha2(F.rand(n).cast("string"), 256) for n in range(63)]).alias("value")


def test_write_with_a_version_is_skipped_when_repeated_and_one_without_is_done_again(
    spark: SparkSession, log_dir: str
) -> None:
    for version in (3, 3, 2, 4):
        write(numbers(spark, version * 10, version * 10 + 5), log_dir, txnAppId="nightly", txnVersion=version)
    assert values(spark, log_dir) == [30, 31, 32, 33, 34, 40, 41, 42, 43, 44]
    for _ in range(2):
        write(numbers(spark, 0, 1), log_dir)
    assert values(spark, log_dir)[:2] == [0, 0]


def test_write_after_an_older_log_was_restored_but_for_a_partition_is_refused(
    spark: SparkSession, log_dir: str, tmp_path: Path
) -> None:
    copy = tmp_path / "older"
    for version in range(2):
        write(numbers(spark, version, version + 1), log_dir, txnAppId="nightly", txnVersion=version, partitions=1)
        if version == 0:
            shutil.copytree(log_dir, copy)
    shutil.rmtree(copy / "t-0")
    shutil.copytree(Path(log_dir, "t-0"), copy / "t-0")
    with pytest.raises(PySparkException, match=r"partition 0 of topic t has transactions .* up to epoch \d"):
        write(numbers(spark, 1, 2), str(copy), txnAppId="nightly", txnVersion=1)


def test_rows_name_their_topics_and_bad_ones_go_to_theirs(spark: SparkSession, log_dir: str) -> None:
    frame = spark.createDataFrame([("a", "1"), ("b", "2"), ("c", "3")], "topic string, value string")
    options = {"topics": "a, b", "badRecords": "bad", "kafka.compression.type": "zstd", "batch.size": "1000"}
    frame.write.format("commitlog").mode("append").options(**options).save(log_dir)
    assert [values(spark, log_dir, topic) for topic in ("a", "b", "bad")] == [[1], [2], [3]]


def test_write_moves_from_sparks_kafka_sink_with_its_options(spark: SparkSession, log_dir: str) -> None:
    frame = spark.sql("select '7' as value, array(struct('h' as key, cast('x' as binary) as value)) as headers")
    options = {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.compression.type": "zstd",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.acks": "all",
        "includeHeaders": "true",
    }
    write(frame, log_dir, **options)
    (row,) = (
        spark.read.format("commitlog").option("subscribe", "t").option("includeHeaders", True).load(log_dir).collect()
    )
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("h", b"x")]
    data = (Path(log_dir) / "t-0" / "00000000000000000000.log").read_bytes()
    assert data[22] & 7 == Codec.ZSTD  # the low bits of the attributes


def test_failed_task_leaves_nothing_visible_and_the_next_write_succeeds(spark: SparkSession, log_dir: str) -> None:
    def fail_late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if b"150" in batch.column("value").to_pylist():
                raise RuntimeError("this task fails")

    rows = numbers(spark, 0, 200).selectExpr("cast(key as binary) as key", "cast(value as binary) as value")
    with pytest.raises(PySparkException, match="this task fails"):
        write(rows.mapInArrow(fail_late, rows.schema), log_dir)
    assert values(spark, log_dir) == []
    assert open_transactions(log_dir) == {}
    write(rows, log_dir)
    assert values(spark, log_dir) == list(range(200))


def open_transactions(log_dir: str) -> dict[int, int]:
    with LogManager.open(log_dir) as manager, manager.open_reader("t", 0) as log:
        return dict(log.producers.ongoing)


def test_write_that_another_of_its_name_overtook_fails_and_is_not_seen(spark: SparkSession, log_dir: str) -> None:
    def overtake(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        with LogManager.open(log_dir) as manager:
            from pyspark_commitlog.storage import TransactionCoordinator  # noqa: PLC0415  in the worker

            TransactionCoordinator.open(manager, "nightly").close()

    rows = numbers(spark, 0, 10).coalesce(1)
    with pytest.raises(PySparkException, match="is not ongoing"):
        write(rows.mapInArrow(overtake, rows.schema), log_dir, txnAppId="nightly", txnVersion=0)
    assert values(spark, log_dir) == []
    write(rows, log_dir, txnAppId="nightly", txnVersion=0)
    assert values(spark, log_dir) == list(range(10))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"topics": "a"}, "give either topic", id="topic and topics"),
        pytest.param({"tpic": "a"}, "unknown option 'tpic' .did you mean 'topic'", id="unknown"),
        pytest.param({"partitions": "two"}, "option partitions is 'two'", id="partitions"),
        pytest.param({"configs": "[1]"}, "option configs is .* must be a JSON object", id="configs"),
        pytest.param({"configs": '{"retention.mss": 1}'}, "retention.mss", id="a config"),
        pytest.param({"txnAppId": "a"}, BOTH, id="app id alone"),
        pytest.param({"txnVersion": "1"}, BOTH, id="version alone"),
        pytest.param({"txnAppId": "a", "txnVersion": str(2**63 - 1)}, f"from 0 to {2**63 - 2}", id="version too large"),
        pytest.param(
            {"txnAppId": "é" * 20_000, "txnVersion": "1"}, "txnAppId .* has 40,000 bytes", id="app id too long"
        ),
        pytest.param({"kafka.partitioner.class": "Mine"}, "partitioner.class = 'Mine'", id="producer"),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_created(
    spark: SparkSession, log_dir: str, options: dict[str, str], told: str
) -> None:
    with pytest.raises(PySparkException, match=told):
        write(numbers(spark, 0, 1), log_dir, **options)
    with LogManager.open(log_dir) as manager:
        assert "t" not in manager.topics()


def test_a_write_without_any_option_may_be_to_a_table_of_the_catalog() -> None:
    with pytest.raises(InvalidConfigError, match=r"path is missing: use .save.*is no table.*df.write.format"):
        WriteOptions.parse({})
    with pytest.raises(InvalidConfigError, match=r"path is missing: use .save[^;]*$"):
        WriteOptions.parse({"topic": "t"})


def test_largest_version_and_longest_name_are_written_and_skipped(spark: SparkSession, log_dir: str) -> None:
    for _ in range(2):
        write(numbers(spark, 0, 5), log_dir, txnAppId="é" * 16_383 + "a", txnVersion=2**63 - 2)
    assert values(spark, log_dir) == list(range(5))


@pytest.mark.parametrize("mode", [None, "error", "ignore"])
def test_write_moved_from_kafkas_sink_without_its_mode_is_refused_with_the_mode_to_use(
    spark: SparkSession, log_dir: str, mode: str | None
) -> None:
    writer = numbers(spark, 0, 1).write.format("commitlog").mode(mode).option("topic", "t")
    with pytest.raises(PySparkException, match=r'cannot be written in the ".*" mode.*"Append"'):
        writer.option("kafka.bootstrap.servers", "b:9092").save(log_dir)


def test_write_moved_from_kafkas_sink_keeps_its_producers_options(spark: SparkSession, log_dir: str) -> None:
    given = {"bootstrap.servers": "b:9092", "acks": "all", "linger.ms": 5, "compression.type": "zstd"}
    write(numbers(spark, 0, 10), log_dir, includeHeaders=True, **{f"kafka.{name}": given[name] for name in given})
    with LogManager.open(log_dir) as manager:
        assert codecs_in(manager, "t") == {Codec.ZSTD}
    assert values(spark, log_dir) == list(range(10))


def test_overwrite_is_refused_with_the_reason(spark: SparkSession, log_dir: str) -> None:
    with pytest.raises(PySparkException, match="a log is only appended to"):
        numbers(spark, 0, 1).write.format("commitlog").mode("overwrite").option("topic", "t").save(log_dir)


def test_stream_is_refused_and_the_line_that_works_is_shown(spark: SparkSession, tmp_path: Path, log_dir: str) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("string(value) as value")
    writer = stream.writeStream.format("commitlog").option("topic", "t").option("path", log_dir)
    with pytest.raises(PySparkException, match=r"df\.writeStream\.foreachBatch\(commitlog_sink\(topic="):
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().processAllAvailable()
