"""Writing to an object store from Spark: the sink, ``df.write`` and ``writeStream``, on a real server.

For failures at every step, see publication/test_bucket.py; for random kills of everything, tests/torture.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.streaming import DataStreamWriter

from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink
from pyspark_commitlog.storage.bucket.proposals import claim_app
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.stores.remote import open_store
from pyspark_commitlog.storage.errors import InvalidConfigError, StoreAccessError
from tests.support.stores import content
from tests.support.stores.seaweed import KEY, SECRET

pytestmark = pytest.mark.slow


def numbers(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end).select(
        (F.col("id") % 7).cast("string").alias("key"), F.col("id").cast("string").alias("value")
    )


def values(url: str, topic: str = "t") -> list[int]:
    found = content.values(open_root(url), topic)
    return sorted(int(value or b"") for each in found.values() for value in each)


def write(frame: DataFrame, url: str, **options: object) -> None:
    frame.write.format("commitlog").mode("append").options(**{"topic": "t", **options}).save(url)


class Query:
    """A streaming query from text files to topic t."""

    def __init__(self, spark: SparkSession, directory: Path, url: str) -> None:
        self.spark, self.input, self.url = spark, directory / "input", url
        self.checkpoint = directory / "checkpoint"
        self.input.mkdir()

    def feed(self, *numbers: int) -> None:
        """Adds a file, which is a micro-batch."""
        path = self.input / f"{numbers[0]}"
        hidden = path.with_name(f".{path.name}")
        hidden.write_text("".join(f"{n}\n" for n in numbers))
        os.utime(hidden, (numbers[0], 1_700_000_000 + numbers[0]))  # Spark takes the older first
        hidden.rename(path)

    def stream(self) -> DataStreamWriter:
        frame = self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.input))
        return frame.writeStream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)

    def by_format(self, **options: Any) -> DataStreamWriter:
        return self.stream().format("commitlog").options(**{"topic": "t", "path": self.url, **options})

    def forget_commit(self, batch: int) -> None:
        """Makes the checkpoint that of a driver which died between the log's commit and Spark's."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path, bucket: str) -> Query:
    return Query(spark, tmp_path, bucket)


def run(writer: DataStreamWriter) -> None:
    writer.start().awaitTermination()


# --- foreachBatch


def test_a_query_writes_each_row_once_though_its_batches_are_replayed(query: Query) -> None:
    sink = commitlog_sink(topic="t", log_dir=query.url, partitions=3, configs={"retention.ms": "-1"})
    query.feed(0, 1, 2)
    query.feed(3, 4)
    run(query.stream().foreachBatch(sink))
    query.forget_commit(1)
    query.feed(5)
    run(query.stream().foreachBatch(sink))
    assert values(query.url) == [0, 1, 2, 3, 4, 5]
    state = open_root(query.url).state
    assert [(topic.name, topic.partitions, topic.configs) for topic in state.topics.values()] == [
        ("t", 3, {"retention.ms": "-1"})
    ]
    (app,) = state.groups
    assert state.groups[app]["__sink.t-0"].offset == 3


def objects(url: str) -> dict[str, bytes]:
    store = open_store(url)
    folders = ("commits", "checkpoints", "staged")
    keys = ["commitlog.json", *(facts.key for folder in folders for facts in store.list(folder))]
    return {key: store.get(key, limit=1 << 25) for key in keys}


def run_two_batches(query: Query) -> None:
    for number in (0, 1):
        query.feed(number)
        run(query.stream().foreachBatch(commitlog_sink(topic="t", log_dir=query.url, txnAppId="app")))
    query.feed(2)


@pytest.mark.parametrize("how", ["foreachBatch", pytest.param("format", marks=pytest.mark.only_all)])
def test_a_log_that_is_older_than_the_checkpoint_is_refused(query: Query, how: str) -> None:
    run_two_batches(query)
    before = objects(query.url)
    newest = max(key for key in before if key.startswith("commits/"))
    claim = f"commits/{int(newest.split('/')[1]) - 1:020}"
    open_store(query.url).delete([claim, newest])
    writer = query.by_format(txnAppId="app")
    if how == "foreachBatch":
        writer = query.stream().foreachBatch(commitlog_sink(topic="t", log_dir=query.url, txnAppId="app"))
    with pytest.raises(StreamingQueryException, match=r"that batch 1 of .* has batches up to 0"):
        run(writer)
    assert values(query.url) == [0]


@pytest.mark.parametrize(
    "how",
    [
        "foreachBatch",
        *(pytest.param(each, marks=pytest.mark.only_all) for each in ("format", "format, without a name")),
    ],
)
def test_a_missing_log_is_refused_and_none_is_made_in_its_place(query: Query, how: str) -> None:
    if how == "format, without a name":
        query.feed(0)
        query.feed(1)
        run(query.by_format())
        query.feed(2)
    else:
        run_two_batches(query)
    open_store(query.url).delete(list(objects(query.url)))
    writer = query.by_format(**({"txnAppId": "app"} if how == "format" else {}))
    if how == "foreachBatch":
        writer = query.stream().foreachBatch(commitlog_sink(topic="t", log_dir=query.url, txnAppId="app"))
    with pytest.raises(StreamingQueryException, match=r"that batch 1 of .* has no batch of it"):
        run(writer)
    assert [each.key for each in open_store(query.url).list("commits")] == []
    assert open_store(query.url).head("commitlog.json") is None


@pytest.mark.only_all
def test_a_log_that_was_copied_elsewhere_goes_on_there(query: Query) -> None:
    run_two_batches(query)
    elsewhere = open_store(f"{query.url}-elsewhere")
    for key, data in objects(query.url).items():
        elsewhere.put_new(key, data)
    query.url = elsewhere.url
    run(query.by_format(txnAppId="app"))
    assert values(query.url) == [0, 1, 2]


def test_no_secret_is_shown_anywhere(
    query: Query, spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, "py4j")  # else it logs what this test passes
    shown = []
    query.feed(1)
    query.feed(2)
    started = query.by_format(txnAppId="app").start()
    started.awaitTermination()
    shown += [str(started.lastProgress), str(started.exception())]
    with pytest.raises(PySparkException) as raised:
        write(numbers(spark, 0, 1), f"s3://{KEY}:{SECRET}@logs/test")
    shown += [str(raised.value).replace("s3://…@logs", "")]
    with pytest.raises(PySparkException) as raised:
        write(numbers(spark, 0, 1), query.url, aws_secret_access_key=SECRET)
    shown += [str(raised.value)]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another that is wrong")
    from pyspark_commitlog.storage.bucket.stores import remote  # noqa: PLC0415

    monkeypatch.setattr(remote, "_CLIENTS", remote._Clients())
    with pytest.raises(StoreAccessError) as refused:
        open_root(f"{query.url}/none")
    shown += [str(refused.value), caplog.text]
    for text in shown:
        assert SECRET not in text
        assert KEY not in text
        assert "another that is wrong" not in text


@pytest.mark.parametrize("url", [f"s3://{KEY}:{SECRET}@logs/t", f"s3://logs/t?key={SECRET}", "s3://", "s3://logs/a//b"])
def test_a_url_that_is_none_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(InvalidConfigError) as raised:
        commitlog_sink(topic="t", log_dir=url)
    assert SECRET not in str(raised.value)


# --- df.write


def test_a_dataframe_is_written_once_under_its_version(spark: SparkSession, bucket: str) -> None:
    frame = numbers(spark, 0, 10).repartition(3)
    for version in (0, 0, 1):
        write(frame, bucket, partitions=2, txnAppId="app", txnVersion=version)
    assert values(bucket) == sorted([*range(10)] * 2)
    write(frame, bucket)
    assert values(bucket) == sorted([*range(10)] * 3)


def test_a_write_whose_task_fails_shows_nothing(spark: SparkSession, bucket: str) -> None:
    write(numbers(spark, 0, 1), bucket)
    broken = numbers(spark, 0, 100).withColumn(
        "value", F.when(F.col("value") == "99", F.raise_error(F.lit("broken"))).otherwise(F.col("value"))
    )
    with pytest.raises(PySparkException, match="broken"):
        write(broken, bucket)
    with pytest.raises(PySparkException, match="cannot be written to topic t, partition 1"):
        write(numbers(spark, 0, 3).withColumn("partition", F.col("value").cast("int")), bucket)
    assert values(bucket) == [0]
    assert len(open_root(bucket).state.writes) == 1


@pytest.mark.only_all
def test_a_write_that_another_of_its_name_overtook_fails_and_is_not_seen(spark: SparkSession, bucket: str) -> None:
    def overtake(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        claim_app(open_root(bucket), "nightly", None, None)

    rows = numbers(spark, 0, 10).coalesce(1)
    with pytest.raises(PySparkException, match="another writer took over"):
        write(rows.mapInArrow(overtake, rows.schema), bucket, txnAppId="nightly", txnVersion=0)
    assert values(bucket) == []
    write(rows, bucket, txnAppId="nightly", txnVersion=0)
    assert values(bucket) == list(range(10))


def test_bad_rows_are_written_with_the_others(spark: SparkSession, bucket: str) -> None:
    rows = numbers(spark, 0, 3).withColumn("partition", F.col("value").cast("int"))
    write(rows, bucket, badRecords="bad")
    assert (values(bucket), values(bucket, "bad")) == ([0], [1, 2])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topc": "t"}, "unknown option 'topc'.*did you mean"),
        ({"txnVersion": 5}, "txnVersion"),
        ({"configs": '{"retention": 5}'}, "did you mean"),
        ({"partitions": 0}, "partitions"),
    ],
    ids=str,
)
def test_wrong_options_are_named(spark: SparkSession, seaweed: object, options: dict[str, Any], said: str) -> None:
    with pytest.raises(PySparkException, match=said):
        write(numbers(spark, 0, 1), "s3://logs/options", **options)


# --- writeStream


def test_a_query_by_format_writes_each_row_once_though_its_batches_are_replayed(query: Query) -> None:
    query.feed(0, 1, 2)
    query.feed(3, 4)
    run(query.by_format(partitions=2))
    assert values(query.url) == [0, 1, 2, 3, 4]
    query.forget_commit(1)
    query.feed(5)
    run(query.by_format(partitions=2))
    assert values(query.url) == [0, 1, 2, 3, 4, 5]
    state = open_root(query.url).state
    (app,) = state.groups
    assert state.groups[app]["__sink.t-0"].offset == 3
    assert "plan" in state.groups[app]["__sink.t-0"].metadata
    assert list((query.checkpoint / "commitlog").glob("*.json"))


def test_a_query_by_format_with_a_new_checkpoint_and_an_old_name_is_refused(query: Query) -> None:
    query.feed(0)
    run(query.by_format(txnAppId="app"))
    query.checkpoint = query.checkpoint.with_name("other")
    query.feed(1)
    with pytest.raises(StreamingQueryException, match="a new checkpoint with an old txnAppId"):
        run(query.by_format(txnAppId="app"))
    assert values(query.url) == [0]


@pytest.mark.only_all
def test_a_query_by_format_that_fails_at_its_commit_goes_on_when_started_again(query: Query) -> None:
    query.feed(0)
    run(query.by_format(txnAppId="app"))
    note = next((query.checkpoint / "commitlog").glob("*.json"))
    sound = note.read_text()
    note.write_text("damaged")
    query.feed(1)
    with pytest.raises(StreamingQueryException, match="the notes are damaged"):
        run(query.by_format(txnAppId="app"))
    assert values(query.url) == [0]
    note.write_text(sound)
    run(query.by_format(txnAppId="app"))
    assert values(query.url) == [0, 1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"txnVersion": 3}, "version of a query is its batch id"),
        ({"topics": "a,b"}, "give either topic"),
        ({"acks": "all"}, "unknown option"),
    ],
    ids=str,
)
def test_wrong_options_of_a_query_are_named(query: Query, options: dict[str, Any], said: str) -> None:
    query.feed(0)
    with pytest.raises(StreamingQueryException, match=said):
        run(query.by_format(**options))


def test_a_query_that_would_replace_rows_is_refused(query: Query) -> None:
    query.feed(0)
    stream = query.spark.readStream.text(str(query.input)).groupBy("value").count().select("value")
    writer = stream.writeStream.format("commitlog").outputMode("complete").trigger(availableNow=True)
    writer = writer.options(topic="t", path=query.url, checkpointLocation=str(query.checkpoint))
    with pytest.raises(StreamingQueryException, match="a log is only appended to"):
        run(writer)
