"""Index rebuild of a directory's logs, one segment at a time.

A log is surveyed segment by segment before anything is written; a damaged log is not changed at all. The process that
rebuilds holds the maintenance locks of its logs all along, so that the tasks for their segments need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..directory import LogManager
from ..errors import CorruptRecordError
from ..format.files import file_names
from ..index_rebuild import (
    SegmentSurvey,
    carry_out,
    producer_changes,
    rebuild_active,
    rebuild_segment,
    remove_temporary,
    survey_segment,
)
from ..segment import SegmentReader, swap_plan
from .outcome import PartitionOutcome, Report, attempt, damaged, outcome_of
from .run import MaintenanceRun, Partition


class SegmentToSurvey(NamedTuple):
    """One segment of one partition."""

    partition: Partition
    base_offset: int
    suffix: str  # .swap while a swap is unfinished
    is_active: bool


def list_segments(run: MaintenanceRun, partition: Partition) -> list[SegmentToSurvey] | PartitionOutcome:
    """The segments in the partition's directory by their names, ascending; the last one is active."""
    return attempt(partition, lambda: _list_segments(run, partition))


def _list_segments(run: MaintenanceRun, partition: Partition) -> list[SegmentToSurvey]:
    context = partition.context(run)
    suffixes = swap_plan(context, context.filesystem.list(context.directory)).segment_suffixes()
    newest = max(suffixes, default=-1)
    return [SegmentToSurvey(partition, base, suffix, base == newest) for base, suffix in sorted(suffixes.items())]


def finish_swaps(run: MaintenanceRun, manager: LogManager, partition: Partition) -> None:
    """Finish the swaps of a compaction that was killed, by opening the log for writing."""
    context = partition.context(run)
    if any(name.endswith((file_names.CLEANED, file_names.SWAP)) for name in context.filesystem.list(context.directory)):
        manager.open_log(*partition.key, partition.config)


def survey_one_segment(run: MaintenanceRun, task: SegmentToSurvey) -> SegmentSurvey | PartitionOutcome:
    """Read one segment; the survey reports damage. Changes nothing."""
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
    """Find the log's end: the rest after the last whole batch is no part of it, but must not have been synced once."""
    end = segment.next_offset()
    if end < recovery_point:
        reason = f"sound only up to offset {end}, but everything below {recovery_point} was synced once"
        raise CorruptRecordError(reason, path=segment.path(file_names.LOG), position=segment.size)


def rebuild_one_segment(run: MaintenanceRun, task: SegmentToSurvey) -> PartitionOutcome | None:
    """Write the indexes of one closed segment; returns an outcome only if that failed.

    The caller holds the maintenance lock of the log.
    """
    context = task.partition.context(run)
    found = attempt(task.partition, lambda: rebuild_segment(context, task.base_offset))
    return found if isinstance(found, PartitionOutcome) else None


def finish_partition(
    run: MaintenanceRun, manager: LogManager, partition: Partition, surveys: Sequence[SegmentSurvey]
) -> PartitionOutcome:
    """Rebuild what needs all segments of a log: transaction indexes, snapshots, and the active segment's indexes.

    The indexes of closed segments were rebuilt before. The caller holds the maintenance lock.
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
    """What was rebuilt of one log, or would be."""

    partition: Partition
    is_dry_run: bool
    segments: int
    changes: Sequence[tuple[str, str]]  # path, and what was wrong; ascending

    def __str__(self) -> str:
        what = "would be rebuilt" if self.is_dry_run else "rebuilt"
        count = f"{len(self.changes):,} files {what}" if self.changes else "every index and snapshot matches its log"
        return "\n  ".join([f"{self.partition}, {self.segments:,} segments: {count}", *map(": ".join, self.changes)])

    def facts(self) -> Mapping[str, Any]:
        return {
            "dry_run": self.is_dry_run,
            "segments": self.segments,
            "files": [{"path": path, "reason": reason} for path, reason in self.changes],
        }
