"""Maintenance of a log directory: retention, compaction, index rebuild, recovery and verification of its logs.

:func:`select_partitions` says which, :func:`retain_partitions` and its like do the work by a :class:`Runner`, which may
be a plain loop (:func:`in_this_process`), and answer a :class:`PartitionOutcome` each. What is wrong with one partition
is told, and keeps nobody from the others.

:mod:`.settings` is what a run is told, :mod:`.selecting` which partitions it is about, :mod:`.outcome` what it answers,
:mod:`.directory` the runs. The work on one log is in :mod:`.retaining`, :mod:`.compacting`, :mod:`.rebuilding`,
:mod:`.recovering` and :mod:`.verifying`; :mod:`.transactions` is what retention does first.
"""

from pyspark_commitlog.storage.maintenance.directory import (
    Runner,
    compact_partitions,
    in_this_process,
    rebuild_partitions,
    recover_partitions,
    retain_partitions,
    verify_partitions,
)
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus, PartitionOutcome
from pyspark_commitlog.storage.maintenance.selecting import Selection, select_partitions
from pyspark_commitlog.storage.maintenance.settings import (
    ConfigOverrides,
    MaintenanceRun,
    Partition,
    work_of,
)

__all__ = [
    "ConfigOverrides",
    "MaintenanceRun",
    "OutcomeStatus",
    "Partition",
    "PartitionOutcome",
    "Runner",
    "Selection",
    "compact_partitions",
    "in_this_process",
    "rebuild_partitions",
    "recover_partitions",
    "retain_partitions",
    "select_partitions",
    "verify_partitions",
    "work_of",
]
