"""Copies closed segments to a tier: ``spark-submit jobs/tier.py --log-dir DIR --tier URL [--topics NAMES]``.

One task per log, of topics with remote.storage.enable. The tier has the layout of Kafka's LocalTieredStorage, in a
directory or on an object store. Each object is read back before its segment counts as copied; then jobs/retain.py may
delete the local one by local.retention.ms and local.retention.bytes. Exit code 0: all is well, 3: a log is damaged, 2:
wrong usage, 1: anything else (locked, unknown topic, store).
"""

from __future__ import annotations

import sys
from functools import partial

from pyspark_commitlog.pipeline.job.command_line import arguments
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.pipeline.maintenance.run import maintain
from pyspark_commitlog.storage import tier_partitions


def main() -> int:
    parser = arguments(__doc__, repeats=True)
    parser.add_argument("--tier", required=True, metavar="URL", help="the tier: a directory, or s3://bucket/folder")
    with errors_apart():
        options = parser.parse_args()
        return maintain("tier", options, partial(tier_partitions, url=options.tier))


if __name__ == "__main__":
    sys.exit(main())
