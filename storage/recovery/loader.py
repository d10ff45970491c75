"""LogLoader: loads a partition's directory, in whatever state a crash left it (Kafka's LogLoader).

A writer, who holds the append lock, repairs the directory; a reader sees what a writer would find, and changes nothing.
Above the recovery point nothing was acknowledged as synced: that part is verified, and cut at the first incomplete or
damaged batch. Below it nothing is ever cut: see docs/compatibility.md for where Kafka does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import pairwise

from ..errors import (
    CorruptCheckpointError,
    CorruptionError,
    MissingSegmentError,
    SegmentOffsetOverflowError,
    StorageError,
)
from ..filesystem import read_file, write_atomically
from ..format.files import checkpoints, file_names
from ..format.files.checkpoints import EpochEntry, ProducerEntry
from ..segment import (
    FILE_KINDS,
    PROBE_BYTES,
    Holes,
    LogContext,
    LogSegment,
    LogSegments,
    SwapPlan,
    carry_out,
    is_waiting,
    split_segment,
    swap_plan,
)
from .leader_epochs import LeaderEpochCache
from .log_end import LogEnd, find_end
from .producer_state import ProducerStateManager, stray_snapshots
from .segment_recovery import LogState, Recovery, assign_epochs, cut, records_lost, recover, replay
from .snapshot_check import disagreement

logger = logging.getLogger(__name__)

Files = Mapping[str, set[int]]  # by suffix, the base offsets of the files with it

SIDECAR_BYTES_MAX = 64 * 1024 * 1024  # a snapshot of a million producers; larger is damage
SETTLED_MS = 20  # a directory changed more recently may change again within the same tick of its modification time
VIEW_ATTEMPTS = 5  # by a reader, while files disappear
LISTING_ATTEMPTS = 200  # by a reader, 20 ms apart: a directory that keeps changing for 4 s is not a log's


@dataclass
class LoadedLog:
    """The state of a partition."""

    segments: LogSegments
    producers: ProducerStateManager | None  # None: found when asked for
    epochs: LeaderEpochCache
    log_start_offset: int
    log_end_offset: int
    recovery_point: int  # everything below was synced
    truncated_bytes: int = 0  # cut off the end
    damage: CorruptionError | None = None  # after the end: the log continues there, but cannot be read


class _OverflowedSegmentError(Exception):
    """The segment must be split before the log can be loaded."""

    def __init__(self, segment: LogSegment, reason: str) -> None:
        super().__init__(reason)
        self.segment = segment


class LogLoader:
    """Opens one partition's directory."""

    def __init__(
        self,
        context: LogContext,
        *,
        recovery_point: int | None,
        log_start_offset: int,
        was_closed_cleanly: bool = False,
    ) -> None:
        """From the checkpoints: the recovery point, None if there is none, and whether the log ends there."""
        self.context = context
        self.recovery_point = recovery_point or 0
        self.is_anchored = recovery_point is not None
        self.log_start_offset = log_start_offset
        self.was_closed_cleanly = was_closed_cleanly and self.is_anchored
        self.truncated_bytes = 0
        self._snapshots = set[int]()  # the offsets of existing snapshots
        self._passes_damage = False

    # For a writer

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
        files = self._note(plan)
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
        producers = self._mend(segments, epochs, files)
        log_end_offset = self._check_end(segments)
        if entries is None or (not entries and self._begins_with_an_epoch(segments)):
            self._rebuild_epochs(segments, epochs)
        if not len(segments) or log_end_offset < self.log_start_offset:
            log_end_offset = self._start_anew(segments, epochs)
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

    def _mend(self, segments: LogSegments, epochs: LeaderEpochCache, files: Files) -> ProducerStateManager | None:
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
        behind = {segment.base_offset for segment in segments.reaching(self.recovery_point)}
        for segment in segments:
            lacks_an_index = not segment.suffix and segment.base_offset not in indexed
            is_synced = segment.base_offset not in behind or (segment is segments.active and self._is_synced(segment))
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

    def _check_offset(self, segments: LogSegments, log_end_offset: int) -> int:
        if max(log_end_offset, self.log_start_offset) < self.recovery_point:
            raise records_lost(segments.active, log_end_offset, self.recovery_point)
        if max(log_end_offset, self.recovery_point) < self.log_start_offset:
            self._check_begins_above(log_end_offset)
        return log_end_offset

    def _check_begins_above(self, log_end_offset: int) -> None:
        """For a log start above the log end. Records are synced before they are deleted, so it is not above the
        recovery point either; except that a log which is to be emptied gets the recovery point 0 first.
        """
        what = f"the log start offset is {self.log_start_offset}, but the log ends at {log_end_offset}"
        if self.recovery_point:
            raise CorruptCheckpointError(
                f"{what}, and everything below {self.recovery_point} was synced: the partition's line in "
                f"{file_names.LOG_START_OFFSET_CHECKPOINT} is wrong. Correct it: 0 shows all records that are there, "
                f"{log_end_offset} gives them up",
                path=self.context.directory,
            )
        logger.warning("%s: %s: all of its records count as deleted", self.context.directory, what)

    def _check_nothing_lost(self) -> int:
        if self.recovery_point > self.log_start_offset:
            raise MissingSegmentError(
                f"no segment is left, but everything below offset {self.recovery_point} was synced once. Restore "
                f"the files, or lower the partition's line in {file_names.RECOVERY_POINT_CHECKPOINT} to give the "
                "records up",
                path=self.context.directory,
            )
        return self.log_start_offset

    def _start_anew(self, segments: LogSegments, epochs: LeaderEpochCache) -> int:
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
        is_behind = log_end_offset > self.recovery_point or not self.recovery_point
        if is_behind:
            for segment in segments.reaching(self.recovery_point):
                segment.sync(with_indexes=True)
        if is_behind or not active.size:
            self.context.filesystem.sync_directory(self.context.directory)

    def warn_of_gaps(self, segments: LogSegments) -> None:
        """Log which offsets are in no segment. A read across them is refused; everything else continues.

        Only above the recovery point, where segments are examined anyway: opening a long log must stay cheap.
        """
        if self.context.holes() is Holes.ANYWHERE:
            return
        behind = [segment.base_offset for segment in segments.reaching(self.recovery_point)]
        for base, following in pairwise(behind):
            segment = LogSegment(self.context, base, segments.floor(base).suffix)  # type: ignore[union-attr]
            next_offset = segment.next_offset()
            segment.close()
            if next_offset < following:
                logger.warning(
                    "%s: offsets %d to %d are in no segment", self.context.directory, next_offset, following - 1
                )

    # For a reader

    def view(self) -> LoadedLog:
        """The partition as a writer would find it, without a lock and without changing a byte.

        An incomplete batch at the end is left out. Raises CorruptRecordError if the log ends below its recovery point.
        """
        for _ in range(VIEW_ATTEMPTS):
            with suppress(FileNotFoundError):  # compaction or retention went on: list the directory again
                return self._view()
        return self._view()

    def _view(self) -> LoadedLog:
        plan = self._plan(self._settled_names())
        self._note(plan)
        segments = LogSegments(self._segments(plan))
        end = self._settled_end(segments) if len(segments) else LogEnd(self._check_nothing_lost())
        if not self.is_anchored and end.torn is None and end.damage is None:
            end = end._replace(damage=self._proof_of_more(end.offset))
        log_start_offset = max(self.log_start_offset, segments.first.base_offset if len(segments) else 0)
        entries = [entry for entry in self._epoch_entries() or () if entry.start_offset <= end.offset]
        epochs = LeaderEpochCache(entries)
        return LoadedLog(segments, None, epochs, log_start_offset, end.offset, self.recovery_point, damage=end.damage)

    def _settled_end(self, segments: LogSegments) -> LogEnd:
        """Where the log ends. What looks torn or damaged may be an ongoing write, or a recovery: it is looked at again
        until the file stops changing. A torn end is logged.
        """
        active, recovery_point = segments.active, self.recovery_point if self.is_anchored else None
        for _ in range(LISTING_ATTEMPTS):
            before = active.status()
            end = find_end(active, recovery_point, ends_there=self.was_closed_cleanly)
            if end.torn is None and end.damage is None:
                break
            self.context.clock.sleep_ms(SETTLED_MS)
            if before == active.status():
                break
        self._check_offset(segments, end.offset)
        if end.torn is not None:
            logger.warning(
                "%s; skipped as an unfinished write. The log ends with offset %d; whether more was written is "
                "unknown, since the directory has no recovery point for the partition",
                *(end.torn, end.offset - 1),
            )
        return end

    def _proof_of_more(self, end_offset: int) -> CorruptionError | None:
        """What is wrong with a log that ends below a sound snapshot of its producers, since that was made at its end.

        A log ends below one only if its end was lost: a truncation, in Kafka too, removes the snapshots above it.
        Indexes and leader epochs may show as much, but no checksum covers them.
        """
        for offset in sorted(self._snapshots):
            if offset > end_offset and self._decoded_snapshot(offset) is not None:
                reason = (
                    f"the log ends at offset {end_offset}, but reached {offset} when this was written: its end is "
                    "missing. Restore its last segments; to read what there is, remove this file"
                )
                return MissingSegmentError(
                    reason, path=self._path(file_names.segment_file(offset, file_names.SNAPSHOT))
                )
        return None

    def _settled_names(self) -> list[str]:
        """A listing that was true at one moment. A name that changes during a listing may or may not be in it.

        It was true if the directory's time shows that nothing changed before and during it; or if the next listing has
        the same names: a change during the first would show completely in the second, and a change during the second is
        not in the first. The directory's time then reveals changes that cancelled each other.
        """
        filesystem, clock, directory = self.context.filesystem, self.context.clock, self.context.directory
        for _ in range(LISTING_ATTEMPTS):
            before = filesystem.status(directory)
            had_rested = before is not None and not 0 <= clock.now_ms() - before.modified_ms < SETTLED_MS
            listing = filesystem.list(directory)
            is_of_one_moment = had_rested or listing == filesystem.list(directory)
            if is_of_one_moment and before is not None and before == filesystem.status(directory):
                return listing
            clock.sleep_ms(SETTLED_MS)
        raise StorageError(f"{directory}: names in it changed for {LISTING_ATTEMPTS * SETTLED_MS} ms without a pause")

    # For both

    def _plan(self, listing: list[str]) -> SwapPlan:
        return swap_plan(self.context, listing)

    def _note(self, plan: SwapPlan) -> Files:
        """The files in use; and remember the snapshots, which from now on only this loader makes and removes."""
        self._snapshots = plan.left_by_suffix[file_names.SNAPSHOT]
        return plan.left_by_suffix

    def _segments(self, plan: SwapPlan) -> list[LogSegment]:
        return [LogSegment(self.context, base, suffix) for base, suffix in plan.segment_suffixes().items()]

    def _path(self, name: str) -> str:
        return file_names.join(self.context.directory, name)

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

    def _epoch_entries(self) -> list[EpochEntry] | None:
        path = self._path(file_names.LEADER_EPOCH_CHECKPOINT)
        try:
            return checkpoints.decode_leader_epochs(read_file(self.context.filesystem, path, SIDECAR_BYTES_MAX))
        except FileNotFoundError:
            return None
        except CorruptionError as error:
            logger.warning("%s; rebuilt from the log", error.located(path))
            return None

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

    def producers_at(
        self, end_offset: int, segments: LogSegments, *, despite_damage: bool = False
    ) -> ProducerStateManager:
        """State below ``end_offset``, from the directory as it is now; ``despite_damage``: as far as it can be read.

        Otherwise, raises CorruptionError for damage after the newest sound snapshot.
        """
        try:
            return self._producers_at(end_offset, segments)
        except CorruptionError:
            if not despite_damage:
                raise
            self._passes_damage = True
            producers = self._producers_at(end_offset, segments)
            producers.is_partial = True
            return producers

    def _producers_at(self, end_offset: int, segments: LogSegments) -> ProducerStateManager:
        listing = self.context.filesystem.list(self.context.directory)
        self._snapshots = file_names.by_suffix(file_names.segment_files(listing))[file_names.SNAPSHOT]
        return self._state_at(end_offset, segments)

    def producers_as_of(self, now_ms: int, end_offset: int, segments: LogSegments) -> ProducerStateManager:
        """The same as of ``now_ms``: from the oldest snapshot, which has the producers that expired since."""
        listing = self.context.filesystem.list(self.context.directory)
        self._snapshots = file_names.by_suffix(file_names.segment_files(listing))[file_names.SNAPSHOT]
        return self._replayed(self._from_snapshot(end_offset, now_ms, segments, newest=False), end_offset, segments)

    def _state_at(self, end_offset: int, segments: LogSegments) -> ProducerStateManager:
        """The newest sound snapshot, updated by the headers of the batches that follow it."""
        producers = self._from_snapshot(end_offset, self.context.clock.now_ms(), segments)
        return self._replayed(producers, end_offset, segments)

    def _replayed(
        self, producers: ProducerStateManager, end_offset: int, segments: LogSegments
    ) -> ProducerStateManager:
        behind = segments.reaching(producers.map_end_offset) if producers.map_end_offset < end_offset else ()
        before: LogSegment | None = None
        for segment in behind:
            if segment.base_offset >= end_offset:
                break
            if before is not None and not self._passes_damage and not self.context.writable:
                segment.check_follows(before, producers.map_end_offset)
            self._replay_part(segment, producers, end_offset)
            before = segment
        producers.map_end_offset = end_offset
        producers.on_high_watermark(end_offset)  # markers after the snapshot are as stable as those before it
        return producers

    def _replay_part(self, segment: LogSegment, producers: ProducerStateManager, end_offset: int) -> None:
        start_offset = producers.map_end_offset
        if self._passes_damage:
            windows = segment.sound_batches(segment.position_before(start_offset))
        else:
            windows = segment.from_index(start_offset)
        for window in windows:
            last_offsets = window.headers.table["last_offset"]
            wanted = window.headers[(last_offsets >= start_offset) & (last_offsets < end_offset)]
            if len(wanted):
                replay(segment, window._replace(headers=wanted), producers, index_aborts=False)

    def _from_snapshot(
        self, end_offset: int, now_ms: int, segments: LogSegments, *, newest: bool = True
    ) -> ProducerStateManager:
        producers = ProducerStateManager(self.context.directory)
        producers.map_end_offset = 0
        for offset in sorted(self._snapshots, reverse=newest):
            if self.log_start_offset < offset <= end_offset:
                entries = self._decoded_snapshot(offset)
                if entries is None:
                    continue
                fault = self._disagreement(entries, offset, segments)
                if fault is not None:
                    path = self._path(file_names.segment_file(offset, file_names.SNAPSHOT))
                    logger.warning("%s: contradicts the log: %s; another snapshot is used", path, fault)
                    continue
                producers.load(entries, now_ms, offset)
                break
        return producers

    def _disagreement(self, entries: Sequence[ProducerEntry], offset: int, segments: LogSegments) -> str | None:
        """Like :func:`disagreement`; damage hides it only from readers that will reach the damage.

        Raises CorruptionError where the snapshot has an open transaction: a reader that waits for its end may never
        reach the damage, so the error must come here.
        """
        if self.context.writable:
            return None
        try:
            return disagreement(entries, offset, segments)
        except CorruptionError:
            has_open = any(entry.current_txn_first_offset >= 0 for entry in entries)
            if has_open and not self._passes_damage:
                raise
            return None

    def _decoded_snapshot(self, offset: int) -> list[ProducerEntry] | None:
        """None if it is damaged, or was removed after it was listed."""
        path = self._path(file_names.segment_file(offset, file_names.SNAPSHOT))
        try:
            return checkpoints.decode_snapshot(read_file(self.context.filesystem, path, SIDECAR_BYTES_MAX))
        except (CorruptionError, FileNotFoundError) as error:
            logger.warning("%s: %s; another snapshot is used", path, error)
            return None

    def _write_snapshot(self, producers: ProducerStateManager) -> None:
        write_snapshot(self.context, producers)
        self._snapshots.add(producers.map_end_offset)


def write_snapshot(context: LogContext, producers: ProducerStateManager, *, sync: bool = False) -> None:
    """Write a snapshot of the current state; a torn one is detected by its checksum, and an older one used instead.

    Synced where the log alone would not suffice: compaction and retention remove records of producers from it.
    """
    path = file_names.join(context.directory, file_names.segment_file(producers.map_end_offset, file_names.SNAPSHOT))
    with context.filesystem.open(path, "create") as file:
        file.truncate(0)
        file.write(0, producers.to_bytes())
        if sync:
            file.sync()
