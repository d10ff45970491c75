"""Staging: a task puts record batches into objects of at most 32 MiB, before a commit names them.

A larger batch has an object to itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from random import SystemRandom
from typing import NamedTuple, Self

import numpy as np

from ..clock import Clock, SystemClock
from ..config import LogConfig
from ..errors import RecordTooLargeError, UnknownTopicOrPartitionError
from ..format import v2
from ..format.tables import BatchHeaders, Bytes, Int64s
from ..writing.append_info import AppendInfo
from ..writing.checks.batches import check_batch_sizes
from .commits.commit import OBJECT, StagedObject
from .staged_objects import FilledSlice, encode_object, rows_of
from .stores.patience import Attempts, Patience, PatientStore
from .stores.port import PUT_BYTES_MAX, ObjectStore

STAGED_BYTES_MAX = 32 << 20  # limit of an object's slices; a larger batch is alone in its object
BATCH_BYTES_MAX = PUT_BYTES_MAX - (64 << 10)  # limit of a batch: such an object has only this batch, and a small footer


class StagedTopic(NamedTuple):
    """The facts about a topic that a task needs."""

    topic_id: str
    partitions: int
    config: LogConfig


class Staged(NamedTuple):
    """The objects and slices that a task staged, for the commit."""

    objects: list[StagedObject]
    slices: dict[tuple[str, int], Int64s]  # by topic id and partition; columns as in a commit


def combined(tasks: Iterable[Staged]) -> Staged:
    """Merges the results of several tasks; in each partition, records are in the order of the tasks."""
    objects: list[StagedObject] = []
    slices: dict[tuple[str, int], list[Int64s]] = defaultdict(list)
    for task in tasks:
        for partition, rows in task.slices.items():
            moved = rows.copy()
            moved[:, OBJECT] += len(objects)
            slices[partition].append(moved)
        objects += task.objects
    return Staged(objects, {partition: np.concatenate(rows) for partition, rows in slices.items()})


class Stager:
    """Stages the batches that one attempt of a task writes.

    For one thread; a second thread puts objects while the task continues. Staged records become visible only by a
    commit. Objects of a task that failed, or whose result is not used, are deleted by the collector.
    """

    def __init__(
        self,
        store: ObjectStore,
        write: str,
        task: int,
        attempt: int,
        topics: Mapping[str, StagedTopic],
        attempts: Callable[[], Attempts] | None = None,
        *,
        clock: Clock | None = None,
        limit: int = STAGED_BYTES_MAX,
    ) -> None:
        """``write``: 32 hex digits that all tasks of a commit share. ``attempts``: limits the repetitions of a put."""
        self._store = PatientStore(store, attempts or self._attempts)
        self._write, self._task, self._attempt = write, task, attempt
        self._topics, self._clock, self._limit = topics, clock or SystemClock(), limit
        self._filling: dict[tuple[str, int], FilledSlice] = {}
        self._filled = 0  # bytes
        self._appended: dict[tuple[str, int], int] = defaultdict(int)  # records
        self._objects: list[StagedObject] = []
        self._rows: dict[tuple[str, int], list[list[int]]] = defaultdict(list)
        self._thread = ThreadPoolExecutor(1)
        self._putting: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _attempts(self) -> Attempts:
        return Attempts(Patience.of_process(), self._clock, SystemRandom())

    def append(self, topic: str, partition: int, batches: v2.EncodedBatches) -> AppendInfo:
        """Adds batches of validated records. Changes their buffer: offsets, epoch, producer, checksum.

        Offsets in the result count the task's own records of the partition, from 0 on. Raises RecordTooLargeError for a
        batch above ``max.message.bytes`` or what one put takes, UnknownTopicOrPartitionError, and ObjectStoreError
        if an earlier object could not be put.
        """
        known = self._topics.get(topic)
        if known is None or not 0 <= partition < known.partitions:
            raise UnknownTopicOrPartitionError(f"partition {partition} of topic {topic!r} was not to be written to")
        buffer, headers = batches
        key, first = (known.topic_id, partition), self._appended[known.topic_id, partition]
        if not len(headers):
            return AppendInfo(first, first - 1, -1, -1, 0)
        check_batch_sizes(headers, known.config)
        check_fits_put(int(headers.table["size"].max()))
        time_ms = self._clock.now_ms() if known.config.message_timestamp_type == "LogAppendTime" else -1
        for some in self._fitting(headers):
            self._add(key, buffer, some, time_ms)
        records, size = _records(headers), int(headers.table["size"].sum())
        self._appended[key] = first + records
        newest = time_ms if time_ms >= 0 else int(headers.table["max_timestamp"].max())
        return AppendInfo(first, first + records - 1, newest, time_ms, size)

    def finish(self) -> Staged:
        """Puts the remaining batches and waits; returns the objects and slices for the commit.

        Raises like :meth:`append`.
        """
        try:
            self._put()
            self._wait()
        finally:
            self.close()
        return Staged(self._objects, {key: np.array(rows, np.int64) for key, rows in self._rows.items()})

    def close(self) -> None:
        """Ends the thread; drops batches that were not put."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _fitting(self, headers: BatchHeaders) -> Iterator[BatchHeaders]:
        """Yields the batches in runs that fit into the object; when none fits, puts the object and begins another.

        An empty object takes one batch of any size.
        """
        ends = np.cumsum(headers.table["size"].astype(np.int64))
        start = 0
        while start < len(headers):
            taken = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, taken + self._limit - self._filled, side="right"))
            if stop <= start and self._filled:
                self._put()
                continue
            stop = max(stop, start + 1)
            yield headers[start:stop]
            start = stop

    def _add(self, key: tuple[str, int], buffer: Bytes, headers: BatchHeaders, time_ms: int) -> None:
        into = self._filling.setdefault(key, FilledSlice())
        headers = v2.stamp_producer(
            buffer,
            headers,
            base_offset=into.records,
            leader_epoch=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            transactional=False,
        )
        if time_ms >= 0:
            headers = v2.set_append_time(buffer, headers, time_ms)
        data = buffer[int(headers.table["position"][0]) : headers.end].tobytes()
        into.parts.append(data)
        into.sizes += headers.table["size"].tolist()
        into.records = headers.next_offset
        into.max_timestamp = max(into.max_timestamp, int(headers.table["max_timestamp"].max()))
        self._filled += len(data)

    def _put(self) -> None:
        """Begins to put the filled object; first waits for the previous one, so that at most two are in memory."""
        if not self._filling:
            return
        slices, self._filling, self._filled = list(self._filling.items()), {}, 0
        data, number = encode_object(self._write, slices), len(self._objects)
        staged = StagedObject(self._task, self._attempt, number, len(data))
        for key, row in rows_of(slices, number):
            self._rows[key].append(row)
        self._objects.append(staged)
        self._wait()
        self._putting = self._thread.submit(self._store.put_unique, staged.key(self._write), data)

    def _wait(self) -> None:
        if self._putting is not None:
            self._putting.result()
            self._putting = None


def check_fits_put(size: int) -> None:
    """Raises RecordTooLargeError for a batch of ``size`` bytes that is too large for a put.

    Only a topic whose ``max.message.bytes`` was not set in this log, such as a copy, can have such batches.
    """
    if size > BATCH_BYTES_MAX:
        raise RecordTooLargeError(
            f"a batch has {size} bytes, but an object has room for {BATCH_BYTES_MAX}: send smaller ones"
        )


def _records(headers: BatchHeaders) -> int:
    table = headers.table
    return int((table["last_offset"] - table["base_offset"] + 1).sum())
