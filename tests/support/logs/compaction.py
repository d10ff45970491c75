"""Passes of Kafka's log cleaner: directories before and after, settings and times (tests/golden/compaction)."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import CleanerConfig, LogConfig
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock

GOLDEN = Path(__file__).parents[2] / "golden" / "compaction"
_IN_HEADER = (
    *("base_offset", "last_offset", "magic", "attributes", "leader_epoch", "base_timestamp", "max_timestamp"),
    *("producer_id", "producer_epoch", "base_sequence", "count"),
)


class Batch(NamedTuple):
    """All that a batch says but its size and checksum, which are those of compressed bytes."""

    header: tuple[int, ...]
    records: list[tuple[Any, ...]]  # offset, timestamp, key, value, headers


@dataclass(frozen=True)
class Pass:
    """One pass of the cleaner over one partition: as many rounds as it took."""

    partition: str
    before: str
    after: str
    configs: dict[str, str]
    broker: dict[str, Any]
    times_ms: list[int]
    recovery_point: int
    log_start_offset: int
    first_dirty_offset: int | None
    next_first_dirty_offset: int
    modified_ms: dict[str, int]
    modified_after_ms: dict[str, int]

    def __str__(self) -> str:
        return f"{self.after}/{self.partition}"

    @property
    def files_after(self) -> dict[str, bytes]:
        return _files()[f"{self.after}/{self.partition}"]

    def lay_out(self, directory: Path) -> None:
        """The partition as the cleaner found it, file times too."""
        directory.mkdir()
        for name, content in _files()[f"{self.before}/{self.partition}"].items():
            (directory / name).write_bytes(content)
        for name, modified_ms in self.modified_ms.items():
            os.utime(directory / name, ns=(modified_ms * 1_000_000,) * 2)

    def open(self, directory: Path, clock: ManualClock) -> Log:
        config = LogConfig.from_mapping(self.configs, broker=self.broker)
        checkpoints = KeptInMemory(self.recovery_point, self.log_start_offset)
        return Log.open(str(directory), config, clock=clock, checkpoints=checkpoints)

    def clean(self, directory: Path) -> int:
        """All rounds, each at its time; the first dirty offset that is then."""
        clock = ManualClock(self.times_ms[0])
        cleaner = Cleaner(CleanerConfig.from_mapping(self.broker))
        first_dirty = self.first_dirty_offset
        with self.open(directory, clock) as log:
            for now_ms in self.times_ms:
                clock.advance(max(now_ms - clock.now_ms(), 0))
                first_dirty = cleaner.clean(log, first_dirty, now_ms).next_first_dirty_offset
        assert first_dirty is not None
        return first_dirty


@cache
def passes() -> tuple[Pass, ...]:
    return tuple(Pass(**each) for each in json.loads((GOLDEN / "passes.json").read_text()))


@cache
def _files() -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = defaultdict(dict)
    with tarfile.open(fileobj=io.BytesIO((GOLDEN / "partitions.tar.xz").read_bytes())) as archive:
        for member in archive:
            directory, _, name = member.name.rpartition("/")
            content = archive.extractfile(member)
            assert content is not None
            found[directory][name] = content.read()
    return dict(found)


def batches(logs: dict[str, bytes]) -> list[Batch]:
    """Every batch of the ``.log`` files, in the order of their names."""
    return [batch for name in sorted(logs) if name.endswith(".log") for batch in batches_of(logs[name])]


def batches_of(log: bytes) -> list[Batch]:
    """Every batch of one ``.log``."""
    buffer = np.frombuffer(log, dtype=np.uint8)
    scan = formats.scan(buffer)
    assert scan.end == len(buffer)
    records, counts = formats.decode(buffer, scan.headers)
    assert records.keys is not None
    assert records.values is not None
    columns = (records.offsets.tolist(), records.timestamps.tolist(), records.keys.to_list(), records.values.to_list())
    rows = list(zip(*columns, _headers(records), strict=True))
    ends = np.cumsum(counts).tolist()
    return [
        Batch(tuple(int(header[name]) for name in _IN_HEADER), rows[end - count : end])
        for header, end, count in zip(scan.headers.table, ends, counts.tolist(), strict=True)
    ]


def _headers(records: Records) -> list[list[tuple[bytes | None, bytes | None]]]:
    if records.headers is None:
        return [[] for _ in range(len(records))]
    pairs = list(zip(records.headers.keys.to_list(), records.headers.values.to_list(), strict=True))
    bounds = records.headers.offsets.tolist()
    return [pairs[first:last] for first, last in pairwise(bounds)]
