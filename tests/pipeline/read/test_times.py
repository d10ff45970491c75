"""A window by time over history loaded later equals a ``where``, whatever loads and reads it.

The markers of its transactions are younger than all its records. Both loads also failed once, and were repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F

from pyspark_commitlog import commitlog_sink, read_table
from pyspark_commitlog.storage import BatchFields, LogManager
from pyspark_commitlog.storage.format.v2 import encode_batches
from pyspark_commitlog.storage.recovery.producer_state import Producer
from tests.cli.in_process import commitlog
from tests.pipeline.read.kafka_sources import Batches, Sources
from tests.support.kafka.broker import ProducerRecord, Step, Topic, create_topics, java_produce
from tests.support.logs.building import records

FIRST_MS = 1_400_000_000_000
COUNT, OF_A_BATCH = 600, 100
TOPIC = "history"
START, END = FIRST_MS + 150_000, FIRST_MS + 432_000  # one record a second
WINDOW = list(range(150, 432))
CONFIGS = {"segment.bytes": "5000", "retention.ms": "-1"}


@dataclass(frozen=True)
class Loaded:
    """A log directory with the topic, to read with and without Spark."""

    spark: SparkSession
    path: str

    def read(self, **options: str) -> DataFrame:
        return self._read(self.spark.read, options)

    def stream(self, **options: str) -> DataFrame:
        return self._read(self.spark.readStream, options)

    def _read(self, reader, options: dict[str, str]) -> DataFrame:  # type: ignore[no-untyped-def]
        return reader.format("commitlog").option("subscribe", TOPIC).options(**options).load(self.path)

    @property
    def window(self) -> list[int]:
        """Returns what a filter selects."""
        is_inside = (F.col("timestamp") >= instant(START)) & (F.col("timestamp") < instant(END))
        return values(self.read().where(is_inside))


def instant(timestamp_ms: int) -> F.Column:
    return F.timestamp_millis(F.lit(timestamp_ms))


def values(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def both_partitions(timestamp_ms: int) -> str:
    return json.dumps({TOPIC: {"0": timestamp_ms, "1": timestamp_ms}})


@pytest.fixture(scope="module")
def by_sink(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """Loads with ``commitlog_sink``; an aborted batch follows the second one."""
    path = str(tmp_path_factory.mktemp("times") / "log")
    sink = commitlog_sink(topic=TOPIC, log_dir=path, txnAppId="load", partitions=2, configs=CONFIGS)
    for number in range(COUNT // OF_A_BATCH):
        rows = spark.range(number * OF_A_BATCH, (number + 1) * OF_A_BATCH, numPartitions=1).select(
            F.col("id").cast("string").alias("value"),
            F.timestamp_millis(FIRST_MS + 1000 * F.col("id")).alias("timestamp"),
            (F.col("id") % 2).cast("int").alias("partition"),
        )
        sink(rows, number)
        if number == 1:
            sink.close()
            abort_all(path)
    sink.close()
    return Loaded(spark, path)


def abort_all(path: str) -> None:
    """Writes all the records to come in transactions that are aborted."""
    with LogManager.open(path) as manager:
        for partition in (0, 1):
            numbers = range(200 + partition, COUNT, 2)
            rows = records([b"%d" % n for n in numbers], timestamps=[FIRST_MS + 1000 * n for n in numbers])
            log, producer = manager.open_log(TOPIC, partition), Producer(9_000, 0)
            log.append_transactional(encode_batches(rows, BatchFields(), batch_bytes_max=1000), producer)
            log.end_transaction(producer, commit=False)


@pytest.fixture(scope="module")
def by_broker(spark: SparkSession, sources: Sources) -> Loaded:
    """Loads with a transactional Java producer, whose third transaction failed at first."""
    bootstrap = sources.broker.bootstrap
    create_topics(bootstrap, {TOPIC: Topic(2, CONFIGS)})
    java_produce(bootstrap, TOPIC, transactions(), {"transactional.id": "load"})
    return Loaded(spark, str(sources.broker.log_dir))


@pytest.fixture(params=["by_sink", "by_broker"])
def loaded(request: pytest.FixtureRequest) -> Loaded:
    found: Loaded = request.getfixturevalue(request.param)
    assert found.window == WINDOW
    return found


def transactions() -> Iterator[ProducerRecord | Step]:
    for first in range(0, COUNT, OF_A_BATCH):
        numbers = range(first, first + OF_A_BATCH)
        if first == 200:
            yield from (Step.BEGIN, *map(record, range(first, COUNT)), Step.ABORT)
        yield from (Step.BEGIN, *map(record, numbers), Step.COMMIT)


def record(number: int) -> ProducerRecord:
    return ProducerRecord(value=b"%d" % number, partition=number % 2, timestamp_ms=FIRST_MS + 1000 * number)


BOUNDS = {
    "everywhere": {"startingTimestamp": str(START), "endingTimestamp": str(END)},
    "by partition": {
        "startingOffsetsByTimestamp": both_partitions(START),
        "endingOffsetsByTimestamp": both_partitions(END),
    },
}


@pytest.mark.parametrize("options", BOUNDS.values(), ids=BOUNDS)
def test_a_batch_read_by_time(loaded: Loaded, options: dict[str, str]) -> None:
    assert values(loaded.read(**options)) == WINDOW


def test_a_time_after_all_records_finds_no_marker(loaded: Loaded) -> None:
    late = {"startingTimestamp": str(FIRST_MS + COUNT * 1000), "startingOffsetsByTimestampStrategy": "latest"}
    assert values(loaded.read(**late)) == []
    with pytest.raises(PySparkException, match="no record of history-0"):
        loaded.read(startingTimestamp=late["startingTimestamp"]).collect()


def test_a_filter_by_time_that_is_pushed(loaded: Loaded, pushing: SparkSession) -> None:
    is_inside = (F.col("timestamp") >= instant(START)) & (F.col("timestamp") < instant(END))
    assert values(loaded.read(pushFilters="true").where(is_inside)) == WINDOW


def test_a_stream_that_begins_at_a_time(loaded: Loaded, tmp_path: Path) -> None:
    batches = Batches()
    batches.run(loaded.stream(startingTimestamp=str(START)), tmp_path / "checkpoint")
    assert sorted(int(row.value) for rows in batches.rows for row in rows) == list(range(150, COUNT))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_read_table_by_time(loaded: Loaded, isolation: str) -> None:
    table = read_table(loaded.path, TOPIC, start=START, end=END, by="timestamp", isolation=isolation)
    assert sorted(int(value) for value in table["value"].to_pylist()) == WINDOW


def test_cat_from_one_time_to_another(loaded: Loaded) -> None:
    done = commitlog("cat", "--log-dir", loaded.path, "-t", TOPIC, "-e", "-q", "-o", f"s@{START}", "-o", f"e@{END}")
    assert (done.code, sorted(map(int, done.stdout.split()))) == (0, WINDOW)


@pytest.mark.parametrize("asked", [START, END, "-3"])
def test_offsets_of_times(loaded: Loaded, asked: int | str) -> None:
    """As kafka-get-offsets, among all records: aborted ones come first."""
    table = read_table(loaded.path, TOPIC, isolation="read_uncommitted").to_pylist()
    done = commitlog("offsets", "--log-dir", loaded.path, "--topic", TOPIC, "--time", asked, "--json")
    for found in map(json.loads, done.stdout.splitlines()):
        rows = [row for row in table if row["partition"] == found["partition"]]
        times = {row["offset"]: round(row["timestamp"].timestamp() * 1000) for row in rows}
        wanted = max(times.values()) if asked == "-3" else asked
        first = next(offset for offset, time in times.items() if time >= wanted)
        assert (found["offset"], found["timestamp"]) == (first, times[first])


def test_a_group_that_is_set_to_a_time(by_sink: Loaded) -> None:
    at = datetime.fromtimestamp(START / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")
    reset = ("--reset-offsets", "--topic", TOPIC, "--to-datetime", at, "--dry-run")
    done = commitlog("groups", "--log-dir", by_sink.path, "--group", "readers", *reset)
    assert done.code == 0
    assert [line.split()[-1] for line in done.stdout.splitlines()[-2:]] == ["76", "76"]  # 75 records and a marker


def test_a_broker_finds_markers(by_broker: Loaded, sources: Sources) -> None:
    """The difference of Kafka's lookup (docs/compatibility_details.md): Spark's Kafka source asks the broker."""
    options = {"subscribe": TOPIC, "kafka.isolation.level": "read_committed", **BOUNDS["everywhere"]}
    kafkas = values(sources.kafka(options))
    assert kafkas != WINDOW
    assert values(sources.commitlog(options)) == WINDOW
