"""FileReading: what readers ask of a partition in a log directory; DamagedPartition, which has nothing else.

A log whose last segment is damaged cannot be opened for writing: recovery never cuts damage off. Readers get what is
sound, as the commands print it, and the error of the damage where it begins.
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
from ..network import FileSlice
from .led_partition import LedPartition, Slice, read_slice

LOOK_S = 1.0  # a damaged log whose files change is opened again after so long

T = TypeVar("T")
ReaderT = TypeVar("ReaderT", bound=LogReader)


class FileReading(LedPartition, Generic[ReaderT]):
    """A partition whose log is read from files."""

    def __init__(self, topic: str, partition: int, log: ReaderT) -> None:
        super().__init__(topic, partition)
        self._log = log
        self._lock = Lock()

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
                raise OffsetOutOfRangeError(
                    f"offset {offset} is outside the log, which holds {log.log_start_offset} to {shown}"
                )
            is_committed = isolation is Isolation.READ_COMMITTED
            found = None
            if max_bytes > 0 or min_one_batch:
                found = log.slice(
                    offset,
                    max(max_bytes, 1),
                    isolation=isolation,
                    up_to=shown,
                    min_one_message=min_one_batch,
                    whole=whole,
                )
            aborted = () if found is None else [(each.producer_id, each.first_offset) for each in found.aborted]
            return Slice(
                shown,
                min(log.last_stable_offset, shown),
                log.log_start_offset,
                aborted if is_committed else None,
                None if found is None else FileSlice(found.descriptor, found.position, found.length, found.release),
                found is not None and found.is_cut,
            )

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

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
            return [*times, (self._log.log_end_offset, now_ms)] if not segments or segments[-1].size else times

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        if self.is_empty and epoch == self.leader_epoch:  # which nothing has been written with, perhaps
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

    def __init__(self, topic: str, partition: int, log: LogReader, damage: CorruptionError) -> None:
        """``log``: just opened, and closed with :meth:`leave`. ``damage``: why it could not be opened to write."""
        super().__init__(topic, partition, log)
        self.damage = self._damage = damage
        self._files, self._opened_s = self._statuses(), time.monotonic()

    def slice(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one_batch: bool, whole: bool = True
    ) -> Slice:
        """Reads the batches: what a client does not check, it must not get from a log that is known to be damaged."""
        with self._lock:
            self._check_here()
            return read_slice(self._log, offset, max_bytes, isolation, min_one_batch=min_one_batch, whole=whole)

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
