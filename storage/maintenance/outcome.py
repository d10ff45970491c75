"""Outcomes of maintenance for partitions: as text for people, as facts for programs, and as an exit code."""

from __future__ import annotations

import errno
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from ..clock import instant
from ..directory.reserve import is_disk_full
from ..errors import EXIT_DAMAGED, CorruptionError, LogDirLockedError, LogStoreError
from ..format.files import file_names
from ..text import counted
from ..writing.log import Log
from .run import MaintenanceRun, Partition

logger = logging.getLogger(__name__)

T = TypeVar("T")


class OutcomeStatus(Enum):
    """How maintenance of a partition ended."""

    DONE = "done"  # or, by the rules, there was nothing to do
    REPAIRABLE = "repairable"  # no record is lost, but a file must be rebuilt; it was not changed
    DAMAGED = "damaged"  # records of the log are wrong or missing; it was not changed
    FAILED = "failed"  # lock, disk or missing directory: the log is unchanged, or as after a crash


class Report(Protocol):
    """The changes to a log, done or planned. ``str()`` gives a few lines of text that begin with the log's name."""

    def facts(self) -> Mapping[str, Any]:
        """Returns the report for programs, in types that JSON has. Times in ms, sizes in bytes."""
        ...


class Changes(NamedTuple):
    """The changes to a partition, or in a dry run the planned ones."""

    verb: str  # "delete", "compact", "filter" or "tier"
    is_dry_run: bool
    segments: int = 0
    bytes: int = 0  # fewer than before; for "filter", of filters that were made
    next_ms: int | None = None  # when the next segment may be deleted, if that is known
    has_notes: bool = False  # such as a warning
    removed: int = 0  # for "tier": segments deleted from the tier
    is_left: bool = True  # for "tier": it has records of the partition

    def __bool__(self) -> bool:
        return bool(self.segments or self.bytes or self.removed)


class Ended(NamedTuple):
    """The numbers of abandoned transactions that were ended, or would be in a dry run."""

    is_dry_run: bool
    aborted: int = 0
    committed: int = 0

    def __str__(self) -> str:
        """``aborted 1 transaction``, or ``would abort 2 transactions, would commit 1 transaction``."""
        verbs = ("would abort", "would commit") if self.is_dry_run else ("aborted", "committed")
        counts = zip(verbs, (self.aborted, self.committed), strict=True)
        return ", ".join(f"{verb} {counted(count, 'transaction')}" for verb, count in counts if count)


@runtime_checkable
class ChangeReport(Report, Protocol):
    """A report of an operation that leaves most partitions as they are."""

    def to_changes(self) -> Changes: ...


@dataclass(frozen=True)
class PartitionOutcome:
    """How maintenance of one partition ended, with the report on it."""

    topic: str  # empty, with partition -1, if no partition is concerned
    partition: int
    status: OutcomeStatus
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    changes: Changes | None = None
    ended: Ended | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether the partition is unchanged, and the outcome need not be printed."""
        return (
            self.status is OutcomeStatus.DONE
            and self.changes is not None
            and not (self.changes or self.changes.has_notes)
        )

    def __str__(self) -> str:
        return self.text

    def of_deleted(self) -> PartitionOutcome:
        """Returns the outcome for a topic that was deleted in the meantime: there is nothing left to do."""
        name = file_names.partition_directory(self.topic, self.partition)
        return PartitionOutcome(self.topic, self.partition, OutcomeStatus.DONE, f"{name}: deleted during the run")

    def to_json(self) -> dict[str, Any]:
        """Returns the content of one line of JSON."""
        return {"topic": self.topic, "partition": self.partition, "status": self.status.value, **self.facts}


class Tally:
    """Counts the outcomes of a run."""

    def __init__(self) -> None:
        self._counts: Counter[OutcomeStatus] = Counter()
        self._changes: list[tuple[str, Changes]] = []  # by topic
        self._ended: list[Ended] = []

    def add(self, outcome: PartitionOutcome) -> None:
        """Counts one more outcome."""
        if outcome.topic or outcome.status is not OutcomeStatus.DONE:  # otherwise the outcome is about no partition
            self._counts[outcome.status] += 1
        if outcome.changes is not None:
            self._changes.append((outcome.topic, outcome.changes))
        if outcome.ended is not None:
            self._ended.append(outcome.ended)

    @property
    def exit_code(self) -> int:
        """The exit code of the program: 0 if all went well, 3 if a log is damaged or must be repaired, 1 otherwise."""
        return max((_EXIT_CODES[status] for status in self._counts), default=0)

    def __str__(self) -> str:
        """``3 partitions: 2 done, 1 failed; deleted 6 segments, 16,615 bytes of 2 topics``."""
        partitions = counted(self._counts.total(), "partition")
        kinds = ", ".join(f"{self._counts[each]:,} {each.value}" for each in OutcomeStatus if self._counts[each])
        head = f"{partitions}: {kinds}{self._changed()}" if kinds else f"{partitions}, nothing to do"
        return "; ".join([head, *map(str, self._ended)])

    def _changed(self) -> str:
        if not self._changes:
            return ""
        first = self._changes[0][1]
        past = f"would {first.verb}" if first.is_dry_run else f"{first.verb.removesuffix('e')}ed"
        topics = len({topic for topic, changes in self._changes if changes})
        segments = sum(changes.segments for _, changes in self._changes)
        size = sum(changes.bytes for _, changes in self._changes)
        by = {"delete": ", ", "tier": ", ", "filter": " with "}.get(first.verb, " by ")
        done = f"{past} {counted(segments, 'segment')}{by}{counted(size, 'byte')}, of {counted(topics, 'topic')}"
        if not topics:
            done = f"nothing to {first.verb}"
        done += self._removed()
        soonest = min((changes.next_ms for _, changes in self._changes if changes.next_ms is not None), default=None)
        return f"; {done}" + ("" if soonest is None else f"; the next segment is due at {instant(soonest)}")

    def _removed(self) -> str:
        """``; deleted 4 segments from the tier, which has nothing of 1 topic``; empty if nothing was deleted there."""
        removed = sum(changes.removed for _, changes in self._changes)
        left = {topic for topic, changes in self._changes if changes.is_left}
        emptied = {topic for topic, changes in self._changes if changes.removed} - left
        if not removed:
            return ""
        rest = f", which has nothing of {counted(len(emptied), 'topic')}" if emptied else ""
        return f"; deleted {counted(removed, 'segment')} from the tier{rest}"


_EXIT_CODES = {
    OutcomeStatus.DONE: 0,
    OutcomeStatus.FAILED: 1,
    OutcomeStatus.REPAIRABLE: EXIT_DAMAGED,
    OutcomeStatus.DAMAGED: EXIT_DAMAGED,
}


def outcome_of(partition: Partition, task: Callable[[], Report]) -> PartitionOutcome:
    """Runs ``task`` for one partition and returns the outcome, also if ``task`` raises."""
    report = attempt(partition, task)
    if isinstance(report, PartitionOutcome):
        return report
    changes = report.to_changes() if isinstance(report, ChangeReport) else None
    return PartitionOutcome(*partition.key, OutcomeStatus.DONE, str(report), report.facts(), changes)


def attempt(partition: Partition, task: Callable[[], T]) -> T | PartitionOutcome:
    """Returns the result of ``task``, or the outcome of its error, so that other partitions can be processed."""
    try:
        return task()
    except (LogStoreError, OSError) as error:
        return _wrong(partition, *_judged(error))


def of_directory(what: str, error: LogStoreError | OSError) -> PartitionOutcome:
    """Returns the outcome of a problem with the directory itself, not with a partition."""
    status, reason = _judged(error)
    return PartitionOutcome("", -1, status, f"{what}: {status.value}: {reason}", {"error": reason})


def of_transactions(lines: Sequence[str], ended: Ended) -> PartitionOutcome:
    """Returns the outcome of ending abandoned transactions, with a line about each."""
    facts = {"dry_run": ended.is_dry_run, "aborted": ended.aborted, "committed": ended.committed}
    return PartitionOutcome("", -1, OutcomeStatus.DONE, "\n".join(lines), facts, ended=ended)


def damaged(partition: Partition, damage: Sequence[CorruptionError]) -> PartitionOutcome:
    """Returns the outcome for a log that was not changed because of ``damage`` in its files."""
    return _wrong(partition, OutcomeStatus.DAMAGED, "; ".join(map(str, damage)))


def _wrong(partition: Partition, status: OutcomeStatus, error: str) -> PartitionOutcome:
    return PartitionOutcome(*partition.key, status, f"{partition}: {status.value}: {error}", {"error": error})


def _judged(error: LogStoreError | OSError) -> tuple[OutcomeStatus, str]:
    if isinstance(error, OSError):
        return OutcomeStatus.FAILED, _described(error)
    advice = "; the disk is full: free some space first" if is_disk_full(error) else ""
    return OutcomeStatus.DAMAGED if isinstance(error, CorruptionError) else OutcomeStatus.FAILED, f"{error}{advice}"


def _described(error: OSError) -> str:
    """Returns the text of a system error, with its file and, where that is clear, what to do."""
    advice = {
        errno.ENOSPC: "; nothing was lost: free some space and run it again",
        errno.EACCES: "; run it as the user who owns the directory",
    }.get(error.errno or 0, "")
    return f"{error.filename or 'the disk'}: {error.strerror or error}{advice}"


def patiently(run: MaintenanceRun, log: Log, task: Callable[[], T]) -> T:
    """Returns the result of ``task``, which takes the maintenance lock of ``log``.

    If the lock is held: with ``run.wait``, waits and runs ``task`` again; else raises LogDirLockedError.
    """
    while True:
        try:
            return task()
        except LogDirLockedError as error:
            if not run.wait:
                raise
            logger.warning("%s; waiting for it", error)
            log.wait_for_maintenance()
