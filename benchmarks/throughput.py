"""Records a second through the sink and the data source, beside the least Spark itself takes for the same rows.

Two million rows (16-byte keys, 100-byte values) in eight Parquet files, four partitions, two cores. Each round does all
four measures one after the other; the first round warms up and does not count; what is told is the median. A write is a
micro-batch of a query that runs: the next version for the same sink and topic.

- write floor: ``mapInArrow`` with a function that only counts: reading the files, and the way into Python.
- write: the sink: a transaction, with the group's offset in it, synced and committed.
- read floor: a Python data source that yields batches it holds ready: the way out of Python.
- read: ``spark.read.format("commitlog")``.

Run it with ``python -m benchmarks.throughput``, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from rich.console import Console
from rich.table import Table

from benchmarks.timing import time_call
from pyspark_commitlog import commitlog_sink
from pyspark_commitlog.pipeline.schema import arrow_schema, read_schema
from pyspark_commitlog.pipeline.session import spark_session
from pyspark_commitlog.storage import INTERNAL_TOPICS, LogManager

FILES = 8
PARTITIONS = 4
INTERNAL_PARTITIONS = 50
KEY_BYTES, VALUE_BYTES = 16, 100
READY_ROWS = 65_536  # about what a fetch of 8 MiB holds


def main() -> None:
    options = _arguments()
    spark = spark_session("throughput", master="local[2]", settings={"spark.ui.enabled": "false"})
    spark.dataSource.register(ReadyBatches)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        seconds = _measure(spark, Path(directory), options.rows, options.rounds)
    _show(seconds, options.rows)


def _measure(spark: SparkSession, directory: Path, rows: int, rounds: int) -> dict[str, list[float]]:
    _write_input(directory / "input", rows)
    given = spark.read.parquet(str(directory / "input"))
    log = str(directory / "log")
    _make_topics(log)
    commitlog_sink(topic="filled", log_dir=log, txnAppId="filled")(given, 0)
    sink, numbers = commitlog_sink(topic="bench", log_dir=log, txnAppId="bench"), count()
    filled = spark.read.format("commitlog").option("subscribe", "filled").load(log)
    ready = spark.read.format("ready").option("rows", rows // PARTITIONS).load()
    measures: dict[str, Callable[[], object]] = {
        "write floor": lambda: count_rows(given),
        "write": lambda: sink(given, next(numbers)),
        "read floor": lambda: _drain(ready),
        "read": lambda: _drain(filled),
    }
    seconds: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds + 1):
        for name, run in measures.items():
            seconds[name].append(time_call(run))
    return {name: each[1:] for name, each in seconds.items()}


def _make_topics(log: str) -> None:
    """The topics, and the two of the coordinator, which a first write would make: each has fifty partitions."""
    partitions = dict.fromkeys(("bench", "filled"), PARTITIONS) | dict.fromkeys(INTERNAL_TOPICS, INTERNAL_PARTITIONS)
    with LogManager.open(log, create=True) as manager:
        for name, number in partitions.items():
            manager.create_topic(name, partitions=number)


def count_rows(frame: DataFrame) -> None:
    frame.mapInArrow(_rows_of, "records long").collect()


def _rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"records": [sum(batch.num_rows for batch in batches)]})


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _write_input(directory: Path, rows: int) -> None:
    directory.mkdir()
    random = np.random.default_rng(1)
    each = rows // FILES
    for number in range(FILES):
        table = pa.table({"key": _strings(random, each, KEY_BYTES), "value": _strings(random, each, VALUE_BYTES)})
        pq.write_table(table, directory / f"{number}.parquet", compression="none", use_dictionary=False)


def _strings(random: np.random.Generator, count: int, size: int) -> pa.Array:
    """``count`` random byte strings of ``size`` bytes."""
    offsets = np.arange(count + 1, dtype=np.int32) * size
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(random.bytes(count * size))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


class ReadyBatches(DataSource):
    """As many rows a partition as asked for: a batch with the columns of the commitlog source, again and again."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> StructType:
        return read_schema(include_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ReadyReader(int(self.options["rows"]), schema)


class _ReadyReader(DataSourceReader):
    def __init__(self, rows: int, schema: StructType) -> None:
        self._rows = rows
        self._schema = arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(partition.value)
        columns = {
            "key": _strings(random, READY_ROWS, KEY_BYTES),
            "value": _strings(random, READY_ROWS, VALUE_BYTES),
            "topic": pa.array(["bench"] * READY_ROWS),
            "partition": pa.array(np.full(READY_ROWS, partition.value, dtype=np.int32)),
            "offset": pa.array(np.arange(READY_ROWS)),
            "timestamp": pa.array(np.zeros(READY_ROWS, dtype=np.int64)).view(pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array(np.zeros(READY_ROWS, dtype=np.int32)),
        }
        batch = pa.RecordBatch.from_pydict(columns, schema=self._schema)
        for start in range(0, self._rows, READY_ROWS):
            yield batch.slice(0, min(READY_ROWS, self._rows - start))


def _show(seconds: dict[str, list[float]], rows: int) -> None:
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    table = Table("", "median s", "records/s", "MB/s", "x floor", title=f"{rows:,} records of 116 bytes, two cores")
    for name, median in medians.items():
        floor = medians[f"{name.removesuffix(' floor')} floor"]
        bytes_per_s = rows * (KEY_BYTES + VALUE_BYTES) / median
        table.add_row(
            name, f"{median:.2f}", f"{rows / median:,.0f}", f"{bytes_per_s / 1e6:,.0f}", f"{median / floor:.2f}"
        )
    Console().print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows a round (2,000,000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (5)")
    parser.add_argument(
        "--directory", type=Path, help="where input and log are kept meanwhile (the system's temporary one)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
