"""Runs retention on one log of a directory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..config import CHECK_INTERVAL_MS
from ..directory.admin import topic_id
from ..directory.manager import LogManager
from ..directory.protected_topics import POLICY_KEY
from ..directory.reserve import keep_reserve, with_room
from ..format.files.file_names import TopicPartition
from ..groups.offsets import GroupOffsets
from ..remote_metadata.topic import MetadataTopic, copied_below
from ..retention.apply import preview_retention, retain
from ..retention.plan import RetentionOptions, SegmentFate
from ..retention.policies import RetentionPolicy, SparingRetention, policies_with
from ..retention.report import RetentionReport
from ..tiers.known_segments import KnownSegments
from ..tiers.metadata_records import TopicIdPartition
from ..writing.log import Log
from .outcome import Changes, PartitionOutcome, Report, outcome_of, patiently
from .run import MaintenanceRun, Partition

logger = logging.getLogger(__name__)


NextOffsets = Mapping[TopicPartition, int]  # by partition, the next offset that a reader needs
TablesKept = Callable[[LogManager], Mapping[str, NextOffsets]]  # by table, when a run begins


def no_tables(_manager: LogManager) -> Mapping[str, NextOffsets]:
    return {}


@dataclass(frozen=True)
class ReadersKept:
    """The next offsets of groups and tables; records that one of them does not have are kept."""

    groups: Mapping[str, NextOffsets] = field(default_factory=dict)
    tables: Mapping[str, NextOffsets] = field(default_factory=dict)

    @classmethod
    def read(cls, manager: LogManager, groups: Iterable[str], tables: TablesKept) -> ReadersKept:
        """Reads the offsets that ``groups`` have committed so far, and those of tables; warns of a group without any.

        Raises the errors of ``tables``, before anything is deleted.
        """
        committed = GroupOffsets(manager)
        found = {
            group: {key: each.offset for key, each in committed.fetch(group).items()} for group in dict.fromkeys(groups)
        }
        for group, offsets in found.items():
            if not offsets:
                logger.warning(
                    "group %r has no committed offsets in %s: nothing is deleted; check --keep-for-groups",
                    group,
                    manager.directory,
                )
        return cls(found, tables(manager))

    def hold(self, options: RetentionOptions, partition: Partition) -> RetentionOptions:
        """Returns ``options`` for a partition, with the next offset of each group, and of each table of the topic.

        The offset is 0 for a group or table without one.
        """
        of_topic = {
            table: offsets
            for table, offsets in self.tables.items()
            if any(key.topic == partition.topic for key in offsets)
        }
        return replace(
            options,
            keep_for_groups={group: offsets.get(partition.key, 0) for group, offsets in self.groups.items()},
            keep_for_tables={table: offsets.get(partition.key, 0) for table, offsets in of_topic.items()},
        )


def retain_partition(
    run: MaintenanceRun,
    partition: Partition,
    *,
    readers: ReadersKept,
    policy: RetentionPolicy | None,
    known: KnownSegments,
) -> PartitionOutcome:
    """Deletes the segments that a log's policies release, and .deleted files of earlier runs; returns the outcome.

    ``policy`` replaces the log's limits of size and time. ``known``: the tier's segments that were read for other
    partitions of the run. A log with nothing to delete is only read: it is not locked, and none of its files is
    written. On a full disk, the directory gives up its reserve.
    """
    options = readers.hold(retention_options(partition, run.check_interval_ms, policy), partition)

    def once() -> Report:
        return _retain(run, partition, lambda: _with_tier(run, partition, options, known))

    return outcome_of(partition, lambda: with_room(run.filesystem, run.directory, once))


def _with_tier(
    run: MaintenanceRun, partition: Partition, options: RetentionOptions, known: KnownSegments
) -> RetentionOptions:
    """Returns ``options`` with the offset below which a tier has all records, for a topic with tiered storage.

    Only the holder of the maintenance lock may rely on it: an erasure lets the tier delete its copies.
    """
    if not partition.config.remote_storage_enable or run.bucket is not None:
        return options
    with run.manager() as manager:
        topic = topic_id(manager, manager.topic(partition.topic))
        place = TopicIdPartition(partition.topic, topic or "", partition.number)
        segments = MetadataTopic(manager, known).segments(place).values() if topic else ()
    start = partition.checkpointed.log_start_offset or 0
    return replace(options, tiered_below=copied_below(segments, start))


def retention_options(
    partition: Partition, check_interval_ms: int = CHECK_INTERVAL_MS, policy: RetentionPolicy | None = None
) -> RetentionOptions:
    """Returns the policies for a partition, and warnings about its unknown settings."""
    spared = partition.spared or (_undecided(partition) if policy is not None else None)
    if spared is not None:
        return RetentionOptions(policies=(SparingRetention(spared),), check_interval_ms=check_interval_ms)
    if policy is not None:
        own = policies_with(policy, partition.config)
        return RetentionOptions(policies=own, check_interval_ms=check_interval_ms)
    return RetentionOptions(check_interval_ms=check_interval_ms, warnings=tuple(_missing(partition)))


def _undecided(partition: Partition) -> str | None:
    """Returns the reason why a user's policy must delete nothing here; None if it may delete.

    It must not if the topic's cleanup policy is unknown, because a broker may only compact the topic.
    """
    if POLICY_KEY not in partition.ungiven:
        return None
    return (
        "the cleanup.policy of this topic, which a broker created, is unknown, so your policy deletes nothing:"
        " pass --config cleanup.policy=delete, or --topic-configs FILE (output of kafka-configs --describe --all)"
    )


def _missing(partition: Partition) -> Iterator[str]:
    if "retention.ms" in partition.ungiven and partition.config.delete:
        yield (
            "the retention.ms of this topic, which a broker created, is unknown, so nothing is deleted by time: pass "
            "--config retention.ms=..., or --topic-configs FILE with the output of kafka-configs --describe --all"
        )


def _retain(run: MaintenanceRun, partition: Partition, options: Callable[[], RetentionOptions]) -> Report:
    with partition.open_reader(run) as reader:
        report = preview_retention(reader, options(), as_of_ms=run.as_of_ms)
    if run.dry_run:
        return Retained(partition, report)
    if not report.plan.removed and not report.files_removed:
        return Retained(partition, replace(report, is_dry_run=False))
    with run.manager() as manager:
        log = manager.open_log(*partition.key, partition.config)  # opening removes files whose delay has passed
        removed = report.files_removed
        done = patiently(
            run, log, lambda: Retained(partition, replace(_retain_log(run, log, options), files_removed=removed))
        )
    keep_reserve(run.filesystem, run.directory)
    return done


def _retain_log(run: MaintenanceRun, log: Log, options: Callable[[], RetentionOptions]) -> RetentionReport:
    return retain(log, options, as_of_ms=run.as_of_ms, holder=run.holder)


@dataclass(frozen=True)
class Retained:
    """The report of retention of one log, or of a dry run."""

    partition: Partition
    report: RetentionReport

    def __str__(self) -> str:
        return str(self.report)

    def to_changes(self) -> Changes:
        plan = self.report.plan
        return Changes(
            "delete",
            self.report.is_dry_run,
            len(plan.removed),
            sum(fate.segment.size for fate in plan.removed),
            min((fate.until_ms for fate in plan.kept if fate.until_ms is not None), default=None),
            has_notes=bool(plan.warnings or self.report.files_removed) or self.partition.is_undecided,
        )

    def facts(self) -> Mapping[str, Any]:
        plan = self.report.plan
        return {
            "dry_run": self.report.is_dry_run,
            "as_of_ms": plan.now_ms,
            "log_start_offset": plan.log_start_offset,
            "log_start_offset_before": plan.facts.log_start_offset,
            "log_end_offset": plan.facts.log_end_offset,
            "bytes": plan.facts.size,
            "bytes_removed": sum(fate.segment.size for fate in plan.removed),
            "segments": [_fate_facts(fate) for fate in plan.fates],
            "files_removed": [file.name for file in self.report.files_removed],
            "files_waiting": [file.name for file in self.report.files_waiting],
            "warnings": list(plan.warnings),
        }


def _fate_facts(fate: SegmentFate) -> dict[str, Any]:
    facts = asdict(fate)
    return {**facts.pop("segment"), **facts}
