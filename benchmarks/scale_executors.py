"""Rows per second by executors of a local cluster, 1, 2 and 4, each a JVM of one core with Python workers of its own.

The same rows are written to 8 partitions, and read, by tasks as many as partitions. *A write of 8 rows* is the part
that more executors do not shorten: planning, tasks without work, and the driver's commit. A machine with two cores
shows nothing of four executors but what they cost each other; docs/scale.md goes on by arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import topics
from benchmarks.comparison import Series, Setting, series_of
from benchmarks.sessions import in_own_process
from benchmarks.timing import Timing, alternate_told, time_call
from pyspark_commitlog import commitlog_sink, spark_session

EXECUTORS = (1, 2, 4)
PARTITIONS = 8
ROWS = 2_000_000
ROUNDS = 3
EXECUTOR_MB = 1024
WRITTEN, READ, SMALL = "written", "read", "small"


def measure(setting: Setting) -> Iterator[Series]:
    found = {float(number): in_own_process(_of, setting, number) for number in EXECUTORS}
    yield from series_of(f"{setting.sized(ROWS):,} rows on a local cluster", "executors", found)


def _of(setting: Setting, executors: int) -> dict[str, Timing]:
    """Seconds of each operation with so many executors, in a process that has no session yet."""
    settings = {"spark.ui.enabled": "false", "spark.executor.memory": f"{EXECUTOR_MB}m"}
    spark = spark_session("scale", master=f"local-cluster[{executors},1,{EXECUTOR_MB}]", settings=settings)
    try:
        directory, numbers, size = setting.directory / str(executors), count(), setting.sized(ROWS)
        for topic in (WRITTEN, READ, SMALL):
            topics.make(directory, topic, PARTITIONS)
        _write(spark, directory, READ, size, next(numbers))
        lines: dict[str, Callable[[], float]] = {
            "write": partial(time_call, lambda: _write(spark, directory, WRITTEN, size, next(numbers))),
            "read": partial(time_call, partial(topics.read, spark, directory, READ)),
            f"write of {PARTITIONS} rows": partial(
                time_call, lambda: _write(spark, directory, SMALL, PARTITIONS, next(numbers))
            ),
        }
        return alternate_told(lines, min(ROUNDS, setting.rounds))
    finally:
        spark.stop()


def _write(spark: SparkSession, directory: Path, topic: str, size: int, number: int) -> None:
    rows = topics.rows(spark, size, PARTITIONS)
    commitlog_sink(topic=topic, log_dir=str(directory), txnAppId=topic)(rows, number)
