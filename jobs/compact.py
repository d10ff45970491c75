"""Compaction: of each key the newest record stays: ``spark-submit jobs/compact.py --log-dir DIR [--topics NAMES]``.

One task a log. Logs are chosen as Kafka's cleaner does, by min.cleanable.dirty.ratio and max.compaction.lag.ms, the
dirtiest first; of the others the report says why they were not. Memory of a task: log.cleaner.dedupe.buffer.size.
Exit code 0: all is well, 2: a log is damaged and was left alone, 1: anything else (locked, unknown topic, disk).
"""

from __future__ import annotations

import sys

from pyspark_commitlog.pipeline.maintenance import arguments, errors_apart, maintain
from pyspark_commitlog.storage import compact_partitions


def main() -> int:
    with errors_apart():
        return maintain("compaction", arguments(__doc__).parse_args(), compact_partitions)


if __name__ == "__main__":
    sys.exit(main())
