"""Verifies logs of a directory, one segment per task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..directory.log_directory import check_copied
from ..filesystem.operations import size_of
from ..format.files.file_names import LOG
from ..text import counted
from ..verify.findings import Finding, Severity
from ..verify.log import LogFindings, join, plan_verification
from ..verify.segment import SegmentFindings, SegmentToVerify, verify_segment
from .outcome import OutcomeStatus, PartitionOutcome, attempt
from .run import MaintenanceRun, Partition


class VerificationPlan(NamedTuple):
    """The segments of a partition to check, or the outcome, if its directory cannot be read."""

    partition: Partition
    segments: Sequence[SegmentToVerify]
    of_names: Sequence[Finding]  # findings from the names of its files
    outcome: PartitionOutcome | None  # of a partition that cannot be read


class SegmentTask(NamedTuple):
    """One segment of one partition, to be checked by one task."""

    partition: Partition
    segment: SegmentToVerify

    def log_bytes(self, run: MaintenanceRun) -> int:
        """Returns the bytes of the segment's ``.log``, to show progress; 0 if it is missing."""
        context = self.partition.context(run)
        return size_of(context.filesystem, self.segment.path(context.directory, LOG))


def plan_partition(run: MaintenanceRun, partition: Partition) -> VerificationPlan:
    """Returns the segments of one partition, and findings about the names of its files."""
    planned = attempt(partition, lambda: _plan(run, partition))
    if isinstance(planned, PartitionOutcome):
        return VerificationPlan(partition, (), (), planned)
    return VerificationPlan(partition, *planned, None)


def _plan(run: MaintenanceRun, partition: Partition) -> tuple[list[SegmentToVerify], list[Finding]]:
    context = partition.context(run)
    check_copied(context.filesystem, context.directory)
    return plan_verification(context, partition.checkpointed)


def verify_one_segment(run: MaintenanceRun, task: SegmentTask) -> SegmentFindings:
    """Checks one segment, including every record, and returns all problems. Changes nothing."""
    return verify_segment(task.partition.context(run), task.segment)


def report_on(
    run: MaintenanceRun, plan: VerificationPlan, results: Iterable[SegmentFindings]
) -> Verified | PartitionOutcome:
    """Returns the report on one partition from the results of all its segments; the outcome if it cannot be read."""
    if plan.outcome is not None:
        return plan.outcome
    ordered = sorted(results, key=lambda each: each.segment.base_offset)
    return Verified(
        plan.partition, join(plan.partition.context(run), plan.partition.checkpointed, ordered, plan.of_names)
    )


def verdict(report: Verified | PartitionOutcome) -> PartitionOutcome:
    """Returns the outcome of one partition."""
    if isinstance(report, PartitionOutcome):
        return report
    return PartitionOutcome(*report.partition.key, report.status, str(report), report.facts())


@dataclass(frozen=True)
class Verified:
    """The report of the verification of one log."""

    partition: Partition
    found: LogFindings

    @property
    def status(self) -> OutcomeStatus:
        """The worst of the findings; notes need no action."""
        found = {finding.severity for finding in self.found.findings}
        if Severity.DAMAGE in found:
            return OutcomeStatus.DAMAGED
        return OutcomeStatus.REPAIRABLE if Severity.REPAIRABLE in found else OutcomeStatus.DONE

    @property
    def result(self) -> str:
        """The number of findings of each severity, such as ``1 damage, 2 notes``; or ``sound``."""
        counts = [_counted(severity, len(of)) for severity in Severity if (of := self.found.of(severity))]
        return ", ".join(counts) or "sound"

    def with_findings(self, head: str) -> str:
        """Returns ``head``, and each finding on a line of its own."""
        return "\n  ".join([head, *map(str, self.found.findings)])

    def __str__(self) -> str:
        found = self.found
        return self.with_findings(
            f"{self.partition}: {self.result}; {counted(found.segments, 'segment')}, {counted(found.batches, 'batch')} "
            f"and {counted(found.records, 'record')} in {counted(found.sound_bytes, 'sound byte')}, up to offset "
            f"{found.log_end_offset}"
        )

    def facts(self) -> Mapping[str, Any]:
        found = self.found
        return {
            "log_end_offset": found.log_end_offset,
            "segments": found.segments,
            "batches": found.batches,
            "records": found.records,
            "sound_bytes": found.sound_bytes,
            "findings": [_finding_facts(finding) for finding in found.findings],
        }


def _finding_facts(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "kind": finding.kind.label,
        "path": finding.path,
        "position": finding.position,
        "offset": finding.offset,
        "what": finding.what,
        "lost_offsets": None if finding.lost is None else list(finding.lost),
        "advice": finding.advice,
    }


def _counted(severity: Severity, count: int) -> str:
    return counted(count, severity.value) if severity is Severity.NOTE else f"{count:,} {severity.value}"
