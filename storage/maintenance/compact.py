"""Compaction of a directory's logs: finds which are due, and why others are not; runs rounds until none is due.

Kafka's cleaner chooses the dirtiest log, cleans one round, and chooses again
(LogCleanerManager.grabFilthiestCompactedLog).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from ..clock import instant
from ..compaction.dirty import Cleanable, cleanable, dirtiest_first
from ..compaction.rounds import Cleaner, CleanResult
from ..config import CleanerConfig
from ..directory.manager import LogManager
from ..directory.protected_topics import COORDINATOR_TOPICS, POLICY_KEY
from ..filesystem.operations import write_atomically
from ..format.files import checkpoints, file_names
from ..format.files.file_names import TopicPartition
from ..text import counted
from ..writing.log import Log
from .outcome import Changes, PartitionOutcome, Report, attempt, outcome_of, patiently
from .run import Chosen, MaintenanceRun, Partition

_UNKNOWN_POLICY = (
    f"the {POLICY_KEY} of this topic, which a broker created, is unknown: pass --config {POLICY_KEY}=compact, or "
    "--topic-configs FILE with the output of kafka-configs --describe --all"
)


class Choice(NamedTuple):
    """The decision whether a log is compacted now."""

    partition: Partition
    what: Cleanable | None  # None: not examined, or that failed
    outcome: PartitionOutcome | None  # for a log that is not compacted; None: it is due


# Choosing logs


def choose(run: MaintenanceRun, partition: Partition) -> Choice:
    """Returns whether one log is compacted now, or why not. Takes no lock, changes nothing."""
    now_ms = run.now_ms()
    if not partition.config.compact or not run.cleaner_config.enable or _spared(partition) is not None:
        return Choice(partition, None, outcome_of(partition, lambda: Compacted(run, partition, now_ms, None)))
    what = attempt(partition, lambda: _examine(run, partition, now_ms))
    if isinstance(what, PartitionOutcome):
        return Choice(partition, None, what)
    if what.is_due:
        return Choice(partition, what, None)
    return Choice(partition, what, outcome_of(partition, lambda: Compacted(run, partition, now_ms, what)))


def _spared(partition: Partition) -> str | None:
    """Returns why a log must not be compacted, whatever its content; None if it may be.

    If all topics are selected, internal topics that this engine created may be: no broker compacts them.
    """
    if partition.spared is not None and not (partition.is_ours and partition.chosen is Chosen.WITH_ALL):
        return partition.spared
    if partition.config.compact and POLICY_KEY in partition.ungiven and partition.topic not in COORDINATOR_TOPICS:
        return _UNKNOWN_POLICY
    return None


def _examine(run: MaintenanceRun, partition: Partition, now_ms: int) -> Cleanable:
    with partition.open_reader(run) as reader:
        return cleanable(reader, partition.checkpointed.cleaner_offset, now_ms)


def by_dirt(choices: Sequence[Choice]) -> list[Partition]:
    """Returns the logs whose compaction is due, the dirtiest first."""
    partitions = {choice.partition.key: choice.partition for choice in choices}
    found = {choice.partition.key: choice.what for choice in choices if choice.what is not None}
    return [partitions[key] for key in dirtiest_first(found)]


# Compacting


def compact_partition(run: MaintenanceRun, partition: Partition) -> PartitionOutcome:
    """Compacts one log in rounds until compaction is no longer due. The checkpoint records the end of each round.

    With ``run.dry_run``, only counts what the first round would do.
    """
    process = _preview if run.dry_run else _compact
    return outcome_of(partition, lambda: process(run, partition))


def _preview(run: MaintenanceRun, partition: Partition) -> Report:
    cleaner, now_ms = cleaner_of(run.cleaner_config), run.now_ms()
    checkpointed = partition.checkpointed.cleaner_offset
    with partition.open_reader(run) as reader:

        def read() -> Compacted:
            what = cleanable(reader, checkpointed, now_ms)
            return Compacted(run, partition, now_ms, what, (cleaner.preview(reader, checkpointed, now_ms),))

        return reader.looking_again(read)


def _compact(run: MaintenanceRun, partition: Partition) -> Report:
    with run.manager() as manager:
        log = manager.open_log(*partition.key, partition.config)
        rounds: list[CleanResult] = []
        return patiently(run, log, lambda: _rounds(run, partition, manager, log, rounds))


def _rounds(
    run: MaintenanceRun, partition: Partition, manager: LogManager, log: Log, done: list[CleanResult]
) -> Report:
    """Runs rounds until compaction is no longer due; adds their results to ``done``, and returns the report."""
    cleaner = cleaner_of(run.cleaner_config)
    began: tuple[int, Cleanable] | None = None
    checkpointed = manager.offsets(file_names.CLEANER_OFFSET_CHECKPOINT).get(partition.key)
    while True:
        now_ms = run.now_ms()
        what = cleanable(log, checkpointed, now_ms)
        began = began or (now_ms, what)
        if not what.is_due:
            return Compacted(run, partition, *began, tuple(done))
        result = cleaner.clean(log, checkpointed, now_ms, holder=run.holder)
        checkpointed = result.next_first_dirty_offset
        write_cleaner_offset(manager, partition.key, checkpointed)
        done.append(result)


@cache
def cleaner_of(config: CleanerConfig) -> Cleaner:
    """Returns this process's only cleaner: its map of keys is large, and logs are processed one after the other."""
    return Cleaner(config)


def write_cleaner_offset(manager: LogManager, partition: TopicPartition, offset: int) -> None:
    """Records that a log is clean below ``offset``; drops deleted logs (LogCleanerManager.updateCheckpoints).

    After a crash, the checkpoint is either old, so that at worst the round is repeated, or correct.
    """
    path = manager.path(file_names.CLEANER_OFFSET_CHECKPOINT)
    with manager.root_lock():
        there = set(manager.filesystem.list(manager.directory))
        before = manager.offsets(file_names.CLEANER_OFFSET_CHECKPOINT)
        after = {key: end for key, end in before.items() if file_names.partition_directory(*key) in there}
        after[partition] = offset
        if after != before:
            write_atomically(manager.filesystem, path, checkpoints.encode_offsets(after))


# Reporting


@dataclass(frozen=True)
class Compacted:
    """The report of a log's compaction, or of the reason why there was none."""

    run: MaintenanceRun
    partition: Partition
    now_ms: int
    what: Cleanable | None  # before; None if the log was not examined
    rounds: Sequence[CleanResult] = ()

    def __str__(self) -> str:
        dry = ", a dry run" if self.run.dry_run else ""
        head = f"{self.partition}, as of {instant(self.now_ms)}{dry}"
        lines = [f"{head}: {self._done()}" if self.rounds else f"{head}: not compacted: {self.reason}"]
        if self.rounds and self.what is not None:
            lines.append(f"compacted because {self.reason}")
            lines.append(f"nothing from offset {self.what.first_uncleanable_offset} on is touched: {self.what.held_by}")
        if self._rest:
            lines.append(self._rest)
        return "\n  ".join(lines)

    def to_changes(self) -> Changes:
        counts = self._counts()
        if not counts:
            return Changes("compact", self.run.dry_run, has_notes=self.partition.is_undecided)
        fewer = max(counts["bytes_before"] - counts["bytes_after"], 0)
        return Changes("compact", self.run.dry_run, counts["segments_before"], fewer, has_notes=bool(self._rest))

    def _done(self) -> str:
        facts = self._counts()
        return (
            f"{facts['records_after']:,} of {counted(facts['records_before'], 'record')} kept, "
            f"{facts['bytes_after']:,} of {facts['bytes_before']:,} bytes, in {facts['segments_after']:,} instead of "
            f"{counted(facts['segments_before'], 'segment')}; clean up to offset {facts['first_dirty_offset']}"
        )

    @property
    def _rest(self) -> str:
        end = self.what.first_uncleanable_offset if self.what is not None else 0
        if self.run.dry_run and self.rounds and self.rounds[0].next_first_dirty_offset < end:
            reached = self.rounds[0].next_first_dirty_offset
            return f"the offset map is full at offset {reached}: more rounds would follow; these are the figures of one"
        keyless = sum(each.counts.records_without_key for each in self.rounds)
        return (
            f"warning: lost {counted(keyless, 'record')} without a key, because a compacted topic cannot hold them"
            if keyless
            else ""
        )

    @property
    def reason(self) -> str:
        """Why compaction of the log is due, or why it is not."""
        if not self.run.cleaner_config.enable:
            return "log.cleaner.enable = false"
        spared = _spared(self.partition)
        if spared is not None:
            return spared
        if self.what is None:
            if POLICY_KEY in self.partition.ungiven:
                return _UNKNOWN_POLICY
            return f"cleanup.policy = {','.join(sorted(self.partition.config.cleanup_policy))} has no compact"
        return _reason(self.what, self.partition)

    def _counts(self) -> dict[str, int]:
        """Returns figures before the first round and after the last one.

        Rounds read the same records again, so "before" is "after" plus what each round removed.
        """
        if not self.rounds:
            return {}
        counts, last = [each.counts for each in self.rounds], self.rounds[-1]
        after = counts[-1].records_kept, counts[-1].bytes_written, last.segments_after
        return {
            "records_before": after[0] + sum(each.records_read - each.records_kept for each in counts),
            "records_after": after[0],
            "records_without_key": sum(each.records_without_key for each in counts),
            "bytes_before": after[1] + sum(each.bytes_read - each.bytes_written for each in counts),
            "bytes_after": after[1],
            "segments_before": after[2] + sum(each.segments_before - each.segments_after for each in self.rounds),
            "segments_after": after[2],
            "first_dirty_offset": last.next_first_dirty_offset,
        }

    def facts(self) -> Mapping[str, Any]:
        what = self.what
        examined = (
            {}
            if what is None
            else {
                "first_dirty_offset_before": what.first_dirty_offset,
                "first_uncleanable_offset": what.first_uncleanable_offset,
                "clean_bytes": what.clean_bytes,
                "dirty_bytes": what.dirty_bytes,
                "dirty_ratio": round(what.ratio, 6),
                "held_by": what.held_by,
            }
        )
        return {
            "dry_run": self.run.dry_run,
            "as_of_ms": self.now_ms,
            "compacted": bool(self.rounds),
            "reason": self.reason,
            **examined,
            "rounds": len(self.rounds),
            **self._counts(),
        }


def _reason(what: Cleanable, partition: Partition) -> str:
    config = partition.config
    if what.first_uncleanable_offset <= what.first_dirty_offset:
        return f"all is clean up to offset {what.first_dirty_offset}, and {what.held_by}"
    if not what.dirty_bytes:
        return f"nothing is dirty up to offset {what.first_uncleanable_offset}"
    dirty = f"{what.dirty_bytes:,} of {what.clean_bytes + what.dirty_bytes:,} bytes are dirty, {what.ratio:.2f}"
    if what.ratio > what.ratio_min:
        return f"{dirty}, more than min.cleanable.dirty.ratio = {what.ratio_min}"
    if what.is_overdue:
        return f"a dirty record is older than max.compaction.lag.ms = {config.max_compaction_lag_ms:,} ({dirty})"
    return (
        f"{dirty}, not more than min.cleanable.dirty.ratio = {what.ratio_min}, and no dirty record is older than "
        f"max.compaction.lag.ms = {config.max_compaction_lag_ms:,}"
    )
