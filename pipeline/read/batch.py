"""The batch reader: topics of a log directory as a table, planned by offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ...storage import LogManager
from ..rows import Ends, Logs, TopicPartition, check_start_before_end
from ..workers import freeze_worker_imports
from .open_logs import OpenLogs, open_logs_of_this_process
from .options import Mode, ReadOptions
from .pushdown import Wanted, push
from .task import batches_of, offset_at, readable_end
from .task_ranges import OffsetRange, plan


class BatchReader(DataSourceReader):
    """Plans offset ranges as tasks, and reads each range batch by batch."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._wanted = Wanted()

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the tasks of ``planning.plan``. If there are none, Spark creates an empty one itself."""
        open_logs = open_logs_of_this_process(self._options.directory, self._options.overrides)
        try:
            planned = plan(
                self._ranges(open_logs),
                self._options.tasks,
                lambda each: open_logs.get(each.source).bytes_between(each.start, each.end),
            )
        finally:
            open_logs.close_files()
        freeze_worker_imports()
        return planned

    def _ranges(self, open_logs: OpenLogs) -> list[OffsetRange]:
        """Returns the range of each partition that the options ask for, narrowed by the filters."""
        options = self._options
        logs = open_logs.catch_up(options.subscription.partitions(open_logs.manager))
        ends = {each: Ends(log.log_start_offset, readable_end(log, options)) for each, log in logs.items()}

        @cache  # the start, the end and a filter may ask for the same time
        def at(source: TopicPartition, timestamp_ms: int) -> int | None:
            return offset_at(open_logs.get(source), timestamp_ms, options)

        known = Logs(ends, at, options.loss)
        starts, stops = options.starting.resolve(known), options.ending.resolve(known)
        check_start_before_end(options.starting, options.ending, starts, stops)
        for each, log in logs.items() if options.mode is not Mode.DROP_MALFORMED else ():
            log.check_readable_to(stops[each], options.isolation)
        # A damaged log that is read anyway may be unable to find a time; its batches are then checked one by one.
        ask = (lambda *_: 0) if options.mode is Mode.DROP_MALFORMED else at
        return [self._wanted.narrow(OffsetRange(each, starts[each], stops[each]), ask) for each in logs]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, OffsetRange):
            return
        overrides = dict(self._options.overrides)
        with (
            LogManager.open(self._options.directory, overrides=overrides) as manager,
            manager.open_reader(*partition.source) as reader,
        ):
            yield from batches_of(reader, partition, self._options, self._schema, self._wanted.timespan)


class FilteringBatchReader(BatchReader):
    """A reader that gets the filters of a query's ``where`` from Spark (option ``pushFilters``).

    A session without spark.sql.python.filterPushdown.enabled rejects any reader with this method, filters or not.

    Load a new DataFrame for each query with filters. Spark 4.2 keeps the tasks of the last filters with the DataFrame
    that ``load`` returned, and a later query without filters on it reads only those tasks. This cannot be detected
    here, so the option is off by default.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  Spark's name
        """Returns the filters that Spark must apply: all, if an internal topic is decoded, which has other columns."""
        if self._options.columns.decode is not None:
            return filters
        self._wanted, remaining = push(filters)
        return remaining


def batch_reader(options: ReadOptions, schema: pa.Schema) -> BatchReader:
    """Returns the reader that the options ask for."""
    return (FilteringBatchReader if options.push_filters else BatchReader)(options, schema)
