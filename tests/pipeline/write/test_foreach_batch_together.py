"""Jobs compact and delete what running queries write and read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from threading import Event

from pyspark.sql import DataFrame, SparkSession, functions as F

from pyspark_commitlog.pipeline.maintenance.spark_tasks import SparkTasks
from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink
from pyspark_commitlog.storage import (
    ConfigOverrides,
    LogManager,
    MaintenanceRun,
    OutcomeStatus,
    compact_partitions,
    retain_partitions,
    select_partitions,
)
from tests.support.logs.directories import directory_with_internal_topics

KEYS, ROWS_A_BATCH = 50, 1000
ROUNDS, ROUNDS_MAX = 3, 20  # of maintenance
SMALL = {"segment.bytes": "5000", "file.delete.delay.ms": "0"}
CONFIGS = {
    "compacted": {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"},
    "expiring": {**SMALL, "cleanup.policy": "delete", "retention.bytes": "8000", "retention.ms": "-1"},
}


class Reader:
    """A query that reads a topic from its beginning, and all rows it received."""

    def __init__(self, spark: SparkSession, log_dir: str, topic: str, checkpoint: Path) -> None:
        self.rows: list[tuple[int, int, int]] = []  # partition, offset, number
        source = spark.readStream.format("commitlog").option("subscribe", topic).option("failOnDataLoss", "false")
        stream = source.option("startingOffsets", "earliest").load(log_dir)
        rows = stream.select("partition", "offset", F.col("value").cast("string").cast("long"))
        self.query = rows.writeStream.foreachBatch(self._take).option("checkpointLocation", str(checkpoint)).start()
        self.query.processAllAvailable()  # started: two at once may take longer than Spark waits for a source

    def _take(self, frame: DataFrame, _batch_id: int) -> None:
        self.rows += [tuple(row) for row in frame.collect()]

    def finish(self) -> list[tuple[int, int, int]]:
        self.query.processAllAvailable()
        self.query.stop()
        return self.rows


class Writer:
    """A query that writes numbers from 0 on to both topics, with the remainder as key."""

    def __init__(self, spark: SparkSession, log_dir: str, checkpoint: Path) -> None:
        self._written = 0
        self._ends, self._ended = Event(), Event()
        self._sink = commitlog_sink(topics=list(CONFIGS), log_dir=log_dir)
        numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH).load()
        key = (F.col("value") % KEYS).cast("string")
        topic = F.explode(F.array(*map(F.lit, CONFIGS)))
        rows = numbers.select(topic.alias("topic"), key.alias("key"), F.col("value").cast("string"))
        self.query = rows.writeStream.foreachBatch(self._write).option("checkpointLocation", str(checkpoint)).start()

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        if self._ends.is_set():
            self._ended.set()
        else:
            self._sink(frame, batch_id)
            self._written += ROWS_A_BATCH

    def finish(self) -> int:
        """Waits until the current micro-batch is written. Returns how many numbers were written."""
        self._ends.set()
        assert self._ended.wait(120), self.query.exception()
        self.query.stop()
        return self._written


def maintain(spark: SparkSession, log_dir: str) -> set[str]:
    """Does what the jobs ``compact`` and ``retain`` do; returns the topics with replaced or removed segments."""
    maintenance = MaintenanceRun(log_dir)
    with maintenance.manager() as manager:
        selection = select_partitions(manager, list(CONFIGS), ConfigOverrides())
    outcomes = [
        outcome
        for operation in (compact_partitions, retain_partitions)
        for outcome in operation(maintenance, selection, SparkTasks(spark.sparkContext, "maintenance"))
    ]
    assert {each.status for each in outcomes} == {OutcomeStatus.DONE}, outcomes
    return {each.topic for each in outcomes if each.facts.get("compacted") or each.facts.get("bytes_removed")}


def test_rows_are_right_while_jobs_compact_and_delete_what_queries_use(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = directory_with_internal_topics(tmp_path / "log")
    with LogManager.open(log_dir) as manager:
        for name, configs in CONFIGS.items():
            manager.create_topic(name, partitions=2, configs=configs)
    changed: set[str] = set()
    try:
        readers = {name: Reader(spark, log_dir, name, tmp_path / name) for name in CONFIGS}
        writer = Writer(spark, log_dir, tmp_path / "writing")
        for rounds in range(1, ROUNDS_MAX + 1):
            assert writer.query.isActive, writer.query.exception()
            changed |= maintain(spark, log_dir)
            if rounds >= ROUNDS and changed == set(CONFIGS):
                break
        count = writer.finish()
        seen = {name: reader.finish() for name, reader in readers.items()}
    finally:
        for query in spark.streams.active:
            query.stop()
    assert changed == set(CONFIGS)

    kept = {name: read(spark, log_dir, name) for name in CONFIGS}
    assert max(len(rows) for rows in kept.values()) < count
    check_no_gap_but_at_the_beginning(kept["expiring"], count)
    for rows in (*kept.values(), *seen.values()):
        check_newest_of_each_key(rows, count)
        assert max(Counter((partition, offset) for partition, offset, _ in rows).values()) == 1


def read(spark: SparkSession, log_dir: str, topic: str) -> list[tuple[int, int, int]]:
    frame = spark.read.format("commitlog").option("subscribe", topic).load(log_dir)
    rows = frame.select("partition", "offset", F.col("value").cast("string").cast("long")).collect()
    return [tuple(row) for row in rows]


def check_newest_of_each_key(rows: list[tuple[int, int, int]], count: int) -> None:
    """Checks that numbers of a key are in order, and that the last one is the newest."""
    numbers_by_key = by_key(rows)
    assert all(numbers == sorted(set(numbers)) for numbers in numbers_by_key.values())
    newest = {key: numbers[-1] for key, numbers in numbers_by_key.items()}
    assert newest == {key: count - KEYS + key for key in range(KEYS)}


def check_no_gap_but_at_the_beginning(rows: list[tuple[int, int, int]], count: int) -> None:
    """Checks that each key, whose numbers are in one partition, has all from some number on."""
    for key, numbers in by_key(rows).items():
        assert numbers == list(range(numbers[0], count - KEYS + key + 1, KEYS))


def by_key(rows: list[tuple[int, int, int]]) -> dict[int, list[int]]:
    """Returns numbers in the order of their offsets."""
    found: dict[int, list[int]] = {}
    for _, _, number in sorted(rows):
        found.setdefault(number % KEYS, []).append(number)
    return found
