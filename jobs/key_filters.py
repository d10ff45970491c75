"""Makes filters of keys for closed segments: ``spark-submit jobs/key_filters.py --log-dir DIR [--topics NAMES]``.

One task per log, of topics with keyfilter.enable; with these filters, a search for a key skips segments. Exit code
0: all is well, 3: a segment is damaged and has no filter, 2: wrong usage, 1: anything else (locked, unknown topic).
"""

from __future__ import annotations

import sys

from pyspark_commitlog.pipeline.job.command_line import arguments
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.pipeline.maintenance.run import maintain
from pyspark_commitlog.storage import filter_partitions


def main() -> int:
    with errors_apart():
        return maintain("key-filters", arguments(__doc__, repeats=True).parse_args(), filter_partitions)


if __name__ == "__main__":
    sys.exit(main())
