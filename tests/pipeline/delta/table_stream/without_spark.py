"""A topic with its table, written by delta-rs as the sink writes it with Spark, and a stream over both in one process.

Histories of thousands of steps take seconds so; ``tests/torture/table_streams.py`` has the sink, the queries and Delta.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyspark import cloudpickle

from pyspark_commitlog.arrow.values.recorded import serde_to_text
from pyspark_commitlog.arrow.values.serde import JsonSerde
from pyspark_commitlog.pipeline.datasource import CommitLogDataSource
from pyspark_commitlog.pipeline.delta.command.words import MODE_PROPERTY, SERDE_PROPERTY
from pyspark_commitlog.pipeline.read.admission import ReadAllAvailable, ReadMaxRows
from pyspark_commitlog.storage import Isolation, LogManager
from pyspark_commitlog.storage.format import v2
from tests.support.logs.building import NOW_MS, end_transaction, records

PARTITIONS = 2
SERDE = JsonSerde(pa.schema([("number", pa.int64())]))
COLUMNS = pa.schema(
    [
        ("_key", pa.binary()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", "UTC")),
        ("_headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("number", pa.int64()),
    ]
)
Row = tuple[int, int, int | None]  # partition, offset, number
Nested = dict[str, Any]


class Both:
    """The topic ``t``, whose records have the numbers 0, 1, 2 and so on, and its table."""

    def __init__(self, folder: Path) -> None:
        self.log_dir, self.table = str(folder / "log"), str(folder / "table")
        self.exported = dict.fromkeys(range(PARTITIONS), 0)
        self._written: list[tuple[Row, int | None]] = []  # with the producer of its transaction
        self._open: dict[int, int] = {}  # producer by partition
        with LogManager.open(self.log_dir, create=True) as manager:
            manager.create_topic("t", partitions=PARTITIONS, configs={"retention.ms": "-1"})

    def append(self, partition: int, count: int, *, in_transaction: bool = False) -> None:
        """Appends records; with ``in_transaction``, they begin a transaction, unless one is open."""
        if in_transaction and partition in self._open:
            return
        numbers = range(len(self._written), len(self._written) + count)
        encoded = records([b'{"number": %d}' % n for n in numbers], timestamps=[NOW_MS + 1000 * n for n in numbers])
        producer = len(self._written) if in_transaction else None
        if producer is not None:
            self._open[partition] = producer
        with LogManager.open(self.log_dir) as manager:
            log = manager.open_log("t", partition)
            first = log.log_end_offset
            if producer is None:
                log.append_records(encoded)
            else:
                fields = v2.BatchFields(producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
                log.append(v2.encode(encoded, fields))
        self._written += [((partition, first + n, number), producer) for n, number in enumerate(numbers)]

    def end(self, partition: int, *, commit: bool) -> None:
        if (producer := self._open.pop(partition, None)) is not None:
            with LogManager.open(self.log_dir) as manager:
                end_transaction(manager.open_log("t", partition), producer, commit=commit)
            self._written = [
                (row, None if commit else -1) if made_by == producer else (row, made_by)
                for row, made_by in self._written
            ]

    def committed(self) -> list[Row]:
        """Returns the rows that a reader of committed records sees now, by partition and offset."""
        ends = self.stable_ends()
        return sorted(row for row, made_by in self._written if made_by is None and row[1] < ends[row[0]])

    def stable_ends(self) -> dict[int, int]:
        with LogManager.open(self.log_dir) as manager:
            return {n: self._end(manager, n) for n in range(PARTITIONS)}

    def _end(self, manager: LogManager, number: int) -> int:
        with manager.open_reader("t", number) as reader:
            return reader.end_offset(Isolation.READ_COMMITTED)

    def export(self) -> None:
        ends = self.stable_ends()
        rows = [row for row in self.committed() if self.exported[row[0]] <= row[1]]
        next_offsets = json.dumps({"commitlog": {"next": {"t": {str(n): end for n, end in ends.items()}}}})
        metadata = CommitProperties(custom_metadata={"userMetadata": next_offsets})
        is_new = not Path(self.table).exists()
        write_deltalake(self.table, _table(rows), mode="append", commit_properties=metadata)
        if is_new:
            self._describe()
        self.exported = ends

    def _describe(self) -> None:
        """Sets the properties that the sink sets: delta-rs writes none with names of others."""
        commit = Path(self.table, "_delta_log", f"{0:020d}.json")
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if "metaData" in action:
                action["metaData"]["configuration"] = {SERDE_PROPERTY: serde_to_text(SERDE), MODE_PROPERTY: "append"}
        commit.write_text("".join(json.dumps(action) + "\n" for action in actions))

    def delete_exported(self, partition: int, chance: random.Random) -> None:
        """Deletes records of the log that the table has."""
        with LogManager.open(self.log_dir) as manager:
            log = manager.open_log("t", partition)
            if self.exported[partition] > log.log_start_offset:
                log.delete_records(chance.randint(log.log_start_offset, self.exported[partition]))

    def optimize(self) -> None:
        DeltaTable(self.table).optimize.compact()

    def vacuum(self) -> None:
        DeltaTable(self.table).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)

    def source(self, **options: str) -> CommitLogDataSource:
        given = {"path": self.log_dir, "subscribe": "t", "table": self.table, "startingOffsets": "earliest"}
        return CommitLogDataSource(given | options)


def _table(rows: list[Row]) -> pa.Table:
    times = [(NOW_MS + 1000 * (number or 0)) * 1000 for _, _, number in rows]
    columns = {
        "_key": [None for _ in rows],
        "_partition": [row[0] for row in rows],
        "_offset": [row[1] for row in rows],
        "_timestamp": pa.array(times, pa.int64()).cast(COLUMNS.field("_timestamp").type),
        "_headers": [None for _ in rows],
        "number": [row[2] for row in rows],
    }
    return pa.table(columns, schema=COLUMNS)


class Query:
    """A streaming query that is restarted now and then; ``happens`` is called while a micro-batch is read."""

    def __init__(self, both: Both, happens: Callable[[], None] = lambda: None, **options: str) -> None:
        self.both, self.happens, self.options = both, happens, options
        self.rows: list[Row] = []
        self._reader: Any = None
        self._at: Nested | None = None
        self._planned: tuple[Nested, Nested] | None = None

    def restart(self) -> None:
        if self._reader is not None:
            self._reader.stop()
        source = self.both.source(**self.options)
        self._reader = source.streamReader(source.schema())

    def batch(self, most: int | None, *, dies: bool = False) -> bool:
        """Runs a micro-batch, or repeats the one that died; returns whether there was any."""
        if self._reader is None:
            self.restart()
        limit = ReadAllAvailable() if most is None else ReadMaxRows(most)
        start = self._reader.initialOffset() if self._at is None else self._at
        begin, end = self._planned or (start, self._reader.latestOffset(start, limit))
        if begin == end:
            return False
        self._planned = (begin, end)
        found = list(self._read(begin, end))
        if not dies:
            self.rows += found
            self._at, self._planned = end, None
        return True

    def _read(self, start: Nested, end: Nested) -> Iterator[Row]:
        """Reads as a worker does, which has a copy of a reader that has read nothing."""
        source = self.both.source(**self.options)
        worker = cloudpickle.loads(cloudpickle.dumps(source.streamReader(source.schema())))
        for part in self._reader.partitions(start, end):
            self.happens()
            for batch in worker.read(part):
                for row in batch.to_pylist():
                    yield row["_partition"], row["_offset"], row["number"]
                with suppress(StopIteration):
                    self.happens()
