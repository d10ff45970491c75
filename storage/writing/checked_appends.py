"""Appends batches that :func:`.checked_batch.check_batch` has checked, without tables of one row.

An append of one small batch by way of tables takes a millisecond of Python; by plain numbers it takes some 30 µs. Both
write the same bytes and refuse the same batches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import AppendError, CorruptRecordError, InvalidRecordError, UnsupportedCompressionTypeError
from ..format import v2
from ..format.constants import NO_TIMESTAMP, TRANSACTIONAL_MASK
from ..format.tables import Bytes
from ..recovery import ProducedBatch, ProducerBatch
from .checked_batch import CheckedBatch
from .record_checks import timestamp_limits
from .shared_log import SharedLog

Refusal = AppendError | CorruptRecordError | InvalidRecordError | UnsupportedCompressionTypeError
_REFUSALS = (AppendError, CorruptRecordError, InvalidRecordError, UnsupportedCompressionTypeError)


class AppendInfo(NamedTuple):
    """The result of an append."""

    first_offset: int
    last_offset: int  # below first_offset if there was nothing to append
    max_timestamp: int  # ms; -1: no record has one
    log_append_time_ms: int  # -1 unless the log sets the time
    size: int  # bytes written
    duplicate: bool = False  # a retry of one of the producer's last five batches: offsets are those of the first


class CheckedAppends(SharedLog):
    """The part of :class:`Log` that appends checked batches."""

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

    def _append_or_refuse(self, batch: CheckedBatch) -> AppendInfo | Refusal:
        try:
            if self._may_take_as_it_is(batch):
                return self._append_as_it_is(batch)
            return self.append(np.frombuffer(batch.data, dtype=np.uint8), sync=False)
        except _REFUSALS as refusal:
            return refusal

    def _may_take_as_it_is(self, batch: CheckedBatch) -> bool:
        """Whether nothing of a batch but its base offset and leader epoch would change, and no record is refused."""
        config = self.context.config
        if not batch.is_plain or (batch.config is not config and batch.config != config):
            return False
        earliest, latest = timestamp_limits(self.context.clock.now_ms(), config)
        return earliest <= batch.smallest_timestamp and batch.max_timestamp <= latest

    def _append_as_it_is(self, batch: CheckedBatch) -> AppendInfo:
        first, last, size = self._log_end_offset, self._log_end_offset + batch.records - 1, len(batch.data)
        update = self.producers.prepare_batch(
            ProducedBatch(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                first,
                last,
                batch.max_timestamp,
                TRANSACTIONAL_MASK * batch.is_transactional,
            )
        )
        if update.duplicate is not None:
            return repeated_append([update.duplicate])
        with self._changing():
            leader_epoch = self.leader_epoch
            self.epochs.assign(leader_epoch, first)
            self._make_room(size, batch.max_timestamp, first, last)
            buffers = v2.placed(batch.data, first, leader_epoch)
            self.segments.active.append_batch(buffers, size, last, batch.max_timestamp)
            self.producers.apply(update)
            self._log_end_offset = last + 1
            self.producers.on_high_watermark(last + 1)
        return AppendInfo(first, last, batch.max_timestamp, NO_TIMESTAMP, size)


def repeated_append(batches: list[ProducerBatch]) -> AppendInfo:
    """Returns the result of an append that repeats ``batches``: the offsets of the first attempt."""
    first, last = batches[0], batches[-1]
    return AppendInfo(first.first_offset, last.last_offset, last.timestamp, last.timestamp, 0, duplicate=True)
