"""The cost of opening a partition's log for writing, by the number of its segments.

Cold: in a process that has not opened the log before, after a clean stop. Cached: as a task finds it in a worker that
already has the log open, while another process has appended to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.comparison import Comparison, Point, Ratio, Series, Setting
from benchmarks.rows import records
from benchmarks.timing import Timing, alternate_told
from pyspark_commitlog.storage import LocalFileSystem, Log, LogManager
from pyspark_commitlog.storage.filesystem.local_file import LocalFile

SEGMENTS = (10, 100, 1_000, 10_000)
COLD_S_A_SEGMENT = 20e-6
OPENINGS = 10  # per requested round
CONFIGS = {"segment.index.bytes": "1000"}  # an active segment's indexes reserve that much
TOPIC, PARTITION = "opening", 0


def measure(setting: Setting) -> Iterator[Comparison | Series]:
    sizes = sorted({max(2, setting.sized(size)) for size in SEGMENTS})
    directories = {size: _log_of(setting.directory / str(size), size) for size in sizes}
    rounds = setting.rounds * OPENINGS
    cold = _alternate({size: partial(_open_cold, str(path)) for size, path in directories.items()}, rounds)
    cached = _alternate({size: _Reopened(str(path)).open for size, path in directories.items()}, rounds)
    few, many = sizes[0], sizes[-1]
    yield Comparison(
        f"cached open, {many:,} segments",
        f"the same with {few:,}",
        cached[many],
        cached[few],
        1.5,
        ratio=Ratio.SLOWER,
    )
    allowed = Timing.of([COLD_S_A_SEGMENT * many])
    yield Comparison(f"cold open, {many:,} segments", "20 µs a segment", cold[many], allowed, 1, ratio=Ratio.SLOWER)
    for line, found in {"cold": cold, "cached": cached}.items():
        points = tuple(Point(size, timing) for size, timing in found.items())
        yield Series("opening a log", line, points, "segments")


def _alternate(openings: dict[int, Callable[[], float]], rounds: int) -> dict[int, Timing]:
    found = alternate_told({str(size): opening for size, opening in openings.items()}, rounds, warm_up=OPENINGS)
    return {int(size): timing for size, timing in found.items()}


def _log_of(directory: Path, segments: int) -> Path:
    """A log directory whose partition has this many segments of one record, made without syncs to save minutes."""
    with (
        mock.patch.object(LocalFile, "sync"),
        mock.patch.object(LocalFileSystem, "sync_directory"),
        LogManager.open(str(directory), create=True) as manager,
    ):
        manager.create_topic(TOPIC, partitions=1, configs=CONFIGS)
        log = manager.open_log(TOPIC, PARTITION)
        for _ in range(segments - 1):
            _append(log)
            log.roll()
        _append(log)
    return directory


def _append(log: Log) -> None:
    log.append_records(records(np.arange(1)), sync=False)


def _open_cold(directory: str) -> float:
    with LogManager.open(directory) as manager:
        began = time.perf_counter()
        manager.open_log(TOPIC, PARTITION)
        return time.perf_counter() - began


class _Reopened:
    """A log that stays open, and another process that appends to it."""

    def __init__(self, directory: str) -> None:
        self._mine = LogManager.open(directory)
        self._other = LogManager.open(directory)

    def open(self) -> float:
        _append(self._other.open_log(TOPIC, PARTITION))
        began = time.perf_counter()
        with self._mine.open_log(TOPIC, PARTITION).exclusively():
            return time.perf_counter() - began
