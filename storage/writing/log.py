"""Log: one partition's log, open for writing (Kafka's UnifiedLog and LocalLog).

An append is synced before it is acknowledged, unless the topic's ``flush.messages`` or ``flush.ms`` relax that, or the
caller chooses to sync later with :meth:`Log.sync`. Several processes may write the same log (``shared_log``).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..errors import RecordBatchTooLargeError, UnexpectedAppendOffsetError
from ..format import v2
from ..format.constants import NO_TIMESTAMP, Codec
from ..format.internal import control_records
from ..format.tables import BatchHeaders, Bytes, Records
from ..recovery.producer_state import Marker, Origin, Producer, ProducerBatch, ProducerUpdate, produced_batch
from ..recovery.segment_recovery import assign_epochs, read_markers
from ..segment.joining import Holes, leave_gaps
from ..segment.walk import Window
from .append_info import AppendInfo, repeated_append
from .checked_appends import CheckedAppends
from .checks.batches import FOLLOWING, Analysis, analyze, check_batch_sizes, validate_and_assign_offsets
from .checks.records import Compression, bytes_in_batch, target_compression, validate_columns


class Log(CheckedAppends):
    """Appends to a partition's log, truncates it, and reads it. Belongs to one thread at a time."""

    # Appending

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
        ``flush.ms`` allow more, or ``sync`` is False: the next :meth:`sync` syncs it. Raises a subclass of
        AppendError, or CorruptRecordError, for batches that are refused,
        and StorageError if the disk failed; nothing is visible then.
        """
        analysis = analyze(buffer, origin, self.context.config)
        if not analysis.valid_bytes:
            return self._nothing_appended()
        with self._writing():
            window, log_append_time_ms = self._prepare_set(buffer, analysis, origin, leader_epoch)
            self._check_set_size(int(window.headers.table["size"].sum()))
            update = self.producers.prepare(window.headers, origin, read_markers(window)[0])
            if update.duplicate is not None:
                info = repeated_append([update.duplicate])
            else:
                first_offset = self._log_end_offset  # a wrapper's header has only its last offset
                info = self._write(window, origin, update, log_append_time_ms)
                info = info if origin in FOLLOWING else info._replace(first_offset=first_offset)
            if sync:
                self._acknowledge(transactional=bool(window.headers.is_transactional.any()))
            return info

    def _nothing_appended(self) -> AppendInfo:
        return AppendInfo(self._log_end_offset, self._log_end_offset - 1, NO_TIMESTAMP, NO_TIMESTAMP, 0)

    def _check_set_size(self, size: int) -> None:
        limit, partition = self.context.config.segment_bytes, self.context.directory.rpartition("/")[2]
        if size > limit:
            raise RecordBatchTooLargeError(
                f"an append to {partition} has {size} bytes, but segment.bytes allows {limit}: append less at a time "
                "or raise that setting"
            )

    def _check_sizes(self, headers: BatchHeaders) -> None:
        """Raises RecordTooLargeError or RecordBatchTooLargeError for a batch that the topic does not accept."""
        check_batch_sizes(headers, self.context.config)
        self._check_set_size(int(headers.table["size"].max()))

    def _prepare_set(
        self, buffer: Bytes, analysis: Analysis, origin: Origin, leader_epoch: int | None
    ) -> tuple[Window, int]:
        if origin in FOLLOWING:
            last_offsets = analysis.headers.table["last_offset"]
            first = analysis.first_offset if analysis.first_offset >= 0 else int(last_offsets[0])
            if first < self._log_end_offset:
                raise UnexpectedAppendOffsetError(
                    f"{self.context.directory}: replicated batches begin at offset {first}, which is below the log "
                    f"end, {self._log_end_offset}: fetch from the log end on"
                )
            if leave_gaps(analysis.headers, self._log_end_offset) and self.context.holes() is not Holes.ANYWHERE:
                self.checkpoints.note_holes()
            return Window(0, buffer[: analysis.valid_bytes], analysis.headers), NO_TIMESTAMP
        validated = validate_and_assign_offsets(
            buffer[: analysis.valid_bytes],
            analysis,
            start_offset=self._log_end_offset,
            now_ms=self.context.clock.now_ms(),
            leader_epoch=self.leader_epoch if leader_epoch is None else leader_epoch,
            origin=origin,
            config=self.context.config,
        )
        return Window(0, validated.buffer, validated.headers), validated.log_append_time_ms

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
        self._check_sizes(headers)
        with self._writing():
            if len(headers) == 1 and not self._sets_time:
                info = self._append_one(buffer, headers)
            else:
                info = self._append_many(buffer, headers)
            if sync:
                self._acknowledge(transactional=bool(headers.is_transactional.any()))
            return info

    def _append_many(self, buffer: Bytes, headers: BatchHeaders) -> AppendInfo:
        repeated = self._find_repeated(headers)
        unwritten = headers[len(repeated) :]
        if len(unwritten):
            unwritten = v2.stamp(buffer, unwritten, base_offset=self._log_end_offset, leader_epoch=self.leader_epoch)
            info = self._write_stamped(buffer, unwritten)
        else:
            info = repeated_append(repeated)
        return info._replace(first_offset=repeated[0].first_offset) if repeated else info

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
        self._check_sizes(headers)
        with self._writing():
            known = self.producers.last_entry(producer.id)
            if known is not None and known.in_transaction and known.epoch < producer.epoch:
                self.end_transaction(Producer(producer.id, known.epoch + 1), commit=False)
            if len(headers) == 1 and not self._sets_time:
                return self._append_one_of(producer, buffer, headers)
            headers = v2.stamp_producer(
                buffer,
                headers,
                base_offset=self._log_end_offset,
                leader_epoch=self.leader_epoch,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                base_sequence=self.next_sequence(producer),
                transactional=True,
            )
            return self._write_stamped(buffer, headers)

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
            batch = produced_batch(v2.read_header(data), self._log_end_offset)
            update = self.producers.prepare_batch(batch, marker)
            self._write_one(batch, update, v2.placed(data, batch.base_offset, self.leader_epoch))

    def _find_repeated(self, headers: BatchHeaders) -> list[ProducerBatch]:
        """Returns the batches, from the first one on, that the log contains because of an earlier attempt."""
        repeated: list[ProducerBatch] = []
        for row in range(len(headers)):
            duplicate = self.producers.prepare(headers[row : row + 1], Origin.CLIENT).duplicate
            if duplicate is None:
                break
            repeated.append(duplicate)
        return repeated

    def _write_stamped(self, buffer: Bytes, headers: BatchHeaders) -> AppendInfo:
        log_append_time_ms = NO_TIMESTAMP
        if self.context.config.message_timestamp_type == "LogAppendTime":
            log_append_time_ms = self.context.clock.now_ms()
            headers = v2.set_append_time(buffer, headers, log_append_time_ms)
        update = self.producers.prepare(headers, Origin.CLIENT)
        return self._write(Window(0, buffer, headers), Origin.CLIENT, update, log_append_time_ms)

    def _write(self, window: Window, origin: Origin, update: ProducerUpdate, log_append_time_ms: int) -> AppendInfo:
        """Writes checked batches, to as many segments as they need.

        After a crash, the disk has some of the batches and perhaps part of the next one, which recovery cuts off; or
        an entry of the transaction index without its marker, which is dropped when the log is opened.
        """
        table = window.headers.table
        with self._fail_stop.changing:
            if (table["magic"] < v2.MAGIC).any():
                self.epochs.clear()
            assign_epochs(self.epochs, window.headers)
            unwritten = window
            while len(unwritten.headers):
                count = self._rolling.make_room_for(unwritten.headers)
                part, unwritten = (
                    unwritten._replace(headers=unwritten.headers[:count]),
                    unwritten._replace(headers=unwritten.headers[count:]),
                )
                if len(part.headers) < len(table):
                    update = self.producers.prepare(part.headers, origin, read_markers(part)[0])
                self._write_part(part, update)
        return AppendInfo(
            int(table["base_offset"][0]),
            int(table["last_offset"][-1]),
            int(table["max_timestamp"].max()),
            log_append_time_ms,
            int(table["size"].sum()),
        )

    def _write_part(self, part: Window, update: ProducerUpdate) -> None:
        """Writes batches to the active segment, and updates the producers and the log end."""
        self._index_aborted(update)
        data = part.buffer[int(part.headers.table["position"][0]) : part.headers.end]
        self.segments.active.append(data, part.headers)
        self._note_appended(update)


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
