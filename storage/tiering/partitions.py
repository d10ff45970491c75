"""The maintenance operation that copies partitions to a tier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..errors import PolicyViolationError
from ..maintenance.outcome import Changes, PartitionOutcome, outcome_of, patiently
from ..maintenance.run import MaintenanceRun, Partition, Runner
from ..maintenance.selecting import Selection
from ..remote_metadata.topic import MetadataTopic
from ..text import counted
from ..tiers.known_segments import KnownSegments
from ..tiers.objects import open_objects
from .copying import TieredPartition, copy_to_tier, due_segments


@dataclass(frozen=True)
class TierReport:
    """The segments of a partition that were copied to its tier, or deleted from it, or would be."""

    name: str
    is_dry_run: bool
    done: TieredPartition | None = None  # None: the topic has no tier

    def __str__(self) -> str:
        if self.done is None:
            return f"{self.name}: no tier: remote.storage.enable = false"
        did = "would copy" if self.is_dry_run else "copied"
        text = f"{self.name}: {did} {counted(self.done.copied, 'segment')}, {self.done.copied_bytes:,} bytes"
        if self.done.deleted:
            text += f", deleted {counted(self.done.deleted, 'segment')}"
        if not self._holds:
            return f"{text}; the tier has nothing of it"
        return f"{text}; the tier has offsets {self.done.tier_start_offset} to {self.done.tier_end_offset}"

    @property
    def _holds(self) -> bool:
        """Whether the tier has records of the partition."""
        return self.done is not None and self.done.tier_start_offset < self.done.tier_end_offset

    def facts(self) -> Mapping[str, Any]:
        return {"is_tiered": self.done is not None} | ({} if self.done is None else self.done._asdict())

    def to_changes(self) -> Changes:
        if self.done is None:
            return Changes("tier", self.is_dry_run)
        done = self.done
        return Changes(
            "tier", self.is_dry_run, done.copied, done.copied_bytes, removed=done.deleted, is_left=self._holds
        )


def tier_partitions(
    run: MaintenanceRun, selection: Selection, runner: Runner, *, url: str
) -> Iterator[PartitionOutcome]:
    """Brings the tier at ``url`` up to date, one log per task; yields an outcome per partition.

    Only topics with ``remote.storage.enable`` have one. Raises PolicyViolationError for a log on an object store.
    """
    if run.bucket is not None:
        raise PolicyViolationError(f"{run.directory}: is on an object store already, and has no tier")
    yield from runner("logs", partial(_tier, run, url, KnownSegments()), selection.partitions)


def _tier(run: MaintenanceRun, url: str, known: KnownSegments, partition: Partition) -> PartitionOutcome:
    return outcome_of(partition, lambda: _copy(run, url, known, partition))


def _copy(run: MaintenanceRun, url: str, known: KnownSegments, partition: Partition) -> TierReport:
    if not (partition.config.remote_storage_enable and partition.is_ours):
        return TierReport(str(partition), run.dry_run)
    with run.manager() as manager:
        metadata = MetadataTopic(manager, known)
        if run.dry_run:
            return TierReport(str(partition), True, due_segments(manager, partition.key, metadata))
        log, store = manager.open_log(*partition.key, partition.config), open_objects(url)
        return TierReport(
            str(partition),
            False,
            patiently(run, log, lambda: copy_to_tier(manager, store, log, partition.key, metadata)),
        )
