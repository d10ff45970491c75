"""The cost of a lookup by time in a partition of 10,000 segments, with and without help from the time index.

Live: records, and the ends of their transactions, have the time at which they were written; the index determines the
segment of the record. History: the same records were loaded later, so the ends of transactions are younger than all of
them, and the headers of the batches decide. Cold: the first lookup of a process. Warm: a later lookup of another time.
The record is in the last segment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.rows import records
from benchmarks.timing import alternate_told
from pyspark_commitlog.storage import BatchFields, LocalFileSystem, LogManager, LogReader, encode_batches
from pyspark_commitlog.storage.filesystem.local_file import LocalFile
from pyspark_commitlog.storage.recovery.producer_state import Producer

SEGMENTS, OF_A_SEGMENT = 10_000, 256  # records: two batches of 16 KiB, and a marker
FIRST_MS = 1_400_000_000_000
STEP_MS = 60_000  # from one segment to the next
CONFIGS = {"segment.index.bytes": "1000", "segment.ms": str(2**62), "retention.ms": "-1"}
TOPIC = "times"


def measure(setting: Setting) -> Iterator[Comparison]:
    count = max(2, setting.sized(SEGMENTS))
    kinds = {"history": None, "live": 1}
    directories = {kind: _log_of(setting.directory / kind, count, late_ms) for kind, late_ms in kinds.items()}
    cold = alternate_told({kind: partial(_ask_cold, path, count) for kind, path in directories.items()}, setting.rounds)
    with LogManager.open(str(directories["history"])) as history, LogManager.open(str(directories["live"])) as live:
        readers = {"history": history.open_reader(TOPIC, 0), "live": live.open_reader(TOPIC, 0)}
        asked: dict[str, Callable[[], float]] = {kind: partial(_ask, log, count) for kind, log in readers.items()}
        warm = alternate_told(asked, 10 * setting.rounds, warm_up=2)
    for name, found, most in (("cold", cold, 10), ("warm", warm, 5)):
        yield Comparison(
            f"{name} lookup by time, {count:,} segments of history",
            "records as they came",
            found["history"],
            found["live"],
            most,
            ratio=Ratio.SLOWER,
        )


def _log_of(directory: Path, segments: int, late_ms: int | None) -> Path:
    """A log directory with one transaction per segment, which ends ``late_ms`` after its records, or now for None."""
    with (
        mock.patch.object(LocalFile, "sync"),
        mock.patch.object(LocalFileSystem, "sync_directory"),
        LogManager.open(str(directory), create=True) as manager,
    ):
        manager.create_topic(TOPIC, partitions=1, configs=CONFIGS)
        log, producer = manager.open_log(TOPIC, 0), Producer(1, 0)
        for segment in range(segments):
            rows = records(np.arange(OF_A_SEGMENT), FIRST_MS + segment * STEP_MS)
            log.append_transactional(encode_batches(rows, BatchFields(), batch_bytes_max=2**14), producer)
            now_ms = None if late_ms is None else int(rows.timestamps[-1]) + late_ms
            log.end_transaction(producer, commit=True, now_ms=now_ms)
            if segment + 1 < segments:
                log.roll()
    return directory


def _ask_cold(directory: Path, segments: int) -> float:
    with LogManager.open(str(directory)) as manager, manager.open_reader(TOPIC, 0) as log:
        return _ask(log, segments)


def _ask(log: LogReader, segments: int) -> float:
    """Seconds of a lookup of a time in the last segment, a different one at each call."""
    asked_ms = FIRST_MS + (segments - 1) * STEP_MS + time.time_ns() % 25
    began = time.perf_counter()
    found = log.offset_for_timestamp(asked_ms)
    took = time.perf_counter() - began
    if found is None or found.timestamp != asked_ms:
        raise ValueError(f"asked for {asked_ms}, found {found}")
    return took
