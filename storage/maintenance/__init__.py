"""Maintenance of a log directory: retention, compaction, index rebuild, recovery and verification of its logs.

:func:`select_partitions` chooses partitions; :func:`retain_partitions` and similar functions process them with a
:class:`Runner`, which may be a plain loop (:func:`in_this_process`), and return a :class:`PartitionOutcome` for each.
A problem with one partition is reported and does not affect the others.

:mod:`.settings` has the options of a run, :mod:`.selecting` its partitions, :mod:`.outcome` its results,
:mod:`.directory` the runs. Single logs are processed by :mod:`.retaining`, :mod:`.compacting`, :mod:`.rebuilding`,
:mod:`.recovering` and :mod:`.verifying`; :mod:`.transactions` is the first step of retention.
"""

from .outcome import OutcomeStatus, PartitionOutcome, Tally
from .partitions import (
    Runner,
    compact_partitions,
    in_this_process,
    rebuild_partitions,
    recover_partitions,
    retain_partitions,
    verify_partitions,
)
from .run import ConfigOverrides, MaintenanceRun, Partition, work_of
from .selecting import Selection, select_partitions

__all__ = [
    "ConfigOverrides",
    "MaintenanceRun",
    "OutcomeStatus",
    "Partition",
    "PartitionOutcome",
    "Runner",
    "Selection",
    "Tally",
    "compact_partitions",
    "in_this_process",
    "rebuild_partitions",
    "recover_partitions",
    "retain_partitions",
    "select_partitions",
    "verify_partitions",
    "work_of",
]
