"""Appends single batches, such as :func:`.checked_batch.check_batch` has checked, without tables of one row.

An append of one small batch by way of tables takes a millisecond of Python; by plain numbers it takes some 30 µs. Both
write the same bytes and refuse the same batches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from ..errors import (
    AppendError,
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionTypeError,
)
from ..format import v2
from ..format.constants import NO_TIMESTAMP, TRANSACTIONAL_MASK
from ..format.tables import BatchHeaders, Bytes
from ..recovery.producer_state import ProducedBatch, Producer, ProducerUpdate, produced_batch
from .append_info import AppendInfo, repeated_append
from .checks.checked_batch import CheckedBatch
from .shared_log import SharedLog

Refusal = AppendError | CorruptRecordError | InvalidRecordError | UnsupportedCompressionTypeError
_REFUSALS = (AppendError, CorruptRecordError, InvalidRecordError, UnsupportedCompressionTypeError)


MARKER_BYTES = 78  # of the batch that ends a transaction


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
            self._rolling.make_room(size, batch.max_timestamp, batch.base_offset, batch.last_offset)
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


def _first(buffer: Bytes, headers: BatchHeaders) -> memoryview:
    """Returns the first batch of a table."""
    start = int(headers.table["position"][0])
    return buffer[start : start + int(headers.table["size"][0])].data
