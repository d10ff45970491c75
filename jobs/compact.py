"""Keeps only the newest record of each key: ``spark-submit jobs/compact.py --log-dir DIR [--topics NAMES]``.

One task per log. Logs are chosen as Kafka's cleaner does, by min.cleanable.dirty.ratio and max.compaction.lag.ms, the
dirtiest first; the report says why the others were not chosen. A task needs log.cleaner.dedupe.buffer.size of memory.
Exit code 0: all is well, 3: a log is damaged and was not changed, 2: wrong usage, 1: anything else (locked, unknown
topic, disk).
"""

from __future__ import annotations

import sys

from pyspark_commitlog.pipeline.job.command_line import arguments
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.pipeline.maintenance.run import maintain
from pyspark_commitlog.storage import compact_partitions


def main() -> int:
    with errors_apart():
        return maintain("compaction", arguments(__doc__, repeats=True).parse_args(), compact_partitions)


if __name__ == "__main__":
    sys.exit(main())
