"""Short ways to write to a log on an object store, and to read what its parts have, for tests of maintenance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.topics import find_topic
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.maintenance.bucket.scratch import Place, read_part
from tests.support.logs.building import records
from tests.support.stores.filling import write

Pair = tuple[bytes | None, bytes | None]


def place_of(log: CommitLog, topic: str = "t", partition: int = 0) -> Place:
    return Place(log, find_topic(log.catch_up(), topic), partition)


def write_pairs(
    log: CommitLog, *pairs: Pair, time_ms: int = 1000, batch_bytes: int = 1 << 20, topic: str = "t"
) -> None:
    """Commits keys and values of records in partition 0."""
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    table = records(values, keys=keys, timestamps=[time_ms] * len(pairs))
    write(log, topic, {0: [table]}, batch_bytes_max=batch_bytes)


def read_rows(log: CommitLog, topic: str = "t", partition: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    """Returns offset, key and value of the records in a partition."""
    place = place_of(log, topic, partition)
    found: list[tuple[int, bytes | None, bytes | None]] = []
    for part in place.parts:
        buffer = np.frombuffer(read_part(place, part), np.uint8)
        table = formats.decode(buffer, formats.scan(buffer).headers).records
        found += zip(table.offsets.tolist(), _column(table.keys, table), _column(table.values, table), strict=True)
    return found


def _column(column: object, table: Records) -> Sequence[bytes | None]:
    return [None] * len(table.offsets) if column is None else column.to_list()  # type: ignore[attr-defined]
