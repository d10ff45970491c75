"""Logs of every shape that this engine writes, for real Kafka to read."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.compression import LEVELS
from pyspark_commitlog.storage.format.constants import NO_TIMESTAMP, Codec
from pyspark_commitlog.storage.format.internal import control_records
from pyspark_commitlog.storage.format.tables import BinaryColumn, HeadersColumn, Records
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.log import Log

FIRST_PRODUCER_ID = 2**40  # where this engine allots from, so that it never meets a broker, which allots from 0


class Row(NamedTuple):
    """A record to write."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = NO_TIMESTAMP
    headers: tuple[tuple[str, bytes | None], ...] = ()


def to_records(rows: Sequence[Row]) -> Records:
    """The columns of some rows."""
    headers = [header for row in rows for header in row.headers]
    counts = [len(row.headers) for row in rows]
    return Records(
        offsets=np.arange(len(rows), dtype=np.int64),
        timestamps=np.array([row.timestamp_ms for row in rows], dtype=np.int64),
        timestamp_types=np.zeros(len(rows), dtype=np.int8),
        keys=BinaryColumn.from_list([row.key for row in rows]),
        values=BinaryColumn.from_list([row.value for row in rows]),
        headers=HeadersColumn(
            np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
            BinaryColumn.from_list([name.encode() for name, _ in headers]),
            BinaryColumn.from_list([value for _, value in headers]),
        ),
    )


class Rows:
    """Makes rows with nulls, empties, headers and times that now and then go back or are missing."""

    def __init__(self, now_ms: int) -> None:
        self._random = random.Random(4)
        self._time_ms = now_ms - 3_600_000  # young, or Kafka forgets the producers

    def make(self, count: int) -> list[Row]:
        return [self._row() for _ in range(count)]

    def _row(self) -> Row:
        chance = self._random
        self._time_ms += chance.randrange(20)
        is_late, is_untimed = chance.random() < 0.1, chance.random() < 0.05
        time_ms = NO_TIMESTAMP if is_untimed else self._time_ms - 5000 * is_late
        return Row(self._bytes(120), self._bytes(12), time_ms, self._headers())

    def _bytes(self, length_max: int) -> bytes | None:
        """Half of it is noise, half compresses."""
        chance = self._random
        if chance.random() < 0.1:
            return None
        length = chance.randrange(length_max)
        return chance.randbytes(length // 2) + b"x" * (length - length // 2)

    def _headers(self) -> tuple[tuple[str, bytes | None], ...]:
        chance = self._random
        names = ("", "h", "h", "größe", "trace-id")
        return tuple((chance.choice(names), self._bytes(10)) for _ in range(max(0, chance.randrange(-3, 4))))


class Transactions:
    """A producer as this engine's coordinator drives one: data under an epoch, its marker under the next one.

    One that the log knows goes on where it stopped.
    """

    def __init__(self, log: Log, producer_id: int, rows: Rows) -> None:
        self._log, self._producer_id, self._rows = log, producer_id, rows
        known = log.producers.last_entry(producer_id)
        self._epoch, self._sequence = (known.epoch, known.last_sequence + 1) if known else (0, 0)

    def write(self, count: int, codec: Codec = Codec.NONE) -> None:
        fields = v2.BatchFields(
            codec=codec,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        self._log.append_records(to_records(self._rows.make(count)), fields, sync=False)
        self._sequence += count

    def end(self, *, commit: bool) -> None:
        self._epoch, self._sequence = self._epoch + 1, 0
        marker = control_records.end_transaction_marker(
            commit=commit,
            offset=0,
            leader_epoch=0,
            timestamp_ms=self._log.context.clock.now_ms(),
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            coordinator_epoch=3,
        )
        self._log.append(marker, origin=Origin.COORDINATOR)


@dataclass(frozen=True)
class Shape:
    """A topic, and who writes its logs, one a partition."""

    write: Callable[[Sequence[Log], Rows], None]
    partitions: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)


def _write_codecs(logs: Sequence[Log], rows: Rows) -> None:
    fields = [v2.BatchFields(codec=codec) for codec in Codec]
    for codec, levels in LEVELS.items():
        fields += [v2.BatchFields(codec=codec, level=level) for level in (1, levels.highest)]
    for each in 3 * fields:
        logs[0].append_records(to_records(rows.make(20)), each, sync=False)


def _write_unevenly(logs: Sequence[Log], rows: Rows) -> None:
    """Many small batches, a single record, nothing."""
    for count in range(60):
        logs[0].append_records(to_records(rows.make(1 + count % 7)), sync=False)
    logs[1].append_records(to_records(rows.make(1)))


def _write_many(logs: Sequence[Log], rows: Rows) -> None:
    """Batches as large as Kafka's default lets them be."""
    large = [Row(b"\0" * 500_000), Row(None, b"tombstone"), *rows.make(8_000), Row(b"x" * 800_000)]
    logs[0].append_records(to_records(large), sync=False)


def _write_untimed(logs: Sequence[Log], rows: Rows) -> None:
    for _ in range(30):
        untimed = [row._replace(timestamp_ms=NO_TIMESTAMP) for row in rows.make(5)]
        logs[0].append_records(to_records(untimed), sync=False)


def _write_plainly(logs: Sequence[Log], rows: Rows) -> None:
    for _ in range(30):
        logs[0].append_records(to_records(rows.make(5)), sync=False)


def _write_idempotent(logs: Sequence[Log], rows: Rows) -> None:
    """Producers in turn, one of them across the end of the sequences, each at last with a newer epoch."""
    for epoch, first_sequence in ((0, 2**31 - 23), (7, 0)):
        for sequence in range(first_sequence, first_sequence + 50, 5):
            for number in range(3):
                begun = sequence if number == 1 or epoch else sequence - first_sequence
                fields = v2.BatchFields(
                    producer_id=FIRST_PRODUCER_ID + number, producer_epoch=epoch, base_sequence=begun % 2**31
                )
                logs[0].append_records(to_records(rows.make(5)), fields, sync=False)


def _write_transactions(logs: Sequence[Log], rows: Rows) -> None:
    """Committed, aborted, aborted over several segments, side by side, and ABORT markers without data."""
    first, second, third, idle = (Transactions(logs[0], FIRST_PRODUCER_ID + n, rows) for n in range(4))
    first.write(5)
    first.end(commit=True)
    second.write(5, Codec.ZSTD)
    first.write(3)
    first.end(commit=False)
    idle.end(commit=False)
    for _ in range(30):
        third.write(9, Codec.LZ4)
        second.write(2)
        logs[0].append_records(to_records(rows.make(1)), sync=False)
        first.write(1)
        first.end(commit=True)
    third.end(commit=False)
    second.end(commit=True)
    second.end(commit=False)
    idle.end(commit=False)
    second.write(4)
    second.end(commit=False)
    third.write(4)
    third.end(commit=True)


def _write_open_transaction(logs: Sequence[Log], rows: Rows) -> None:
    """What follows the open one is decided, and not to be seen by read_committed."""
    decided, undecided = (Transactions(logs[0], FIRST_PRODUCER_ID + n, rows) for n in range(2))
    decided.write(5)
    decided.end(commit=True)
    for _ in range(30):
        undecided.write(3)
        decided.write(3)
        decided.end(commit=False)


def _write_and_delete(logs: Sequence[Log], rows: Rows) -> None:
    """The log start lies inside a batch."""
    _write_plainly(logs, rows)
    logs[0].delete_records(71)


def _write_and_truncate(logs: Sequence[Log], rows: Rows) -> None:
    _write_transactions(logs, rows)
    logs[0].truncate_to(100)
    _write_plainly(logs, rows)


# Small segments, so that there are many.
_SMALL = {"segment.bytes": "4000", "index.interval.bytes": "500"}

SHAPES = {
    "codecs": Shape(_write_codecs, configs={**_SMALL, "segment.bytes": "8000"}),
    "uneven": Shape(_write_unevenly, 3, _SMALL),
    "many": Shape(_write_many),
    "untimed": Shape(_write_untimed, configs=_SMALL),
    "log-append-time": Shape(_write_plainly, configs={**_SMALL, "message.timestamp.type": "LogAppendTime"}),
    "preallocated": Shape(_write_plainly, configs={**_SMALL, "preallocate": "true"}),
    "idempotent": Shape(_write_idempotent, configs=_SMALL),
    "transactions": Shape(_write_transactions, configs=_SMALL),
    "open-transaction": Shape(_write_open_transaction, configs=_SMALL),
    "deleted-records": Shape(_write_and_delete, configs=_SMALL),
    "truncated": Shape(_write_and_truncate, configs=_SMALL),
}


def write_shapes(manager: LogManager, prefix: str) -> dict[str, dict[str, str]]:
    """A topic for each of SHAPES, its name after ``prefix``; returns their configs by topic. The logs stay open.

    Nothing is ever deleted: a broker's retention would do it under the test's eyes.
    """
    topics = {}
    for name, shape in SHAPES.items():
        topic = prefix + name
        topics[topic] = {"retention.ms": "-1", **shape.configs}
        manager.create_topic(topic, partitions=shape.partitions, configs=topics[topic])
        logs = [manager.open_log(topic, partition) for partition in range(shape.partitions)]
        shape.write(logs, Rows(manager.clock.now_ms()))
    return topics
