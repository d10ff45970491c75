"""AppendChecks: what a log refuses because of its state, and what it gives to batches that it accepts.

The other checks of this room need no log; these come last, under the append lock.
"""

from __future__ import annotations

from typing import NamedTuple

from ...errors import RecordBatchTooLargeError, UnexpectedAppendOffsetError
from ...format import v2
from ...format.constants import NO_TIMESTAMP, TRANSACTIONAL_MASK
from ...format.tables import BatchHeaders, Bytes
from ...reading.view import LogView
from ...recovery.producer_state import (
    Marker,
    Origin,
    ProducedBatch,
    Producer,
    ProducerBatch,
    ProducerUpdate,
    produced_batch,
)
from ...recovery.segment_recovery import read_markers
from ...segment.joining import Holes, leave_gaps
from ...segment.walk import Window
from .batches import FOLLOWING, Analysis, check_batch_sizes, validate_and_assign_offsets


class CheckedSet(NamedTuple):
    """Batches that a log may write at its end, with its offsets; nothing may be appended in between."""

    window: Window
    origin: Origin
    update: ProducerUpdate  # with a duplicate, the log has the batches already, and they are not to be written
    log_append_time_ms: int = NO_TIMESTAMP  # -1 unless the log sets the time
    leaves_gaps: bool = False  # whether offsets will be missing where they never were before


class AppendChecks:
    """Checks what is appended to one log against its end, its settings, and the sequences and epochs of producers.

    Reads the log and changes nothing of it, so that a refused append leaves it as it was. The caller holds the append
    lock, but for :meth:`check_sizes`.
    """

    def __init__(self, view: LogView) -> None:
        """``view``: the log."""
        self._view = view

    @property
    def sets_time(self) -> bool:
        """Whether the log gives all records the time of their append."""
        return self._view.context.config.message_timestamp_type == "LogAppendTime"

    # Sizes

    def check_sizes(self, headers: BatchHeaders) -> None:
        """Raises RecordTooLargeError or RecordBatchTooLargeError for a batch that the topic does not accept."""
        check_batch_sizes(headers, self._view.context.config)
        self._check_set_size(int(headers.table["size"].max()))

    def _check_set_size(self, size: int) -> None:
        context = self._view.context
        limit, partition = context.config.segment_bytes, context.directory.rpartition("/")[2]
        if size > limit:
            raise RecordBatchTooLargeError(
                f"an append to {partition} has {size} bytes, but segment.bytes allows {limit}: append less at a time "
                "or raise that setting"
            )

    # Batches from anywhere

    def sent(self, buffer: Bytes, analysis: Analysis, origin: Origin, leader_epoch: int | None) -> CheckedSet:
        """Returns what a sender's batches become in the log, which are not empty; copies those that it changes.

        ``analysis`` is that of ``buffer``. ``leader_epoch``: None for the newest of the log. Raises
        UnexpectedAppendOffsetError for batches with offsets below the log end, RecordBatchTooLargeError, what
        :func:`.batches.validate_and_assign_offsets` raises for the records, and what
        :meth:`ProducerStateManager.prepare` raises for the producers.
        """
        leaves_gaps, log_append_time_ms = False, NO_TIMESTAMP
        if origin in FOLLOWING:
            self._check_follows(analysis)
            window = Window(0, buffer[: analysis.valid_bytes], analysis.headers)
            leaves_gaps = self._leaves_gaps(analysis.headers)
        else:
            view = self._view
            validated = validate_and_assign_offsets(
                buffer[: analysis.valid_bytes],
                analysis,
                start_offset=view.log_end_offset,
                now_ms=view.context.clock.now_ms(),
                leader_epoch=view.leader_epoch if leader_epoch is None else leader_epoch,
                origin=origin,
                config=view.context.config,
            )
            window, log_append_time_ms = Window(0, validated.buffer, validated.headers), validated.log_append_time_ms
        self._check_set_size(int(window.headers.table["size"].sum()))
        update = self._view.producers.prepare(window.headers, origin, read_markers(window)[0])
        return CheckedSet(window, origin, update, log_append_time_ms, leaves_gaps)

    def _check_follows(self, analysis: Analysis) -> None:
        end_offset = self._view.log_end_offset
        first = analysis.first_offset
        first = first if first >= 0 else int(analysis.headers.table["last_offset"][0])
        if first < end_offset:
            raise UnexpectedAppendOffsetError(
                f"{self._view.context.directory}: replicated batches begin at offset {first}, which is below the log "
                f"end, {end_offset}: fetch from the log end on"
            )

    def _leaves_gaps(self, headers: BatchHeaders) -> bool:
        view = self._view
        return leave_gaps(headers, view.log_end_offset) and view.context.holes() is not Holes.ANYWHERE

    # Batches that this process encoded

    def find_repeated(self, headers: BatchHeaders) -> list[ProducerBatch]:
        """Returns the batches, from the first one on, that the log contains because of an earlier attempt."""
        repeated: list[ProducerBatch] = []
        for row in range(len(headers)):
            duplicate = self._view.producers.prepare(headers[row : row + 1], Origin.CLIENT).duplicate
            if duplicate is None:
                break
            repeated.append(duplicate)
        return repeated

    def encoded(self, buffer: Bytes, headers: BatchHeaders) -> CheckedSet:
        """Returns batches with the log's offsets and leader epoch, which it writes into ``buffer``; and their time."""
        view = self._view
        return self._stamped(
            buffer, v2.stamp(buffer, headers, base_offset=view.log_end_offset, leader_epoch=view.leader_epoch)
        )

    def transactional(self, buffer: Bytes, headers: BatchHeaders, producer: Producer) -> CheckedSet:
        """Does what :meth:`encoded` does, and writes the producer and its next sequences too."""
        view = self._view
        headers = v2.stamp_producer(
            buffer,
            headers,
            base_offset=view.log_end_offset,
            leader_epoch=view.leader_epoch,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=self.next_sequence(producer),
            transactional=True,
        )
        return self._stamped(buffer, headers)

    def _stamped(self, buffer: Bytes, headers: BatchHeaders) -> CheckedSet:
        log_append_time_ms = NO_TIMESTAMP
        if self.sets_time:
            log_append_time_ms = self._view.context.clock.now_ms()
            headers = v2.set_append_time(buffer, headers, log_append_time_ms)
        update = self._view.producers.prepare(headers, Origin.CLIENT)
        return CheckedSet(Window(0, buffer, headers), Origin.CLIENT, update, log_append_time_ms)

    # One batch, by plain numbers

    def one(self, header: v2.Header, marker: Marker | None = None) -> tuple[ProducedBatch, ProducerUpdate]:
        """Returns a batch at the log end, and how it would change the producers; checks nothing else of it.

        ``marker``: of a coordinator's batch. Raises what :meth:`ProducerStateManager.prepare` raises.
        """
        batch = produced_batch(header, self._view.log_end_offset)
        return batch, self._view.producers.prepare_batch(batch, marker)

    def one_of(self, producer: Producer, header: v2.Header) -> v2.Header:
        """Returns the header of the next batch in the open transaction of a producer, or the first one."""
        view = self._view
        return header._replace(
            base_offset=view.log_end_offset,
            leader_epoch=view.leader_epoch,
            attributes=header.attributes | TRANSACTIONAL_MASK,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=self.next_sequence(producer),
        )

    def next_sequence(self, producer: Producer) -> int:
        """Returns the next sequence of the producer: the number of records that it wrote in its epoch, modulo 2^31."""
        known = self._view.producers.last_entry(producer.id)
        return 0 if known is None else known.next_sequence(producer.epoch)
