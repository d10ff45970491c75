"""Maintenance of a log directory: retention, compaction, index rebuild, recovery and verification of its logs.

:func:`select_partitions` chooses partitions; :func:`retain_partitions` and similar functions process them with a
:class:`Runner`, which may be a plain loop (:func:`in_this_process`), and return a :class:`PartitionOutcome` for each.
A problem with one partition is reported and does not affect the others.

:mod:`.run` has the options of a run, :mod:`.selecting` its partitions, :mod:`.outcome` its results, :mod:`.partitions`
the operations over all partitions. Single logs are processed by :mod:`.retain`, :mod:`.compact`, :mod:`.rebuild`,
:mod:`.recover` and :mod:`.verify`; :mod:`.abandoned_transactions` is the first step of retention. :mod:`.describe`
shows one partition, or all topics in short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .describe import (
        PartitionDescription as PartitionDescription,
        TopicSummary as TopicSummary,
        describe_partition as describe_partition,
        describe_topics as describe_topics,
    )
    from .outcome import OutcomeStatus as OutcomeStatus, PartitionOutcome as PartitionOutcome, Tally as Tally
    from .partitions import (
        Operation as Operation,
        ReadsLog as ReadsLog,
        Runner as Runner,
        compact_partitions as compact_partitions,
        in_this_process as in_this_process,
        rebuild_partitions as rebuild_partitions,
        recover_partitions as recover_partitions,
        retain_partitions as retain_partitions,
        verify_partitions as verify_partitions,
    )
    from .run import (
        ConfigOverrides as ConfigOverrides,
        MaintenanceRun as MaintenanceRun,
        Partition as Partition,
        describe_holder as describe_holder,
    )
    from .selecting import Selection as Selection, select_partitions as select_partitions
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "describe": ["PartitionDescription", "TopicSummary", "describe_partition", "describe_topics"],
            "outcome": ["OutcomeStatus", "PartitionOutcome", "Tally"],
            "partitions": [
                "Operation",
                "ReadsLog",
                "Runner",
                "compact_partitions",
                "in_this_process",
                "rebuild_partitions",
                "recover_partitions",
                "retain_partitions",
                "verify_partitions",
            ],
            "run": ["ConfigOverrides", "MaintenanceRun", "Partition", "describe_holder"],
            "selecting": ["Selection", "select_partitions"],
        },
    )
