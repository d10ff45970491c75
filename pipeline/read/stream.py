"""``spark.readStream.format("commitlog")``: the streaming source.

Offsets have the format of Spark's Kafka source, also in the checkpoint: ``{"flights": {"0": 23}}``, the next offset to
read, with an empty entry for each topic's id (``rows.topic_ids``). A query can continue from a checkpoint of
``format("kafka")``, and the other way round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ...storage import (
    CommittedOffset,
    GroupOffsets,
    LogStoreError,
    LogWatcher,
    OffsetOutOfRangeError,
    TopicIds,
    TopicPartition,
    UnknownTopicOrPartitionError,
    made_again,
    remote_offsets,
)
from ..rows.offsets import AtOffsets, Ends, Logs, Offsets, offsets_from_nested, offsets_to_nested, warn_of_remote
from ..rows.read_mode import ReadMode
from ..rows.topic_ids import ids_in, with_ids
from ..workers.border import errors_end_here
from .admission import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
    check_served,
    with_limit,
)
from .open_logs import OpenLogs, PartitionState, Seen, open_logs_of_this_process
from .options import ReadOptions
from .rate_limits import TriggerDelay, TriggerLimits, lags, shares
from .task import batches_of, behind_lost, offset_at
from .task_ranges import OffsetRange, plan

# {topic: {partition: offset}} with the ids of topics, as Spark passes it and writes it to the checkpoint
Nested = dict[str, Any]

# Stands for an initial offset at the log end. Never in a checkpoint, which only has ends of micro-batches.
UNDECIDED: Nested = {"startingOffsets": "latest"}

KEPT_BY_TASKS = 64  # logs whose files a worker keeps open between its tasks


@errors_end_here
class RefusedStreamReader(DataSourceStreamReader):
    """Raises ``error`` at the first call, which is :meth:`initialOffset`.

    If the data source raised it instead of returning a reader, Spark's own program would fail on the missing reader
    (UnboundLocalError), and that error would be the last line that the user sees.
    """

    def __init__(self, error: LogStoreError) -> None:
        self._error = error

    def initialOffset(self) -> Nested:  # noqa: N802  Spark's name
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error


@errors_end_here
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics for one streaming query. Lives as long as the query, in a Python process that Spark starts."""

    def __init__(self, options: ReadOptions, schema: pa.Schema, now_ms: Callable[[], int] | None = None) -> None:
        self._options = options
        self._schema = schema
        self._now_ms = now_ms or _monotonic_ms
        self._open_logs = OpenLogs(options.directory, options.overrides)
        self._delay = TriggerDelay()
        self._initial: Offsets | None = None
        self._initial_ids: TopicIds = {}
        self._latest: Offsets | None = None
        self._committed: Offsets | None = None  # the offsets that this run has committed for the group
        self._target: Seen | None = None  # under AvailableNow
        self._planned: Nested = {}  # the end of the micro-batch that was planned last in this run

    # Where a query and its micro-batches begin and end

    def initialOffset(self) -> Nested:  # noqa: N802  Spark's name
        """Returns the offsets at which a query without a checkpoint begins. Raises the errors of :meth:`Bound.resolve`.

        Spark does not store the initial offsets, and asks for them again if the first micro-batch failed. If the log
        has grown by then, other offsets would skip or repeat records. So if the offsets may change, returns UNDECIDED,
        and the first micro-batch has no records and ends at the offsets, which Spark then stores.
        """
        self._begin()
        return UNDECIDED if self._options.starting.drifts else self._nested(self._initial_offsets(), self._initial_ids)

    def _nested(self, offsets: Offsets, ids: TopicIds) -> Nested:
        return with_ids(offsets_to_nested(offsets), ids)

    def _initial_offsets(self) -> Offsets:
        if self._initial is None:
            wanted = self._options.subscription.partitions(self._open_logs.look())
            seen = self._all_seen(wanted)  # under AvailableNow, too: it raises an error for missing directories
            states, self._initial_ids = seen if self._target is None else self._target
            remote = remote_offsets(self._open_logs.manager, {each: state.first for each, state in states.items()})
            ends = {
                each: Ends(self._earliest(each, state), state.end, state.next, remote.get(each))
                for each, state in states.items()
            }
            self._initial = self._options.starting.resolve(Logs(ends, self._offset_at, self._options.loss))
            warn_of_remote(self._initial, ends)
            self._committed = self._initial  # nothing was read yet, so there is nothing to commit
        return self._initial

    def _earliest(self, partition: TopicPartition, state: PartitionState) -> int:
        """Returns the offset of ``earliest``; it may be below ``state.first`` if first segments were lost."""
        return self._open_logs.get(partition).earliest_offset

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._see()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Returns one of the limits that the options set; ReadAllAvailable if they set none.

        Spark's limits for Python cannot be combined and have no delay, so :meth:`latestOffset` applies all limits of
        the options, unless Spark asks it for all records (Trigger.Once).
        """
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def latestOffset(self, start: Nested | None = None, limit: ReadLimit | None = None) -> Nested:  # noqa: N802
        """Returns where the next micro-batch ends. Reports topics that were made again (``failOnDataLoss``).

        Spark 4.1 gives neither argument: the micro-batch then follows the one that was planned last, and has all there
        is.
        """
        self._begin()
        asked = self._asked_starts() if start is None and not self._planned else {}
        start = self._planned if start is None else start
        if start == UNDECIDED:
            self._latest = self._initial_offsets()
            return self._nested(self._latest, self._initial_ids)
        seen = self._see() if self._target is None else self._target
        ids = {**ids_in(start), **seen.ids}
        begun = self._begun(start, seen)
        self._commit(begun)
        self._latest = {each: state.latest(begun.get(each, asked.get(each))) for each, state in seen.states.items()}
        if limit is None or isinstance(limit, ReadAllAvailable):
            return self._nested(self._latest, ids)
        begins = {each: state.begin(begun.get(each)) for each, state in seen.states.items()}
        limits = with_limit(limit, self._options.limits)
        waiting = lags(begins, self._latest)
        if self._target is None and self._delay.must_wait(sum(waiting.values()), limits, self._now_ms()):
            return start
        return self._nested(self._latest | self._limited(begins, waiting, limits), ids)

    def _asked_starts(self) -> Offsets:
        """Returns the offsets at which the options begin a query: they may be above the first open transaction."""
        return self._options.starting.offsets if isinstance(self._options.starting, AtOffsets) else {}

    def reportLatestOffset(self) -> Nested | None:  # noqa: N802
        return offsets_to_nested(self._latest) if self._latest else None

    def _see(self) -> Seen:
        """Returns all existing partitions of the subscription."""
        return self._seen(self._options.subscription.partitions_there(self._open_logs.look()))

    def _seen(self, partitions: Sequence[TopicPartition]) -> Seen:
        states = {each: self._state(log) for each, log in self._open_logs.catch_up(partitions).items()}
        return Seen(states, self._open_logs.ids)

    def _state(self, log: LogWatcher) -> PartitionState:
        """Returns the offsets of a log. Raises CorruptionError if damage hides its end, unless ``mode`` skips it."""
        first, end_offset, isolation = log.log_start_offset, log.log_end_offset, self._options.isolation
        if self._options.mode is not ReadMode.DROP_MALFORMED:
            log.check_readable_to(end_offset)
            return PartitionState(first, end_offset, log.stable_end(isolation))
        with log.despite_damage():
            return PartitionState(first, end_offset, log.stable_end(isolation))

    def _all_seen(self, partitions: Sequence[TopicPartition]) -> Seen:
        found = self._seen(partitions)
        missing = ", ".join(str(each) for each in partitions if each not in found.states)
        if missing:
            raise UnknownTopicOrPartitionError(
                f"{self._options.directory} has no directories of partitions {missing}: restore the directories, or "
                "remove these partitions from the subscription"
            )
        return found

    def _offset_at(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        log = self._open_logs.get(partition)
        found = offset_at(log, timestamp_ms, self._options)
        return log.with_lost_before(found, lambda other_ms: offset_at(log, other_ms, self._options))

    def _limited(self, begins: Offsets, waiting: Offsets, limits: TriggerLimits) -> Offsets:
        """Returns the offsets at which a micro-batch ends, by all limits, for partitions with new offsets."""
        ends = {each: begins[each] + lag for each, lag in waiting.items()}
        if limits.max_offsets is not None:
            most = shares(limits.max_offsets, waiting)
            ends = {each: min(end, begins[each] + most[each]) for each, end in ends.items()}
        if limits.max_bytes is not None:
            most = shares(limits.max_bytes, waiting)
            # Searched again: under AvailableNow, files seen at first may be deleted by now.
            logs = self._open_logs.catch_up(ends)
            ends |= {each: self._within(log, begins[each], ends[each], most[each]) for each, log in logs.items()}
        return ends

    def _within(self, log: LogWatcher, start: int, end: int, max_bytes: int) -> int:
        with log.despite_damage() if self._options.mode is ReadMode.DROP_MALFORMED else nullcontext():
            return log.offset_within(start, end, max_bytes)

    # A micro-batch

    def partitions(self, start: Nested, end: Nested) -> Sequence[InputPartition]:
        """Returns one OffsetRange per task of a micro-batch; reports lost records (``failOnDataLoss``)."""
        self._planned = end
        if start == UNDECIDED:
            return []
        begun, ended = _offsets(start), _offsets(end)
        there, ids = self._open_logs.catch_up(ended), self._open_logs.ids
        self._report_missing((begun.keys() | ended.keys()) - there.keys() - self._unplanned(begun, ended))
        begun = self._same(begun, ids_in(start), ids_in(end))
        planned = self._same(ended, ids_in(end), ids)
        ranges = [
            part
            for each, log in there.items()
            if each in planned
            for part in self._ranges(each, log, begun.get(each), planned[each])
        ]
        ranges = [replace(each, topic_id=ids.get(each.source.topic)) for each in ranges]
        return plan(ranges, self._options.tasks, self._bytes_of)

    def _begun(self, start: Nested, seen: Seen) -> Offsets:
        """Returns the offsets in ``start``, without those of topics that were made again.

        With ``failOnDataLoss``, reports these topics, missing partitions and logs that end before their start, before
        Spark stores an end that lacks them, or is below the start.
        Without it, their plan reports them: a query that waits for more records gets here a hundred times per second.
        """
        begun, others = _offsets(start), made_again(ids_in(start), seen.ids)
        if self._options.loss.fails:
            self._report_others(others)
            self._report_missing(begun.keys() - seen.states.keys())
            for each, state in seen.states.items():
                self._check_end(each, begun.get(each), state.next)
        return {each: offset for each, offset in begun.items() if each.topic not in others}

    def _same(self, offsets: Offsets, known: TopicIds, now: TopicIds) -> Offsets:
        """Returns the offsets of topics that are the same; reports the others, whose offsets are of no use."""
        others = made_again(known, now)
        self._report_others(others)
        return {each: offset for each, offset in offsets.items() if each.topic not in others}

    def _report_others(self, others: Mapping[str, str]) -> None:
        for text in others.values():
            self._options.loss.report(
                UnknownTopicOrPartitionError,
                f"{text} in {self._options.directory}. Put back the topic that it was, or start the query with a new "
                "checkpoint to read the new one",
            )

    def _unplanned(self, begun: Offsets, ended: Offsets) -> set[TopicPartition]:
        """Returns partitions that were created after this micro-batch was planned; the next one reads them.

        They occur only if a failed first micro-batch is repeated: Spark asks for the initial offsets again, so the
        start has the new partitions, but the planned end, which an earlier run wrote, does not. In other micro-batches,
        a partition without an end was missing when the end was planned, even if it exists again.
        """
        is_first_repeated = self._initial is not None and self._latest is None
        if not is_first_repeated or begun.keys() <= ended.keys():
            return set()
        return set(self._options.subscription.partitions_there(self._open_logs.manager)) - ended.keys()

    def _ranges(self, partition: TopicPartition, log: LogWatcher, start: int | None, end: int) -> list[OffsetRange]:
        """Returns the ranges to read from a partition, in order; a subclass may read some of them elsewhere."""
        return [self._range(partition, log, start, end)]

    def _range(self, partition: TopicPartition, log: LogWatcher, start: int | None, end: int) -> OffsetRange:
        first, end_offset = log.earliest_offset, log.log_end_offset
        self._check_end(partition, start, end)
        if start is not None and end < start:
            start = first
        elif start is None and first > 0:
            self._lost(f"{partition} is new and begins at offset {first}: earlier records were not read")
        elif start is not None and start < first:
            self._lost(f"{partition} now begins at offset {first}: offsets {start} to {first - 1} were not read")
        if end > end_offset:
            self._lost(
                f"{partition} ends at {end_offset}, but was to be read up to {end}: it was truncated, or exchanged"
            )
        begin = first if start is None else max(start, first)
        part = OffsetRange(partition, begin, max(begin, min(end, end_offset)))
        return behind_lost(log, part, self._options)

    def _check_end(self, partition: TopicPartition, start: int | None, end: int) -> None:
        if start is not None and end < start:
            self._lost(f"{partition} ends at {end}, but was read up to {start}: it was truncated, or exchanged")

    def _lost(self, message: str) -> None:
        self._options.loss.report(OffsetOutOfRangeError, message)

    def _report_missing(self, partitions: Iterable[TopicPartition]) -> None:
        names = ", ".join(map(str, sorted(partitions)))
        if names:
            self._options.loss.report(
                UnknownTopicOrPartitionError,
                f"partitions that were read before no longer exist, or are no longer subscribed: {names}; their unread "
                "records are skipped",
            )

    def _bytes_of(self, part: OffsetRange) -> int:
        return self._open_logs.get(part.source).bytes_between(part.start, part.end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the records of a task's range. Runs in a worker, which keeps logs open between tasks."""
        assert isinstance(partition, OffsetRange)
        yield from self._read_log(partition, self._options)

    def _read_log(self, partition: OffsetRange, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        open_logs = open_logs_of_this_process(options.directory, options.overrides, KEPT_BY_TASKS)
        log = open_logs.catch_up([partition.source]).get(partition.source)
        if log is None:
            self._report_missing([partition.source])
            return
        planned = {} if partition.topic_id is None else {partition.source.topic: partition.topic_id}
        if not self._same({partition.source: partition.start}, planned, open_logs.ids):
            return
        yield from batches_of(log, partition, options, self._schema)
        log.rest(partition.start, partition.end)

    # Afterwards

    def commit(self, end: Nested) -> None:
        """Commits ``end`` for the group. Spark calls this when it plans the next micro-batch, so not after the last."""
        self._commit(_offsets(end))

    def _commit(self, ended: Offsets) -> None:
        """Commits offsets for the group, so that Kafka's tools show the query's progress; the query does not use them.

        Also called with the start of the next micro-batch, before which Spark has finished everything: there may be
        no next micro-batch for which Spark would call :meth:`commit`.
        """
        group = self._options.group_id
        if group is not None and ended and ended != self._committed:
            offsets = {partition: CommittedOffset(offset) for partition, offset in ended.items()}
            GroupOffsets(self._open_logs.manager).commit(group, offsets)
            self._committed = ended

    def _begin(self) -> None:
        """Logs the notices of the options, before the first micro-batch.

        Raises LogDirLockedError if offsets cannot be committed for the group, which otherwise would fail only after a
        micro-batch.
        """
        self._options.log_notices()
        check_served(self._options)
        if self._options.group_id is not None:
            self._open_logs.manager.check_writable()

    def stop(self) -> None:
        self._open_logs.close()


def _offsets(nested: Mapping[str, Any]) -> Offsets:
    return offsets_from_nested(nested, "of the checkpoint", least=0)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
