"""The task's side of a write: Arrow batches in, record batches in the log, one row a partition out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pyspark_commitlog.pipeline.arrow import to_records
from pyspark_commitlog.pipeline.partitioner import choose, shares
from pyspark_commitlog.pipeline.topics import Target, shared_manager
from pyspark_commitlog.storage import (
    AppendInfo,
    BatchFields,
    Codec,
    EncodedBatches,
    LogConfig,
    Scratch,
    TopicDescription,
    encode_batches,
    target_compression,
    validate_columns,
)

BATCH_HEADER_BYTES = 61  # of a batch without records; max.message.bytes counts it in


class Written(NamedTuple):
    """What one task wrote to one partition."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int  # other tasks' records may lie between first and last
    records: int
    bytes: int

    def plus(self, later: Written) -> Written:
        return self._replace(
            last_offset=later.last_offset, records=self.records + later.records, bytes=self.bytes + later.bytes
        )


WRITTEN = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("first_offset", LongType()),
        StructField("last_offset", LongType()),
        StructField("records", LongType()),
        StructField("bytes", LongType()),
    ]
)


@dataclass(frozen=True)
class TaskWriter:
    """The function for ``mapInArrow``; travels to the workers.

    Appends batch by batch, so that a task needs memory for one Arrow batch, and syncs every partition it touched before
    it answers: on the disk is then all of the answer.
    """

    target: Target
    topic: TopicDescription

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _Task(self.target, self.topic)
        for batch in batches:
            if batch.num_rows:
                task.append(batch)
        yield _rows(task.finish())


class _Task:
    def __init__(self, target: Target, topic: TopicDescription) -> None:
        manager = shared_manager(target.directory, topic.topic_id)
        self._target = target
        self._logs = {number: manager.open_log(target.topic, number) for number in topic.partitions}
        self._config = LogConfig.from_mapping(topic.configs)
        self._batch_bytes_max = min(target.batch_bytes, self._config.max_message_bytes - BATCH_HEADER_BYTES)
        compression = target_compression(self._config, Codec.NONE)
        self._fields = BatchFields(codec=compression.codec, level=compression.level)
        self._scratch = Scratch()
        self._written: dict[int, Written] = {}
        context = TaskContext.get()
        self._sticky = context.partitionId() if context else 0  # tasks begin at different partitions, batches go round

    def append(self, batch: pa.RecordBatch) -> None:
        """Encode for every partition, check, then append: a record that is too large leaves nothing of its table."""
        for number, encoded in self._encoded(batch):
            self._count(number, self._logs[number].append_encoded(encoded, sync=False))
        self._sticky += 1

    def finish(self) -> list[Written]:
        """Sync what was appended, and tell it."""
        for number in self._written:
            self._logs[number].flush()
        return list(self._written.values())

    def _encoded(self, batch: pa.RecordBatch) -> Iterator[tuple[int, EncodedBatches]]:
        now_ms = time.time_ns() // 1_000_000
        records = to_records(batch, now_ms=now_ms)
        validate_columns(records, now_ms=now_ms, config=self._config)
        assert records.keys is not None  # a missing column is one of nulls
        asked = batch.column("partition") if "partition" in batch.schema.names else None
        chosen = choose(records.keys, asked, len(self._logs), sticky=self._sticky)
        for number, rows in shares(chosen, len(self._logs)):
            yield (
                number,
                encode_batches(
                    records, self._fields, rows=rows, batch_bytes_max=self._batch_bytes_max, scratch=self._scratch
                ),
            )

    def _count(self, number: int, info: AppendInfo) -> None:
        added = Written(
            self._target.topic,
            number,
            info.first_offset,
            info.last_offset,
            info.last_offset - info.first_offset + 1,
            info.size,
        )
        before = self._written.get(number)
        self._written[number] = added if before is None else before.plus(added)


def _rows(written: list[Written]) -> pa.RecordBatch:
    kinds = [pa.string(), pa.int32(), *[pa.int64()] * 4]
    columns = zip(*written, strict=True) if written else [()] * len(kinds)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(Written._fields))
