"""One query, two sources: ``format("kafka")`` from a broker, ``format("commitlog")`` from that broker's own directory.

Both get the same options; the broker's address is one of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from chispa import assert_df_equality
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_commitlog.pipeline.datasource import CommitLogDataSource
from pyspark_commitlog.storage import InvalidConfigError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from tests.support.kafka.broker import Broker
from tests.support.spark.kafka_source import FIRST_MS

Options = dict[str, str]

# Kinds of errors: what Spark's source raises, by the last name of the Java class, and ours.
WRONG = (
    r"(IllegalArgument|NumberFormat|NoSuchElement|Config|KafkaIllegalState)Exception|AssertionError",
    InvalidConfigError,
)
UNKNOWN = r"UnknownTopicOrPartitionException", UnknownTopicOrPartitionError
OUTSIDE = r"OffsetOutOfRangeException|KafkaIllegalStateException", OffsetOutOfRangeError


def in_order(row: Row) -> tuple[str, int, int]:
    """The sort key of a record: its position."""
    return row.topic, row.partition, row.offset


# What both get unless a query says otherwise. The isolation level is the one default that differs; a fetch that finds
# nothing more is answered at once; a topic that is not there is not waited for.
DEFAULTS = {
    "kafka.isolation.level": "read_uncommitted",
    "kafka.fetch.max.wait.ms": "5",
    "fetchOffset.numRetries": "1",
}


@dataclass
class Batches:
    """The micro-batches of a query that had rows, each in the order of offsets."""

    rows: list[list[Row]] = field(default_factory=list)

    def __call__(self, frame: DataFrame, _batch_id: int) -> None:
        found = sorted(frame.collect(), key=in_order)
        if found:
            self.rows.append(found)

    def start(self, stream: DataFrame, checkpoint: Path, **trigger: bool | str) -> StreamingQuery:
        writer = stream.writeStream.foreachBatch(self).option("checkpointLocation", str(checkpoint))
        return writer.trigger(**trigger).start()  # type: ignore[arg-type]

    def run(self, stream: DataFrame, checkpoint: Path, **trigger: bool | str) -> StreamingQuery:
        """Runs until all current input is read; raises StreamingQueryException."""
        query = self.start(stream, checkpoint, **(trigger or {"availableNow": True}))
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return query


@dataclass(frozen=True)
class Sources:
    """The two sources over one broker."""

    spark: SparkSession
    broker: Broker

    def kafka(self, options: Options) -> DataFrame:
        return self.spark.read.format("kafka").options(**self._given(options)).load()

    def commitlog(self, options: Options) -> DataFrame:
        return self.spark.read.format("commitlog").options(**self._given(options)).load(str(self.broker.log_dir))

    def stream(self, name: str, options: Options) -> DataFrame:
        """A streaming read by the source ``name``, kafka or commitlog."""
        reader = self.spark.readStream.format(name).options(**self._given(options))
        return reader.load() if name == "kafka" else reader.load(str(self.broker.log_dir))

    def plan_commitlog(self, options: Options) -> None:
        """Plans a batch read as Spark does before any task runs, without a worker process for it."""
        source = CommitLogDataSource(self._given(options) | {"path": str(self.broker.log_dir)})
        source.reader(source.schema()).partitions()

    def plan_commitlog_stream(self, options: Options) -> None:
        """Plans a stream as Spark does before any task runs, without a worker process for it."""
        source = CommitLogDataSource(self._given(options) | {"path": str(self.broker.log_dir)})
        reader = source.streamReader(source.schema())
        try:
            reader.initialOffset()
        finally:
            reader.stop()

    def _given(self, options: Options) -> Options:
        return {"kafka.bootstrap.servers": self.broker.bootstrap, **DEFAULTS, **options}


def offsets(topic: str, *of_partitions: int) -> str:
    """Returns the JSON of Spark's offset options (and, with times, of those by timestamp)."""
    return json.dumps({topic: {str(number): offset for number, offset in enumerate(of_partitions)}})


def at(seconds: int) -> str:
    return str(FIRST_MS + seconds * 1000)


def times(topic: str, *seconds: int) -> str:
    return offsets(topic, *[FIRST_MS + each * 1000 for each in seconds])


def assert_same(ours: DataFrame, kafkas: DataFrame) -> None:
    """Compares schemas and rows in the order of offsets. Sorts in one task: to sort in several, Spark reads twice."""
    in_order = "topic", "partition", "offset"
    assert_df_equality(
        ours.coalesce(1).sortWithinPartitions(*in_order), kafkas.coalesce(1).sortWithinPartitions(*in_order)
    )
