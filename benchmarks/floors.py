"""The least that Spark itself takes for rows that Python sees: the floors that reading and writing are set beside.

- Writing: a ``mapInArrow`` whose function only counts: reading the source, and the way into Python.
- Reading: a Python data source that yields batches it holds ready: the way out of Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.rows import records
from pyspark_commitlog.pipeline.schema import read_schema
from pyspark_commitlog.storage import BinaryColumn

PARTITIONS = 4
READY_ROWS = 65_536  # about what a fetch of 8 MiB holds


def count_rows(frame: DataFrame) -> None:
    frame.mapInArrow(_rows_of, "records long").collect()


def _rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"records": [sum(batch.num_rows for batch in batches)]})


def binary_array(column: BinaryColumn | None) -> pa.Array:
    """A column without nulls as Arrow has it, without copies."""
    assert column is not None
    buffers = [None, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), len(column), buffers)


class ReadyBatches(DataSource):
    """As many rows a partition as asked for: a batch with the columns of the commitlog source, again and again."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> StructType:
        return read_schema(include_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ReadyReader(int(self.options["rows"]))


class _ReadyReader(DataSourceReader):
    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _ready_batch(partition.value)
        for start in range(0, self._rows, READY_ROWS):
            yield batch.slice(0, min(READY_ROWS, self._rows - start))


@lru_cache(maxsize=PARTITIONS)
def _ready_batch(partition: int) -> pa.RecordBatch:
    """Made by a worker's first task of the partition, and kept for those that follow."""
    held = records(np.arange(READY_ROWS), seed=partition)
    columns = {
        "key": binary_array(held.keys),
        "value": binary_array(held.values),
        "topic": pa.array(["bench"] * READY_ROWS),
        "partition": pa.array(np.full(READY_ROWS, partition, dtype=np.int32)),
        "offset": pa.array(held.offsets),
        "timestamp": pa.array(held.timestamps * 1000).view(pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array(np.zeros(READY_ROWS, dtype=np.int32)),
    }
    return pa.RecordBatch.from_pydict(columns)
