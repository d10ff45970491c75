"""A topic with its exported table, for tests of both read together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog.arrow.values.serde import JsonSerde
from pyspark_commitlog.pipeline.delta.table_and_tail.topic_table import topic_table
from pyspark_commitlog.pipeline.delta.table_rows import to_rows
from pyspark_commitlog.pipeline.delta.tables import TableSink, table_sink
from pyspark_commitlog.pipeline.delta.upserts import newest_of_each_key
from tests.pipeline.delta.table_topics import Topic, raw, run
from tests.support.logs.directories import directory_with_internal_topics

FLIGHT = JsonSerde(pa.schema([("carrier", pa.string()), ("delay", pa.int32())]))


def flight(carrier: str, delay: int) -> bytes:
    return b'{"carrier": "%s", "delay": %d}' % (carrier.encode(), delay)


class Exported(Topic):
    """A topic whose table is at ``table``, written by a query with a checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, mode: str = "append", partitions: int = 2) -> None:
        self.folder, self.mode, self.table = folder, mode, str(folder / "table")
        self.serde: JsonSerde | None = FLIGHT
        self.bad: str | None = None
        super().__init__(spark, directory_with_internal_topics(folder / "log"), partitions=partitions)

    def sink(self) -> TableSink:
        return table_sink(path=self.table, mode=self.mode, serde=self.serde, badRecords=self.bad)

    def export(self) -> None:
        """Exports all there is."""
        self.export_by(self.sink())

    def export_by(self, write: Callable[[DataFrame, int], object]) -> None:
        run(self.stream(), write, self.folder / "checkpoint")

    def both(self, **arguments: Any) -> DataFrame:
        return topic_table(self.spark, self.log_dir, self.name, self.table, **arguments)

    def over_both(self, starting: str = "earliest", **options: str) -> DataFrame:
        """Returns a stream that begins in the table and goes on in the log."""
        reader = self.spark.readStream.format("commitlog").option("subscribe", self.name).option("table", self.table)
        return reader.option("startingOffsets", starting).options(**options).load(self.log_dir)

    def whole(self) -> DataFrame:
        """Decodes the whole topic at once, as a table of it would be."""
        records = self.read()
        return to_rows(records if self.mode == "append" else newest_of_each_key(records), self.serde)

    def expected(self) -> Counter[tuple[object, ...]]:
        rows = self.whole()
        return counted(rows if self.mode == "append" else rows.where("carrier IS NOT NULL"))


def counted(rows: DataFrame) -> Counter[tuple[object, ...]]:
    """Returns how often each row is there, whatever their order."""
    columns = sorted(rows.columns)
    return Counter(raw(row) for row in rows.drop("_headers").select(*[c for c in columns if c != "_headers"]).collect())


def plan_of(rows: DataFrame) -> str:
    """Returns the physical plan."""
    return str(rows._jdf.queryExecution().executedPlan().toString())  # type: ignore[operator]
