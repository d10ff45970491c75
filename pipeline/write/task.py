"""The task of a write: appends Arrow batches as record batches, and returns one answer per partition."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.taskcontext import TaskContext  # pyspark does not export it if only Connect's client is installed

from ...arrow.batches import to_records
from ...storage import (
    BatchFields,
    Divided,
    EncodedBatches,
    LogConfig,
    Records,
    ShareEncoder,
    TopicDescription,
    TopicPartition,
    TransactionRefusedError,
    bytes_in_batch,
    find_refused,
    gathered,
)
from .answers import ARROW_ANSWER, Answer, UnwritableRowError, Written
from .bad_rows import BadRow, Origin, keyless_headers, to_bad_records
from .partitioners.chooser import UNKNOWN, Chooser, PartitionerError, Rows, Source
from .partitioners.setting import KafkasPartitioner
from .publication.port import Append, TaskNumbers, Ticket
from .targets import ProducerSettings, Targets

# The bytes of rows that a task encodes and appends at once. Nearly half the time of an append of some megabytes does
# not depend on its size, so a task with many rows appends many at once. But only appended rows are on their way to
# disk, and the end of the task waits for the rest.
TABLE_BYTES_MIN = 16 * 2**20
TABLE_BYTES_MAX = 24 * 2**20  # the most to wait for; half as much again may arrive, and one more Arrow batch
PART_BYTES_MIN = 2**15  # wait for this many bytes per partition on average, so that record batches are large
PARTS_BYTES_MAX = 32 * 2**20  # but wait for no more than this, in all partitions together

Bytes = npt.NDArray[np.uint8]
NOWHERE = -1  # in place of a partition: the row is not written


@dataclass(frozen=True)
class WritePlan:
    """The parameters of a write's tasks; pickled and sent to the workers."""

    directory: str
    topics: dict[str, TopicDescription]  # by name; including the one for bad records
    only: str | None  # the topic of all rows; None: the column topic names it
    done: frozenset[str]  # topics that already have this version; their rows are skipped
    bad_records: str | None
    producer: ProducerSettings
    ticket: Ticket
    version: int

    @classmethod
    def of(
        cls,
        targets: Targets,
        topics: Mapping[str, TopicDescription],
        done: frozenset[str],
        ticket: Ticket,
        version: int,
    ) -> Self:
        """Returns the plan for a write that has begun.

        ``topics`` are those of the targets that are not done, and the topic for bad records.
        """
        return cls(
            directory=targets.directory,
            topics=dict(topics),
            only=None if targets.by_column else targets.names[0],
            done=done,
            bad_records=targets.bad_records,
            producer=targets.producer,
            ticket=ticket,
            version=version,
        )

    @property
    def app_id(self) -> str:
        return self.ticket.app_id

    @property
    def wanted(self) -> frozenset[str]:
        """The topics that rows may be written to."""
        return frozenset(self.topics) - {self.bad_records}

    def settings_for(self, topic: str) -> ProducerSettings:
        """Returns the settings for a topic; the topic for bad records always has the default partitioner.

        The partition that a bad row names is a partition of the topic that refused the row.
        """
        if topic == self.bad_records:
            return replace(self.producer, partitioner=KafkasPartitioner.DEFAULT)
        return self.producer


@dataclass(frozen=True)
class TaskWriter:
    """Writes the rows of one task. A function for ``mapInArrow``; :meth:`answers` is for Arrow messages.

    Appends whenever enough rows have arrived, which limits the memory of a task. Before it returns, makes durable what
    it wrote, except the segments of a log directory that the driver syncs.

    An attempt that must not write answers with a refusal, and the driver begins another write: in a log directory, a
    second attempt, and one whose transaction has ended.
    """

    plan: WritePlan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([answer._asdict() for answer in self.answers(batches)], schema=ARROW_ANSWER)

    def answers(self, batches: Iterator[pa.RecordBatch]) -> list[Answer]:
        """Writes all rows. Returns one answer per partition, and one with what was put in an object store.

        Returns a single answer that says why nothing may be committed, if so.
        """
        numbers = _numbers()
        try:
            with closing(self.plan.ticket.appender(self.plan.directory, self.plan.topics, numbers)) as appender:
                written = _Task(self.plan, numbers.task, appender.append).write(batches)
                staged = appender.finish()
        except TransactionRefusedError as error:
            drain(batches)
            return [Answer(refused=str(error))]
        except UnwritableRowError as error:
            drain(batches)
            return [Answer(unwritable=str(error))]
        except PartitionerError as error:
            drain(batches)
            return [Answer(misplaced=str(error))]
        return [*(Answer(*each) for each in written), *([] if staged is None else [Answer(staged=staged)])]


def _numbers() -> TaskNumbers:
    context = TaskContext.get()
    if context is None:
        return TaskNumbers(0, 0, 0)
    return TaskNumbers(context.partitionId(), context.attemptNumber(), context.taskAttemptId())


def drain(batches: Iterator[pa.RecordBatch]) -> None:
    """Reads the remaining input: Spark does not reuse a worker that has not read all input."""
    for _ in batches:
        pass


def table_bytes(partitions: int) -> tuple[int, int]:
    """Returns the fewest and the most bytes that a task collects before it appends to this many partitions."""
    parts = min(partitions * PART_BYTES_MIN, PARTS_BYTES_MAX)
    return max(TABLE_BYTES_MIN, parts), max(TABLE_BYTES_MAX, parts)


_kept = threading.local()


def _kept_memory(size: int) -> Bytes:
    """Returns a buffer of ``size`` bytes that the thread reuses for all topics and tasks.

    Getting new memory from the system takes as long as writing to it.
    """
    if not hasattr(_kept, "memory") or len(_kept.memory) < size:
        _kept.memory = np.empty(size, dtype=np.uint8)
    return _kept.memory[:size]  # type: ignore[no-any-return]


class _Task:
    """Writes the rows of one task."""

    def __init__(self, plan: WritePlan, number: int, append: Append) -> None:
        self._plan = plan
        self._number = number
        self._append = append
        self._least, self._most = table_bytes(sum(len(topic.partitions) for topic in plan.topics.values()))
        memory = _kept_memory(2 * self._most)
        self._topics = {name: _TopicEncoder(topic, plan, number, memory) for name, topic in plan.topics.items()}
        self._written: dict[TopicPartition, Written] = {}
        self._rows_before = 0

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[Written]:
        """Appends every row, in order, and returns what was written to each partition. Raises UnwritableRowError.

        A second thread reads rows while this one encodes and appends, because Spark produces no rows while nobody reads
        them.
        """
        rows, size = filter(len, batches), attrgetter("nbytes")
        with closing(gathered(rows, size, least=self._least, most=self._most)) as tables:
            for table in tables:
                self._write_table(table)
        return list(self._written.values())

    def _write_table(self, table: list[pa.RecordBatch]) -> None:
        """Writes the rows of some Arrow batches with one append per partition.

        Divides all batches before it encodes any, and encodes all rows of a topic before it appends any: a step takes
        half the time if its code is still in the processor's caches.
        """
        divided = defaultdict[str, list[Divided]](list)
        now_ms = time.time_ns() // 1_000_000
        for batch in table:
            for topic, part in self._divided(batch, now_ms):
                divided[topic].append(part)
            self._rows_before += batch.num_rows
        for topic, parts in divided.items():
            for partition, batches in self._topics[topic].encode(parts):
                self._append_to(topic, partition, batches)

    def _divided(self, batch: pa.RecordBatch, now_ms: int) -> Iterator[tuple[str, Divided]]:
        """Yields the rows of an Arrow batch by topic, and bad rows as records of the topic for bad records."""
        bad: list[BadRow] = []
        keyless = keyless_headers(batch)
        if keyless:
            rest = np.setdiff1d(np.arange(batch.num_rows), keyless)
            yield from self._good(batch.take(pa.array(rest)), bad, now_ms)
            bad = [each._replace(row=int(rest[each.row])) for each in bad]
            named = [(row, self._topic_of(batch, row)) for row in keyless]
            bad += [BadRow(*each, None, "a header has no key") for each in named if not self._is_settled(each[1])]
        else:
            yield from self._good(batch, bad, now_ms)
        if bad:
            yield self._to_bad_topic(batch, sorted(bad), now_ms)

    def _good(self, batch: pa.RecordBatch, bad: list[BadRow], now_ms: int) -> Iterator[tuple[str, Divided]]:
        """Yields the rows that can be written, by topic; adds the others to ``bad``."""
        records = to_records(batch, now_ms)
        for topic, rows in self._by_topic(batch, bad):
            table, refused = self._topics[topic].divide(records, batch, rows, now_ms)
            bad += refused
            yield topic, table

    def _by_topic(self, batch: pa.RecordBatch, bad: list[BadRow]) -> Iterator[tuple[str, Rows | None]]:
        """Yields each topic with its rows, None for all rows; adds rows that name no topic of the write to ``bad``."""
        plan = self._plan
        if plan.only is not None:
            yield plan.only, None
            return
        named = batch.column("topic").dictionary_encode()
        numbers = named.indices.fill_null(-1).to_numpy()
        for number, topic in enumerate([*named.dictionary.to_pylist(), None]):
            rows = np.flatnonzero(numbers == (number if topic is not None else -1))
            if topic in plan.wanted:
                yield topic, rows
            elif not self._is_settled(topic):
                reason = (
                    "column topic is null" if topic is None else f"it is not one of {', '.join(sorted(plan.wanted))}"
                )
                bad += [BadRow(row, topic, None, reason) for row in rows.tolist()]

    def _is_settled(self, topic: str | None) -> bool:
        """Whether an earlier commit of this version took care of the rows of a topic.

        It did so for topics that have the version. Rows for no listed topic went to the topic for bad records then.
        """
        return bool(self._plan.done) and topic not in self._plan.wanted

    def _topic_of(self, batch: pa.RecordBatch, index: int) -> str | None:
        if self._plan.only is not None:
            return self._plan.only
        topic: str | None = batch.column("topic")[index].as_py()
        return topic

    def _append_to(self, topic: str, partition: int, encoded: EncodedBatches) -> None:
        info = self._append(topic, partition, encoded)
        count = info.last_offset - info.first_offset + 1
        added = Written(topic, partition, info.first_offset, info.last_offset, count, info.size, info.max_timestamp)
        topic_partition = TopicPartition(topic, partition)
        before = self._written.get(topic_partition)
        self._written[topic_partition] = added if before is None else before.plus(added)

    # Rows that cannot be written

    def _to_bad_topic(self, batch: pa.RecordBatch, bad: list[BadRow], now_ms: int) -> tuple[str, Divided]:
        """Returns bad rows as records of the topic for bad records, and that topic.

        Raises UnwritableRowError if there is no such topic, or if it refuses one of the rows too.
        """
        topic = self._plan.bad_records
        if topic is None:
            raise self._unwritable(bad[0])
        origin = Origin(self._plan.app_id, self._plan.version, self._number, self._rows_before)
        table, refused = self._topics[topic].divide(to_bad_records(batch, bad, origin, now_ms), None, None, now_ms)
        if refused:
            first = bad[refused[0].row]
            raise self._unwritable(first._replace(reason=f"{first.reason}; nor to topic {topic}: {refused[0].reason}"))
        return topic, table

    def _unwritable(self, bad: BadRow) -> UnwritableRowError:
        return UnwritableRowError(bad.message(self._rows_before + bad.row, self._number))


class _TopicEncoder:
    """Finds the rows that one topic refuses, and encodes the others."""

    def __init__(self, topic: TopicDescription, plan: WritePlan, task: int, memory: Bytes) -> None:
        producer = plan.settings_for(topic.name)
        self._name = topic.name
        self._config = LogConfig.from_mapping(topic.configs, broker=topic.broker)
        self._compression = producer.compression_in(self._config)
        room = bytes_in_batch(self._config.batch_size_max, self._compression)
        count, batch_bytes_max = len(topic.partitions), min(producer.batch_bytes, room)
        fields = BatchFields(codec=self._compression.codec, level=self._compression.level)
        self._encoder = ShareEncoder(count, fields, batch_bytes_max=batch_bytes_max, memory=memory)
        self._chooser = Chooser(
            producer.partitioner, topic.name, count, task=task, write=f"{plan.app_id}/{plan.version}"
        )

    def divide(
        self, records: Records, batch: pa.RecordBatch | None, rows: Rows | None, now_ms: int
    ) -> tuple[Divided, list[BadRow]]:
        """Divides ``rows`` (None: all) into those that the topic accepts, by partition, and those that it refuses.

        ``records`` were made of ``batch``; None for those made of rows that a topic refused.
        """
        assert records.keys is not None  # a missing column is one of nulls
        chosen = self._chooser.choose(Source(records.keys, batch, rows))
        reasons = dict(find_refused(records, now_ms=now_ms, config=self._config, compression=self._compression))
        reasons |= dict(self._chooser.refused(chosen))
        if rows is None and not reasons:
            return Divided(records, chosen), []
        mine = np.arange(len(records)) if rows is None else rows
        is_bad = np.isin(mine, list(reasons))
        taken = np.full(len(records), NOWHERE, dtype=np.int32)
        taken[mine[~is_bad]] = chosen[mine[~is_bad]]
        named = {row: int(chosen[row]) for row in mine[is_bad].tolist()}
        bad = [
            BadRow(row, self._name, None if partition == UNKNOWN else partition, reasons[row])
            for row, partition in named.items()
        ]
        return Divided(records, taken), bad

    def encode(self, tables: list[Divided]) -> Iterator[tuple[int, EncodedBatches]]:
        """Yields partitions with their record batches, encoded from results of :meth:`divide`.

        All topics of a task share one buffer, so append each result before you encode the next topic's rows.
        """
        self._chooser.move_on()
        return self._encoder.encode(tables)
