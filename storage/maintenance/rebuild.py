"""Index rebuild of a directory's logs, one segment at a time.

Every segment of a log is read before anything is written; a damaged log is not changed at all. The process that
rebuilds holds the maintenance locks of the logs from beginning to end, so the tasks for single segments take no locks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..directory.manager import LogManager
from ..errors import CorruptRecordError
from ..filesystem.operations import size_of
from ..format.files import file_names
from ..index_rebuild.log import producer_changes, rebuild_active, remove_temporary
from ..index_rebuild.segment import SegmentSurvey, carry_out, rebuild_segment, survey_segment
from ..segment.reader import SegmentReader
from ..segment.swap import swap_plan
from ..text import counted
from .outcome import PartitionOutcome, Report, attempt, damaged, outcome_of
from .run import MaintenanceRun, Partition


class SegmentToSurvey(NamedTuple):
    """One segment of one partition, to be read by one task."""

    partition: Partition
    base_offset: int
    suffix: str  # .swap while a swap is unfinished
    is_active: bool

    def log_bytes(self, run: MaintenanceRun) -> int:
        """Returns the bytes of the segment's ``.log``, to show progress; 0 if it is missing."""
        context = self.partition.context(run)
        path = SegmentReader(context, self.base_offset, self.suffix).path(file_names.LOG)
        return size_of(context.filesystem, path)


def list_segments(run: MaintenanceRun, partition: Partition) -> list[SegmentToSurvey] | PartitionOutcome:
    """Returns the segments in the partition's directory, ascending; the last one is active.

    On an error, returns the failed outcome.
    """
    return attempt(partition, lambda: _list_segments(run, partition))


def _list_segments(run: MaintenanceRun, partition: Partition) -> list[SegmentToSurvey]:
    context = partition.context(run)
    suffixes = swap_plan(context, context.filesystem.list(context.directory)).segment_suffixes()
    newest = max(suffixes, default=-1)
    return [SegmentToSurvey(partition, base, suffix, base == newest) for base, suffix in sorted(suffixes.items())]


def finish_swaps(run: MaintenanceRun, manager: LogManager, partition: Partition) -> None:
    """Finishes the replacement of segments that a killed compaction began, by opening the log for writing."""
    context = partition.context(run)
    if any(name.endswith((file_names.CLEANED, file_names.SWAP)) for name in context.filesystem.list(context.directory)):
        manager.open_log(*partition.key, partition.config)


def survey_one_segment(run: MaintenanceRun, task: SegmentToSurvey) -> SegmentSurvey | PartitionOutcome:
    """Reads one segment and returns the facts in its log, or its damage, or a failed outcome. Changes nothing."""
    return attempt(task.partition, lambda: _survey(run, task))


def _survey(run: MaintenanceRun, task: SegmentToSurvey) -> SegmentSurvey:
    segment = SegmentReader(task.partition.context(run), task.base_offset, task.suffix)
    try:
        if task.is_active:
            _find_end(segment, task.partition.checkpointed.recovery_point or 0)
        return survey_segment(segment, is_active=task.is_active).without_data()
    except CorruptRecordError as error:
        return SegmentSurvey(task.base_offset, task.base_offset, damage=error)
    finally:
        segment.close()


def _find_end(segment: SegmentReader, recovery_point: int) -> None:
    """Finds the end of an active segment: the end of its last whole batch.

    Raises CorruptRecordError if the end is below ``recovery_point``: synced records are damaged or missing.
    """
    end = segment.next_offset()
    if end < recovery_point:
        reason = f"ends at offset {end}, but was synced up to offset {recovery_point}: restore the log"
        raise CorruptRecordError(reason, path=segment.path(file_names.LOG), position=segment.size)


def rebuild_one_segment(run: MaintenanceRun, task: SegmentToSurvey) -> PartitionOutcome | None:
    """Writes the indexes of one closed segment. Returns the outcome if that failed, else None.

    The caller holds the maintenance lock of the log.
    """
    context = task.partition.context(run)
    found = attempt(task.partition, lambda: rebuild_segment(context, task.base_offset))
    return found if isinstance(found, PartitionOutcome) else None


def finish_partition(
    run: MaintenanceRun, manager: LogManager, partition: Partition, surveys: Sequence[SegmentSurvey]
) -> PartitionOutcome:
    """Rebuilds transaction indexes, snapshots and the active segment's indexes; returns the log's outcome.

    ``surveys`` are those of all segments, in order. The indexes of closed segments were rebuilt before. The caller
    holds the maintenance lock.
    """
    damage = [survey.damage for survey in surveys if survey.damage is not None]
    if damage:
        return damaged(partition, damage)
    return outcome_of(partition, lambda: _finish(run, manager, partition, surveys))


def _finish(run: MaintenanceRun, manager: LogManager, partition: Partition, surveys: Sequence[SegmentSurvey]) -> Report:
    context = partition.context(run)
    changes = {change.path: change.reason for survey in surveys for change in survey.changes}
    of_producers = producer_changes(context, surveys) if surveys else ()
    if run.dry_run:
        changes |= {change.path: change.reason for change in of_producers}
    else:
        remove_temporary(context)
        changes |= dict(carry_out(context, of_producers))
        if surveys and surveys[-1].changes:
            rebuild_active(manager.open_log(*partition.key, partition.config))
    return Rebuilt(partition, run.dry_run, len(surveys), tuple(sorted(changes.items())))


@dataclass(frozen=True)
class Rebuilt:
    """The report of the files of a log that were rebuilt, or would be."""

    partition: Partition
    is_dry_run: bool
    segments: int
    changes: Sequence[tuple[str, str]]  # path, and what was wrong; ascending

    def __str__(self) -> str:
        what = "would be rebuilt" if self.is_dry_run else "rebuilt"
        files = counted(len(self.changes), "file")
        count = f"{files} {what}" if self.changes else "every index and snapshot matches its log"
        head = f"{self.partition}, {counted(self.segments, 'segment')}: {count}"
        return "\n  ".join([head, *map(": ".join, self.changes)])

    def facts(self) -> Mapping[str, Any]:
        return {
            "dry_run": self.is_dry_run,
            "segments": self.segments,
            "files": [{"path": path, "reason": reason} for path, reason in self.changes],
        }
