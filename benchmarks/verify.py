"""How fast a log is verified that lies in the page cache: GB/s on one core, with records decoded and without.

Uncompressed records of 1 KB, as Kafka's own performance tool writes them, and of 100 bytes, in batches of 16 KiB and of
256 KiB, in one segment. The gigabytes are those of the ``.log``.

Run it with ``python -m benchmarks.verify`` (needs the extra ``bench``), on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.timing import alternate
from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.filesystem import LocalFileSystem
from pyspark_commitlog.storage.format.tables import BinaryColumn, Records
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.segment_reader import LogContext
from pyspark_commitlog.storage.verify import verify_log

BATCH_BYTES = (16 * 1024, 256 * 1024)
VALUE_BYTES = (100, 1000)


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


def write(directory: Path, megabytes: int, value_bytes: int, batch_bytes: int) -> LogContext:
    config = LogConfig.from_mapping({"max.message.bytes": batch_bytes, "flush.messages": 2**62})
    records = make_records(16_000_000 // value_bytes, value_bytes)
    with Log.open(str(directory), config) as log:
        for _ in range(megabytes // 16):
            log.append_records(records)
    return LogContext(str(directory), config, SystemClock(), LocalFileSystem(), writable=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    table = Table("batches, KiB", "values, bytes", "", "GB/s", "slowest", "fastest")
    for batch_bytes in BATCH_BYTES:
        for value_bytes in VALUE_BYTES:
            with tempfile.TemporaryDirectory() as folder:
                context = write(Path(folder) / "log", arguments.megabytes, value_bytes, batch_bytes)
                found = verify_log(context)
                if found.findings:
                    raise ValueError(f"a log just written is not sound: {found.findings[0]}")
                peers: dict[str, Callable[[], object]] = {
                    "records decoded": partial(verify_log, context),
                    "checksums only": partial(verify_log, context, deep=False),
                }
                for name, timing in alternate(peers, arguments.rounds).items():
                    rates = [
                        f"{found.sound_bytes / seconds / 1e9:.2f}"
                        for seconds in (timing.median, timing.slowest, timing.fastest)
                    ]
                    table.add_row(str(batch_bytes // 1024), str(value_bytes), name, *rates)
    Console().print(table)


if __name__ == "__main__":
    main()
