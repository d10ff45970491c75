"""Spark's reader of a stream that begins in a table and continues in its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ....storage import (
    InvalidConfigError,
    LogWatcher,
    OffsetOutOfRangeError,
    TopicPartition,
    did_you_mean,
    find_made_again,
)
from ...read.open_logs import PartitionState, Seen
from ...read.options import ReadOptions
from ...read.stream import StreamReader
from ...read.task_ranges import OffsetRange
from ...rows.arrow_schema import as_arrow
from ...rows.offsets import DataLoss
from ...workers.border import errors_end_here
from ..provenance.other_log import other_log
from .table_files import TableFiles
from .tail_rows import TailRows

# A task of a table sorts its rows, which take more memory than their compressed files; so it reads fewer bytes.
_IN_MEMORY = 4  # bytes in memory for each byte of a file
_OFFSET = "_offset"


@dataclass
class TableRange(OffsetRange):
    """The rows that one task reads from the table."""


def table_schema(path: str, names: Sequence[str] | None) -> StructType:
    """Returns the schema of the table at ``path``, or of the columns ``names``, in their order.

    Raises InvalidConfigError for a column that the table lacks, and the errors of :meth:`TableFiles.newest`.
    """
    found = TableFiles.newest(path).schema
    if names is None:
        return found
    for name in names:
        if name not in found.names:
            hint = did_you_mean(name, found.names)
            raise InvalidConfigError(f"option columns: table {path} has no column {name!r}{hint}")
    return StructType([found[name] for name in names])


@errors_end_here
class TableStreamReader(StreamReader):
    """Reads rows below the table's next offsets from the table, and the others from the log.

    The newest version of the table counts. Its end is compared with the log before each micro-batch, and again in each
    task: files may have been removed since, and also records that the table has by then.
    """

    def __init__(self, options: ReadOptions, schema: StructType, now_ms: Callable[[], int] | None = None) -> None:
        """Raises InvalidConfigError for a table of mode upsert, and for columns that it lacks."""
        assert options.table is not None
        self._path, self._files = options.table, TableFiles.newest(options.table)
        decoding = self._files.decoding
        serde = decoding.serde(self._files.name, self._files.schema)
        self._tail = TailRows(_columns(schema, self._files), serde, decoding.keeps_bad_apart)
        super().__init__(options, self._tail.record_schema, now_ms)

    def __getstate__(self) -> dict[str, Any]:
        """Pickles the reader for tasks, which read the newest version of the table."""
        return {**self.__dict__, "_files": None}

    # Where the table ends

    def _seen(self, partitions: Sequence[TopicPartition]) -> Seen:
        """Reads the log's ends first: the table has the records deleted by then, if retention keeps all others."""
        seen = super()._seen(partitions)
        self._pin(seen)
        if any(self._end_of_table(each) > state.next for each, state in seen.states.items()):
            seen = super()._seen(partitions)  # records that were written and exported since
        for each, state in seen.states.items():
            if self._end_of_table(each) > state.next:
                raise other_log(
                    f"{self._files.name} has {each} up to offset {self._end_of_table(each) - 1}, but the log in "
                    f"{self._options.directory} ends at {state.next}"
                )
        return seen._replace(states={each: self._with_table(each, state) for each, state in seen.states.items()})

    def _pin(self, seen: Seen) -> None:
        self._files = TableFiles.newest(self._path)
        known = self._files.known
        if others := {each.topic for each in known.offsets} - {each.topic for each in seen.states}:
            raise InvalidConfigError(f"{self._files.name} has rows of topic {', '.join(sorted(others))}")
        if text := find_made_again(known.ids, seen.ids):
            raise other_log(f"{self._files.name}: {text} in {self._options.directory}")

    def _end_of_table(self, partition: TopicPartition) -> int:
        return self._files.known.offsets.get(partition, 0)

    def _with_table(self, partition: TopicPartition, state: PartitionState) -> PartitionState:
        if partition not in self._files.known.offsets:
            return state
        first, end = self._files.first_offset(partition), self._end_of_table(partition)
        return PartitionState(first, state.next, max(state.end, end))

    def _earliest(self, partition: TopicPartition, state: PartitionState) -> int:
        return state.first if partition in self._files.known.offsets else super()._earliest(partition, state)

    def _offset_at(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        end = self._end_of_table(partition)
        found = self._files.offset_at(partition.partition, timestamp_ms) if end else None
        if found is not None:
            return found
        later = super()._offset_at(partition, timestamp_ms)
        return None if later is None else max(later, end)

    # A micro-batch

    def _ranges(self, partition: TopicPartition, log: LogWatcher, start: int | None, end: int) -> list[OffsetRange]:
        """Returns a TableRange for offsets in the table, and an OffsetRange for those after it."""
        if start == end:
            return []  # the next micro-batch reads from the table what the log has deleted by now
        first = log.earliest_offset
        if (start or 0) < first and self._end_of_table(partition) < min(end, first):
            self._files = TableFiles.newest(self._path)  # records were exported and deleted since the last check
        begin = self._files.first_offset(partition) if start is None and self._end_of_table(partition) else start
        seam = min(end, self._end_of_table(partition))
        if begin is None or not begin < seam:
            return super()._ranges(partition, log, begin, end)
        of_table: list[OffsetRange] = [TableRange(partition, begin, seam)]
        return of_table if seam == end else [*of_table, *super()._ranges(partition, log, seam, end)]

    def _bytes_of(self, part: OffsetRange) -> int:
        if isinstance(part, TableRange):
            return int(part.size * self._files.bytes_per_offset * _IN_MEMORY)
        return super()._bytes_of(part)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task's range, from the table or the log, wherever they are by now."""
        assert isinstance(partition, OffsetRange)
        if isinstance(partition, TableRange):
            yield from self._read_table(partition)
        else:
            yield from self._read_tail(partition)

    def _read_table(self, part: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Continues after the last row if a file is missing: a newer version has its rows in other files."""
        files, start = TableFiles.newest(self._path), part.start
        while start < (end := min(part.end, files.known.offsets.get(part.source, 0))):
            try:
                for batch in files.rows(part.source.partition, start, end, self._asked):
                    if batch.num_rows:
                        yield self._of_table(batch)
                        start = batch.column(_OFFSET)[-1].as_py() + 1
                start = end
            except Exception:  # delta-rs raises no narrower one for a missing file
                newer = TableFiles.newest(self._path)
                if newer.version == files.version:
                    raise
                files = newer
        if start < part.end:  # the table was set back, and the log may have the rest
            yield from self._read_tail(OffsetRange(part.source, start, part.end, part.topic_id))

    @cached_property
    def _asked(self) -> list[str]:
        return list(dict.fromkeys([_OFFSET, *self._tail.columns.names]))

    def _of_table(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [batch.column(field.name).cast(field.type) for field in self._tail.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._tail.columns)

    def _read_tail(self, part: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Reads the log; records deleted there since the task was planned are in the table by now."""
        strict, start = replace(self._options, loss=DataLoss(fails=True)), part.start
        try:
            for batch in self._read_log(part, strict):
                yield self._tail.rows(batch, part.source)
                start = batch.column("offset")[-1].as_py() + 1
        except OffsetOutOfRangeError:
            end = min(part.end, TableFiles.newest(self._path).known.offsets.get(part.source, 0))
            if start < end:
                yield from self._read_table(TableRange(part.source, start, end, part.topic_id))
                start = end
            for batch in self._read_log(replace(part, start=start), self._options):
                yield self._tail.rows(batch, part.source)


def _columns(schema: StructType, files: TableFiles) -> pa.Schema:
    """Returns ``schema`` in Arrow's types. Raises InvalidConfigError for columns that are not the table's."""
    found = files.schema
    for field in schema.fields:
        if field.name not in found.names or found[field.name].dataType != field.dataType:
            raise InvalidConfigError(
                f"{files.name} has no column {field.name} of type {field.dataType.simpleString()}; it has "
                f"{found.simpleString()}"
            )
    return as_arrow(schema)
