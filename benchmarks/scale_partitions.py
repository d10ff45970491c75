"""How the costs of a topic grow with its partitions: 10, 100 and 1,000, with 1,000 rows in each micro-batch.

The rows have keys, so nearly all of 1,000 partitions get some of a micro-batch. Spark has two cores. The log is opened
to read by a process that has opened it before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import topics
from benchmarks.comparison import Series, Setting, series_of
from benchmarks.timing import Timing, alternate_told, time_call
from pyspark_commitlog import commitlog_sink, spark_session
from pyspark_commitlog.storage import LogManager

PARTITIONS = (10, 100, 1_000)
ROWS = 1_000  # of a micro-batch
ROUNDS = 3
TOPIC = "partitions"


def measure(setting: Setting) -> Iterator[Series]:
    spark = spark_session("scale", master="local[2]", settings={"spark.ui.enabled": "false"})
    try:
        sizes = sorted({max(2, setting.sized(size)) for size in PARTITIONS})
        found = {size: _of(spark, setting.directory / str(size), size, setting.rounds) for size in sizes}
    finally:
        spark.stop()
    yield from series_of("one topic of many partitions", "partitions", found)


def _of(spark: SparkSession, directory: Path, partitions: int, rounds: int) -> dict[str, Timing]:
    created = time_call(partial(topics.make, directory, TOPIC, partitions))
    write = commitlog_sink(topic=TOPIC, log_dir=str(directory), txnAppId=TOPIC)
    rows, numbers = topics.rows(spark, ROWS), count()
    lines: dict[str, Callable[[], float]] = {
        f"micro-batch of {ROWS:,} rows": partial(time_call, lambda: write(rows, next(numbers))),
        "batch read": partial(time_call, partial(topics.read, spark, directory, TOPIC)),
        "open all to read": partial(time_call, partial(_open_all, directory, partitions)),
    }
    return {"create the topic": Timing.of([created])} | alternate_told(lines, min(ROUNDS, rounds))


def _open_all(directory: Path, partitions: int) -> None:
    with LogManager.open(str(directory)) as manager:
        for partition in range(partitions):
            with manager.open_reader(TOPIC, partition) as reader:
                _ = reader.log_end_offset
