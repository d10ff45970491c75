"""Logs and records for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.format.tables import BinaryColumn, Records
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.reader import Isolation, LogReader

NOW_MS = 1_700_000_000_000


def records(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamps: Sequence[int] | int = NOW_MS,
) -> Records:
    """Records to append: offsets from 0, which the log replaces."""
    count = len(values)
    return Records(
        offsets=np.arange(count, dtype=np.int64),
        timestamps=np.broadcast_to(np.array(timestamps, dtype=np.int64), count).copy(),
        timestamp_types=np.zeros(count, dtype=np.int8),
        keys=BinaryColumn.from_list([None] * count if keys is None else list(keys)),
        values=BinaryColumn.from_list(list(values)),
        headers=None,
    )


def config(**overrides: object) -> LogConfig:
    """Kafka's defaults but for ``segment_bytes=…`` and the like."""
    names: Mapping[str, object] = {name.replace("_", "."): value for name, value in overrides.items()}
    return LogConfig.from_mapping(names)


def rows(log: Log | LogReader, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record a reader sees."""
    found: list[tuple[int, bytes | None]] = []
    for part in log.records(log.log_start_offset, log.log_end_offset, isolation=isolation):
        assert part.values is not None
        found += zip(part.offsets.tolist(), part.values.to_list(), strict=True)
    return found
