"""LogViewer: a partition's directory as a reader sees it, in whatever state a crash left it.

A reader sees what a writer would find (:class:`LogLoader`), and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ..errors import CorruptCheckpointError, CorruptionError, MissingSegmentError, StorageError
from ..filesystem import read_file
from ..format.files import checkpoints, file_names
from ..format.files.checkpoints import EpochEntry
from ..segment import LogContext, LogSegment, LogSegments, SwapPlan, swap_plan
from .leader_epochs import LeaderEpochCache
from .log_end import LogEnd, find_end
from .producer_snapshots import SIDECAR_BYTES_MAX, ProducerLoader
from .producer_state_manager import ProducerStateManager
from .segment_recovery import records_lost

logger = logging.getLogger(__name__)

Files = Mapping[str, set[int]]  # by suffix, the base offsets of the files with it

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


class LogViewer(ProducerLoader):
    """Views one partition's directory without changing it."""

    def __init__(
        self,
        context: LogContext,
        *,
        recovery_point: int | None,
        log_start_offset: int,
        was_closed_cleanly: bool = False,
    ) -> None:
        """From the checkpoints: the recovery point, None if there is none, and whether the log ends there."""
        super().__init__(context, log_start_offset)
        self.recovery_point = recovery_point or 0
        self.is_anchored = recovery_point is not None
        self.was_closed_cleanly = was_closed_cleanly and self.is_anchored

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
        self._files_in_use(plan)
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

    def _plan(self, listing: list[str]) -> SwapPlan:
        return swap_plan(self.context, listing)

    def _files_in_use(self, plan: SwapPlan) -> Files:
        """The files in use; and remember the snapshots, which from now on only this loader makes and removes."""
        self._snapshots = plan.kept_by_suffix[file_names.SNAPSHOT]
        return plan.kept_by_suffix

    def _segments(self, plan: SwapPlan) -> list[LogSegment]:
        return [LogSegment(self.context, base, suffix) for base, suffix in plan.segment_suffixes().items()]

    def _epoch_entries(self) -> list[EpochEntry] | None:
        path = self._path(file_names.LEADER_EPOCH_CHECKPOINT)
        try:
            return checkpoints.decode_leader_epochs(read_file(self.context.filesystem, path, SIDECAR_BYTES_MAX))
        except FileNotFoundError:
            return None
        except CorruptionError as error:
            logger.warning("%s; rebuilt from the log", error.located(path))
            return None
