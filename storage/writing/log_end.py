"""LogEnd: writes checked batches at the end of a log, and moves its end, producers and leader epochs with them."""

from __future__ import annotations

from ..format import v2
from ..format.constants import NO_TIMESTAMP
from ..reading.view import LogView
from ..recovery.producer_state import ProducedBatch, ProducerUpdate
from ..recovery.segment_recovery import assign_epochs, read_markers
from ..segment.walk import Window
from .append_info import AppendInfo
from .checks.appends import CheckedSet
from .durability import FailStop
from .rolling import Rolling


class LogEnd:
    """The end of one open log.

    The caller holds the append lock, under which it checked the batches. Nothing is synced, but by a roll.
    """

    def __init__(self, view: LogView, fail_stop: FailStop, rolling: Rolling) -> None:
        """``view``: the log, whose end moves."""
        self._view, self._fail_stop, self._rolling = view, fail_stop, rolling

    @property
    def has_begun(self) -> bool:
        """Whether the active segment and the leader epochs have begun, so that a batch changes neither."""
        return self._view.segments.active.size > 0 and self._view.epochs.latest is not None

    def write(self, checked: CheckedSet) -> AppendInfo:
        """Writes checked batches, to as many segments as they need.

        After a crash, the disk has some of the batches and perhaps part of the next one, which recovery cuts off; or
        an entry of the transaction index without its marker, which is dropped when the log is opened.
        """
        view, window, table = self._view, checked.window, checked.window.headers.table
        if checked.leaves_gaps:
            view.checkpoints.note_holes()
        with self._fail_stop.changing:
            if (table["magic"] < v2.MAGIC).any():
                view.epochs.clear()
            assign_epochs(view.epochs, window.headers)
            unwritten, update = window, checked.update
            while len(unwritten.headers):
                count = self._rolling.make_room_for(unwritten.headers)
                part = unwritten._replace(headers=unwritten.headers[:count])
                unwritten = unwritten._replace(headers=unwritten.headers[count:])
                if len(part.headers) < len(table):
                    update = view.producers.prepare(part.headers, checked.origin, read_markers(part)[0])
                self._write_part(part, update)
        return AppendInfo(
            int(table["base_offset"][0]),
            int(table["last_offset"][-1]),
            int(table["max_timestamp"].max()),
            checked.log_append_time_ms,
            int(table["size"].sum()),
        )

    def _write_part(self, part: Window, update: ProducerUpdate) -> None:
        """Writes batches to the active segment, and updates the producers and the log end."""
        self._index_aborted(update)
        data = part.buffer[int(part.headers.table["position"][0]) : part.headers.end]
        self._view.segments.active.append(data, part.headers)
        self.note_appended(update)

    def write_one(self, batch: ProducedBatch, update: ProducerUpdate, buffers: tuple[bytes, memoryview]) -> AppendInfo:
        """Writes one checked batch, with the newest leader epoch; ``buffers`` hold it. Needs no table.

        After a crash, the disk has the batch or a part of it, which recovery cuts off; or an entry of the transaction
        index without its marker, which is dropped when the log is opened.
        """
        view, size = self._view, len(buffers[0]) + len(buffers[1])
        with self._fail_stop.changing:
            view.epochs.assign(view.leader_epoch, batch.base_offset)
            self._rolling.make_room(size, batch.max_timestamp, batch.base_offset, batch.last_offset)
            self._index_aborted(update)
            view.segments.active.append_batch(buffers, size, batch.last_offset, batch.max_timestamp)
            self.note_appended(update)
        return AppendInfo(batch.base_offset, batch.last_offset, batch.max_timestamp, NO_TIMESTAMP, size)

    def _index_aborted(self, update: ProducerUpdate) -> None:
        """Indexes aborted transactions, before their markers are written: these alone would show aborted records.

        First removes what a process that was killed has indexed without writing the marker.
        """
        for transaction in update.completed:
            if transaction.aborted:
                index = self._view.segments.active.txn_index
                index.truncate_to(transaction.last_offset)
                index.append(transaction.index_entry)

    def note_appended(self, update: ProducerUpdate) -> None:
        """Updates the producers and the log end after an append to the active segment."""
        self._view.producers.apply(update)
        self._view.move_end(update.map_end_offset)
