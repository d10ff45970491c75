"""Makes the key filters of all selected partitions; a runner runs the tasks, in a loop or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..maintenance.outcome import PartitionOutcome
from ..maintenance.run import MaintenanceRun, Runner
from ..maintenance.selecting import Selection
from .partition import filter_partition


def filter_partitions(run: MaintenanceRun, selection: Selection, runner: Runner) -> Iterator[PartitionOutcome]:
    """Makes the key filters of closed segments where ``keyfilter.enable`` is set, and removes others.

    One log per task; yields an outcome per partition.
    """
    yield from runner("logs", partial(filter_partition, run), selection.partitions)
