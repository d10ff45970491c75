"""The batch reader: topics of a log directory as a table, planned by offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_commitlog.pipeline.offsets import Ends, Logs, TopicPartition, check_start_before_end
from pyspark_commitlog.pipeline.options import ReadOptions
from pyspark_commitlog.pipeline.planning import OffsetRange
from pyspark_commitlog.pipeline.reading import batches_of
from pyspark_commitlog.storage import Isolation, LogManager


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
            logs = Logs(ends, partial(_offset_at, manager, options.isolation), options.loss)
            starts, stops = options.starting.resolve(logs), options.ending.resolve(logs)
        check_start_before_end(options.starting, options.ending, starts, stops)
        return [OffsetRange(each, starts[each], stops[each]) for each in wanted]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        with LogManager.open(self._options.directory) as manager, manager.open_reader(*partition.source) as reader:
            yield from batches_of(reader, partition, self._options, self._schema)


def _ends(manager: LogManager, source: TopicPartition, isolation: Isolation) -> Ends:
    with manager.open_reader(*source) as reader:
        return Ends(reader.log_start_offset, reader.end_offset(isolation))


def _offset_at(manager: LogManager, isolation: Isolation, source: TopicPartition, timestamp_ms: int) -> int | None:
    with manager.open_reader(*source) as reader:
        found = reader.offset_for_timestamp(timestamp_ms, isolation)
    return None if found is None else found.offset
