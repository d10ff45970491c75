"""Peak memory of each operation, compared with a tenth of the log: it must not grow with the log.

Each operation runs in its own process. That process, and those that Spark starts for it, are sampled every 10 ms. Only
their own memory counts (not mapped files in the page cache): that of the process itself, which is Spark's driver, and
that of the largest Python worker. The JVM is left out: it uses as much as ``spark.driver.memory`` allows.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import logs, topics
from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.timing import Timing
from pyspark_commitlog import spark_session
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.dump.one_file import dump_file
from pyspark_commitlog.storage.dump.options import DumpFindings, DumpOptions
from pyspark_commitlog.storage.index_rebuild.log import rebuild_log

RECORDS = 20_000_000  # a tenth of them is more than any operation holds at once
TENTH = 10
KEYS = 100_000
LOOK_EVERY_S = 0.01
ASKED = 1.25
TOPIC = "memory"

Operation = Callable[[Path], None]


class Peaks(NamedTuple):
    """Peak memory in bytes."""

    driver: int
    worker: int


def measure(setting: Setting) -> Iterator[Comparison]:
    sizes = (setting.sized(RECORDS), setting.sized(RECORDS // TENTH))
    directories = [setting.directory / f"log-{size}" for size in sizes]
    for size, log in zip(sizes, directories, strict=True):
        logs.write(log, np.arange(size) % KEYS)
    for name, operation in IN_PROCESS.items():
        large, small = (_peaks_on_copy(operation, log) for log in directories)
        yield _comparison(name, large.driver, small.driver)
    for log in directories:
        shutil.rmtree(log)
    yield from _through_spark(setting.directory, sizes)


def _through_spark(directory: Path, sizes: tuple[int, int]) -> Iterator[Comparison]:
    paths = [directory / f"topics-{size}" for size in sizes]
    for name, operations in {
        "write through Spark": [partial(write_topic, size) for size in sizes],
        "read through Spark": [read_topic, read_topic],
    }.items():
        large, small = (peaks(operation, path) for operation, path in zip(operations, paths, strict=True))
        yield _comparison(f"{name}, driver", large.driver, small.driver)
        yield _comparison(f"{name}, largest Python worker", large.worker, small.worker)


def _comparison(operation: str, large: int, small: int) -> Comparison:
    once = [Timing.of([float(each)]) for each in (large, small)]
    name = f"peak memory: {operation}"
    return Comparison(name, "a tenth of the log", *once, asked=ASKED, ratio=Ratio.SLOWER, unit="bytes")


def _peaks_on_copy(operation: Operation, log: Path) -> Peaks:
    copy = log.with_name(f"{log.name}-copy")
    shutil.copytree(log, copy)
    found = peaks(operation, copy)
    shutil.rmtree(copy)
    return found


# What is measured


def clean(directory: Path) -> None:
    with logs.open_log(directory) as log:
        Cleaner().clean(log, None, log.context.clock.now_ms())


def rebuild(directory: Path) -> None:
    with logs.open_log(directory) as log:
        rebuild_log(log)


def dump(directory: Path) -> None:
    for path in sorted(directory.glob("*.log")):
        for _ in dump_file(str(path), DumpOptions(deep_iteration=True), DumpFindings()):
            pass


def write_topic(count: int, directory: Path) -> None:
    topics.make(directory, TOPIC)
    topics.write(spark_session("memory", master="local[2]"), directory, TOPIC, count)


def read_topic(directory: Path) -> None:
    topics.read(spark_session("memory", master="local[2]"), directory, TOPIC)


IN_PROCESS: dict[str, Operation] = {
    "recovery": logs.recover,
    "compaction": clean,
    "rebuild of indexes": rebuild,
    "verification": logs.verify,
    "dump of records": dump,
}


# How it is measured


def peaks(operation: Operation, directory: Path) -> Peaks:
    """The peak memory of an operation in its own process.

    Raises RuntimeError if it fails.
    """
    process = multiprocessing.get_context("spawn").Process(target=operation, args=(directory,))
    process.start()
    assert process.pid is not None
    found = Peaks(0, 0)
    while process.is_alive():
        found = Peaks(*map(max, found, _look(process.pid)))
        time.sleep(LOOK_EVERY_S)
    if process.exitcode:
        raise RuntimeError(f"{operation} ended with exit code {process.exitcode}")
    return found


def _look(driver: int) -> Peaks:
    python = _program(driver)
    workers = (own_bytes(pid) for pid in _descendants(driver) if _program(pid) == python)
    return Peaks(own_bytes(driver), max(workers, default=0))


def _descendants(pid: int) -> Iterator[int]:
    for thread in _read(f"/proc/{pid}/task").split():
        for child in map(int, _read(f"/proc/{pid}/task/{thread}/children").split()):
            yield child
            yield from _descendants(child)


def _program(pid: int) -> Path | None:
    """The program of a process; for a moment the JVM's, if the JVM has just forked it to run another."""
    try:
        return Path(f"/proc/{pid}/exe").readlink()
    except (FileNotFoundError, ProcessLookupError):
        return None


def own_bytes(pid: int) -> int:
    """The memory of a process, without files that it has mapped."""
    fields = dict(line.split(":", 1) for line in _read(f"/proc/{pid}/status").splitlines() if ":" in line)
    return sum(int(fields.get(name, "0 kB").split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))


def _read(path: str) -> str:
    """The text of a file, or the names in a directory; empty if the process has ended."""
    place = Path(path)
    try:
        return "\n".join(each.name for each in place.iterdir()) if place.is_dir() else place.read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""
