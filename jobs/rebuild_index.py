"""Rebuilds indexes and snapshots from the logs alone: ``spark-submit jobs/rebuild_index.py --log-dir DIR``.

One task per segment. The whole log is read before anything is written; a damaged log is not changed. Exit code 0: all
is well, 3: a log is damaged, 2: wrong usage, 1: anything else (locked, a broker runs, unknown topic, disk).
"""

from __future__ import annotations

import sys

from pyspark_commitlog.pipeline.job.command_line import arguments
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.pipeline.maintenance.run import maintain
from pyspark_commitlog.storage import rebuild_partitions


def main() -> int:
    with errors_apart():
        return maintain("index rebuild", arguments(__doc__).parse_args(), rebuild_partitions)


if __name__ == "__main__":
    sys.exit(main())
