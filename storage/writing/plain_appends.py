"""Appends many checked batches of clients to one log with one write, some 10 µs for each.

An append by plain numbers (:meth:`Log.append_checked`) takes some 30 µs. Both write the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from ..errors import StorageError
from ..format.constants import INT32_MAX
from ..format.tables import last_sequence
from ..kernels.produce import tables
from ..recovery.producer_state import BATCHES_CACHED, ProducerBatch, ProducerState
from ..segment.writer import PlacedBatch
from .log import Log

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
    :meth:`Log.append_checked`, after :meth:`end`. The results are the same.
    """

    def __init__(self, log: Log, holding: AbstractContextManager[bool], *, sync: bool) -> None:
        active, config = log.segments.active, log.context.config
        self._log, self._holding, self._sync = log, holding, sync
        self._active, self._leader_epoch = active, log.leader_epoch
        self._end_offset, self._size = log.log_end_offset, active.size
        self._since, self._interval = active.bytes_since_entry, config.index_interval_bytes
        self._entries = min(active.offset_index.room, active.time_index.room)  # that there is room for
        self._segment_bytes, self._latest_ms = config.segment_bytes, active.latest_ms
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
            or batch.max_timestamp > self._latest_ms
            or (self._sync and batch.is_transactional)
        ):
            return False
        return batch.producer_id < 0 or self._known(batch.producer_id).may_go_on(
            batch.producer_epoch, batch.sequence, transactional=batch.is_transactional
        )

    def _known(self, producer_id: int) -> ProducerState:
        known = self._states.get(producer_id) or self._log.producers.last_entry(producer_id)
        return known or ProducerState(producer_id)

    def take_run(
        self, found: tables.ProduceTables, frame: int, stop: int, first: tables.FoundBatch, log_start: int
    ) -> Sequence[int]:
        """Takes the requests that :meth:`ProduceTables.take_run` takes, as by :meth:`take`; returns their offsets.

        ``first``: the first batch of the first request.
        """
        if first.producer_id >= 0 and not self._known(first.producer_id).may_go_on(
            first.producer_epoch, first.sequence
        ):
            return ()
        taken = found.take_run(frame, stop, self._room(log_start))
        if not taken.count:
            return ()
        batches, memory, written = found.taken(frame, taken.count), found.memory, 0
        for at, size, records, max_timestamp, offset, _ in batches:
            self._batches.append(PlacedBatch(memory[at : at + size], offset + records - 1, max_timestamp))
            written += size
        self.size += written
        self._size += written
        self.records += taken.end_offset - self._end_offset
        self._end_offset, self._entries, self._since = taken.end_offset, taken.entries_left, taken.since_entry
        if first.producer_id >= 0:
            self._remember_run(first, [tables.TakenBatch(*each) for each in batches[-BATCHES_CACHED:]])
        return [offset for *_, offset, _ in batches]

    def _room(self, log_start: int) -> tables.Room:
        return tables.Room(
            self._end_offset,
            self._offset_max,
            self._segment_bytes - self._size,
            self._entries,
            self._since,
            self._interval,
            self._latest_ms,
            self._leader_epoch,
            log_start,
        )

    def _remember_run(self, first: tables.FoundBatch, newest: Sequence[tables.TakenBatch]) -> None:
        """Notes the newest batches of a producer."""
        known, epoch = self._known(first.producer_id), first.producer_epoch
        written = [_remembered(each, each.offset + each.records - 1) for each in newest]
        self._states[first.producer_id] = known._replace(
            epoch=epoch,
            last_timestamp=newest[-1].max_timestamp,
            batches=known.batches_with(epoch, *written),
        )

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
        known = self._known(batch.producer_id)
        begins = batch.is_transactional and not known.in_transaction
        if begins:
            self._begun[offset] = batch.producer_id
        self._states[batch.producer_id] = ProducerState(
            known.producer_id,
            batch.producer_epoch,
            known.coordinator_epoch,
            batch.max_timestamp,
            offset if begins else known.current_txn_first_offset,
            known.batches_with(batch.producer_epoch, _remembered(batch, last_offset)),
        )

    def write(self) -> None:
        """Writes what was taken. Raises StorageError if the disk failed: then nothing of it may be acknowledged.

        After a crash, the disk has some of the batches and perhaps part of the next one, which recovery cuts off.
        """
        log = self._log
        with log._fail_stop, log._fail_stop.changing:
            self._active.append_batches(self._batches)
            log._end.note_appended(log.producers.prepared(self._states, self._end_offset, self._begun))
        if self._sync:
            with log._fail_stop:
                log._acknowledge(transactional=False)

    def end(self) -> None:
        """Lets others take the lock."""
        self._holding.__exit__(None, None, None)


def _remembered(batch: PlainBatch | tables.TakenBatch, last_offset: int) -> ProducerBatch:
    """Returns what is remembered of a batch of a producer."""
    return ProducerBatch(
        last_sequence(batch.sequence, batch.records - 1), last_offset, batch.records - 1, batch.max_timestamp
    )


def begin_plain(log: Log, *, sync: bool) -> PlainAppends | None:
    """Takes the append lock for plain batches, if that waits for nothing and no other process has appended.

    ``sync``: as for :meth:`Log.append_checked`. None: use that; then nothing was done.
    """
    holding = log.if_alone()
    try:
        is_alone = holding.__enter__()
    except (StorageError, OSError):  # which an append reports
        return None
    try:
        is_sync_due = sync and log._durability.is_sync_due(log.log_end_offset, transactional=False)
        if is_alone and log._end.has_begun and not is_sync_due:
            return PlainAppends(log, holding, sync=sync)
    except BaseException:
        holding.__exit__(None, None, None)
        raise
    holding.__exit__(None, None, None)
    return None
