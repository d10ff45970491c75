"""LogLoader: loads a partition's directory, in whatever state a crash left it (Kafka's LogLoader).

A writer, who holds the append lock, repairs the directory; a reader sees what a writer would find, and changes nothing.
Above the recovery point nothing was acknowledged as synced: that part is verified, and cut at the first incomplete or
damaged batch. Below it nothing is ever cut: see docs/compatibility.md for where Kafka does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import pairwise

from ..errors import CorruptionError, SegmentOffsetOverflowError
from ..filesystem import write_atomically
from ..format.files import file_names
from ..segment import (
    FILE_KINDS,
    PROBE_BYTES,
    Holes,
    LogSegment,
    LogSegments,
    carry_out,
    is_waiting,
    split_segment,
)
from .leader_epochs import LeaderEpochCache
from .log_end import find_end
from .producer_snapshots import stray_snapshots
from .producer_state_manager import ProducerStateManager
from .segment_recovery import LogState, Recovery, assign_epochs, cut, recover
from .view import Files, LoadedLog, LogViewer

logger = logging.getLogger(__name__)


class _OverflowedSegmentError(Exception):
    """The segment must be split before the log can be loaded."""

    def __init__(self, segment: LogSegment, reason: str) -> None:
        super().__init__(reason)
        self.segment = segment


class LogLoader(LogViewer):
    """Opens one partition's directory, and repairs it."""

    truncated_bytes = 0  # cut off the end so far

    def load(self, *, may_finish_swaps: bool) -> LoadedLog:
        """Repair the directory and load it. The caller holds the append lock.

        ``may_finish_swaps``: the caller holds the maintenance lock too. Without it, files of unfinished swaps stay.

        After a crash at any step, a second call has the same result: no step removes what a later one needs, and
        nothing is appended before everything is synced.

        Raises CorruptRecordError where records below the recovery point are damaged or missing, UnsupportedMagicError
        for batches of a newer format, and SegmentOffsetOverflowError for a segment that must be split but may not be.
        """
        while True:
            try:
                return self._load(may_finish_swaps=may_finish_swaps)
            except _OverflowedSegmentError as overflowed:
                if not may_finish_swaps:
                    raise SegmentOffsetOverflowError(
                        f"{overflowed}; the segment must be split, but another process works on the partition's "
                        "segments: open the log again when it is done"
                    ) from overflowed
                logger.warning("%s; split", overflowed)
                split_segment(overflowed.segment)

    def _load(self, *, may_finish_swaps: bool) -> LoadedLog:
        plan = self._plan(self.context.filesystem.list(self.context.directory))
        if may_finish_swaps:
            waiting = {name for name in plan.deleted if name.endswith(file_names.DELETED) and self._is_waiting(name)}
            due = replace(plan, deleted=[name for name in plan.deleted if name not in waiting])
            if not due.is_empty:
                carry_out(due, self.context.filesystem, self.context.directory)
                plan = self._plan(self.context.filesystem.list(self.context.directory))
        files = self._files_in_use(plan)
        if may_finish_swaps:
            self._remove_orphans(files)
        segments = LogSegments(self._segments(plan))
        with ExitStack() as on_error:
            on_error.callback(segments.close)
            loaded = self._bring_into_order(segments, files)
            on_error.pop_all()
        return loaded

    def _bring_into_order(self, segments: LogSegments, files: Files) -> LoadedLog:
        entries = self._epoch_entries()
        epochs = LeaderEpochCache(entries or (), self._write_epochs)
        producers = self._recover_segments(segments, epochs, files)
        log_end_offset = self._check_end(segments)
        if entries is None or (not entries and self._begins_with_an_epoch(segments)):
            self._rebuild_epochs(segments, epochs)
        if not len(segments) or log_end_offset < self.log_start_offset:
            log_end_offset = self._start_empty(segments, epochs)
        segments.active.txn_index.truncate_to(log_end_offset)  # an entry precedes its marker, which a crash may remove
        log_start_offset = max(self.log_start_offset, segments.first.base_offset)
        epochs.truncate_from_end(log_end_offset)
        epochs.truncate_from_start(log_start_offset)
        producers = self._producers_to_write(producers, segments, log_start_offset, log_end_offset)
        self._sync(segments, log_end_offset)
        segments.active.resize_indexes()
        return LoadedLog(
            segments, producers, epochs, log_start_offset, log_end_offset, log_end_offset, self.truncated_bytes
        )

    def _is_waiting(self, name: str) -> bool:
        """Whether a ``.deleted`` file was removed from the log less than ``file.delete.delay.ms`` ago."""
        status = self.context.filesystem.status(self._path(name))
        delay_ms = self.context.config.file_delete_delay_ms
        return status is not None and is_waiting(status.modified_ms, self.context.clock.now_ms(), delay_ms)

    def _remove_orphans(self, files: Files) -> None:
        """Remove index files without a log, left over from a removed segment."""
        for kind in FILE_KINDS[1:]:
            for base in sorted(files[kind] - files[file_names.LOG]):
                path = self._path(file_names.segment_file(base, kind))
                logger.warning("%s: removed, since it has no log", path)
                self.context.filesystem.remove(path)

    def _recover_segments(
        self, segments: LogSegments, epochs: LeaderEpochCache, files: Files
    ) -> ProducerStateManager | None:
        """Recover each segment that reaches above the recovery point or lacks an index; returns the state at the end.

        None if nothing had to be recovered.
        """
        producers = None
        for segment in self._to_recover(segments, files):
            if producers is None or producers.map_end_offset != segment.base_offset:
                producers = self._state_at(segment.base_offset, segments)
            dropped = self._recover(segment, segments, LogState(producers, epochs))
            self._write_snapshot(producers)
            if dropped:
                break
        return producers

    def _recover(self, segment: LogSegment, segments: LogSegments, state: LogState) -> bool:
        """Recover one segment; returns whether later segments had to be removed.

        They are removed first, and the directory is synced: a crash never leaves them behind a log that is already cut.
        """
        try:
            recovery = recover(segment, state, self.recovery_point)
        except SegmentOffsetOverflowError as error:
            raise _OverflowedSegmentError(segment, str(error)) from error
        state.producers.map_end_offset = max(state.producers.map_end_offset, recovery.next_offset)
        dropped = bool(recovery.truncated_bytes) and self._drop_behind(segment, segments, recovery)
        cut(segment)
        return dropped

    def _to_recover(self, segments: LogSegments, files: Files) -> Iterator[LogSegment]:
        """In order. In long logs that were synced, this only looks at the listing and the active segment."""
        indexed = files[file_names.INDEX] & files[file_names.TIME_INDEX]
        reaching = {segment.base_offset for segment in segments.reaching(self.recovery_point)}
        for segment in segments:
            lacks_an_index = not segment.suffix and segment.base_offset not in indexed
            is_synced = segment.base_offset not in reaching or (segment is segments.active and self._is_synced(segment))
            if lacks_an_index or not is_synced:
                yield segment

    def _is_synced(self, active: LogSegment) -> bool:
        """Whether all of it is below the recovery point. Finding its next offset also finds where it is sound up to."""
        is_below = active.has_sound_indexes() and active.next_offset() <= self.recovery_point
        return is_below and active.size >= active.file_size

    def _drop_behind(self, segment: LogSegment, segments: LogSegments, recovery: Recovery) -> bool:
        """After a cut, remove the later segments: their records cannot be offered without those before them.

        Nothing is removed where the next segment begins at exactly the offset at which the cut one ends: no record is
        missing between the two. Returns whether anything was removed.
        """
        logger.warning(
            "%s: cut %d bytes off the end that were never acknowledged as synced: %s",
            *(
                segment.path(file_names.LOG),
                recovery.truncated_bytes,
                recovery.reason or "the last batch is incomplete",
            ),
        )
        self.truncated_bytes += recovery.truncated_bytes
        following = segments.higher(segment.base_offset)
        if following is None or following.base_offset == recovery.next_offset:
            return False
        for later in reversed(segments.reaching(following.base_offset)):
            logger.warning("%s: removed, since it follows what was cut off", later.path(file_names.LOG))
            self.truncated_bytes += later.file_size
            segments.remove(later)
            later.remove_files()
        self.context.filesystem.sync_directory(self.context.directory)
        return True

    def _check_end(self, segments: LogSegments) -> int:
        """The log end; raises if it is below the recovery point, unless the records below that are deleted anyway."""
        if not len(segments):
            return self._check_nothing_lost()
        return self._check_offset(segments, find_end(segments.active, self.recovery_point).offset)

    def _start_empty(self, segments: LogSegments, epochs: LeaderEpochCache) -> int:
        """There are no records at or above the log start: create one empty segment there."""
        for segment in segments:
            segments.remove(segment)
            segment.remove_files()
        epochs.clear()
        segments.add(LogSegment.create(self.context, self.log_start_offset))
        self.context.filesystem.sync_directory(self.context.directory)
        return self.log_start_offset

    def _sync(self, segments: LogSegments, log_end_offset: int) -> None:
        """Sync everything above the recovery point, and the names in the directory: a killed writer synced neither.

        The name of an empty segment may be unsynced when nothing else is: if its creator was killed during a roll.
        """
        active = segments.active
        is_unsynced = log_end_offset > self.recovery_point or not self.recovery_point
        if is_unsynced:
            for segment in segments.reaching(self.recovery_point):
                segment.sync(with_indexes=True)
        if is_unsynced or not active.size:
            self.context.filesystem.sync_directory(self.context.directory)

    def warn_of_gaps(self, segments: LogSegments) -> None:
        """Log which offsets are in no segment. A read across them is refused; everything else continues.

        Only above the recovery point, where segments are examined anyway: opening a long log must stay cheap.
        """
        if self.context.holes() is Holes.ANYWHERE:
            return
        reaching = [segment.base_offset for segment in segments.reaching(self.recovery_point)]
        for base, following in pairwise(reaching):
            segment = LogSegment(self.context, base, segments.floor(base).suffix)  # type: ignore[union-attr]
            next_offset = segment.next_offset()
            segment.close()
            if next_offset < following:
                logger.warning(
                    "%s: offsets %d to %d are in no segment", self.context.directory, next_offset, following - 1
                )

    # Leader epochs

    def _write_epochs(self, data: bytes) -> None:
        write_atomically(self.context.filesystem, self._path(file_names.LEADER_EPOCH_CHECKPOINT), data)

    def _begins_with_an_epoch(self, segments: LogSegments) -> bool:
        """Whether the first batch of the log has one: then an empty checkpoint was emptied by a crash."""
        for segment in segments:
            with suppress(CorruptionError):
                for window in segment.batches(window_bytes=PROBE_BYTES):
                    return bool(window.headers.table["leader_epoch"][0] >= 0)
        return False

    def _rebuild_epochs(self, segments: LogSegments, epochs: LeaderEpochCache) -> None:
        """Rebuild the epochs from the sound batches, for a checkpoint that is missing or damaged.

        Damage below the recovery point is not reported here, but when it is read.
        """
        epochs.clear()
        for segment in segments:
            for window in segment.sound_batches():
                assign_epochs(epochs, window.headers)
        self._write_epochs(epochs.to_bytes() if epochs.entries else b"")

    # Producer state

    def _producers_to_write(
        self, recovered: ProducerStateManager | None, segments: LogSegments, log_start_offset: int, log_end_offset: int
    ) -> ProducerStateManager:
        """State at the log end, from the newest sound snapshot; removes snapshots that no longer apply."""
        meaningless = {offset for offset in self._snapshots if offset > log_end_offset}
        meaningless |= {*stray_snapshots(self._snapshots - meaningless, segments.base_offsets)}
        self._snapshots -= meaningless
        for offset in sorted(meaningless):
            self.context.filesystem.remove(self._path(file_names.segment_file(offset, file_names.SNAPSHOT)))
        producers = recovered
        if producers is None or producers.map_end_offset != log_end_offset:
            producers = self._state_at(log_end_offset, segments)
        producers.on_high_watermark(log_end_offset)
        producers.on_log_start_offset_increased(log_start_offset)
        if log_end_offset not in self._snapshots and log_end_offset > segments.first.base_offset:
            self._write_snapshot(producers)
        return producers
