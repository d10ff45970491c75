"""Appends single batches, such as :func:`.checked_batch.check_batch` has checked, without tables of one row.

An append of one small batch by way of tables takes a millisecond of Python; by plain numbers it takes some 30 µs. Both
write the same bytes and refuse the same batches. :class:`PlainAppends` takes some 10 µs for one of several.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from ..errors import (
    AppendError,
    CorruptRecordError,
    InvalidRecordError,
    StorageError,
    UnsupportedCompressionTypeError,
)
from ..format import v2
from ..format.constants import INT32_MAX, NO_TIMESTAMP, TRANSACTIONAL_MASK
from ..format.tables import BatchHeaders, Bytes, last_sequence
from ..recovery.producer_state import ProducedBatch, ProducerBatch, ProducerState, ProducerUpdate
from ..segment.writer import PlacedBatch
from .checks.checked_batch import CheckedBatch
from .shared_log import SharedLog

Refusal = AppendError | CorruptRecordError | InvalidRecordError | UnsupportedCompressionTypeError
_REFUSALS = (AppendError, CorruptRecordError, InvalidRecordError, UnsupportedCompressionTypeError)


MARKER_BYTES = 78  # of the batch that ends a transaction


class AppendInfo(NamedTuple):
    """The result of an append."""

    first_offset: int
    last_offset: int  # below first_offset if there was nothing to append
    max_timestamp: int  # ms; -1: no record has one
    log_append_time_ms: int  # -1 unless the log sets the time
    size: int  # bytes written
    duplicate: bool = False  # a retry of one of the producer's last five batches: offsets are those of the first


class Producer(NamedTuple):
    """A producer id and epoch."""

    id: int
    epoch: int


class CheckedAppends(SharedLog):
    """The part of :class:`Log` that appends single batches."""

    @abstractmethod
    def append(self, buffer: Bytes, *, sync: bool = True) -> AppendInfo: ...

    def append_checked(self, batches: Sequence[CheckedBatch], *, sync: bool = True) -> list[AppendInfo | Refusal]:
        """Appends the batches of several clients, each as :meth:`append` does, under one lock and with one sync.

        Returns, for each batch, the result of its append or the error that refuses it, which concerns no other batch.
        Changes no buffer. Synced on return, unless ``flush.messages`` or ``flush.ms`` allow more; with ``sync=False``,
        :meth:`sync_appended` syncs them, without the lock. Raises StorageError if the disk failed: then nothing of this
        may be acknowledged.
        """
        with self._writing():
            found = [self._append_or_refuse(batch) for batch in batches]
            appended = [batch for batch, result in zip(batches, found, strict=True) if isinstance(result, AppendInfo)]
            if sync and appended:
                self._acknowledge(transactional=any(batch.is_transactional for batch in appended))
        return found

    def is_quick(self, batches: Sequence[CheckedBatch], *, markers: int = 0, sync: bool = True) -> bool:
        """Whether :meth:`append_checked` would neither sync nor roll a segment nor check more than plain numbers.

        ``markers``: how many markers of the present time are appended before the batches, unsynced.
        """
        active, headers = self.segments.active, [batch.header for batch in batches if batch.header is not None]
        end_offset = self._log_end_offset + markers + sum(header.records for header in headers)
        latest = max((header.max_timestamp for header in headers), default=NO_TIMESTAMP)
        size = markers * MARKER_BYTES + sum(len(batch.data) for batch in batches)
        if markers:
            latest = max(latest, self.context.clock.now_ms())
        if len(headers) < len(batches) or active.should_roll(size, latest, end_offset - 1):
            return False
        segment_ms = self.context.config.max_segment_ms - active.roll_jitter_ms
        if headers and not active.size and latest - headers[0].max_timestamp > segment_ms:
            return False  # the time of an empty segment begins with the first batch
        return not sync or not self._durability.is_sync_due(
            end_offset, transactional=any(batch.is_transactional for batch in batches)
        )

    def has_room(self, size: int, records: int, max_timestamp: int) -> bool:
        """Whether the active segment takes so many bytes and records; ``max_timestamp`` (ms) is the largest."""
        last_offset = self._log_end_offset + records - 1
        return self.has_begun and not self.segments.active.should_roll(size, max_timestamp, last_offset)

    def _append_or_refuse(self, batch: CheckedBatch) -> AppendInfo | Refusal:
        try:
            if batch.header is not None and batch.may_stay(self.context.config, self.context.clock.now_ms()):
                return self._append_as_it_is(batch.header, batch.data)
            return self.append(np.frombuffer(batch.data, dtype=np.uint8), sync=False)
        except _REFUSALS as refusal:
            return refusal

    def _append_as_it_is(self, header: v2.Header, data: memoryview) -> AppendInfo:
        """Appends a batch, changed only in base offset and leader epoch; not synced. Changes no buffer."""
        batch = produced_batch(header, self._log_end_offset)
        update = self.producers.prepare_batch(batch)
        if update.duplicate is not None:
            return repeated_append([update.duplicate])
        return self._write_one(batch, update, v2.placed(data, batch.base_offset, self.leader_epoch))

    @property
    def has_begun(self) -> bool:
        """Whether the active segment and the leader epochs have begun, so that a batch changes neither."""
        return self.segments.active.size > 0 and self.epochs.latest is not None

    @property
    def _sets_time(self) -> bool:
        """Whether the log gives all records the time of their append."""
        return self.context.config.message_timestamp_type == "LogAppendTime"

    def _append_one(self, buffer: Bytes, headers: BatchHeaders) -> AppendInfo:
        """Appends the first batch of a table, which this process encoded; not synced. Changes no buffer."""
        return self._append_as_it_is(v2.header_of(headers), _first(buffer, headers))

    def _append_one_of(self, producer: Producer, buffer: Bytes, headers: BatchHeaders) -> AppendInfo:
        """Appends the first batch of a table to the open transaction of a producer; not synced. Changes no buffer."""
        header = v2.header_of(headers)
        header = header._replace(
            base_offset=self._log_end_offset,
            leader_epoch=self.leader_epoch,
            attributes=header.attributes | TRANSACTIONAL_MASK,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=self.next_sequence(producer),
        )
        batch = produced_batch(header, header.base_offset)
        update = self.producers.prepare_batch(batch)
        return self._write_one(batch, update, v2.produced(_first(buffer, headers), header))

    def next_sequence(self, producer: Producer) -> int:
        """Returns the next sequence of the producer: the number of records that it wrote in its epoch, modulo 2^31."""
        known = self.producers.last_entry(producer.id)
        return 0 if known is None else known.next_sequence(producer.epoch)

    def _write_one(self, batch: ProducedBatch, update: ProducerUpdate, buffers: tuple[bytes, memoryview]) -> AppendInfo:
        """Writes one checked batch at the log end, with the newest leader epoch; ``buffers`` hold it.

        After a crash, the disk has the batch or a part of it, which recovery cuts off; or an entry of the transaction
        index without its marker, which is dropped when the log is opened.
        """
        size = len(buffers[0]) + len(buffers[1])
        with self._fail_stop.changing:
            self.epochs.assign(self.leader_epoch, batch.base_offset)
            self._make_room(size, batch.max_timestamp, batch.base_offset, batch.last_offset)
            self._index_aborted(update)
            self.segments.active.append_batch(buffers, size, batch.last_offset, batch.max_timestamp)
            self._note_appended(update)
        return AppendInfo(batch.base_offset, batch.last_offset, batch.max_timestamp, NO_TIMESTAMP, size)

    def _index_aborted(self, update: ProducerUpdate) -> None:
        """Indexes aborted transactions, before their markers are written: these alone would show aborted records."""
        for transaction in update.completed:
            if transaction.aborted:
                self.segments.active.txn_index.append(transaction.index_entry)

    def _note_appended(self, update: ProducerUpdate) -> None:
        """Updates the producers and the log end after an append to the active segment."""
        self.producers.apply(update)
        self.move_end(update.map_end_offset)


def repeated_append(batches: list[ProducerBatch]) -> AppendInfo:
    """Returns the result of an append that repeats ``batches``: the offsets of the first attempt."""
    first, last = batches[0], batches[-1]
    return AppendInfo(first.first_offset, last.last_offset, last.timestamp, last.timestamp, 0, duplicate=True)


def _first(buffer: Bytes, headers: BatchHeaders) -> memoryview:
    """Returns the first batch of a table."""
    start = int(headers.table["position"][0])
    return buffer[start : start + int(headers.table["size"][0])].data


def produced_batch(header: v2.Header, base_offset: int) -> ProducedBatch:
    """Returns the fields of a batch that concern producers, for ``base_offset`` in the log."""
    return ProducedBatch(
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        base_offset,
        base_offset + header.last_offset_delta,
        header.max_timestamp,
        header.attributes,
    )


_BASE_OFFSET, _LEADER_EPOCH, _LEADER_EPOCH_AT = struct.Struct(">q"), struct.Struct(">i"), 12


class PlainBatch(NamedTuple):
    """A batch of a client that the log may store as it is, but for base offset and leader epoch: it was checked."""

    data: memoryview  # which may be changed
    records: int
    max_timestamp: int
    producer_id: int  # -1: it has none
    producer_epoch: int
    sequence: int
    is_transactional: bool = False


class PlainAppends:
    """Appends plain batches to one log with one write, while it holds the append lock.

    Begins by :func:`begin_plain`. Takes only batches with which nothing but a write is to be done: no new segment, no
    sync that is due, as that of a transaction's batch always is, no producer that repeats itself or has a new epoch.
    Whether a transaction is open is for the caller to know. The others are for
    :meth:`CheckedAppends.append_checked`, after :meth:`end`. The results are the same.
    """

    def __init__(self, log: CheckedAppends, holding: AbstractContextManager[bool], *, sync: bool) -> None:
        active, config = log.segments.active, log.context.config
        self._log, self._holding, self._sync = log, holding, sync
        self._active, self._leader_epoch = active, log.leader_epoch
        self._end_offset, self._size = log.log_end_offset, active.size
        self._since, self._interval = active.bytes_since_entry, config.index_interval_bytes
        self._entries = min(active.offset_index.room, active.time_index.room)  # that there is room for
        self._segment_bytes = config.segment_bytes
        self._offset_max = active.base_offset + INT32_MAX
        if sync:
            self._offset_max = min(self._offset_max, log.recovery_point + config.flush_messages - 2)
        self._batches: list[PlacedBatch] = []
        self._states: dict[int, ProducerState] = {}
        self._begun: dict[int, int] = {}  # the producers of transactions that begin, by their first offsets
        self.records = self.size = 0  # taken

    @property
    def count(self) -> int:
        """How many batches were taken."""
        return len(self._batches)

    def may_take(self, batch: PlainBatch) -> bool:
        """Whether the log would append the batch now, without more to do than to write it."""
        if (
            self._size > self._segment_bytes - len(batch.data)
            or self._end_offset + batch.records - 1 > self._offset_max
            or not self._entries
            or self._active.is_too_late(batch.max_timestamp)
            or (self._sync and batch.is_transactional)
        ):
            return False
        return batch.producer_id < 0 or self._known(batch).may_go_on(
            batch.producer_epoch, batch.sequence, transactional=batch.is_transactional
        )

    def _known(self, batch: PlainBatch) -> ProducerState:
        known = self._states.get(batch.producer_id) or self._log.producers.last_entry(batch.producer_id)
        return known or ProducerState(batch.producer_id)

    def take(self, batch: PlainBatch) -> int:
        """Takes a batch that :meth:`may_take` allows, and writes its offset and leader epoch; returns the offset."""
        offset, size = self._end_offset, len(batch.data)
        last_offset = offset + batch.records - 1
        _BASE_OFFSET.pack_into(batch.data, 0, offset)
        _LEADER_EPOCH.pack_into(batch.data, _LEADER_EPOCH_AT, self._leader_epoch)
        self._batches.append(PlacedBatch(batch.data, last_offset, batch.max_timestamp))
        if self._since > self._interval:
            self._since = 0
            self._entries -= 1
        self._since += size
        self._size += size
        self._end_offset = last_offset + 1
        self.records += batch.records
        self.size += size
        if batch.producer_id >= 0:
            self._remember(batch, offset, last_offset)
        return offset

    def _remember(self, batch: PlainBatch, offset: int, last_offset: int) -> None:
        known = self._known(batch)
        begins = batch.is_transactional and not known.in_transaction
        if begins:
            self._begun[offset] = batch.producer_id
        newest = ProducerBatch(
            last_sequence(batch.sequence, batch.records - 1), last_offset, batch.records - 1, batch.max_timestamp
        )
        self._states[batch.producer_id] = ProducerState(
            known.producer_id,
            batch.producer_epoch,
            known.coordinator_epoch,
            batch.max_timestamp,
            offset if begins else known.current_txn_first_offset,
            known.batches_with(batch.producer_epoch, newest),
        )

    def write(self) -> None:
        """Writes what was taken. Raises StorageError if the disk failed: then nothing of it may be acknowledged.

        After a crash, the disk has some of the batches and perhaps part of the next one, which recovery cuts off.
        """
        log = self._log
        with log._fail_stop, log._fail_stop.changing:
            self._active.append_batches(self._batches)
            log._note_appended(log.producers.prepared(self._states, self._end_offset, self._begun))
        if self._sync:
            with log._fail_stop:
                log._acknowledge(transactional=False)

    def end(self) -> None:
        """Lets others take the lock."""
        self._holding.__exit__(None, None, None)


def begin_plain(log: CheckedAppends, *, sync: bool) -> PlainAppends | None:
    """Takes the append lock for plain batches, if that waits for nothing and no other process has appended.

    ``sync``: as for :meth:`CheckedAppends.append_checked`. None: use that; then nothing was done.
    """
    holding = log.if_alone()
    try:
        is_alone = holding.__enter__()
    except (StorageError, OSError):  # which an append reports
        return None
    try:
        is_sync_due = sync and log._durability.is_sync_due(log.log_end_offset, transactional=False)
        if is_alone and log.has_begun and not is_sync_due:
            return PlainAppends(log, holding, sync=sync)
    except BaseException:
        holding.__exit__(None, None, None)
        raise
    holding.__exit__(None, None, None)
    return None
