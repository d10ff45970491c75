"""Verifies checksums, records, offsets, indexes, checkpoints: ``spark-submit jobs/verify.py --log-dir DIR``.

One task per segment. Changes nothing and takes no lock, so it is safe on a running broker's directory. Exit code 0: all
is well, 3: something is damaged or has to be rebuilt, 2: wrong usage, 1: anything else (unknown topic).
"""

from __future__ import annotations

import sys

from pyspark_commitlog.pipeline.job.command_line import arguments
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.pipeline.maintenance.run import maintain
from pyspark_commitlog.storage import verify_partitions


def main() -> int:
    with errors_apart():
        return maintain("verification", arguments(__doc__).parse_args(), verify_partitions)


if __name__ == "__main__":
    sys.exit(main())
