"""FileReading: reads from a partition in a log directory; DamagedPartition, which can only be read.

A log whose last segment is damaged cannot be opened for writing: recovery never cuts damage off. Readers get the sound
records, as the commands print them, and an error where the damage begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Generic, TypeVar

from ...storage import (
    CorruptionError,
    Isolation,
    LogConfig,
    LogReader,
    OffsetOutOfRangeError,
    ProducerState,
)
from ..network.file_slice import FileSlice
from .led_partition import InTierError, LedPartition, Slice, read_slice

LOOK_S = 1.0  # how soon a damaged log is opened again after its files change

T = TypeVar("T")
ReaderT = TypeVar("ReaderT", bound=LogReader)


class FileReading(LedPartition, Generic[ReaderT]):
    """A partition whose log is read from files."""

    def __init__(self, topic: str, partition: int, log: ReaderT, *, has_tier: bool = False) -> None:
        """``has_tier``: the gateway reads from a tier the records that the log only has there."""
        super().__init__(topic, partition)
        self._log = log
        self._has_tier = has_tier
        self._lock = Lock()  # Guards the log: one thread at a time uses it.

    @property
    def config(self) -> LogConfig:
        return self._log.context.config

    # Reading

    def slice(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one_batch: bool, whole: bool = True
    ) -> Slice:
        with self._lock:
            self._check_here()
            log, shown = self._log, self._log.high_watermark
            if not log.log_start_offset <= offset <= log.log_end_offset:
                raise self._outside(offset)
            is_committed = isolation is Isolation.READ_COMMITTED
            found = None
            if max_bytes > 0 or min_one_batch:
                try:
                    found = log.slice(
                        offset,
                        max(max_bytes, 1),
                        isolation=isolation,
                        up_to=shown,
                        min_one_message=min_one_batch,
                        whole=whole,
                    )
                except OffsetOutOfRangeError:  # another process deleted the segment, and the log was loaded again
                    raise self._outside(offset) from None
            aborted = () if found is None else [(each.producer_id, each.first_offset) for each in found.aborted]
            return Slice(
                shown,
                min(log.last_stable_offset, shown),
                self.log_start_offset,
                aborted if is_committed else None,
                None if found is None else FileSlice(found.descriptor, found.position, found.length, found.release),
                found is not None and found.is_cut,
            )

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    def _outside(self, offset: int) -> OffsetOutOfRangeError:
        """Returns the error for an offset that the files do not have."""
        tiered = self.in_tier
        if tiered is not None and offset in tiered:
            return InTierError(f"offset {offset} is in the tier, which has {tiered.start} to {tiered.stop - 1}")
        return OffsetOutOfRangeError(
            f"offset {offset} is outside the log, which holds {self.log_start_offset} to {self._log.high_watermark}"
        )

    @property
    def log_start_offset(self) -> int:
        tiered = self.in_tier
        return self._log.log_start_offset if tiered is None else tiered.start

    @property
    def local_log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def in_tier(self) -> range | None:
        return self._log.in_tier if self._has_tier else None

    @property
    def is_tiered(self) -> bool:
        return self._has_tier and (self.config.remote_storage_enable or self.in_tier is not None)

    def ask(self, question: Callable[[LogReader], T]) -> T:
        with self._lock:
            self._check_here()
            return question(self._log)

    def segment_times(self, now_ms: int) -> Sequence[tuple[int, int]]:
        """Returns each segment's first offset with its file's time in ms, then the log end offset with ``now_ms``."""
        with self._lock:
            self._check_here()
            segments = list(self._log.segments)
            start = self._log.log_start_offset
            times = [(max(each.base_offset, start), each.status().modified_ms) for each in segments]
            if self.in_tier is not None and times:  # the tier's segments are at least as old as the first one here
                times.insert(0, (self.in_tier.start, times[0][1]))
            return [*times, (self._log.log_end_offset, now_ms)] if not segments or segments[-1].size else times

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        if self.is_empty and epoch == self.leader_epoch:  # perhaps nothing was written with this epoch yet
            return epoch, self.high_watermark
        found = self.ask(lambda log: log.epochs.end_offset_for(epoch, self.high_watermark))
        return found.epoch, found.end_offset

    def producers(self, now_ms: int) -> Mapping[int, ProducerState]:
        return self.ask(lambda log: log.active_producers(now_ms))

    # Others

    @property
    def is_busy(self) -> bool:
        return self._lock.locked()

    def leave(self) -> None:
        """Ends the use of the log before its manager closes it, to delete the topic or to open it again."""
        with self._lock:
            self.is_gone = True
        self.wake()


class DamagedPartition(FileReading[LogReader]):
    """A partition whose log cannot be opened for writing; nothing is appended to it, and nothing is cut off."""

    def __init__(
        self, topic: str, partition: int, log: LogReader, damage: CorruptionError, *, has_tier: bool = False
    ) -> None:
        """``log``: just opened, and closed with :meth:`leave`. ``damage``: why it could not be opened to write."""
        super().__init__(topic, partition, log, has_tier=has_tier)
        self.damage = self._damage = damage
        self._files, self._opened_s = self._statuses(), time.monotonic()

    def slice(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one_batch: bool, whole: bool = True
    ) -> Slice:
        """Reads and checks the batches, because clients may not check them and this log is known to be damaged."""
        with self._lock:
            self._check_here()
            try:
                found = read_slice(self._log, offset, max_bytes, isolation, min_one_batch=min_one_batch, whole=whole)
            except OffsetOutOfRangeError:
                raise self._outside(offset) from None
            return found._replace(log_start_offset=self.log_start_offset)

    @property
    def leader_epoch(self) -> int:
        latest = self._log.epochs.latest
        return 0 if latest is None else latest.epoch

    def delete_records(self, before_offset: int) -> int:
        raise self._damage

    @property
    def is_behind(self) -> bool:
        return False

    @property
    def is_unsynced(self) -> bool:
        return False

    @property
    def is_usable(self) -> bool:
        """Whether the log is as it was; otherwise it may have been repaired, and is opened again."""
        if self.is_gone or time.monotonic() < self._opened_s + LOOK_S:
            return not self.is_gone
        return self._statuses() == self._files

    def _statuses(self) -> Sequence[object]:
        context = self._log.context
        return [context.filesystem.status(path) for path in (context.directory, self._damage.path) if path is not None]

    def leave(self) -> None:
        super().leave()
        with self._lock:
            self._log.close()
