"""The operations of maintenance on the partitions of a log on an object store, with their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...bucket.collecting import CollectLimits, abort_overdue, collect
from ...bucket.commit_log import CommitLog
from ...bucket.topics import find_topic
from ...clock import instant
from ...directory.log_directory import check_copied
from ...errors import LogStoreError, StorageError
from ...retention.policies import RetentionPolicy
from ...text import counted
from .. import compact as choosing
from ..outcome import Ended, OutcomeStatus, PartitionOutcome, Report, of_directory, of_transactions, outcome_of
from ..retain import ReadersKept, Retained, retention_options
from ..run import MaintenanceRun, Partition, Runner
from .compact import compact
from .consolidate import Consolidation, consolidate
from .rebuild import Rebuilt, rebuild
from .retain import retain
from .scratch import Place


def retain_partitions(
    run: MaintenanceRun, partitions: Sequence[Partition], readers: ReadersKept, policy: RetentionPolicy | None
) -> Iterator[PartitionOutcome]:
    """Aborts abandoned transactions, raises log start offsets, then deletes the objects that the log does not need.

    This process does it all, because it reads and writes commits only.
    """
    yield from _abort_overdue(run)
    for partition in _in_log(run, partitions):
        yield outcome_of(partition, partial(_retain, run, partition, readers, policy))
    yield _collect(run)


def _abort_overdue(run: MaintenanceRun) -> Iterator[PartitionOutcome]:
    try:
        found = abort_overdue(_log(run), dry_run=run.dry_run)
    except (LogStoreError, OSError) as error:
        yield of_directory("open transactions", error)
        return
    done = "would be aborted" if run.dry_run else "aborted"
    lines = [f"open transaction of {each.name!r}, producer {each.producer_id}: {done}: it is late" for each in found]
    if lines:
        yield of_transactions(lines, Ended(run.dry_run, aborted=len(lines)))


def _retain(run: MaintenanceRun, partition: Partition, readers: ReadersKept, policy: RetentionPolicy | None) -> Report:
    options = readers.hold(retention_options(partition, run.check_interval_ms, policy), partition)
    limits, place = CollectLimits.from_mapping(run.broker_settings), _place(run, partition)
    report = retain(place, partition.config, options, run.now_ms(), limits, dry_run=run.dry_run)
    return Retained(partition, report)


def _collect(run: MaintenanceRun) -> PartitionOutcome:
    try:
        found = collect(_log(run), CollectLimits.from_mapping(run.broker_settings), dry_run=run.dry_run)
    except (LogStoreError, OSError) as error:
        return of_directory("objects that the log does not need", error)
    done = "would be deleted" if run.dry_run else "deleted"
    return PartitionOutcome("", -1, OutcomeStatus.DONE, f"{run.directory}: {done}: {found}", found._asdict())


def compact_partitions(
    run: MaintenanceRun, partitions: Sequence[Partition], runner: Runner
) -> Iterator[PartitionOutcome]:
    """Compacts partitions of compacted topics that are due, and consolidates the others, each in a task."""
    partitions = _in_log(run, partitions)
    choices = list(
        runner("logs examined", partial(choosing.choose, run), [each for each in partitions if each.config.compact])
    )
    yield from (choice.outcome for choice in choices if choice.outcome is not None)
    yield from runner("logs", partial(_compact_partition, run), choosing.by_dirt(choices))
    others = [each for each in partitions if not each.config.compact]
    yield from runner("logs", partial(_consolidate_partition, run), others)


def _compact_partition(run: MaintenanceRun, partition: Partition) -> PartitionOutcome:
    if run.dry_run:
        return choosing.compact_partition(run, partition)
    return outcome_of(partition, partial(_compact, run, partition))


def _compact(run: MaintenanceRun, partition: Partition) -> Report:
    now_ms, cleaner = run.now_ms(), choosing.cleaner_of(run.cleaner_config)
    done = compact(_place(run, partition), partition.config, cleaner, run.clock, now_ms)
    if not done.is_whole:
        raise StorageError("another run replaced these records first, so the rest of this one was dropped")
    return choosing.Compacted(run, partition, now_ms, done.what, done.rounds)


def _consolidate_partition(run: MaintenanceRun, partition: Partition) -> PartitionOutcome:
    return outcome_of(partition, partial(_consolidate, run, partition))


def _consolidate(run: MaintenanceRun, partition: Partition) -> Report:
    now_ms, place = run.now_ms(), _place(run, partition)
    done = consolidate(place, partition.config, run.clock, now_ms, dry_run=run.dry_run)
    return Consolidated(partition, now_ms, done, is_dry_run=run.dry_run)


def rebuild_partitions(
    run: MaintenanceRun, partitions: Sequence[Partition], runner: Runner
) -> Iterable[PartitionOutcome]:
    """Checks the files beside segments, and puts segments again where these are wrong; one task per partition."""
    return runner("logs", partial(_rebuild_partition, run), _in_log(run, partitions))


def _rebuild_partition(run: MaintenanceRun, partition: Partition) -> PartitionOutcome:
    return outcome_of(partition, partial(_rebuild, run, partition))


def _rebuild(run: MaintenanceRun, partition: Partition) -> Rebuilt:
    return rebuild(_place(run, partition), partition.config, run.clock, dry_run=run.dry_run)


def _place(run: MaintenanceRun, partition: Partition) -> Place:
    """Returns the partition on the object store.

    Raises UnknownTopicOrPartitionError if its topic was deleted, and MissingSegmentError if the copy of the partition
    into this log is not finished: its placeholders must stay as they are until then.
    """
    log = _log(run)
    place = Place(log, find_topic(log.state, partition.topic), partition.number)
    check_copied(run.filesystem, partition.context(run).directory)
    return place


def _log(run: MaintenanceRun) -> CommitLog:
    assert run.bucket is not None
    return run.bucket


def _in_log(run: MaintenanceRun, partitions: Sequence[Partition]) -> list[Partition]:
    """Returns the partitions with objects, without groups' offsets, which are in commits and only shown as a topic."""
    known = _log(run).state.topic_ids
    return [each for each in partitions if each.topic in known]


@dataclass(frozen=True)
class Consolidated:
    """The report of a consolidation."""

    partition: Partition
    now_ms: int
    done: Consolidation
    is_dry_run: bool

    def __str__(self) -> str:
        done = self.done
        head = f"{self.partition}, as of {instant(self.now_ms)}{', a dry run' if self.is_dry_run else ''}"
        if not done.runs:
            return f"{head}: nothing to consolidate: no segment is full or older than segment.ms"
        made = counted(len(done.runs), "segment")
        text = f"{head}: {counted(done.slices, 'slice')} with {done.size:,} bytes become {made}"
        return f"{text}; {done.others:,} were dropped, because another run was faster" if done.others else text

    def facts(self) -> Mapping[str, Any]:
        return {
            "dry_run": self.is_dry_run,
            "as_of_ms": self.now_ms,
            "slices": self.done.slices,
            "bytes": self.done.size,
            "segments": len(self.done.runs),
            "segments_dropped": self.done.others,
        }
