"""LogViewer: loads a partition's directory for a reader, also after a crash, without changing it.

A reader sees the log that a writer would load with :class:`~.loader.LogLoader`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ..errors import CorruptCheckpointError, CorruptionError, MissingSegmentError, StorageError
from ..filesystem.operations import read_file
from ..format.files import checkpoints, file_names
from ..format.files.checkpoints import EpochEntry
from ..segment.collection import LogSegments
from ..segment.swap import SwapPlan, swap_plan
from ..segment.walk import LogContext
from ..segment.writer import LogSegment
from .leader_epochs import LeaderEpochCache
from .log_end import LogEnd, find_end
from .lost_start import find_lost_start
from .producer_snapshots import SIDECAR_BYTES_MAX, ProducerLoader
from .producer_state_manager import ProducerStateManager
from .segment_recovery import records_lost

logger = logging.getLogger(__name__)

Files = Mapping[str, set[int]]  # by file suffix, the base offsets of the files that have it

SETTLED_MS = 20  # a directory that changed later may change again without a new modification time
VIEW_ATTEMPTS = 5  # attempts to load a directory in which files disappear
LISTING_ATTEMPTS = 200  # attempts to list it, 20 ms apart: a directory that keeps changing for 4 s is not that of a log


@dataclass
class LoadedLog:
    """The content of a partition's directory."""

    segments: LogSegments
    producers: ProducerStateManager | None  # None for a reader, which loads them when it needs them
    epochs: LeaderEpochCache
    log_start_offset: int
    log_end_offset: int
    recovery_point: int  # everything below was synced
    truncated_bytes: int = 0  # bytes that recovery cut off the end
    damage: CorruptionError | None = None  # damage at the log end: the log continues there, but cannot be read
    lost: range | None = None  # offsets below the first segment that were lost, or deleted without a checkpoint
    key_filters: Sequence[str] | None = None  # the names of files of key filters, ascending; None: not listed
    snapshots: Collection[int] = ()  # the offsets of producer snapshots that a reader may use


class LogViewer(ProducerLoader):
    """Loads one partition's directory without changing it."""

    def __init__(
        self,
        context: LogContext,
        *,
        recovery_point: int | None,
        log_start_offset: int,
        was_closed_cleanly: bool = False,
    ) -> None:
        """``recovery_point`` and ``log_start_offset`` are from the checkpoints; None: no recovery point is known.

        ``was_closed_cleanly``: a broker closed the log cleanly, so that it ends at the recovery point.
        """
        super().__init__(context, log_start_offset)
        self.recovery_point = recovery_point or 0
        self.is_anchored = recovery_point is not None
        self.was_closed_cleanly = was_closed_cleanly and self.is_anchored

    def view(self) -> LoadedLog:
        """Returns the log that a writer would load, without taking a lock and without changing anything.

        Excludes an incomplete batch at the end. Raises CorruptRecordError if the log ends below its recovery point.
        """
        for _ in range(VIEW_ATTEMPTS):
            with suppress(FileNotFoundError):  # compaction or retention changed the directory: list it again
                return self._view()
        return self._view()

    def _view(self) -> LoadedLog:
        listing = self._settled_names()
        plan = self._plan(listing)
        lost = find_lost_start(self.context, listing, plan, self.log_start_offset)
        self._files_in_use(plan)
        segments = LogSegments(self._segments(plan))
        end = self._settled_end(segments) if len(segments) else LogEnd(self._check_nothing_lost())
        if not self.is_anchored and end.torn is None and end.damage is None:
            end = end._replace(damage=self._proof_of_more(end.offset))
        log_start_offset = max(self.log_start_offset, segments.first.base_offset if len(segments) else 0)
        entries = [entry for entry in self.epoch_entries() or () if entry.start_offset <= end.offset]
        epochs = LeaderEpochCache(entries)
        return LoadedLog(
            *(segments, None, epochs, log_start_offset, end.offset, self.recovery_point),
            damage=end.damage,
            lost=lost,
            key_filters=[name for name in listing if file_names.KEY_FILTER in name],
            snapshots=self._snapshots,
        )

    def _settled_end(self, segments: LogSegments) -> LogEnd:
        """Returns where the log ends; logs a warning if its last batch is incomplete.

        A batch that seems incomplete or damaged may belong to an ongoing write or recovery: it is read again until the
        file stops changing.
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
                "%s; skipping it as an unfinished write. The log ends with offset %d, as far as is known: more may "
                "have "
                "been written, since the directory has no recovery point for the partition",
                *(end.torn, end.offset - 1),
            )
        return end

    def _proof_of_more(self, end_offset: int) -> CorruptionError | None:
        """Returns the error for a log that ends below a sound producer snapshot; None if there is no such snapshot.

        A snapshot is written at the end of the log, and a truncation removes the snapshots above it, in Kafka too.
        Therefore such a log has lost its end. Indexes and leader epochs could show that too, but no checksum covers
        them.
        """
        for offset in sorted(self._snapshots):
            if offset > end_offset and self._decoded_snapshot(offset) is not None:
                reason = (
                    f"the log ends at offset {end_offset}, but reached {offset} when this snapshot was written: the "
                    "end "
                    "of the log is missing. Restore its last segments, or, to read what exists, remove this file"
                )
                return MissingSegmentError(
                    reason, path=self._path(file_names.segment_file(offset, file_names.SNAPSHOT))
                )
        return None

    def _settled_names(self) -> list[str]:
        """Returns the names that the directory had at one moment. Raises StorageError if it changes for 4 s.

        A listing may or may not contain a name that changes while the directory is listed. It is accepted if the
        directory's modification time shows that nothing changed shortly before it and during it; or if a second listing
        has the same names: a change during the first listing is completely in the second one, and a change during the
        second one is not in the first. The modification time also reveals changes that cancelled each other.
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
        raise StorageError(
            f"{directory}: files were created, renamed or removed for {LISTING_ATTEMPTS * SETTLED_MS} ms without a "
            "pause; "
            "check what writes there, and open the log again"
        )

    def _check_offset(self, segments: LogSegments, log_end_offset: int) -> int:
        if max(log_end_offset, self.log_start_offset) < self.recovery_point:
            raise records_lost(segments.active, log_end_offset, self.recovery_point)
        if max(log_end_offset, self.recovery_point) < self.log_start_offset:
            self._check_begins_above(log_end_offset)
        return log_end_offset

    def _check_begins_above(self, log_end_offset: int) -> None:
        """Raises CorruptCheckpointError for a log start offset above the log end, unless the log was being emptied.

        Records are synced before they are deleted, so the log start offset cannot be above the recovery point either.
        But a log that is to be emptied first gets the recovery point 0.
        """
        what = f"the log start offset is {self.log_start_offset}, but the log ends at {log_end_offset}"
        if self.recovery_point:
            raise CorruptCheckpointError(
                f"{what}, and everything below {self.recovery_point} was synced: the partition's line in "
                f"{file_names.LOG_START_OFFSET_CHECKPOINT} is wrong. Correct it: with 0 all existing records are read, "
                f"with {log_end_offset} none",
                path=self.context.directory,
            )
        logger.warning("%s: %s: treating all of its records as deleted", self.context.directory, what)

    def _check_nothing_lost(self) -> int:
        if self.recovery_point > self.log_start_offset:
            raise MissingSegmentError(
                f"there is no segment, but everything below offset {self.recovery_point} was synced. Restore the "
                "files, or, "
                f"to do without the records, lower the offset in the partition's line in "
                f"{file_names.RECOVERY_POINT_CHECKPOINT}",
                path=self.context.directory,
            )
        return self.log_start_offset

    def _plan(self, listing: list[str]) -> SwapPlan:
        return swap_plan(self.context, listing)

    def _files_in_use(self, plan: SwapPlan) -> Files:
        """Returns the files in use, and remembers the snapshots among them."""
        self._snapshots = plan.kept_by_suffix[file_names.SNAPSHOT]
        return plan.kept_by_suffix

    def _segments(self, plan: SwapPlan) -> list[LogSegment]:
        return [LogSegment(self.context, base, suffix) for base, suffix in plan.segment_suffixes().items()]

    def epoch_entries(self) -> list[EpochEntry] | None:
        """Returns the leader epochs in the checkpoint; None if it is missing or damaged."""
        path = self._path(file_names.LEADER_EPOCH_CHECKPOINT)
        try:
            return checkpoints.decode_leader_epochs(read_file(self.context.filesystem, path, SIDECAR_BYTES_MAX))
        except FileNotFoundError:
            return None
        except CorruptionError as error:
            logger.warning("%s; rebuilding the leader epochs from the log", error.located(path))
            return None
