"""LatestByKey: the current value per key of a partition of an internal, compacted topic.

Records of a transaction count once its commit marker is in the log; records after them count without waiting for it. Of
two values of a key, the one with the greater offset counts, as in Kafka's coordinators. The partition is read once, and
afterwards only what was appended; segments that compaction has replaced contain nothing new.

An unreadable record only affects its own key: the state of the key is unknown until a newer record of the key is
written. If the key itself is unreadable, the record affects nothing: a state is found by its key, and no writer of a
state writes such a key.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ..directory.manager import LogManager
from ..errors import InvalidRecordError, LogStoreError, StorageError, text_of
from ..format.files.file_names import TopicPartition, partition_directory
from ..format.internal.state_records import LaterKindError
from ..format.tables import Bools
from ..reading.fetch import FetchData
from ..reading.follower import LogFollower
from ..recovery.segment_recovery import read_markers
from ..writing.append_info import AppendInfo
from ..writing.log import Log

K = TypeVar("K")
V = TypeVar("V")


class _Record(NamedTuple):
    offset: int
    value: bytes | None


_Changes = dict[bytes, _Record]  # by key

DELETED_MAX = 1000  # keys
NAMELESS_MAX = 100
SHOWN_BYTES = 50  # of a key, in an error
SAID_MAX = 10_000
_SAID: set[tuple[str, int]] = set()  # partitions and offsets of records that were logged

logger = logging.getLogger(__name__)


class LatestByKey(Generic[K, V]):
    """The newest committed value of each key in one partition; a tombstone removes its key."""

    def __init__(
        self,
        manager: LogManager,
        topic: str,
        partition: int,
        *,
        decode_key: Callable[[bytes], K | None],
        decode_value: Callable[[K, bytes], V],
    ) -> None:
        """Reads nothing yet. ``decode_key`` returns None for records to skip."""
        self.values: dict[K, V] = {}
        self.unreadable: dict[K, InvalidRecordError] = {}  # keys whose newest value cannot be read
        self.nameless: list[InvalidRecordError] = []  # records whose keys cannot be read; only the first ones
        self._manager = manager
        self._topic_partition = TopicPartition(topic, partition)
        self._decode_key = decode_key
        self._decode_value = decode_value
        self._log: LogFollower | None = None
        self._forget()

    def _forget(self) -> None:
        self.values.clear()
        self.unreadable.clear()
        self.nameless.clear()
        self._offsets: dict[bytes, int] = {}  # of the current values and tombstones
        self._deleted: set[bytes] = set()  # keys among these whose newest record is a tombstone
        self._deleted_max = DELETED_MAX
        self._pending: dict[int, _Changes] = {}  # of open transactions, by producer id
        self._next_offset = 0

    def catch_up(self, log: Log | None = None) -> dict[K, V]:
        """Reads records appended since the last call; returns the current values, always in the same dict.

        ``log``: of this partition, if the caller holds its lock; then no file is read if there is nothing new.

        Records that cannot be read are in ``unreadable`` and ``nameless``, and logged. Raises as
        :meth:`LogReader.read`, and StorageError if the disk fails. After an error, the next call reads the whole
        partition again.
        """
        if log is not None and self.has_all_of(log):
            return self.values
        try:
            self._catch_up()
        except BaseException as error:
            self.close()
            self._log = None
            self._forget()
            if isinstance(error, OSError) and not isinstance(error, LogStoreError):
                raise StorageError(text_of(error)) from error
            raise
        return self.values

    def has_all_of(self, log: Log) -> bool:
        """Whether everything in ``log``, which is of this partition, was read. Reads no file."""
        return self._log is not None and self._log.ends_as(log)

    def _catch_up(self) -> None:
        if self._log is None:
            with self._manager.open_reader(*self._topic_partition) as reader:
                self._log = LogFollower(reader.context, reader.checkpoints)
            self._read_from(self._log, self._log.log_start_offset)
        self._manager.catch_up()
        if self._log.is_current():  # the usual case
            return
        changes: _Changes = {}
        for data in self._log.follow():
            self._take(self._log, data, changes)
        self._apply(changes)
        if not self._log.is_current():
            self._refresh(self._log)

    def wrote(
        self,
        entries: Sequence[tuple[bytes, bytes | None]],
        where: AppendInfo,
        decoded: Sequence[tuple[K, V]] | None = None,
    ) -> None:
        """Adds records (key, value) that the caller has just appended, so that they need not be read from the log.

        They must not be part of a transaction. The caller must hold the log's lock, and must have called
        :meth:`catch_up` under that lock before the append. ``decoded``: the decoded values, if known.
        """
        end_offset = where.last_offset + 1
        if self._log is None or not self._log.pass_over(where.first_offset, end_offset, where.size):
            return
        if decoded is None:
            for offset, (key, value) in enumerate(entries, where.first_offset):
                self._apply({key: _Record(offset, value)})
        else:
            for offset, ((key, _), (name, found)) in enumerate(zip(entries, decoded, strict=True), where.first_offset):
                self._offsets[key], self.values[name] = offset, found
                self._deleted.discard(key)
                self.unreadable.pop(name, None)
        self._next_offset = end_offset

    def undecided(self) -> list[K]:
        """Returns the keys that open transactions have written, as of the last :meth:`catch_up`."""
        found = []
        for changes in self._pending.values():
            for key_bytes in changes:
                with suppress(InvalidRecordError):  # logged later, if its transaction is committed
                    found.append(self._decode_key(key_bytes))
        return [key for key in found if key is not None]

    def _refresh(self, log: LogFollower) -> None:
        """Reloads the log after a roll, a compaction or a truncation, and reads new records.

        Continues at the next offset if that is in the active segment, which is never compacted; otherwise reads the
        whole log again.
        """
        log.refresh()
        newest = log.segments.active.base_offset if len(log.segments) else 0
        if not newest <= self._next_offset <= log.log_end_offset:
            self._forget()
        self._read_from(log, max(self._next_offset, log.log_start_offset))

    def _read_from(self, log: LogFollower, start: int) -> None:
        changes: _Changes = {}
        for data in log.decided_from(start):
            self._take(log, data, changes)
        self._settle(log, changes)
        self._apply(changes)
        self._next_offset = log.log_end_offset

    def _take(self, log: LogFollower, data: FetchData, changes: _Changes) -> None:
        """Adds to ``changes`` the values in a piece of the log, and earlier ones that its markers commit."""
        if self._pending:
            producer_ids = data.window.headers.table["producer_id"]
            for offset, marker in read_markers(data.window)[0].items():
                row = int(np.searchsorted(data.window.headers.table["base_offset"], offset))
                ended = self._pending.pop(int(producer_ids[row]), {})
                _merge(changes, ended if marker.is_commit else {})
        _merge(changes, self._records(data, data.visible))
        for producer_id, first_offset in _open_transactions(log, data):
            table = data.window.headers.table
            rows = ~data.visible & ~data.window.headers.is_control & (table["producer_id"] == producer_id)
            rows &= data.window.headers.is_transactional & (table["base_offset"] >= first_offset)
            _merge(self._pending.setdefault(producer_id, {}), self._records(data, rows))
        self._next_offset = data.next_offset

    def _records(self, data: FetchData, rows: Bools) -> _Changes:
        if not rows.any():
            return {}
        records = data.segment.decode(data.window, np.flatnonzero(rows), ("key", "value")).records
        assert records.keys is not None
        assert records.values is not None
        rows_of_key = map(_Record, records.offsets.tolist(), records.values.to_list())
        found = dict(zip(records.keys.to_list(), rows_of_key, strict=True))
        found.pop(None, None)
        return found  # type: ignore[return-value]  # None was removed

    def _settle(self, log: LogFollower, changes: _Changes) -> None:
        """Adds to ``changes`` the values of transactions that have ended although their markers were compacted away."""
        for producer_id in [each for each in self._pending if not _is_open(log, each)]:
            _merge(changes, self._pending.pop(producer_id))

    def _apply(self, changes: _Changes) -> None:
        for key_bytes, record in changes.items():
            try:
                key = self._decode_key(key_bytes)
            except LaterKindError as error:
                self._located(error, record, f"key {key_bytes[:SHOWN_BYTES]!r}")
                continue
            except InvalidRecordError as error:
                if len(self.nameless) < NAMELESS_MAX:
                    self.nameless.append(self._located(error, record, f"key {key_bytes[:SHOWN_BYTES]!r}"))
                continue
            if key is not None and record.offset >= self._offsets.get(key_bytes, -1):
                self._offsets[key_bytes] = record.offset
                self._deleted.discard(key_bytes)
                if record.value is None:
                    self._deleted.add(key_bytes)
                self._set(key, record)
        if len(self._deleted) > self._deleted_max:
            self._forget_deleted()

    def _forget_deleted(self) -> None:
        """Forgets the tombstones of keys that no open transaction has written: later records have greater offsets."""
        kept = {key for changes in self._pending.values() for key in changes if key in self._deleted}
        for key in self._deleted - kept:
            del self._offsets[key]
        self._deleted, self._deleted_max = kept, 2 * len(kept) + DELETED_MAX

    def _set(self, key: K, record: _Record) -> None:
        """Makes a record the newest of its key."""
        self.unreadable.pop(key, None)
        if record.value is None:
            self.values.pop(key, None)
            return
        try:
            self.values[key] = self._decode_value(key, record.value)
        except InvalidRecordError as error:
            self.values.pop(key, None)
            self.unreadable[key] = self._located(error, record, f"value of {key}")

    def _located(self, error: InvalidRecordError, record: _Record, what: str) -> InvalidRecordError:
        """Returns an error of a record with its partition and offset, and logs it, once per process."""
        place = self._manager.path(partition_directory(*self._topic_partition))
        found = InvalidRecordError(f"offset {record.offset}: the {what} cannot be read: {error.reason}", path=place)
        if (place, record.offset) not in _SAID and len(_SAID) < SAID_MAX:
            _SAID.add((place, record.offset))
            logger.error("%s; all else goes on", found)
        return found

    def close(self) -> None:
        """Closes the files; the next :meth:`catch_up` reopens them and continues."""
        if self._log is not None:
            self._log.close()


def _merge(changes: _Changes, newer: _Changes) -> None:
    """Adds ``newer`` to ``changes``; of two records of a key, keeps the one with the greater offset."""
    if not changes:
        changes.update(newer)
        return
    for key, record in newer.items():
        known = changes.get(key)
        if known is None or known.offset < record.offset:
            changes[key] = record


def _is_open(log: LogFollower, producer_id: int) -> bool:
    producer = log.producers.last_entry(producer_id)
    return producer is not None and producer.in_transaction


def _open_transactions(log: LogFollower, data: FetchData) -> list[tuple[int, int]]:
    """Returns (producer id, first offset) of each open transaction with records in a piece of the log."""
    if data.visible.all() or not log.producers.ongoing:
        return []
    here = set(data.window.headers.table["producer_id"].tolist())
    return [(producer_id, first) for first, producer_id in log.producers.ongoing.items() if producer_id in here]
