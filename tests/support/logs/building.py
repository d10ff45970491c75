"""Logs and records for tests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.filesystem.port import FileSystem
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import TRANSACTIONAL_MASK, Codec
from pyspark_commitlog.storage.format.internal import control_records
from pyspark_commitlog.storage.format.tables import BinaryColumn, Bytes, Records
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.follower import LogFollower
from pyspark_commitlog.storage.reading.marks import Checkpoints, KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.append_info import AppendInfo
from pyspark_commitlog.storage.writing.log import Log
from pyspark_commitlog.storage.writing.plain_appends import PlainBatch
from tests.support.clock import ManualClock

NOW_MS = 1_700_000_000_000


def now_ms() -> int:
    """The time now, for records in a directory that is maintained: retention and the expiry of producers count it."""
    return time.time_ns() // 1_000_000


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


def open_log(
    directory: object,
    checkpoints: Checkpoints | None = None,
    *,
    clock: ManualClock | None = None,
    filesystem: FileSystem | None = None,
    **settings: object,
) -> Log:
    """A log to write, at a time that stands still."""
    return Log.open(
        str(directory),
        config(**settings),
        clock=clock or ManualClock(NOW_MS),
        filesystem=filesystem,
        checkpoints=checkpoints or KeptInMemory(),
    )


def open_reader(
    directory: object,
    checkpoints: Checkpoints | None = None,
    *,
    filesystem: FileSystem | None = None,
    **settings: object,
) -> LogReader:
    """The same log to read."""
    return LogReader.open(
        str(directory),
        config(**settings),
        clock=ManualClock(NOW_MS),
        filesystem=filesystem,
        checkpoints=checkpoints or KeptInMemory(),
    )


def append(log: Log, *values: bytes | None, timestamps: Sequence[int] | int = NOW_MS) -> AppendInfo:
    """One batch of no producer."""
    return log.append_records(records(values, timestamps=timestamps))


def batch(
    *values: bytes | None,
    producer_id: int = -1,
    base_sequence: int = -1,
    producer_epoch: int | None = None,
    transactional: bool = False,
    timestamps: Sequence[int] | int = NOW_MS,
    codec: Codec = Codec.NONE,
) -> Bytes:
    """An encoded batch as a client sends it; epoch 0 where there is a producer."""
    epoch = producer_epoch if producer_epoch is not None else min(producer_id, 0)
    fields = v2.BatchFields(
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    return v2.encode(records(values, timestamps=timestamps), fields)


def plain(data: bytes) -> PlainBatch:
    """A batch as it is appended together with others."""
    header = v2.read_header(data)
    return PlainBatch(
        memoryview(bytearray(data)),
        header.records,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        bool(header.attributes & TRANSACTIONAL_MASK),
    )


def replicated(*values: bytes | None, base_offset: int, leader_epoch: int = 0) -> Bytes:
    """An encoded batch as a follower fetches it: with its offsets."""
    data = batch(*values)
    data[:8] = np.frombuffer(base_offset.to_bytes(8, "big"), dtype=np.uint8)
    data[12:16] = np.frombuffer(leader_epoch.to_bytes(4, "big"), dtype=np.uint8)
    return data


def write_transactional(log: Log, producer_id: int, base_sequence: int, *values: bytes, epoch: int = 0) -> AppendInfo:
    """A batch of a transaction, which it begins if none is open."""
    data = batch(
        *values, producer_id=producer_id, base_sequence=base_sequence, producer_epoch=epoch, transactional=True
    )
    return log.append(data)


def end_transaction(
    log: Log, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0
) -> AppendInfo:
    """The marker that ends a producer's transaction."""
    marker = control_records.end_transaction_marker(
        commit=commit,
        offset=0,
        leader_epoch=0,
        timestamp_ms=NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
    )
    return log.append(marker, origin=Origin.COORDINATOR)


def rows(log: Log | LogReader, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record a reader sees."""
    found: list[tuple[int, bytes | None]] = []
    for part in log.records(log.log_start_offset, log.log_end_offset, isolation=isolation):
        assert part.values is not None
        found += zip(part.offsets.tolist(), part.values.to_list(), strict=True)
    return found


def committed(log: Log | LogReader) -> list[tuple[int, bytes | None]]:
    """What a reader of committed records sees."""
    return rows(log, Isolation.READ_COMMITTED)


def decided(reader: LogReader) -> Iterator[Records]:
    """The records of the whole log that are of no transaction, or of a committed one: open ones hold nothing up."""
    with LogFollower(reader.context, reader.checkpoints) as log:
        for data in log.decided_from(log.log_start_offset):
            yield data.records(log.log_start_offset, log.log_end_offset)


def open_files(directory: Path) -> int:
    """Of this process, below ``directory``."""
    opened = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    return sum(path.startswith(str(directory)) for path in opened)
