"""Logs of any size in one partition, and operations on a whole log, without Spark."""

from __future__ import annotations

from pathlib import Path

from benchmarks.rows import records
from pyspark_commitlog.storage import LogReader
from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.tables import Int64s
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.verify.log import verify_log
from pyspark_commitlog.storage.writing.log import Log

APPENDED_AT_ONCE = 100_000
SEGMENT_BYTES = 256 * 2**20
CONFIG = LogConfig.from_mapping(
    {"cleanup.policy": "compact", "segment.bytes": SEGMENT_BYTES, "max.message.bytes": 16 * 2**10}
)


def open_log(directory: Path) -> Log:
    return Log.open(str(directory), CONFIG)


def write(directory: Path, numbers: Int64s) -> None:
    """Append a record for each number, which is its key, and start an empty active segment."""
    with open_log(directory) as log:
        for first in range(0, len(numbers), APPENDED_AT_ONCE):
            log.append_records(records(numbers[first : first + APPENDED_AT_ONCE]), sync=False)
        log.roll()


def log_bytes(directory: Path) -> int:
    """The size of a partition's ``.log`` files."""
    return sum(file.stat().st_size for file in directory.glob("*.log"))


def read(directory: Path) -> None:
    """Decode all records."""
    with LogReader.open(str(directory), CONFIG) as log:
        for _ in log.records(0, log.log_end_offset):
            pass


def recover(directory: Path) -> None:
    """Open a log without a checkpoint: nothing is known to be synced, so all of it is verified."""
    open_log(directory).close()


def verify(directory: Path) -> None:
    """Decode all records, and compare indexes and snapshots with them."""
    verify_log(LogContext(str(directory), CONFIG, SystemClock(), LocalFileSystem(), writable=False))
