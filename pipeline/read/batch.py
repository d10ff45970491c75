"""``spark.read.format("commitlog")``: reads topics of a log directory, in tasks that are planned by offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ...storage import (
    LogManager,
    TopicPartition,
    UnknownTopicOrPartitionError,
    made_again,
    one_ahead,
    partitions_of_keys,
    remote_offsets,
    topic_ids,
)
from ..rows.offsets import Ends, Logs, check_start_before_end, warn_of_remote
from ..rows.read_mode import ReadMode
from ..workers.border import errors_end_here
from ..workers.memory import freeze_worker_imports
from .open_logs import OpenLogs, open_logs_of_this_process
from .options import ReadOptions
from .pushdown import Wanted, push
from .task import batches_of, behind_lost, offset_at, readable_end
from .task_ranges import OffsetRange, plan


@errors_end_here
class BatchReader(DataSourceReader):
    """Reads topics for one batch query: plans ranges of offsets as tasks, and yields each range as Arrow batches."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._wanted = Wanted()

    def partitions(self) -> Sequence[InputPartition]:
        """Returns one OffsetRange per task (``task_ranges.plan``). If there are none, Spark creates an empty task."""
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
        """Returns the range of offsets to read from each partition, by the options and then by the filters."""
        options = self._options
        logs = open_logs.catch_up(options.subscription.partitions(open_logs.look()))
        firsts = {each: log.earliest_offset for each, log in logs.items()}
        remote = remote_offsets(open_logs.manager, firsts)
        ends = {each: Ends(firsts[each], readable_end(logs[each], options), remote=remote.get(each)) for each in logs}

        @cache  # the start, the end and a filter may need the offset of the same time
        def at(source: TopicPartition, timestamp_ms: int) -> int | None:
            return offset_at(open_logs.get(source), timestamp_ms, options)

        def start_at(source: TopicPartition, timestamp_ms: int) -> int | None:
            return logs[source].with_lost_before(at(source, timestamp_ms), partial(at, source))

        starts = options.starting.resolve(Logs(ends, start_at, options.loss))
        stops = options.ending.resolve(Logs(ends, at, options.loss))
        warn_of_remote(starts, ends)
        check_start_before_end(options.starting, options.ending, starts, stops)
        for each, log in logs.items() if options.mode is not ReadMode.DROP_MALFORMED else ():
            log.check_readable_to(stops[each], options.isolation)
        # In a damaged log that is read all the same, the search for a time may fail; tasks then check batches one by
        # one.
        ask = (lambda *_: 0) if options.mode is ReadMode.DROP_MALFORMED else start_at
        sources = self._with_keys(open_logs.manager, logs)
        ranges = [self._wanted.narrow(OffsetRange(each, starts[each], stops[each]), ask) for each in sources]
        ids = open_logs.ids
        return [
            replace(behind_lost(logs[each.source], each, options), topic_id=ids.get(each.source.topic))
            for each in ranges
        ]

    def _with_keys(self, manager: LogManager, sources: Collection[TopicPartition]) -> list[TopicPartition]:
        """Returns the ``sources`` that can have the requested keys, by option ``keyPartitioner``; all without it."""
        keys = self._wanted.keys
        if keys is None or not self._options.keys_by_murmur2:
            return [*sources]
        topics = [manager.topic(name) for name in dict.fromkeys(each.topic for each in sources)]
        placed = {found for topic in topics for found in partitions_of_keys(topic, keys)}
        return [each for each in sources if each in placed]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the records of a task's range; a thread reads the next batch while Spark takes one."""
        if not isinstance(partition, OffsetRange):
            return
        with LogManager.open(self._options.directory, overrides=dict(self._options.overrides)) as manager:
            if not self._is_planned_topic(manager, partition):
                return
            with manager.open_reader(*partition.source, reports_remote=False) as reader:
                wanted, schema = self._wanted, self._schema
                yield from one_ahead(
                    batches_of(reader, partition, self._options, schema, wanted.timespan, wanted.key_choice)
                )

    def _is_planned_topic(self, manager: LogManager, part: OffsetRange) -> bool:
        """Whether a task's topic is the one for which it was planned; reports another one (``failOnDataLoss``)."""
        if part.topic_id is None:
            return True
        others = made_again({part.source.topic: part.topic_id}, topic_ids(manager, [part.source]))
        for text in others.values():
            message = f"{text} in {manager.directory}. Load the DataFrame again to read the new one"
            self._options.loss.report(UnknownTopicOrPartitionError, message)
        return not others


@errors_end_here
class FilteringBatchReader(BatchReader):
    """A BatchReader that Spark gives the filters of a query's ``where`` (option ``pushFilters``).

    A session without spark.sql.python.filterPushdown.enabled rejects any reader that has the method ``pushFilters``,
    even for a query without filters.

    Load a new DataFrame for each query with filters. Spark 4.2 keeps the tasks that it planned for these filters with
    the DataFrame that ``load`` returned, so a later query on the same DataFrame reads only those tasks. This cannot be
    detected here, so the option is off by default.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  Spark's name
        """Returns the filters that Spark must still apply: all if ``decode`` is set, which has other columns."""
        if self._options.columns.decode is not None:
            return filters
        self._wanted, remaining = push(filters)
        return remaining


def batch_reader(options: ReadOptions, schema: pa.Schema) -> BatchReader:
    """Returns a BatchReader, or with option ``pushFilters`` a FilteringBatchReader."""
    return (FilteringBatchReader if options.push_filters else BatchReader)(options, schema)
