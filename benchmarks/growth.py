"""Plot how time grows with rows, partitions, keys and cores: medians of three runs, but one of the largest size.

Unless stated otherwise a log has one partition and is in the page cache, except for much of the 100,000,000 rows, which
are read from disk. Compaction handles the same number of records for every number of keys; its map has room for all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from benchmarks import logs, topics
from benchmarks.comparison import Point, Series, Setting
from benchmarks.timing import Timing, alternate_told, time_call
from pyspark_commitlog import spark_session
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import CleanerConfig

ROUNDS = 3
ROWS = (100_000, 1_000_000, 10_000_000, 100_000_000)
ROW_BYTES = 130  # in the log
PARTITIONS = (1, 4, 16, 64, 256)
SPREAD_ROWS = 1_000_000
KEYS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
COMPACTED = 10_000_000
CORES = (1, 2)
CORES_ROWS = 2_000_000

Lines = dict[str, Callable[[], float]]


def measure(setting: Setting) -> Iterator[Series]:
    yield from against_rows(setting)
    yield from against_keys(setting)
    yield from through_spark(setting)


def against_rows(setting: Setting) -> Iterable[Series]:
    grown: dict[int, dict[str, Timing]] = {}
    for rows in rows_that_fit(setting):
        size = setting.sized(rows)
        log = setting.directory / "rows"
        lines: Lines = {
            "append": partial(_timed_anew, log, partial(logs.write, log, np.arange(size))),
            "read, decode": partial(time_call, partial(logs.read, log)),
            "verify": partial(time_call, partial(logs.verify, log)),
            "recover": partial(time_call, partial(logs.recover, log)),
        }
        grown[size] = _medians(setting, lines, rows)
        shutil.rmtree(log)
    return _series("one partition, without Spark", "rows", grown)


def rows_that_fit(setting: Setting) -> list[int]:
    """The sizes of ``ROWS`` for which the disk has room, with as much again to spare."""
    free = shutil.disk_usage(setting.directory).free
    return [rows for rows in ROWS if 2 * ROW_BYTES * setting.sized(rows) < free]


def against_keys(setting: Setting) -> Iterable[Series]:
    """Two rounds each, because the records have to be written again before each compaction."""
    size, grown = setting.sized(COMPACTED), {}
    log = setting.directory / "keys"
    for keys in map(setting.sized, KEYS):
        numbers = np.random.default_rng(7).integers(0, keys, size)
        grown[keys] = alternate_told({"compact": partial(clean, log, numbers)}, 2, warm_up=0)
    return _series(f"compaction of {size:,} records", "keys", grown)


def through_spark(setting: Setting) -> Iterator[Series]:
    by_cores: dict[int, dict[str, Timing]] = {}
    for cores in CORES:
        with closing_session(cores) as spark:
            topic = GrownTopics(spark, setting, f"topics-{cores}")
            by_cores[cores] = topic.write_and_read(CORES_ROWS)
            if cores == max(CORES):
                by_rows = {size: topic.write_and_read(size) for size in rows_that_fit(setting)}
                by_partitions = {each: topic.write_and_read(SPREAD_ROWS, each) for each in PARTITIONS}
    yield from _series(f"{CORES_ROWS:,} rows through Spark", "cores", by_cores, power=-1)
    yield from _series("through Spark", "rows", by_rows)
    yield from _series(f"{SPREAD_ROWS:,} rows through Spark", "partitions", by_partitions)


class GrownTopics:
    """New topics in one log directory: each write gets an empty one, each read the one written last."""

    def __init__(self, spark: SparkSession, setting: Setting, name: str) -> None:
        self._spark = spark
        self._setting = setting
        self._directory = setting.directory / name
        self._made = 0

    def write_and_read(self, size: int, partitions: int = topics.TASKS) -> dict[str, Timing]:
        lines: Lines = {"write": partial(self._write, self._setting.sized(size), partitions), "read": self._read}
        return _medians(self._setting, lines, size)

    @property
    def _topic(self) -> str:
        return f"grown-{self._made}"

    def _write(self, size: int, partitions: int) -> float:
        self._made += 1
        topics.make(self._directory, self._topic, partitions)
        return time_call(partial(topics.write, self._spark, self._directory, self._topic, size))

    def _read(self) -> float:
        return time_call(partial(topics.read, self._spark, self._directory, self._topic))


@contextmanager
def closing_session(cores: int) -> Iterator[SparkSession]:
    spark = spark_session("growth", master=f"local[{cores}]", settings={"spark.ui.enabled": "false"})
    try:
        yield spark
    finally:
        spark.stop()


def _medians(setting: Setting, lines: Lines, rows: int) -> dict[str, Timing]:
    if rows == max(ROWS):
        return alternate_told(lines, rounds=1, warm_up=0)
    return alternate_told(lines, min(ROUNDS, setting.rounds))


def _series(plot: str, size_unit: str, grown: dict[int, dict[str, Timing]], power: int = 1) -> Iterator[Series]:
    """The lines of a plot, from the timings of each size."""
    for line in next(iter(grown.values())):
        points = tuple(Point(float(size), timings[line]) for size, timings in grown.items())
        yield Series(plot, line, points, size_unit, power=power)


# What is timed


def clean(directory: Path, numbers: np.ndarray) -> float:
    """Seconds of a round over records just written, with a map sized for the number of keys."""
    logs.write(directory, numbers)
    cleaner = Cleaner(CleanerConfig(dedupe_buffer_size=2 * 24 * (int(numbers.max()) + 1) + 2**20))
    with logs.open_log(directory) as log:
        seconds = time_call(lambda: cleaner.clean(log, None, log.context.clock.now_ms()))
    shutil.rmtree(directory)
    return seconds


def _timed_anew(directory: Path, write: Callable[[], None]) -> float:
    """Seconds of a write to a directory that does not exist."""
    shutil.rmtree(directory, ignore_errors=True)
    return time_call(write)
