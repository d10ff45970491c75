"""Time a backup and a restore, compared with ``cp -r`` of the same files in the same run, and count what moves.

A log directory has 2,000,000 rows in 4 partitions, in segments of 32 MiB. All sides read from the page cache and sync
what they write, ``cp`` by ``sync -f``. The place of a backup is new, so it stores all bytes, with the SHA-256 of each
piece, which a restore computes too. Then a hundredth of the rows is appended, and what the next backup stores is
compared with the size of the log.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.rows import records
from benchmarks.timing import Timing, alternate_told
from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.backup.cuts import find_cut
from pyspark_commitlog.storage.backup.places import open_backup
from pyspark_commitlog.storage.backup.restoring import restore_backup
from pyspark_commitlog.storage.backup.taking import TakenBackup, take_backup
from pyspark_commitlog.storage.format import v2

ROWS, PARTITIONS = 2_000_000, 4
APPENDED_AT_ONCE = 50_000
SEGMENT_BYTES = 32 * 2**20
NEW = 100  # of the rows one is new in the second backup


def measure(setting: Setting) -> Iterator[Comparison]:
    count, directory = setting.sized(ROWS), setting.directory
    log, backup, copied, restored = (directory / each for each in ("log", "backup", "copied", "restored"))
    write(log, count)
    runs = {
        "backup": partial(timed, backup, lambda: back_up(log, backup)),
        "restore": partial(timed, restored, lambda: restore(backup, restored)),
        "cp": partial(timed, copied, lambda: copy(log, copied)),
    }
    found = alternate_told(runs, setting.rounds)
    for name in ("backup", "restore"):
        yield Comparison(f"{name} of {count:,} rows", "cp -r and sync", found[name], found["cp"], asked=0.8)
    size = sum(path.stat().st_size for path in log.rglob("*.log"))
    write(log, count // NEW)
    stored = back_up(log, backup).stored_bytes
    yield Comparison(
        "bytes that a backup of 1 % new rows stores",
        "a fiftieth of the log",
        Timing.of([stored]),
        Timing.of([size / 50]),
        asked=1.0,
        ratio=Ratio.SLOWER,
        unit="bytes",
    )


def write(directory: Path, count: int) -> None:
    with LogManager.open(str(directory), create=True) as manager:
        if manager.find_topic("rows") is None:
            manager.create_topic("rows", partitions=PARTITIONS, configs={"segment.bytes": str(SEGMENT_BYTES)})
        for number in range(PARTITIONS):
            log = manager.open_log("rows", number)
            for first in range(number, count, APPENDED_AT_ONCE * PARTITIONS):
                numbers = np.arange(first, min(count, first + APPENDED_AT_ONCE * PARTITIONS), PARTITIONS)
                log.append_records(records(numbers, seed=log.log_end_offset + number), v2.BatchFields(), sync=False)
            log.sync()


def timed(target: Path, run: Callable[[], object]) -> float:
    """Seconds of a run that makes ``target``, which is removed before."""
    shutil.rmtree(target, ignore_errors=True)
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def back_up(log: Path, backup: Path) -> TakenBackup:
    place = open_backup(str(backup))
    with LogManager.open(str(log)) as manager, place.locked():
        return take_backup(manager, place)


def restore(backup: Path, target: Path) -> None:
    place = open_backup(str(backup))
    restore_backup(place, find_cut(place), str(target))


def copy(log: Path, target: Path) -> None:
    subprocess.run(["cp", "-r", str(log), str(target)], check=True)
    subprocess.run(["sync", "-f", str(target)], check=True)
