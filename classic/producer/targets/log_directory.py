"""LogDirectoryTarget: appends to a log directory without a broker; idempotent, and synced when a send returns."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np

from ....storage import (
    BatchFields,
    BinaryColumn,
    Clock,
    HeadersColumn,
    IdempotentProducer,
    LogManager,
    Records,
    check_takes_records,
    check_whole,
)
from ..messages import Message, Record
from .known import KnownPartitions
from .port import BrokerPartition, Failed, RecordSet


class LogDirectoryTarget:
    """A log directory, to which other processes may append at the same time; creates missing topics."""

    def __init__(self, path: str, clock: Clock, refresh_ms: int) -> None:
        """``refresh_ms``: after this time a topic's partitions are read again, because other processes may add some.

        Raises NotALogDirError, and LogDirLockedError while a broker runs on the directory.
        """
        self._clock = clock
        self._lock = Lock()  # a LogManager belongs to one thread at a time
        self._manager = LogManager.open(path, create=True)
        self._known = KnownPartitions(clock, refresh_ms, self._read)
        try:
            self._producer = IdempotentProducer(self._manager)
        except BaseException:
            self._manager.close()
            raise

    @property
    def places_keys(self) -> bool:
        return False

    @property
    def has_keys(self) -> bool:
        return True

    def partitions(self, topic: str) -> Sequence[BrokerPartition]:
        return self._known.of(topic)

    def _read(self, topic: str) -> list[BrokerPartition]:
        check_takes_records(topic)
        with self._lock:
            described = self._manager.ensure_topic(topic)
            check_whole(self._manager, described)
        return [BrokerPartition(0, each) for each in described.partitions]

    def send(self, sets: Sequence[RecordSet], *, wait: bool) -> list[Failed]:
        """Sends sets; each is synced when this returns, also without ``wait``."""
        failed = []
        with self._lock:
            for number, each in enumerate(sets):
                try:
                    records = _records(each.records, self._clock.now_ms())
                    self._producer.append(each.topic, each.place.partition, records, BatchFields(codec=each.codec))
                except Exception as error:  # of any kind: a program may put anything into a record
                    failed.append(Failed(number, error))
        return failed

    def refresh(self, topic: str) -> None:
        self._known.forget(topic)

    def close(self) -> None:
        with self._lock:
            self._manager.close()


def _records(messages: Sequence[Message], now_ms: int) -> Records:
    if all(type(each) is bytes for each in messages):
        return Records.to_append([None] * len(messages), list(messages), now_ms)  # type: ignore[arg-type]
    rows = [each if isinstance(each, Record) else Record(each) for each in messages]
    times = [now_ms if row.timestamp_ms is None else row.timestamp_ms for row in rows]
    headers = [[(name.encode(), value) for name, value in row.headers] for row in rows]
    return Records(
        offsets=np.arange(len(rows), dtype=np.int64),
        timestamps=np.array(times, dtype=np.int64),
        timestamp_types=np.zeros(len(rows), dtype=np.int8),
        keys=BinaryColumn.from_list([row.key for row in rows]),
        values=BinaryColumn.from_list([row.value for row in rows]),
        headers=HeadersColumn.from_list(headers) if any(headers) else None,
    )
