"""LogView: the segments, start and end, and producers of a log, as they were when it was opened or refreshed.

A view takes no lock. Segments that compaction or retention replace later stay readable as long as they are open. If a
file is missing, :meth:`LogView.looking_again` refreshes the view and tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import NamedTuple, Self, TypeVar

from ..clock import Clock, SystemClock
from ..config import LogConfig
from ..errors import MissingSegmentError, OffsetOutOfRangeError, PolicyViolationError, StorageError
from ..filesystem.local import LocalFileSystem
from ..filesystem.operations import catch_up, pin
from ..filesystem.port import FileSystem
from ..format.files import file_names
from ..recovery.loader import LogLoader
from ..recovery.lost_start import (
    find_lost_start,
    lost_by_epochs,
    lost_by_epochs_text,
    lost_start_error,
    lost_start_text,
)
from ..recovery.producer_state import EXPIRATION_CHECK_INTERVAL_MS, ProducerState
from ..recovery.producer_state_manager import ProducerStateManager
from ..recovery.view import LoadedLog
from ..segment.joining import Holes
from ..segment.swap import swap_plan
from ..segment.walk import LogContext
from .aborted import Isolation, Outcomes
from .marks import UNFINISHED_COPY, Checkpoints, KeptInMemory, Marks

ANY_TIME_MS = -1  # the time of a record without one; no other record is older
REOPEN_ATTEMPTS = 5  # if files of a log disappear five times in a row during one read, it is being deleted

T = TypeVar("T")


class SegmentDescription(NamedTuple):
    """A segment, for display and planning."""

    base_offset: int
    next_offset: int  # the base offset of the next segment, or the log end
    size: int  # bytes of the .log
    largest_timestamp: int  # ms; -1: no record has one


class LogView:
    """The log of a partition, as it was when it was opened or refreshed: segments, start, end, epochs, producers."""

    passes_damage = False  # see despite_damage

    def __init__(self, context: LogContext, checkpoints: Checkpoints) -> None:
        self.context = replace(context, holes=self._find_holes)
        self.checkpoints = checkpoints
        self._expiry_checked_ms = context.clock.now_ms()
        self._holes = Holes.ANYWHERE if context.config.compact else Holes.NOWHERE
        self._take(self._load())

    def _find_holes(self) -> Holes:
        """Returns where offsets may be missing in the log.

        Each call reads the checkpoint again, until one has found "anywhere", which never changes back.
        """
        if self._holes is not Holes.ANYWHERE:
            self._holes = self.checkpoints.holes()
        return self._holes

    @classmethod
    def open(
        cls,
        directory: str,
        config: LogConfig | None = None,
        *,
        clock: Clock | None = None,
        filesystem: FileSystem | None = None,
        checkpoints: Checkpoints | None = None,
        after_failure: bool = False,
    ) -> Self:
        """Opens the partition in ``directory``. Defaults: Kafka's config, this machine's clock and file system.

        ``after_failure``: a write of this process has failed, so the unfinished end of the log is its own.

        Raises CorruptRecordError if records below the recovery point are missing at the end, and StorageError if there
        is no such directory.
        """
        context = LogContext(
            directory,
            config or LogConfig(),
            clock or SystemClock(),
            filesystem or LocalFileSystem(),
            cls._WRITES,
            after_failure=after_failure,
        )
        return cls(context, checkpoints or KeptInMemory(None))

    _WRITES = False

    def _loader(self) -> LogLoader:
        self._marks = self.checkpoints.read()
        return self._loader_of(self._marks)

    def _loader_of(self, marks: Marks) -> LogLoader:
        return LogLoader(
            self.context,
            recovery_point=marks.recovery_point,
            log_start_offset=marks.log_start_offset,
            was_closed_cleanly=marks.was_closed_cleanly,
        )

    def _load(self) -> LoadedLog:
        for _ in range(REOPEN_ATTEMPTS):
            pin(self.context.filesystem)
            with suppress(FileNotFoundError):  # by retention or the end of a compaction, between listing and opening
                return self._look()
        raise self._gone()

    def _look(self) -> LoadedLog:
        return self._loader().view()

    def _gone(self) -> StorageError | MissingSegmentError:
        unfinished = file_names.unfinished_path(self.context.directory)
        if self.context.filesystem.status(self.context.directory) is None:
            if self.context.filesystem.status(unfinished) is not None:
                return MissingSegmentError(UNFINISHED_COPY, path=unfinished)
            return StorageError(
                f"{self.context.directory}: no such directory: the partition was deleted, or its disk is not mounted"
            )
        return StorageError(
            f"{self.context.directory}: files disappear while they are being read; is the topic being deleted?"
        )

    def looking_again(self, look: Callable[[], T]) -> T:
        """Returns the result of ``look``; if a file is missing, refreshes the log and calls ``look`` again.

        Retention and compaction delete files at any time. Raises StorageError if files keep disappearing.
        """
        for _ in range(REOPEN_ATTEMPTS):
            try:
                return look()
            except FileNotFoundError:
                self.refresh()
        raise self._gone()

    def _take(self, loaded: LoadedLog) -> None:
        self.segments = loaded.segments
        self._producers, self.epochs = loaded.producers, loaded.epochs
        self._snapshots_seen = loaded.snapshots
        self._forget_outcomes()
        self._end_damage = loaded.damage
        self._log_start_offset = loaded.log_start_offset
        self._log_end_offset = loaded.log_end_offset
        self.remote = self._find_remote()
        self.truncated_bytes = loaded.truncated_bytes
        self.lost = loaded.lost
        self.key_filters = loaded.key_filters

    def lost_start(self, *, by_epochs: bool = False) -> MissingSegmentError | None:
        """Returns the error of a log whose files show that its first segments were lost; None for other logs.

        If the last load found this, lists the directory again and then reads the log start: retention raises it before
        it deletes files, perhaps between the two. ``by_epochs``: the leader epochs count, too, a weaker trace.
        """
        if self.lost is None and not by_epochs:
            return None
        listing = self.context.filesystem.list(self.context.directory)
        start, plan = self.checkpoints.read().log_start_offset, swap_plan(self.context, listing)
        lost = find_lost_start(self.context, listing, plan, start)
        if lost is not None:
            return lost_start_error(self.context, lost, lost_start_text(self.context, lost))
        return self._lost_by_epochs(min(plan.segment_suffixes(), default=0)) if by_epochs else None

    def _lost_by_epochs(self, first: int) -> MissingSegmentError | None:
        """Returns the error for lost segments before ``first``, judged by the leader epochs; None if none are lost.

        Like verification, skips logs with a noted log start: a tier may have the offsets below the first segment.
        """
        if not first or self.checkpoints.notes_start():
            return None
        epochs = self._loader().epoch_entries() or []
        lost = lost_by_epochs(self.context, first, epochs, 0)
        return None if lost is None else lost_start_error(self.context, lost, lost_by_epochs_text(lost, epochs))

    @property
    def earliest_offset(self) -> int:
        """The first offset of a read from the beginning: the log start, or that of lost first segments."""
        lost = self.lost_start()
        return self.log_start_offset if lost is None or lost.skipped_offsets is None else lost.skipped_offsets[0]

    def with_lost_before(self, found: int | None, offset_at: Callable[[int], int | None]) -> int | None:
        """Returns where a read from a time begins, if ``found`` is the first record at or after it that the log has.

        This is the first of the lost records (:meth:`lost_start`) if none is between them and ``found``: any of them
        may be at or after the time. ``offset_at`` returns the first record at or after another time.
        """
        earliest = self.earliest_offset
        if found is None or earliest == self.log_start_offset or found != offset_at(ANY_TIME_MS):
            return found
        return earliest

    @property
    def in_tier(self) -> range | None:
        """The offsets from the log start up to the first segment, if only remote storage has them; None: none.

        Like :attr:`remote`, but None once the log start is above them.
        """
        remote = self.remote
        return remote if remote is not None and remote.stop == self._log_start_offset else None

    @property
    def start_with_tier(self) -> int:
        """The log start offset; if only remote storage has the first records, that of them."""
        return self._log_start_offset if self.in_tier is None else self.in_tier.start

    def _find_remote(self) -> range | None:
        """Returns the offsets below the first segment that only a broker's remote storage has; None: none."""
        first = self.segments.first.base_offset if len(self.segments) else 0
        return self.checkpoints.remote_below(first) if self._marks.log_start_offset < first else None

    def _forget_outcomes(self) -> None:
        """Drops the cache of how transactions ended, after segments or producer state were replaced."""
        self._outcomes = Outcomes(self)

    def _expire_producers(self) -> None:
        """Removes idle producers from the state, every ten minutes while a log stays open, as a broker does."""
        now_ms = self.context.clock.now_ms()
        if now_ms - self._expiry_checked_ms >= EXPIRATION_CHECK_INTERVAL_MS:
            self._expiry_checked_ms = now_ms
            self.producers.remove_expired(now_ms)

    def active_producers(self, now_ms: int) -> dict[int, ProducerState]:
        """Returns a copy of the state of the producers that have not expired by ``now_ms``, by producer id.

        For a time in the past, reads the log from its oldest snapshot on, to include producers that expired since.
        """
        if now_ms > self.context.clock.now_ms() - EXPIRATION_CHECK_INTERVAL_MS:
            return self.producers.active(now_ms)
        return self._loader().producers_as_of(now_ms, self._log_end_offset, self.segments).active(now_ms)

    def refresh(self) -> None:
        """Reloads the log, including all changes since it was opened."""
        catch_up(self.context.filesystem)
        self._load_again()

    def _load_again(self) -> None:
        self.close()
        self._take(self._load())

    def close(self) -> None:
        """Closes the files of all segments."""
        self.segments.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Where the log begins and ends

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers see."""
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset the next record will get."""
        return self._log_end_offset

    def move_start(self, offset: int) -> None:
        """Moves the log start to ``offset``, of this object alone: a writer then writes it to the checkpoints."""
        self._log_start_offset = offset

    def move_end(self, offset: int) -> None:
        """Moves the log end to ``offset``, after the active segment and the producers were updated up to there."""
        self._log_end_offset = offset
        self.producers.on_high_watermark(offset)

    @property
    def high_watermark(self) -> int:
        """The log end offset: there are no replicas to wait for, and a reader of the files waits for no sync."""
        return self._log_end_offset

    @property
    def producers(self) -> ProducerStateManager:
        """The state of the producers at the log end. Raises CorruptionError if damage hides some of their batches."""
        if self._producers is None:
            self._producers = self.looking_again(self._find_producers)
        return self._producers

    @producers.setter
    def producers(self, producers: ProducerStateManager) -> None:
        self._producers = producers

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch of the log, which a writer gives to batches; 0 if the log has none."""
        latest = self.epochs.latest
        return latest.epoch if latest else 0

    def rebuild_producers(self) -> None:
        """Reads the state of the producers at the log end from the files again, after some were cut or removed."""
        self.producers = self._loader().producers_at(self._log_end_offset, self.segments)
        self.producers.on_high_watermark(self._log_end_offset)
        self._forget_outcomes()

    def _find_producers(self) -> ProducerStateManager:
        loader = self._loader_of(self._marks)
        return loader.producers_at(
            self._log_end_offset, self.segments, despite_damage=self.passes_damage, seen=self._snapshots_seen
        )

    @contextmanager
    def despite_damage(self) -> Iterator[None]:
        """Within the ``with`` block, skips damaged batches to find out how transactions ended, and raises nothing.

        Has no effect on a log without damage.
        """
        was, self.passes_damage = self.passes_damage, True
        try:
            yield
        finally:
            self.passes_damage = was
            if self._producers is not None and self._producers.is_partial and not was:
                self._producers = None
                self._forget_outcomes()

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the earliest open transaction; the log end if no transaction is open."""
        unstable = self.producers.first_unstable_offset
        return self._log_end_offset if unstable is None else max(unstable, self._log_start_offset)

    def end_offset(self, isolation: Isolation) -> int:
        """Returns the offset below which readers of an isolation level see records."""
        return self.last_stable_offset if isolation is Isolation.READ_COMMITTED else self._log_end_offset

    def start_without_records(self, before_offset: int) -> int:
        """Returns the log start offset that a deletion of all records below ``before_offset`` would give.

        -1 means the high watermark. Raises PolicyViolationError for a topic that is only compacted, and
        OffsetOutOfRangeError above the high watermark.
        """
        if not self.context.config.delete:
            raise PolicyViolationError(
                f"{self.context.directory}: records cannot be deleted, because cleanup.policy has no delete"
            )
        offset = self.high_watermark if before_offset == -1 else before_offset
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.context.directory}: cannot delete records before offset {before_offset}; give an offset from 0 "
                f"to {self.high_watermark}, where the log ends, or -1 for all"
            )
        return max(self.start_with_tier, offset)

    def describe_segments(self) -> list[SegmentDescription]:
        """Returns offsets, size and largest timestamp of all segments, ascending."""
        return self.looking_again(self._describe_segments)

    def _describe_segments(self) -> list[SegmentDescription]:
        return [
            SegmentDescription(segment.base_offset, next_offset, segment.size, segment.largest.timestamp)
            for segment, next_offset in self.segments.with_next_offsets(self._log_end_offset)
        ]

    def file_bytes(self) -> int:
        """Returns the total length of all ``.log`` files, in bytes."""
        return self.looking_again(lambda: sum(segment.status().size for segment in self.segments))

    def is_rolled(self) -> bool:
        """Whether another process has rolled the log since: a roll creates a segment named by the log end."""
        if self._log_end_offset == self.segments.active.base_offset:
            return False
        following = file_names.segment_file(self._log_end_offset, file_names.LOG)
        return self.context.filesystem.status(file_names.join(self.context.directory, following)) is not None
