"""BrokerLog: a topic of any Kafka, read by tasks that fetch whole batches from the leader of a partition.

A task is a range of offsets of one partition. Each connects to the brokers itself, as the low-level consumer of the
first Hadoop loads did.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ....arrow.batches import to_batch
from ....mirror.brokers.connections import ListedTopic
from ....mirror.brokers.requests import EARLIEST as _EARLIEST, LATEST as _LATEST
from ....mirror.errors import RetriableError
from ....mirror.sources.port import Source, Sources
from ....mirror.sources.settings import sources_of
from ....storage import (
    OffsetOutOfRangeError,
    Records,
    TopicIds,
    TopicPartition,
    UnknownTopicOrPartitionError,
    visible_records,
)
from ...rows.offsets import LATEST
from ...rows.spark_schema import arrow_schema, read_schema
from ..command.words import FROM_OFFSETS
from ..points import Points, Wanted, asked_offsets, offset_in_log, time_of
from ..provenance.other_log import other_log
from ..table_ends import LastRow
from .topic_log import OpenLog

TASK_OFFSETS = 1_000_000  # limit of one task, so that several tasks read a long partition
_PATIENCE_S = 60.0  # how long a broker may return nothing below the end
_TASK = "topic string, partition int, start long, end long"


class BrokerLog:
    """A topic at brokers; ``settings`` are those of a consumer without a group."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        """Raises InvalidConfigError for a wrong setting."""
        self._settings, self.topic = settings, topic
        self._sources = sources_of(settings)

    @contextmanager
    def opened(self) -> Iterator[OpenLog]:
        source = self._sources.open()
        try:
            yield _OpenBrokers(source, self.topic, str(self._sources))
        finally:
            source.close()

    def read_between(
        self, session: SparkSession, starts: Points, ends: Points, options: Mapping[str, str]
    ) -> DataFrame:
        schema, tasks = read_schema(include_headers=True), list(_tasks(self.topic, starts, ends))
        read = FetchTask(self._settings, null_times=options.get("mode") == "permissive")
        rows = session.createDataFrame(tasks, _TASK).repartitionByRange(max(len(tasks), 1), "partition", "start")
        return rows.mapInArrow(read, schema)

    def __str__(self) -> str:
        return str(self._sources)


def _tasks(topic: str, starts: Points, ends: Points) -> Iterator[tuple[str, int, int, int]]:
    for number, start in starts.items():
        for first in range(start, ends[number], TASK_OFFSETS):
            yield topic, number, first, min(first + TASK_OFFSETS, ends[number])


@dataclass(frozen=True)
class FetchTask:
    """The function of a Spark task: ranges of offsets in, records out."""

    settings: Mapping[str, str]
    null_times: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(read_schema(include_headers=True))
        for batch in batches:
            for row in batch.to_pylist():
                partition = TopicPartition(row["topic"], row["partition"])
                for records in fetched(sources_of(self.settings), partition, row["start"], row["end"]):
                    yield to_batch(records, partition, schema, null_times=self.null_times)


def fetched(sources: Sources, partition: TopicPartition, start: int, end: int) -> Iterator[Records]:
    """Yields the committed records of a partition with ``start <= offset < end``, in order.

    Raises OffsetOutOfRangeError if some are no longer there, and RetriableError if the brokers do not answer.
    """
    source = sources.open()
    try:
        offset, deadline_s = start, time.monotonic() + _PATIENCE_S
        while offset < end:
            answers, following = source.fetch({partition: offset}), offset
            if partition in answers:
                answer = answers[partition]
                if answer is None:
                    raise OffsetOutOfRangeError(f"{sources} no longer has offset {offset} of {partition}")
                records, following = visible_records(answer)
                if len(wanted := records.between(start, end)):
                    yield wanted
            if following > offset:
                offset, deadline_s = following, time.monotonic() + _PATIENCE_S
            elif time.monotonic() > deadline_s:
                raise OffsetOutOfRangeError(
                    f"{sources} has no whole batch of {partition} at offset {offset}, below {end}"
                )
    finally:
        source.close()


class _OpenBrokers:
    def __init__(self, source: Source, topic: str, name: str) -> None:
        self._source, self._topic, self._name = source, topic, name

    def ids(self) -> TopicIds:
        """Returns nothing for a topic of brokers before 2.8; the time of each partition's last row is compared, too."""
        topic_id = self._listed.topic_id
        return {} if topic_id is None else {self._topic: topic_id}

    def bounds(self) -> dict[int, tuple[int, int]]:
        return self._bounds

    @cached_property
    def _bounds(self) -> dict[int, tuple[int, int]]:
        """Requested only once: each partition's last row is compared with them, and later records are not loaded."""
        partitions = self._partitions()
        firsts, ends = self._offsets(partitions, _EARLIEST), self._offsets(partitions, _LATEST)
        return {each.partition: (firsts[each], ends[each]) for each in partitions}

    def _offsets(self, partitions: Collection[TopicPartition], at: int) -> dict[TopicPartition, int]:
        """Returns an offset of each partition. Raises RetriableError if one has no leader: nothing is loaded then."""
        found = self._source.offsets(partitions, at)
        if missing := sorted(set(partitions).difference(found)):
            raise RetriableError(f"{missing[0]} of {self._name} has no leader: load the topic again when it has one")
        return found

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in range(self._listed.partitions)]

    @cached_property
    def _listed(self) -> ListedTopic:
        for each in self._source.topics():
            if each.name == self._topic:
                return each
        raise UnknownTopicOrPartitionError(f"{self._name} has no topic {self._topic!r}")

    def points(self, wanted: Wanted) -> Points:
        """Returns points like :func:`find_points`; brokers before 0.10.1 only know times of files."""
        time_ms, bounds = time_of(wanted), self._bounds
        if time_ms is not None:
            found = self._offsets([TopicPartition(self._topic, number) for number in bounds], time_ms)
            ends = {each: bounds[each.partition][1] for each in found}
            return {each.partition: at if 0 <= at < ends[each] else ends[each] for each, at in found.items()}
        asked = asked_offsets(FROM_OFFSETS, wanted.offsets or "", self._topic, list(bounds), refused=LATEST)
        log = f"the log at {self._name}"
        return {
            number: offset_in_log(offset, *bounds[number], f"{self._topic}-{number}", log)
            for number, offset in asked.items()
        }

    def check_same(self, last: LastRow, path: str) -> None:
        """Accepts a log in which the record of the row was deleted or compacted."""
        row = f"{path} has a row from offset {last.offset} of {self._topic}-{last.partition}"
        first, end = self._bounds[last.partition]
        if last.offset >= end:
            raise other_log(f"{row}, but the log at {self._name} ends at {end}")
        if last.offset < first or last.timestamp_ms is None:
            return
        partition = TopicPartition(self._topic, last.partition)
        answer = self._source.fetch({partition: last.offset}).get(partition)
        there = None if answer is None else visible_records(answer)[0].between(last.offset, last.offset + 1)
        if there is not None and len(there) and int(there.timestamps[0]) != last.timestamp_ms:
            raise other_log(
                f"{row} with the time {last.timestamp_ms} ms, but the record there at {self._name} has the time "
                f"{int(there.timestamps[0])} ms"
            )
