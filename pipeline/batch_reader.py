"""The batch reader: topics of a log directory as a table, planned by offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pyspark_commitlog.pipeline.garbage import freeze_worker_imports
from pyspark_commitlog.pipeline.offsets import Ends, Logs, TopicPartition, check_start_before_end
from pyspark_commitlog.pipeline.options import Mode, ReadOptions
from pyspark_commitlog.pipeline.planning import OffsetRange, plan
from pyspark_commitlog.pipeline.pushdown import Wanted, push
from pyspark_commitlog.pipeline.reading import batches_of, offset_at, readable_end
from pyspark_commitlog.pipeline.watchers import Watchers, watchers_of_this_process
from pyspark_commitlog.storage import LogManager


class CommitLogReader(DataSourceReader):
    """Plans ranges of offsets as tasks, and reads each batch by batch."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._wanted = Wanted()

    def partitions(self) -> Sequence[InputPartition]:
        """Tasks as ``planning.plan`` makes them. Where there are none, Spark makes one of its own, with nothing."""
        watchers = watchers_of_this_process(self._options.directory, self._options.overrides)
        try:
            planned = plan(
                self._ranges(watchers),
                self._options.tasks,
                lambda each: watchers.seen(each.source).bytes_between(each.start, each.end),
            )
        finally:
            watchers.rest()
        freeze_worker_imports()
        return planned

    def _ranges(self, watchers: Watchers) -> list[OffsetRange]:
        """What the options ask for of each partition, and filters leave of it."""
        options = self._options
        logs = watchers.look(options.subscription.partitions(watchers.manager))
        ends = {each: Ends(log.log_start_offset, readable_end(log, options)) for each, log in logs.items()}

        @cache  # where a range begins, another part of the options or a filter may ask again
        def at(source: TopicPartition, timestamp_ms: int) -> int | None:
            return offset_at(watchers.seen(source), timestamp_ms, options)

        known = Logs(ends, at, options.loss)
        starts, stops = options.starting.resolve(known), options.ending.resolve(known)
        check_start_before_end(options.starting, options.ending, starts, stops)
        for each, log in logs.items() if options.mode is not Mode.DROP_MALFORMED else ():
            log.check_readable_to(stops[each], options.isolation)
        # A damaged log that is read all the same may not answer a question about time: its batches are looked at then.
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


class FilteringReader(CommitLogReader):
    """A reader that Spark tells what a query's ``where`` says (option ``pushFilters``).

    A session without spark.sql.python.filterPushdown.enabled refuses any reader with this method, filters or not.

    Load a DataFrame anew for each query with filters. Spark 4.2 keeps the tasks of the last filters with the DataFrame
    that ``load`` gave, and a later query on that DataFrame without filters reads those tasks only. Nothing here can
    see that; so the option is off unless asked for.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  Spark's name
        """What is left to Spark: all of them where an internal topic is decoded, whose columns mean other things."""
        if self._options.columns.decode is not None:
            return filters
        self._wanted, left = push(filters)
        return left


def batch_reader(options: ReadOptions, schema: pa.Schema) -> CommitLogReader:
    """The reader that the options ask for."""
    return (FilteringReader if options.push_filters else CommitLogReader)(options, schema)
