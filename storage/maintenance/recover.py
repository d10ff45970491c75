"""Recovers logs of a directory by opening each for writing; reports the repairs and the remaining problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..format.files.file_names import TopicPartition
from ..text import counted
from .outcome import PartitionOutcome, outcome_of
from .run import MaintenanceRun, Partition
from .verify import Verified


def recover_partition(run: MaintenanceRun, partition: Partition) -> PartitionOutcome:
    """Repairs one log after a crash (see ``LogLoader.load``), closes it cleanly and returns the outcome."""
    return outcome_of(partition, lambda: _recover(run, partition))


def _recover(run: MaintenanceRun, partition: Partition) -> Recovered:
    with run.manager() as manager:
        log = manager.open_log(*partition.key, partition.config)
        return Recovered(partition, log.log_start_offset, log.log_end_offset, log.truncated_bytes)


def with_findings(
    recovered: Iterable[PartitionOutcome], reports: Mapping[TopicPartition, Verified | PartitionOutcome]
) -> Iterator[PartitionOutcome]:
    """Yields the outcomes of recovery, each with the findings of a verification afterwards.

    ``reports`` has the logs whose recovery is done.
    """
    for outcome in recovered:
        report = reports.get(TopicPartition(outcome.topic, outcome.partition))
        yield outcome if report is None else _joined(outcome, report)


def _joined(recovered: PartitionOutcome, report: Verified | PartitionOutcome) -> PartitionOutcome:
    if isinstance(report, PartitionOutcome):  # of a log that cannot be read
        return report
    text = report.with_findings(f"{recovered.text}; {report.result}")
    return replace(
        recovered, status=report.status, text=text, facts={**recovered.facts, "findings": report.facts()["findings"]}
    )


@dataclass(frozen=True)
class Recovered:
    """The state of one log after recovery."""

    partition: Partition
    log_start_offset: int
    log_end_offset: int
    truncated_bytes: int  # cut off the end: they were never acknowledged as synced

    def __str__(self) -> str:
        cut = (
            f"cut off an incomplete end of {counted(self.truncated_bytes, 'byte')}"
            if self.truncated_bytes
            else "nothing to cut"
        )
        return f"{self.partition}: offsets {self.log_start_offset} to {self.log_end_offset}, {cut}"

    def facts(self) -> Mapping[str, Any]:
        return {
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "truncated_bytes": self.truncated_bytes,
        }
