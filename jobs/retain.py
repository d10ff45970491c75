"""Deletes old segments by time, size and log start offset: ``spark-submit jobs/retain.py --log-dir DIR``.

One task per log. The report says what was deleted and why, and what is kept, why and until when. With --dry-run --as-of
TIME, it says what would be deleted at that time. Exit code 0: all is well, 3: a log is damaged, 2: wrong usage, 1:
anything else (locked, unknown topic, disk).
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from functools import partial

from pyspark_commitlog.pipeline.delta.table_and_tail.kept import tables_kept
from pyspark_commitlog.pipeline.job.command_line import arguments
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.pipeline.maintenance.run import maintain
from pyspark_commitlog.storage import (
    MaintenanceRun,
    PartitionOutcome,
    Runner,
    Selection,
    load_policy,
    no_tables,
    parse_names,
    retain_partitions,
)


def main() -> int:
    parser = arguments(__doc__, "keep_for_groups", "keep_for_tables", "policy", "policy_option", repeats=True)
    with errors_apart():
        options = parser.parse_args()
        if options.policy is None and options.policy_option:
            parser.error("--policy-option needs --policy")
        return maintain("retention", options, partial(_retain, options))


def _retain(
    options: Namespace, run: MaintenanceRun, selection: Selection, runner: Runner
) -> Iterator[PartitionOutcome]:
    policy = None if options.policy is None else load_policy(options.policy, options.policy_option)
    tables = options.keep_for_tables and tables_kept(parse_names("--keep-for-tables", options.keep_for_tables))
    return retain_partitions(
        run,
        selection,
        runner,
        keep_for_groups=options.keep_for_groups,
        keep_for_tables=tables or no_tables,
        policy=policy,
    )


if __name__ == "__main__":
    sys.exit(main())
