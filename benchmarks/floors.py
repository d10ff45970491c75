"""The least time that Spark itself takes for rows that Python sees: the floors for reading and writing.

- Writing: a ``mapInArrow`` whose function only counts. It reads the source and passes rows to Python.
- Reading: a Python data source, or stream, that yields prepared batches. It passes rows from Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from benchmarks.rows import records
from pyspark_commitlog.pipeline.rows.spark_schema import read_schema
from pyspark_commitlog.storage import BinaryColumn

PARTITIONS = 4
READY_ROWS = 65_536  # about what a fetch of 8 MiB holds


def count_rows(frame: DataFrame, _batch_id: int = 0) -> None:
    """Pass all rows to Python, which counts them; usable as a function for ``foreachBatch``."""
    frame.mapInArrow(_rows_of, "records long").collect()


def _rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"records": [sum(batch.num_rows for batch in batches)]})


def binary_array(column: BinaryColumn | None) -> pa.Array:
    """An Arrow array of a column without nulls, without copying."""
    assert column is not None
    buffers = [None, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), len(column), buffers)


class ReadyBatches(DataSource):
    """A source with the columns of the commitlog source, which repeats one batch.

    It has ``rows`` rows in each partition; a stream yields at most ``rowsPerTrigger`` of them per micro-batch.
    """

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> StructType:
        return read_schema(include_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ReadyReader(schema, self._number("rows"))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        return _ReadyStream(schema, self._number("rows"), self._number("rowsPerTrigger"))

    def _number(self, option: str) -> int:
        return int(self.options[option])


class _ReadyReader(DataSourceReader):
    def __init__(self, schema: StructType, rows: int) -> None:
        self._schema, self._rows = schema, rows

    def partitions(self) -> list[InputPartition]:
        return _tasks(self._rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(partition, self._schema)


class _ReadyStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, schema: StructType, rows: int, rows_per_trigger: int) -> None:
        self._schema, self._rows, self._most = schema, rows, rows_per_trigger

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass  # all rows are known from the start

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._most)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"rows": min(start["rows"] + self._most, self._rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return _tasks(end["rows"] - start["rows"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(partition, self._schema)


def _tasks(rows: int) -> list[InputPartition]:
    return [InputPartition((number, rows)) for number in range(PARTITIONS)]


def _batches(task: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    number, rows = task.value
    held, wanted = _ready_batch(number), to_arrow_schema(schema, timezone="UTC")
    batch = pa.RecordBatch.from_arrays([held.column(name) for name in wanted.names], schema=wanted)
    for start in range(0, rows, READY_ROWS):
        yield batch.slice(0, min(READY_ROWS, rows - start))


@lru_cache(maxsize=PARTITIONS)
def _ready_batch(partition: int) -> pa.RecordBatch:
    """The batch of a partition: built by a worker's first task, cached for the next ones."""
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
