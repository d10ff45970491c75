"""Reads a log directory of Kafka 0.7 (option ``layout``) for one batch query; its offsets are byte positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ...arrow.batches import check_nulls, to_batch
from ...arrow.columns import IN_RECORDS
from ...classic.log_0_7.topics import PositionTopics
from ...storage import InvalidConfigError, LogConfig, OffsetOutOfRangeError, TopicPartition
from ..rows.offsets import AtTimestamp, AtTimestamps, Ends, Logs, check_start_before_end
from ..rows.read_mode import ReadMode
from ..workers.border import errors_end_here
from ..workers.memory import freeze_worker_imports
from .options import ReadOptions
from .task_ranges import OffsetRange, TaskLimits


@errors_end_here
class PositionBatchReader(DataSourceReader):
    """Reads topics of a directory of 0.7: one task per file, which yields its messages as Arrow batches."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        """Raises InvalidConfigError for an option that does not apply to this layout."""
        check_options(options)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Returns a range of positions for each file. Raises InvalidOffsetError for a start inside a message."""
        options, topics = self._options, PositionTopics(self._options.directory)
        logs = {each: topics.open_reader(*each) for each in options.subscription.partitions(topics)}
        ends = {each: Ends(log.start, log.end) for each, log in logs.items()}
        known = Logs(ends, lambda *_: None, options.loss)
        starts, stops = options.starting.resolve(known), options.ending.resolve(known)
        check_start_before_end(options.starting, options.ending, starts, stops)
        for each, log in logs.items():
            log.check_start(starts[each])
        freeze_worker_imports()
        return [part for each, log in logs.items() for part in _by_file(each, log.segments, starts[each], stops[each])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, OffsetRange):
            return
        options, source = self._options, partition.source
        log = PositionTopics(options.directory).open_reader(*source)
        start = partition.start
        if start < log.start:
            until = min(log.start, partition.end)
            options.loss.report(
                OffsetOutOfRangeError,
                f"positions {start} to {until - 1} of {source} were deleted before they were read",
            )
            start = until
        asked = [name for name in self._schema.names if name in IN_RECORDS]
        limit = LogConfig.from_mapping(dict(options.overrides)).max_decompressed_bytes
        for records in log.records(start, partition.end, asked, limit) if start < partition.end else ():
            batch = to_batch(records, source, self._schema)
            check_nulls(batch, f"positions {records.offsets[0]} to {records.offsets[-1]} of {source}")
            yield batch


def _by_file(
    source: TopicPartition, segments: Sequence[tuple[int, int]], start: int, stop: int
) -> Iterator[OffsetRange]:
    for first, end in segments:
        if max(first, start) < min(end, stop):
            yield OffsetRange(source, max(first, start), min(end, stop))


def check_options(options: ReadOptions) -> None:
    """Raises InvalidConfigError for an option that does not apply to logs of 0.7."""
    refused = {
        "startingTimestamp or endingTimestamp": any(
            isinstance(bound, AtTimestamp | AtTimestamps) for bound in (options.starting, options.ending)
        ),
        "mode=dropmalformed": options.mode is ReadMode.DROP_MALFORMED,
        "decode": options.columns.decode is not None,
        "pushFilters": options.push_filters,
        "minPartitions or maxRecordsPerPartition": options.tasks != TaskLimits(),
    }
    given = [name for name, is_given in refused.items() if is_given]
    if given:
        raise InvalidConfigError(f"option layout=kafka-0.7 goes without {', '.join(given)}: remove it")


def refused_stream() -> InvalidConfigError:
    """Returns the error for a streaming query."""
    return InvalidConfigError(
        "option layout=kafka-0.7 is for batch reads; for a stream, make a log of today of it (commitlog upgrade)"
    )
