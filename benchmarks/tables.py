"""A query over a topic's table and the tail of its log, compared with Delta alone, and with the log alone.

The rows are JSON with two numbers. The table has all but the last hundredth of them; the Delta table that it is
compared with has all. Each timed run of ours includes the call of ``topic_table``, which finds the table's end and the
log's.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F

from benchmarks.comparison import Comparison, Setting
from benchmarks.floors import PARTITIONS
from benchmarks.sessions import closing_session, run_stream
from benchmarks.timing import alternate
from pyspark_commitlog import JsonSerde, table_sink, topic_table
from pyspark_commitlog.pipeline.delta.table_rows import to_rows
from pyspark_commitlog.storage import BinaryColumn, LogManager, Records

ROWS = 20_000_000
TAIL = 100  # one row in so many is in the log only
AT_ONCE = 500_000  # rows that are made at once
TOPIC, FIRST_MS = "orders", 1_700_000_000_000
TEN = 10
_OF_0 = {"assign": f'{{"{TOPIC}": [0]}}'}
SERDE = JsonSerde(pa.schema([("item", pa.int64()), ("amount", pa.int64())]))
_VALUE = b'{"item":1000000,"amount":1000}'
_ITEM, _AMOUNT = 8, 25  # where the digits of the two numbers begin


def measure(setting: Setting) -> Iterator[Comparison]:
    each = max(TAIL, setting.sized(ROWS) // PARTITIONS)
    before = each - each // TAIL
    log_dir = str(setting.directory / "log")
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic(TOPIC, partitions=PARTITIONS, configs={"retention.ms": "-1"})
    with closing_session() as spark:
        bench = _Bench(spark, setting.directory, log_dir, each * PARTITIONS)
        _append(log_dir, 0, before)
        bench.export("table")
        bench.copy("table", "whole")
        _append(log_dir, before, each)
        bench.export("whole")
        yield from bench.aggregates(setting.rounds, "Delta", 0.9)
        yield from bench.lookups(setting.rounds, at=before // 2 // TEN * TEN)
        yield from bench.aggregates(setting.rounds, "the log", 5)


class _Bench:
    """The topic, its table without the tail, and the table of the whole topic."""

    def __init__(self, spark: SparkSession, directory: Path, log_dir: str, rows: int) -> None:
        self._spark, self._directory, self._log_dir, self._rows = spark, directory, log_dir, rows

    def export(self, name: str) -> None:
        reader = self._spark.readStream.format("commitlog").option("subscribe", TOPIC)
        reader = reader.option("startingOffsets", "earliest").option("includeHeaders", "true")
        stream = reader.option("maxOffsetsPerTrigger", str(self._rows // 4)).load(self._log_dir)
        writer = stream.writeStream.foreachBatch(table_sink(path=self._table(name), serde=SERDE))  # type: ignore[arg-type]
        run_stream(writer, self._directory / f"checkpoint-{name}")

    def copy(self, name: str, other: str) -> None:
        """Copies a table with the checkpoint of its query, which goes on with the copy: each row is decoded once."""
        for prefix in ("", "checkpoint-"):
            shutil.copytree(self._directory / f"{prefix}{name}", self._directory / f"{prefix}{other}")

    def aggregates(self, rounds: int, name: str, asked: float) -> Iterator[Comparison]:
        """Compares with a peer: Delta's table of all rows, or the log."""
        peer = partial(self._delta, "whole") if name == "Delta" else self._log
        loads = {"ours": partial(self._both, columns=["item", "amount"]), "theirs": peer}
        found = alternate({name: lambda load=load: self._sum(load()) for name, load in loads.items()}, rounds)
        operation = f"sums of two columns of {self._rows:,} rows, of which 1 % are in the log only"
        yield Comparison(operation, f"{name}, all rows", found["ours"], found["theirs"], asked)

    def lookups(self, rounds: int, at: int) -> Iterator[Comparison]:
        """Ten rows of partition 0, at ``at`` in the table, and at the end of the tail; ten have the same time."""
        for where, first in (("of the table", at), ("of the tail", self._rows // PARTITIONS - TEN)):
            peers = {"ours": partial(self._at_offsets, first), "log": partial(self._log_at_offsets, first)}
            found = alternate(peers, rounds * 2, warm_up=rounds)
            yield Comparison(f"ten rows by offset, {where}", "the log", found["ours"], found["log"], 1)
        time_ms = FIRST_MS + at // TEN
        peers = {"ours": partial(self._at_time, time_ms), "log": partial(self._log_at_time, time_ms)}
        found = alternate(peers, rounds * 2, warm_up=rounds)
        yield Comparison("ten rows by time, of the table", "the log", found["ours"], found["log"], 1)

    def _at_offsets(self, first: int) -> None:
        _ten(self._both(partitions=[0], starts={0: first}, ends={0: first + TEN}))

    def _log_at_offsets(self, first: int) -> None:
        bounds = {"startingOffsets": first, "endingOffsets": first + TEN}
        _ten(self._log(_OF_0 | {name: f'{{"{TOPIC}": {{"0": {offset}}}}}' for name, offset in bounds.items()}))

    def _at_time(self, time_ms: int) -> None:
        _ten(self._both(partitions=[0], since=time_ms, until=time_ms + 1))

    def _log_at_time(self, time_ms: int) -> None:
        bounds = {"startingTimestamp": time_ms, "endingTimestamp": time_ms + 1}
        _ten(self._log(_OF_0 | {name: str(time) for name, time in bounds.items()}))

    def _both(self, **wanted: Any) -> DataFrame:
        return topic_table(self._spark, self._log_dir, TOPIC, self._table("table"), **wanted)

    def _delta(self, name: str) -> DataFrame:
        return self._spark.read.format("delta").load(self._table(name))

    def _log(self, options: dict[str, str] | None = None) -> DataFrame:
        reader = self._spark.read.format("commitlog").option("includeHeaders", "true")
        return to_rows(reader.options(**(options or {"subscribe": TOPIC})).load(self._log_dir), SERDE)

    def _table(self, name: str) -> str:
        return str(self._directory / name)

    def _sum(self, rows: DataFrame) -> None:
        found = rows.agg(F.count("*"), F.sum("item"), F.sum("amount")).collect()
        if found[0][0] != self._rows:
            raise ValueError(f"{found[0][0]} rows, not {self._rows}")


def _ten(rows: DataFrame) -> None:
    if (found := len(rows.collect())) != TEN:
        raise ValueError(f"a lookup found {found} rows, not {TEN}")


def _append(log_dir: str, first: int, end: int) -> None:
    with LogManager.open(log_dir) as manager:
        for number in range(PARTITIONS):
            log = manager.open_log(TOPIC, number)
            for start in range(first, end, AT_ONCE):
                log.append_records(_records(np.arange(start, min(start + AT_ONCE, end))), sync=False)


def _records(numbers: np.ndarray) -> Records:
    """Returns one record for each number, without a key, with values of the same length."""
    count, size = len(numbers), len(_VALUE)
    table = np.tile(np.frombuffer(_VALUE, dtype=np.uint8), (count, 1))
    for begin, digits, of in ((_ITEM + 1, 6, numbers % 1_000_000), (_AMOUNT + 1, 3, numbers * 7 % 1000)):
        for place in range(digits):
            table[:, begin + digits - 1 - place] = 48 + of // 10**place % 10
    return Records(
        offsets=np.arange(count),
        timestamps=FIRST_MS + numbers // 10,
        timestamp_types=np.zeros(count, dtype=np.int8),
        keys=BinaryColumn.from_list([None] * count),
        values=BinaryColumn(table.reshape(-1), np.arange(count + 1, dtype=np.int32) * size, None),
        headers=None,
    )
