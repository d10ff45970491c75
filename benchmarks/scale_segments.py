"""How the costs of a partition grow with its segments: 100, 1,000 and 10,000 of ten records, one segment a minute.

Opening and the lookup are each the first of a manager, in a process that has done the same before. Retention deletes a
tenth of the segments, with syncs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.comparison import Series, Setting, series_of
from benchmarks.rows import records
from benchmarks.scale_logs import CONFIGS, unsynced
from benchmarks.scale_topics import run_command
from benchmarks.timing import Timing, alternate_told, time_call
from pyspark_commitlog.storage import LogManager

SEGMENTS = (100, 1_000, 10_000)
RECORDS = 10  # of a segment
STEP_MS = 60_000  # from one segment to the next
TOPIC = "segments"


def measure(setting: Setting) -> Iterator[Series]:
    sizes = sorted({max(10, setting.sized(size)) for size in SEGMENTS})
    found = {size: _of(setting.directory / str(size), size, setting.rounds) for size in sizes}
    yield from series_of("one partition of many segments", "segments", found)


def _of(directory: Path, segments: int, rounds: int) -> dict[str, Timing]:
    first_ms = time.time_ns() // 1_000_000 - segments * STEP_MS
    _make(directory, segments, first_ms)
    lines: dict[str, Callable[[], float]] = {
        "open to append": partial(_open, directory),
        "open, look up a time in the middle": partial(_look_up, directory, first_ms + segments // 2 * STEP_MS),
    }
    found = alternate_told(lines, rounds)
    commands = {
        "commitlog verify": partial(run_command, directory, "verify"),
        "commitlog retain, which deletes a tenth": partial(_retain, directory, segments),
    }
    return found | {line: Timing.of([time_call(run)]) for line, run in commands.items()}


def _make(directory: Path, segments: int, first_ms: int) -> None:
    configs = {**CONFIGS, "segment.ms": str(2**62), "retention.ms": "-1"}
    with unsynced(), LogManager.open(str(directory), create=True) as manager:
        manager.create_topic(TOPIC, partitions=1, configs=configs)
        log = manager.open_log(TOPIC, 0)
        for segment in range(segments):
            log.append_records(records(np.arange(RECORDS), first_ms + segment * STEP_MS), sync=False)
            if segment + 1 < segments:
                log.roll()


def _open(directory: Path) -> float:
    with LogManager.open(str(directory)) as manager:
        return time_call(partial(manager.open_log, TOPIC, 0))


def _look_up(directory: Path, timestamp_ms: int) -> float:
    began = time.perf_counter()
    with LogManager.open(str(directory)) as manager, manager.open_reader(TOPIC, 0) as reader:
        found = reader.offset_for_timestamp(timestamp_ms)
    if found is None or found.timestamp != timestamp_ms:
        raise ValueError(f"looked up {timestamp_ms}, found {found}")
    return time.perf_counter() - began


def _retain(directory: Path, segments: int) -> None:
    before = len([*(directory / f"{TOPIC}-0").glob("*.log")])
    run_command(directory, "retain", "--config", f"retention.ms={segments * STEP_MS * 9 // 10}")
    after = len([*(directory / f"{TOPIC}-0").glob("*.log")])
    if not before * 0.9 - 2 <= after < before:  # a minute may have passed
        raise ValueError(f"{after} of {before} segments were kept")
