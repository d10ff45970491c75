"""``spark.read.format("commitlog")``: topics of a log directory, with the columns of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_commitlog.pipeline.arrow import to_batch
from pyspark_commitlog.pipeline.offsets import Ends, TopicPartition
from pyspark_commitlog.pipeline.options import ReadOptions
from pyspark_commitlog.pipeline.schema import arrow_schema, read_schema
from pyspark_commitlog.storage import Isolation, LogManager


class CommitLogDataSource(DataSource):
    """The data source ``commitlog``.

    Options: ``path`` (the log directory), one of ``subscribe`` (``a,b``), ``assign`` (``{"a": [0, 1]}``) and
    ``subscribePattern``; ``startingOffsets`` (``earliest``), ``endingOffsets`` (``latest``), each also
    ``{"a": {"0": 23, "1": -2}}``; ``includeHeaders`` (``false``); ``isolation.level`` (``read_committed``).
    A schema given with ``spark.read.schema`` may leave columns out: keys and values left out are not even built.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = ReadOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return "commitlog"

    def schema(self) -> StructType:
        return read_schema(self._options.include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        return CommitLogReader(self._options, arrow_schema(schema))


DefaultSource = CommitLogDataSource


@dataclass
class OffsetRange(InputPartition):
    """One task's part: records of ``source`` with ``start`` <= offset < ``end``.

    Offsets, never positions: a segment may be replaced between planning and reading.
    """

    source: TopicPartition
    start: int
    end: int


class CommitLogReader(DataSourceReader):
    """Plans one task a partition, and reads it batch by batch."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with LogManager.open(options.directory) as manager:
            wanted = options.subscription.partitions(manager)
            ends = {each: _ends(manager, each, options.isolation) for each in wanted}
        starts, stops = options.starting.resolve(ends), options.ending.resolve(ends)
        return [OffsetRange(each, starts[each], stops[each]) for each in wanted]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        asked = [name for name in self._schema.names if name in ("key", "value", "headers")]
        with LogManager.open(self._options.directory) as manager, manager.open_reader(*partition.source) as reader:
            for records in reader.records(
                partition.start, partition.end, isolation=self._options.isolation, columns=asked
            ):
                yield to_batch(records, partition.source, self._schema)


def _ends(manager: LogManager, source: TopicPartition, isolation: Isolation) -> Ends:
    with manager.open_reader(*source) as reader:
        return Ends(reader.log_start_offset, reader.end_offset(isolation))
