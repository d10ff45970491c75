"""``spark.readStream.format("commitlog")``: what Spark asks of a source between and within micro-batches.

Offsets are those of Spark's Kafka source, also in the checkpoint: ``{"flights": {"0": 23}}``, the next offset to read.
A checkpoint of ``format("kafka")`` is read on, and the other way round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pyspark_commitlog.pipeline.limits import TriggerDelay, TriggerLimits, lags, shares
from pyspark_commitlog.pipeline.offsets import (
    Ends,
    Logs,
    Offsets,
    TopicPartition,
    offsets_from_nested,
    offsets_to_nested,
)
from pyspark_commitlog.pipeline.options import Mode, ReadOptions
from pyspark_commitlog.pipeline.planning import OffsetRange, plan
from pyspark_commitlog.pipeline.reading import batches_of, offset_at
from pyspark_commitlog.pipeline.watchers import Watchers, watchers_of_this_process
from pyspark_commitlog.storage import (
    CommittedOffset,
    GroupOffsets,
    LogWatcher,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)

Nested = dict[str, Any]  # {topic: {partition: offset}}, as Spark hands it on and writes it into the checkpoint

# The initial offset where the latest one is asked for. Never in a checkpoint, which holds ends of micro-batches only.
UNDECIDED: Nested = {"startingOffsets": "latest"}

KEPT_BY_TASKS = 64  # logs whose files a worker keeps open between its tasks


class Sight(NamedTuple):
    """A partition as a look found it."""

    first: int  # the log start offset
    next: int  # the log end offset
    end: int  # up to where a micro-batch may read

    def begin(self, start: int | None) -> int:
        """Where reading on from ``start`` begins: at the first record where it is new, deleted, or another log's."""
        return self.first if start is None or start > self.next else max(start, self.first)

    def latest(self, start: int | None) -> int:
        """Where reading on from ``start`` may end. Never below it, unless the log itself ends below."""
        return self.end if start is None or start > self.next else max(start, self.end)


class CommitLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query's view of the logs it reads; lives in a process beside the driver as long as the query."""

    def __init__(self, options: ReadOptions, schema: pa.Schema, now_ms: Callable[[], int] | None = None) -> None:
        self._options = options
        self._schema = schema
        self._now_ms = now_ms or _monotonic_ms
        self._watchers = Watchers(options.directory, options.overrides)
        self._delay = TriggerDelay()
        self._initial: Offsets | None = None
        self._latest: Offsets | None = None
        self._committed: Offsets | None = None  # for the group, by this run
        self._target: dict[TopicPartition, Sight] | None = None  # under AvailableNow

    # Where to begin, and how far it goes

    def initialOffset(self) -> Nested:  # noqa: N802  Spark's name
        """Of a query without a checkpoint; raises as the options' bounds do.

        Spark writes no initial offset down, and asks for it again when the first micro-batch failed. One that is
        another by then, because the log grew, would leave out or repeat records: it is UNDECIDED, and what it comes to
        is the end of a first micro-batch without records.
        """
        self._begin()
        return UNDECIDED if self._options.starting.drifts else offsets_to_nested(self._initial_offsets())

    def _initial_offsets(self) -> Offsets:
        if self._initial is None:
            wanted = self._options.subscription.partitions(self._watchers.manager)
            sights = self._all_sights(wanted) if self._target is None else self._target
            ends = {each: Ends(sight.first, sight.end, sight.next) for each, sight in sights.items()}
            self._initial = self._options.starting.resolve(Logs(ends, self._offset_at, self._options.loss))
            self._committed = self._initial  # nothing was read yet: nothing to commit
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._look()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Tells Spark that there is a limit: where it then asks for all (Trigger.Once), there is none.

        Spark's limits for Python cannot be combined and know no delay; :meth:`latestOffset` applies what was asked for.
        """
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def latestOffset(self, start: Nested, limit: ReadLimit) -> Nested:  # noqa: N802
        self._begin()
        if start == UNDECIDED:
            self._latest = self._initial_offsets()
            return offsets_to_nested(self._latest)
        begun = _offsets(start)
        self._commit(begun)
        sights = self._look() if self._target is None else self._target
        self._latest = {each: sight.latest(begun.get(each)) for each, sight in sights.items()}
        if isinstance(limit, ReadAllAvailable):
            return offsets_to_nested(self._latest)
        begins = {each: sight.begin(begun.get(each)) for each, sight in sights.items()}
        limits = _asked(limit, self._options.limits)
        waiting = lags(begins, self._latest)
        if self._target is None and self._delay.must_wait(sum(waiting.values()), limits, self._now_ms()):
            return start
        return offsets_to_nested(self._latest | self._limited(begins, waiting, limits))

    def reportLatestOffset(self) -> Nested | None:  # noqa: N802
        return offsets_to_nested(self._latest) if self._latest else None

    def _look(self) -> dict[TopicPartition, Sight]:
        """All partitions that are there to be read."""
        return self._sights(self._options.subscription.partitions_there(self._watchers.manager))

    def _sights(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Sight]:
        return {each: self._sight(log) for each, log in self._watchers.look(partitions).items()}

    def _sight(self, log: LogWatcher) -> Sight:
        """Raises CorruptionError where damage hides how far the log goes, unless it is to be passed over."""
        first, behind, isolation = log.log_start_offset, log.log_end_offset, self._options.isolation
        if self._options.mode is not Mode.DROP_MALFORMED:
            log.check_readable_to(behind)
            return Sight(first, behind, log.stable_end(isolation))
        with log.despite_damage():
            return Sight(first, behind, log.stable_end(isolation))

    def _all_sights(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Sight]:
        found = self._sights(partitions)
        missing = ", ".join(str(each) for each in partitions if each not in found)
        if missing:
            raise UnknownTopicOrPartitionError(f"{self._options.directory}: no directories of partitions {missing}")
        return found

    def _offset_at(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        return offset_at(self._watchers.seen(partition), timestamp_ms, self._options)

    def _limited(self, begins: Offsets, waiting: Offsets, limits: TriggerLimits) -> Offsets:
        """Where a micro-batch ends in the partitions that have something, by every limit there is."""
        ends = {each: begins[each] + lag for each, lag in waiting.items()}
        if limits.max_offsets is not None:
            most = shares(limits.max_offsets, waiting)
            ends = {each: min(end, begins[each] + most[each]) for each, end in ends.items()}
        if limits.max_bytes is not None:
            most = shares(limits.max_bytes, waiting)
            logs = self._watchers.look(ends)  # again: what was seen first under AvailableNow may be long ago, and gone
            ends |= {each: self._within(log, begins[each], ends[each], most[each]) for each, log in logs.items()}
        return ends

    def _within(self, log: LogWatcher, start: int, end: int, max_bytes: int) -> int:
        with log.despite_damage() if self._options.mode is Mode.DROP_MALFORMED else nullcontext():
            return log.offset_within(start, end, max_bytes)

    # A micro-batch

    def partitions(self, start: Nested, end: Nested) -> Sequence[InputPartition]:
        """The tasks; here it is told what is gone of what was to be read (``failOnDataLoss``)."""
        if start == UNDECIDED:
            return []
        begun, ended = _offsets(start), _offsets(end)
        there = self._watchers.look(ended)
        gone = sorted((begun.keys() | ended.keys()) - there.keys() - self._unplanned(begun, ended))
        if gone:
            self._report_gone(gone)
        ranges = [self._range((each, log), begun.get(each), ended[each]) for each, log in there.items()]
        return plan(ranges, self._options.tasks, self._bytes_of)

    def _unplanned(self, begun: Offsets, ended: Offsets) -> set[TopicPartition]:
        """Partitions that came when the first micro-batch was planned, which failed and is done again: Spark asked once
        more where to begin. They are read by the next one, as new ones.
        """
        if begun.keys() <= ended.keys():
            return set()
        return set(self._options.subscription.partitions_there(self._watchers.manager)) - ended.keys()

    def _range(self, place: tuple[TopicPartition, LogWatcher], start: int | None, end: int) -> OffsetRange:
        partition, log = place
        first, behind = log.log_start_offset, log.log_end_offset
        if start is not None and end < start:
            self._lost(f"{partition} ends at {end}, but was read up to {start}: it was truncated, or is another log")
            start = first
        elif start is None and first > 0:
            self._lost(f"{partition} is new and begins at offset {first}: earlier records were not read")
        elif start is not None and start < first:
            self._lost(f"{partition} now begins at offset {first}: offsets {start} to {first - 1} were not read")
        if end > behind:
            self._lost(f"{partition} ends at {behind}, but was to be read up to {end}")
        begin = first if start is None else max(start, first)
        return OffsetRange(partition, begin, max(begin, min(end, behind)))

    def _lost(self, message: str) -> None:
        self._options.loss.report(OffsetOutOfRangeError, message)

    def _report_gone(self, partitions: Sequence[TopicPartition]) -> None:
        names = ", ".join(map(str, partitions))
        self._options.loss.report(
            UnknownTopicOrPartitionError,
            f"partitions that were read before no longer exist, or are no longer subscribed: {names}; their unread "
            "records will not be read",
        )

    def _bytes_of(self, part: OffsetRange) -> int:
        return self._watchers.seen(part.source).bytes_between(part.start, part.end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a worker; logs that it has read before are open there."""
        assert isinstance(partition, OffsetRange)
        watchers = watchers_of_this_process(self._options.directory, self._options.overrides, KEPT_BY_TASKS)
        log = watchers.look([partition.source]).get(partition.source)
        if log is None:
            self._report_gone([partition.source])
            return
        yield from batches_of(log, partition, self._options, self._schema)
        log.rest(partition.start, partition.end)

    # Afterwards

    def commit(self, end: Nested) -> None:
        """Called when Spark goes on behind ``end``: not for the last micro-batch of a run."""
        self._commit(_offsets(end))

    def _commit(self, ended: Offsets) -> None:
        """Commit for the group, so that Kafka's tools show how far the query got. What counts is the checkpoint.

        Also where a micro-batch would start: by then Spark has all before it behind itself, and nothing may follow.
        """
        group = self._options.group_id
        if group is not None and ended != self._committed:
            offsets: dict[tuple[str, int], CommittedOffset] = {
                partition: CommittedOffset(offset) for partition, offset in ended.items()
            }
            GroupOffsets(self._watchers.manager).commit(group, offsets)
            self._committed = ended

    def _begin(self) -> None:
        """Say what is to be said before the first micro-batch, in the process that lives as long as the query.

        Raises LogDirLockedError where nothing can be committed for a group: not only when a micro-batch is done.
        """
        self._options.tell_notices()
        if self._options.group_id is not None:
            self._watchers.manager.check_writable()

    def stop(self) -> None:
        self._watchers.close()


def _asked(limit: ReadLimit, limits: TriggerLimits) -> TriggerLimits:
    """The options' limits, with what Spark asks for."""
    match limit:
        case ReadMaxRows(max_rows=most):
            return replace(limits, max_offsets=most)
        case ReadMaxBytes(max_bytes=most):
            return replace(limits, max_bytes=most)
        case ReadMinRows(min_rows=least):
            return replace(limits, min_offsets=least)
        case _:
            return limits


def _offsets(nested: Mapping[str, Any]) -> Offsets:
    return offsets_from_nested(nested, "of the checkpoint", least=0)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
