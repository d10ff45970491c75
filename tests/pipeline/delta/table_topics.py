"""Growing topics, and micro-batches of their new records, for tests of tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

from pyspark_commitlog.storage import LogManager, add_partitions
from tests.support.logs.building import NOW_MS, records

PARTITIONS = 2
Pair = tuple[bytes | None, bytes | None]


class Topic:
    """A growing topic, and micro-batches of its new records."""

    def __init__(self, spark: SparkSession, log_dir: str, name: str = "t", partitions: int = PARTITIONS) -> None:
        self.spark, self.log_dir, self.name = spark, log_dir, name
        self.read_to = dict.fromkeys(range(partitions), 0)
        with LogManager.open(log_dir) as manager:
            manager.create_topic(name, partitions=partitions, configs={"retention.ms": "-1"})

    def append(self, pairs: list[Pair], partition: int = 0, at_ms: int | None = None) -> None:
        """Appends records one second apart, or all at ``at_ms``."""
        with LogManager.open(self.log_dir) as manager:
            log = manager.open_log(self.name, partition)
            times = [NOW_MS + log.log_end_offset * 1000 + n if at_ms is None else at_ms for n in range(len(pairs))]
            log.append_records(records([v for _, v in pairs], keys=[k for k, _ in pairs], timestamps=times))

    def grow(self, partitions: int) -> None:
        with LogManager.open(self.log_dir) as manager:
            add_partitions(manager, self.name, partitions)
        self.read_to |= {number: 0 for number in range(partitions) if number not in self.read_to}

    def read(self, **options: str) -> DataFrame:
        reader = self.spark.read.format("commitlog").option("subscribe", self.name).option("includeHeaders", "true")
        return reader.options(**options).load(self.log_dir)

    def stream(self, starting: str = "earliest", **options: str) -> DataFrame:
        reader = self.spark.readStream.format("commitlog").option("subscribe", self.name)
        reader = reader.option("startingOffsets", starting).option("includeHeaders", "true")
        return reader.options(**options).load(self.log_dir)

    def next_batch(self) -> DataFrame:
        """Returns the records since the last batch."""
        ends = dict(self.read_to)
        with LogManager.open(self.log_dir) as manager:
            for number in ends:
                ends[number] = manager.open_reader(self.name, number).log_end_offset
        return self.batch_up_to(ends)

    def batch_up_to(self, ends: dict[int, int]) -> DataFrame:
        """Returns a batch that begins where the last one ended."""
        starts, self.read_to = self.read_to, ends
        return self.read(startingOffsets=self._json(starts), endingOffsets=self._json(ends))

    def _json(self, offsets: dict[int, int]) -> str:
        return json.dumps({self.name: {str(number): offset for number, offset in offsets.items()}})


def rows(spark: SparkSession, path: str, *columns: str) -> list[Row]:
    frame = spark.read.format("delta").load(path)
    return frame.orderBy("_partition", "_offset").select(*columns or frame.columns).collect()


def raw(row: Row) -> tuple[object, ...]:
    return tuple(bytes(each) if isinstance(each, bytearray) else each for each in row)


def run(stream: DataFrame, write: Callable[[DataFrame, int], object], checkpoint: Path) -> None:
    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))  # type: ignore[arg-type]
    writer.trigger(availableNow=True).start().awaitTermination()
