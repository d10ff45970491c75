"""The batch reader: topics of a log directory as a table, planned by offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_commitlog.pipeline.arrow import to_batch
from pyspark_commitlog.pipeline.offsets import Ends, Logs, TopicPartition, check_start_before_end
from pyspark_commitlog.pipeline.options import ReadOptions
from pyspark_commitlog.storage import Isolation, LogManager


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
            logs = Logs(ends, partial(_offset_at, manager, options.isolation), options.loss)
            starts, stops = options.starting.resolve(logs), options.ending.resolve(logs)
        check_start_before_end(options.starting, options.ending, starts, stops)
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


def _offset_at(manager: LogManager, isolation: Isolation, source: TopicPartition, timestamp_ms: int) -> int | None:
    with manager.open_reader(*source) as reader:
        found = reader.offset_for_timestamp(timestamp_ms, isolation)
    return None if found is None else found.offset
