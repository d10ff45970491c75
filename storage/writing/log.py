"""Log: one partition's log, open for writing (Kafka's UnifiedLog and LocalLog): its appends.

An append is synced before it is acknowledged, unless the topic's ``flush.messages`` or ``flush.ms`` relax that, or the
caller chooses to sync later with :meth:`Log.sync`. Several processes may write the same log (``writable_log``).

Each append checks, then writes: ``checks.appends`` refuses, without a change, what the log must not take, and
``log_end`` writes the rest. One batch goes by plain numbers, in some 30 µs; by tables, it would take a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..errors import AppendError, CorruptRecordError, InvalidRecordError, UnsupportedCompressionTypeError
from ..format import v2
from ..format.constants import NO_TIMESTAMP, Codec
from ..format.internal import control_records
from ..format.tables import BatchHeaders, Bytes, Records
from ..reading.marks import Checkpoints
from ..recovery.producer_state import Marker, Origin, Producer
from ..segment.walk import LogContext
from .append_info import AppendInfo, repeated_append
from .checks.appends import AppendChecks, CheckedSet
from .checks.batches import FOLLOWING, analyze
from .checks.checked_batch import CheckedBatch
from .checks.records import Compression, bytes_in_batch, target_compression, validate_columns
from .log_end import LogEnd
from .writable_log import WritableLog

Refusal = AppendError | CorruptRecordError | InvalidRecordError | UnsupportedCompressionTypeError
_REFUSALS = (AppendError, CorruptRecordError, InvalidRecordError, UnsupportedCompressionTypeError)

MARKER_BYTES = 78  # of the batch that ends a transaction


class Log(WritableLog):
    """Appends to a partition's log, and reads it. Belongs to one thread at a time."""

    def __init__(self, context: LogContext, checkpoints: Checkpoints) -> None:
        super().__init__(context, checkpoints)
        self._checks = AppendChecks(self)
        self._end = LogEnd(self, self._fail_stop, self._rolling)

    # Batches from anywhere

    def append(
        self,
        buffer: Bytes,
        *,
        origin: Origin = Origin.CLIENT,
        leader_epoch: int | None = None,
        sync: bool = True,
    ) -> AppendInfo:
        """Appends encoded batches as a Kafka leader does: checks them, assigns offsets, drops a partial last batch.

        ``leader_epoch``: None for the newest in the checkpoint. Synced on return, unless ``flush.messages`` or
        ``flush.ms`` allow more, or ``sync`` is False: the next :meth:`sync` syncs it. Raises a subclass of AppendError,
        or CorruptRecordError, for batches that are refused, and StorageError if the disk failed; nothing is visible
        then.
        """
        analysis = analyze(buffer, origin, self.context.config)
        if not analysis.valid_bytes:
            return self._nothing_appended()
        with self._writing():
            checked = self._checks.sent(buffer, analysis, origin, leader_epoch)
            first_offset = self._log_end_offset  # a wrapper's header has only its last offset
            info = self._write(checked)
            if origin not in FOLLOWING and not info.duplicate:
                info = info._replace(first_offset=first_offset)
            if sync:
                self._acknowledge(transactional=bool(checked.window.headers.is_transactional.any()))
            return info

    def _write(self, checked: CheckedSet) -> AppendInfo:
        duplicate = checked.update.duplicate
        return self._end.write(checked) if duplicate is None else repeated_append([duplicate])

    def _nothing_appended(self) -> AppendInfo:
        return AppendInfo(self._log_end_offset, self._log_end_offset - 1, NO_TIMESTAMP, NO_TIMESTAMP, 0)

    # Single batches of clients

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

    def _append_or_refuse(self, batch: CheckedBatch) -> AppendInfo | Refusal:
        try:
            if batch.header is not None and batch.may_stay(self.context.config, self.context.clock.now_ms()):
                return self._append_as_it_is(batch.header, batch.data)
            return self.append(np.frombuffer(batch.data, dtype=np.uint8), sync=False)
        except _REFUSALS as refusal:
            return refusal

    def _append_as_it_is(self, header: v2.Header, data: memoryview) -> AppendInfo:
        """Appends a batch, changed only in base offset and leader epoch; not synced. Changes no buffer."""
        batch, update = self._checks.one(header)
        if update.duplicate is not None:
            return repeated_append([update.duplicate])
        return self._end.write_one(batch, update, v2.placed(data, batch.base_offset, self.leader_epoch))

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
        return self._end.has_begun and not self.segments.active.should_roll(size, max_timestamp, last_offset)

    # What this process encoded

    def append_records(
        self, records: Records, fields: v2.BatchFields | None = None, *, sync: bool = True
    ) -> AppendInfo:
        """Encodes and appends columns, in batches as large as the topic allows; the log assigns the offsets.

        With ``sync=False``, the next :meth:`sync` syncs them. Raises RecordValidationError, InvalidTimestampError
        or RecordTooLargeError with the index of each record that the topic refuses.
        """
        config, fields = self.context.config, fields or v2.BatchFields()
        validate_columns(records, now_ms=self.context.clock.now_ms(), config=config, source_codec=Codec(fields.codec))
        if config.compression_type != "producer":
            target = target_compression(config, Codec(fields.codec))
            fields = replace(fields, codec=target.codec, level=target.level)
        batch_bytes_max = bytes_in_batch(config.batch_size_max, Compression(Codec(fields.codec), fields.level))
        return self.append_encoded(v2.encode_batches(records, fields, batch_bytes_max=batch_bytes_max), sync=sync)

    def append_encoded(self, batches: v2.EncodedBatches, *, sync: bool = True) -> AppendInfo:
        """Appends batches that this process encoded from validated columns, without decoding them again.

        May write offsets and leader epoch into the buffer of ``batches``. With ``sync=False``, the next :meth:`sync`
        makes them durable. If a producer repeats an append, writes only the batches that the first attempt did not.
        """
        buffer, headers = batches
        if not len(headers):
            return self._nothing_appended()
        self._checks.check_sizes(headers)
        with self._writing():
            if self._is_plain(headers):
                info = self._append_as_it_is(v2.header_of(headers), _first(buffer, headers))
            else:
                info = self._append_many(buffer, headers)
            if sync:
                self._acknowledge(transactional=bool(headers.is_transactional.any()))
            return info

    def _is_plain(self, headers: BatchHeaders) -> bool:
        """Whether batches are one whose records keep their times: it is checked and written by plain numbers."""
        return len(headers) == 1 and not self._checks.sets_time

    def _append_many(self, buffer: Bytes, headers: BatchHeaders) -> AppendInfo:
        repeated = self._checks.find_repeated(headers)
        unwritten = headers[len(repeated) :]
        info = self._end.write(self._checks.encoded(buffer, unwritten)) if len(unwritten) else repeated_append(repeated)
        return info._replace(first_offset=repeated[0].first_offset) if repeated else info

    # Transactions

    def append_transactional(self, batches: v2.EncodedBatches, producer: Producer) -> AppendInfo:
        """Appends batches to the open transaction of ``producer``, or begins one; not synced.

        May write offsets, producer and the next sequences into the buffer of ``batches``. No batch counts as a
        repetition. First aborts an open transaction of an older epoch. The caller must check, within
        :meth:`exclusively`, that the transaction is still ongoing. Raises InvalidProducerEpochError if the log has seen
        a newer epoch, and RecordTooLargeError.
        """
        buffer, headers = batches
        if not len(headers):
            return self._nothing_appended()
        self._checks.check_sizes(headers)
        with self._writing():
            known = self.producers.last_entry(producer.id)
            if known is not None and known.in_transaction and known.epoch < producer.epoch:
                self.end_transaction(Producer(producer.id, known.epoch + 1), commit=False)
            if self._is_plain(headers):
                header = self._checks.one_of(producer, v2.header_of(headers))
                batch, update = self._checks.one(header)
                return self._end.write_one(batch, update, v2.produced(_first(buffer, headers), header))
            return self._end.write(self._checks.transactional(buffer, headers, producer))

    def next_sequence(self, producer: Producer) -> int:
        """Returns the next sequence of the producer: the number of records that it wrote in its epoch, modulo 2^31."""
        return self._checks.next_sequence(producer)

    def end_transaction(
        self, producer: Producer, *, commit: bool, coordinator_epoch: int = 0, now_ms: int | None = None
    ) -> None:
        """Appends the marker that commits or aborts the transaction of ``producer``; not synced.

        It fences older epochs, and has ``coordinator_epoch`` or a newer one that the log has seen. Raises
        InvalidProducerEpochError if the log has seen a newer epoch of the producer.
        """
        with self._writing():
            known = self.producers.last_entry(producer.id)
            marker = Marker(
                is_commit=commit,
                coordinator_epoch=max(coordinator_epoch, known.coordinator_epoch if known else 0),
                timestamp=self.context.clock.now_ms() if now_ms is None else now_ms,
            )
            data = memoryview(_marker_batch(producer, marker))
            batch, update = self._checks.one(v2.read_header(data), marker)
            self._end.write_one(batch, update, v2.placed(data, batch.base_offset, self.leader_epoch))


def _first(buffer: Bytes, headers: BatchHeaders) -> memoryview:
    """Returns the first batch of a table."""
    start = int(headers.table["position"][0])
    return buffer[start : start + int(headers.table["size"][0])].data


@lru_cache(maxsize=1024)  # so that many transactions may end at once
def _marker_batch(producer: Producer, marker: Marker) -> bytes:
    """Returns the encoded batch of a marker: the same in all partitions, but for offset and leader epoch, here 0."""
    return control_records.end_transaction_marker(
        commit=marker.is_commit,
        offset=0,
        leader_epoch=0,
        timestamp_ms=marker.timestamp,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        coordinator_epoch=marker.coordinator_epoch,
    ).tobytes()
