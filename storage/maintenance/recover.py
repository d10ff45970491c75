"""Recovers logs of a directory by opening each for writing, and reports what that did and what remains wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .outcome import OutcomeStatus, PartitionOutcome, outcome_of
from .run import MaintenanceRun, Partition


def recover_partition(run: MaintenanceRun, partition: Partition) -> PartitionOutcome:
    """Repairs one log after a crash (see ``LogLoader.load``), closes it cleanly and returns the outcome."""
    return outcome_of(partition, lambda: _recover(run, partition))


def _recover(run: MaintenanceRun, partition: Partition) -> Recovered:
    with run.manager() as manager:
        log = manager.open_log(*partition.key, partition.config)
        return Recovered(partition, log.log_start_offset, log.log_end_offset, log.truncated_bytes)


def with_findings(
    recovered: Iterable[PartitionOutcome], verified: Iterable[PartitionOutcome]
) -> Iterator[PartitionOutcome]:
    """Yields the outcomes of recovery, each with what verification has found in the log since.

    ``verified`` has the outcomes of the logs whose recovery is done.
    """
    found = {(each.topic, each.partition): each for each in verified}
    for outcome in recovered:
        after = found.get((outcome.topic, outcome.partition))
        yield outcome if after is None else _joined(outcome, after)


def _joined(recovered: PartitionOutcome, verified: PartitionOutcome) -> PartitionOutcome:
    if verified.status is OutcomeStatus.FAILED or "findings" not in verified.facts:
        return verified
    findings = verified.facts["findings"]
    counts = Counter(each["severity"] for each in findings)
    result = ", ".join(f"{count:,} {severity}" for severity, count in counts.items()) or "sound"
    lines = verified.text.partition("\n")[2]
    text = f"{recovered.text}; {result}" + (f"\n{lines}" if lines else "")
    return replace(verified, text=text, facts={**recovered.facts, "findings": findings})


@dataclass(frozen=True)
class Recovered:
    """The state of one log after recovery."""

    partition: Partition
    log_start_offset: int
    log_end_offset: int
    truncated_bytes: int  # cut off the end: they were never acknowledged as synced

    def __str__(self) -> str:
        cut = (
            f"cut off an incomplete end of {self.truncated_bytes:,} bytes" if self.truncated_bytes else "nothing to cut"
        )
        return f"{self.partition}: offsets {self.log_start_offset} to {self.log_end_offset}, {cut}"

    def facts(self) -> Mapping[str, Any]:
        return {
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "truncated_bytes": self.truncated_bytes,
        }
