"""LogLoader: loads a partition's directory for a writer, and repairs what a crash did to it (Kafka's LogLoader).

Nothing above the recovery point was acknowledged as synced: that part of the log is checked, and cut at the first
incomplete or damaged batch. Nothing below the recovery point is ever cut; docs/compatibility_damage.md says where
Kafka does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import pairwise

from ..errors import CorruptionError, SegmentOffsetOverflowError
from ..filesystem.operations import write_atomically
from ..format.files import file_names
from ..segment.collection import LogSegments
from ..segment.joining import Holes
from ..segment.split import split_segment
from ..segment.swap import SwapPlan, carry_out, is_waiting
from ..segment.walk import FILE_KINDS, PROBE_BYTES
from ..segment.writer import LogSegment
from .leader_epochs import LeaderEpochCache
from .log_end import find_end
from .lost_start import find_lost_start, lost_by_epochs, lost_start_text
from .producer_snapshots import stray_snapshots
from .producer_state_manager import ProducerStateManager
from .segment_recovery import LogState, Recovery, assign_epochs, cut, recover
from .view import Files, LoadedLog, LogViewer

logger = logging.getLogger(__name__)


class _OverflowedSegmentError(Exception):
    """A segment must be split before the log can be loaded, because its offsets are too far apart."""

    def __init__(self, segment: LogSegment, reason: str) -> None:
        super().__init__(reason)
        self.segment = segment


class LogLoader(LogViewer):
    """Loads one partition's directory for its writer, and repairs it."""

    truncated_bytes = 0  # cut off the end so far
    _lost: range | None = None  # offsets below the first segment, of which an index is the only trace

    def load(self, *, may_finish_swaps: bool) -> LoadedLog:
        """Repair the directory and load it. The caller holds the append lock.

        ``may_finish_swaps``: the caller also holds the maintenance lock. Otherwise, files of unfinished swaps are kept.

        After a crash at any step, a second call has the same result: no step removes anything that a later step needs,
        and nothing is appended before everything is synced.

        Raises CorruptRecordError if records below the recovery point are damaged or missing, UnsupportedMagicError for
        batches of a newer format, and SegmentOffsetOverflowError if a segment must be split, but ``may_finish_swaps``
        is False.
        """
        while True:
            try:
                return self._load(may_finish_swaps=may_finish_swaps)
            except _OverflowedSegmentError as overflowed:
                if not may_finish_swaps:
                    raise SegmentOffsetOverflowError(
                        f"{overflowed}; the segment must be split, but another process holds the partition's "
                        "maintenance "
                        "lock: open the log again when that process is done"
                    ) from overflowed
                logger.warning("%s; splitting the segment", overflowed)
                split_segment(overflowed.segment)

    def _load(self, *, may_finish_swaps: bool) -> LoadedLog:
        listing = self.context.filesystem.list(self.context.directory)
        plan = self._plan(listing)
        self._lost = find_lost_start(self.context, listing, plan, self.log_start_offset)
        if self._lost is not None:
            logger.warning(
                "%s: %s; keeping what shows it", self.context.directory, lost_start_text(self.context, self._lost)
            )
        if may_finish_swaps:
            self._remove_orphans(plan)  # before the .deleted files that explain them
            waiting = {name for name in plan.deleted if name.endswith(file_names.DELETED) and self._is_waiting(name)}
            due = replace(plan, deleted=[name for name in plan.deleted if name not in waiting])
            if not due.is_empty:
                carry_out(due, self.context.filesystem, self.context.directory)
                plan = self._plan(self.context.filesystem.list(self.context.directory))
                self._remove_orphans(plan)
        files = self._files_in_use(plan)
        segments = LogSegments(self._segments(plan))
        with ExitStack() as on_error:
            on_error.callback(segments.close)
            loaded = self._bring_into_order(segments, files)
            on_error.pop_all()
        return loaded

    def _bring_into_order(self, segments: LogSegments, files: Files) -> LoadedLog:
        entries = self.epoch_entries()
        epochs = LeaderEpochCache(entries or (), self._write_epochs)
        producers = self._recover_segments(segments, epochs, files)
        log_end_offset = self._check_end(segments)
        if entries is None or (not entries and self._begins_with_an_epoch(segments)):
            self._rebuild_epochs(segments, epochs)
        if not len(segments) or log_end_offset < self.log_start_offset:
            log_end_offset = self._start_empty(segments, epochs)
        segments.active.txn_index.truncate_to(log_end_offset)  # an entry precedes its marker, which a crash may remove
        log_start_offset = max(self.log_start_offset, segments.first.base_offset)
        lost = self._lost or lost_by_epochs(
            self.context, segments.first.base_offset, epochs.entries, self.log_start_offset
        )
        epochs.truncate_from_end(log_end_offset)
        epochs.truncate_from_start(self.log_start_offset)  # as in Kafka's LogLoader: a tier has earlier records
        producers = self._producers_to_write(producers, segments, log_start_offset, log_end_offset)
        self._sync(segments, log_end_offset)
        segments.active.resize_indexes()
        return LoadedLog(
            *(segments, producers, epochs, log_start_offset, log_end_offset, log_end_offset, self.truncated_bytes),
            lost=lost,
        )

    def _is_waiting(self, name: str) -> bool:
        """Whether a ``.deleted`` file was removed from the log less than ``file.delete.delay.ms`` ago."""
        status = self.context.filesystem.status(self._path(name))
        delay_ms = self.context.config.file_delete_delay_ms
        return status is not None and is_waiting(status.modified_ms, self.context.clock.now_ms(), delay_ms)

    def _remove_orphans(self, plan: SwapPlan) -> None:
        """Remove indexes without a ``.log``: a crash interrupted the removal of their segment.

        Keeps those below the first segment if they are the only trace of its predecessors.
        """
        known = plan.segment_suffixes().keys()
        kept_below = 0 if self._lost is None else self._lost.stop
        for kind in FILE_KINDS[1:]:
            for base in sorted(each for each in plan.kept_by_suffix[kind] - known if each >= kept_below):
                path = self._path(file_names.segment_file(base, kind))
                logger.warning("%s: removed this file, because its .log does not exist", path)
                self.context.filesystem.remove(path)

    def _recover_segments(
        self, segments: LogSegments, epochs: LeaderEpochCache, files: Files
    ) -> ProducerStateManager | None:
        """Recover each segment that reaches above the recovery point or lacks an index.

        Returns the state of the producers after the last recovered segment; None if no segment was recovered.
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
        """Recover one segment. If it is cut, also remove the later segments; returns whether there were any.

        The later segments are removed, and the directory is synced, before the segment is cut: after a crash, a segment
        that is cut is always the last one.
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
        """Yields the segments to recover, in order.

        For synced segments, reads only the listing and the active segment.
        """
        indexed = files[file_names.INDEX] & files[file_names.TIME_INDEX]
        reaching = {segment.base_offset for segment in segments.reaching(self.recovery_point)}
        for segment in segments:
            lacks_an_index = not segment.suffix and segment.base_offset not in indexed
            is_synced = segment.base_offset not in reaching or (segment is segments.active and self._is_synced(segment))
            if lacks_an_index or not is_synced:
                yield segment

    def _is_synced(self, active: LogSegment) -> bool:
        """Whether the whole active segment is below the recovery point, and sound up to the end of its file.

        A time index with entries above that end is not sound: a power cut kept them, but not the batches.
        """
        if not active.has_sound_indexes():
            return False
        end = active.next_offset()
        is_timed_to_end = not len(active.time_index) or active.time_index.last_entry.offset < end
        return end <= self.recovery_point and is_timed_to_end and active.size >= active.file_size

    def _drop_behind(self, segment: LogSegment, segments: LogSegments, recovery: Recovery) -> bool:
        """Remove the segments after ``segment``: it will be cut, so the records before theirs would be missing.

        Removes nothing if the next segment begins at the offset at which the cut one ends: then no record is missing
        between them. Returns whether a segment was removed.
        """
        logger.log(
            logging.DEBUG if self.context.after_failure else logging.WARNING,  # the failure itself was reported
            "%s: cutting %d bytes off the end, which were never acknowledged as synced: %s",
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
            logger.warning(
                "%s: removed this segment, because records before it were cut off", later.path(file_names.LOG)
            )
            self.truncated_bytes += later.file_size
            segments.remove(later)
            later.remove_files()
        self.context.filesystem.sync_directory(self.context.directory)
        return True

    def _check_end(self, segments: LogSegments) -> int:
        """Returns the log end offset. Raises an error if records between it and the recovery point are missing.

        Records below the log start offset are deleted anyway and may be missing.
        """
        if not len(segments):
            return self._check_nothing_lost()
        return self._check_offset(segments, find_end(segments.active, self.recovery_point).offset)

    def _start_empty(self, segments: LogSegments, epochs: LeaderEpochCache) -> int:
        """Replace all segments by an empty one at the log start offset, at and above which there are no records.

        Returns that offset.
        """
        for segment in segments:
            segments.remove(segment)
            segment.remove_files()
        epochs.clear()
        segments.add(LogSegment.create(self.context, self.log_start_offset))
        self.context.filesystem.sync_directory(self.context.directory)
        return self.log_start_offset

    def _sync(self, segments: LogSegments, log_end_offset: int) -> None:
        """Sync the segments above the recovery point, and the directory: a killed writer may have synced neither.

        Their recovery has synced their indexes. If the active segment is empty, its name may be the only thing that is
        not synced: its writer was killed while it rolled the log.
        """
        active = segments.active
        is_unsynced = log_end_offset > self.recovery_point or not self.recovery_point
        if is_unsynced:
            for segment in segments.reaching(self.recovery_point):
                segment.sync()
        if is_unsynced or not active.size:
            self.context.filesystem.sync_directory(self.context.directory)

    def warn_of_gaps(self, segments: LogSegments) -> None:
        """Log a warning for offsets that are in no segment. Only reads across them will fail.

        Checks only segments above the recovery point, so that opening a long log stays cheap.
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
                    "%s: offsets %d to %d are in no segment; reads across them will fail",
                    self.context.directory,
                    next_offset,
                    following - 1,
                )

    # Leader epochs

    def _write_epochs(self, data: bytes) -> None:
        write_atomically(self.context.filesystem, self._path(file_names.LEADER_EPOCH_CHECKPOINT), data)

    def _begins_with_an_epoch(self, segments: LogSegments) -> bool:
        """Whether the first batch of the log has a leader epoch, so that an empty checkpoint was emptied by a crash."""
        for segment in segments:
            with suppress(CorruptionError):
                for window in segment.batches(window_bytes=PROBE_BYTES):
                    return bool(window.headers.table["leader_epoch"][0] >= 0)
        return False

    def _rebuild_epochs(self, segments: LogSegments, epochs: LeaderEpochCache) -> None:
        """Rebuild the leader epochs from the sound batches, because the checkpoint is missing or damaged.

        Skips damaged batches, which are reported when they are read.
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
        """Returns the state of the producers at the log end, and writes a snapshot of it if there is none.

        Uses ``recovered`` if that state is at the log end, otherwise the newest sound snapshot. Removes the snapshots
        above the log end and stray ones.
        """
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
