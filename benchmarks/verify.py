"""The speed of verifying a log in the page cache on one core, compared with 1 GB/s.

Uncompressed records of 1000 bytes, as Kafka's own performance tool writes them, and of 100 bytes are in one segment, in
batches of 16 KiB and of 256 KiB. The gigabytes are those of the ``.log``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.comparison import Comparison, Setting
from benchmarks.timing import Timing, alternate
from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.tables import BinaryColumn, Records
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.verify.log import verify_log
from pyspark_commitlog.storage.writing.log import Log

LOG_BYTES = 256_000_000
APPENDED_BYTES = 16_000_000
BATCH_BYTES = (16 * 1024, 256 * 1024)
VALUE_BYTES = (100, 1000)
ASKED_BYTES_A_S = 1e9


def measure(setting: Setting) -> Iterator[Comparison]:
    for batch_bytes, value_bytes in product(BATCH_BYTES, VALUE_BYTES):
        directory = setting.directory / f"{batch_bytes}-{value_bytes}"
        context = write(directory, setting.sized(LOG_BYTES), value_bytes, batch_bytes)
        found = verify_log(context)
        if found.findings:
            raise ValueError(f"a log just written is not sound: {found.findings[0]}")
        ours = alternate({"ours": partial(verify_log, context)}, setting.rounds)["ours"]
        shutil.rmtree(directory)
        yield Comparison(
            f"verification, {value_bytes}-byte values, batches of {batch_bytes // 1024} KiB",
            "1 GB/s on a core",
            ours,
            Timing.of([found.sound_bytes / ASKED_BYTES_A_S]),
            asked=1,
            work={"crc32c": found.sound_bytes},
        )


def write(directory: Path, log_bytes: int, value_bytes: int, batch_bytes: int) -> LogContext:
    config = LogConfig.from_mapping({"max.message.bytes": batch_bytes, "flush.messages": 2**62})
    records = make_records(APPENDED_BYTES // value_bytes, value_bytes)
    with Log.open(str(directory), config) as log:
        for _ in range(-(-log_bytes // APPENDED_BYTES)):
            log.append_records(records)
    return LogContext(str(directory), config, SystemClock(), LocalFileSystem(), writable=False)


def make_records(count: int, value_bytes: int) -> Records:
    values = np.random.default_rng(7).integers(0, 256, size=count * value_bytes, dtype=np.uint8)
    return Records(
        offsets=np.arange(count),
        timestamps=1_700_000_000_000 + np.arange(count) // 10,
        timestamp_types=np.zeros(count, dtype=np.int8),
        keys=None,
        values=BinaryColumn(values, np.arange(count + 1, dtype=np.int32) * value_bytes, None),
        headers=None,
    )
