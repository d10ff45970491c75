"""Mirrors topics between a running Kafka and a log directory, or between clusters: docs/mirroring.md.

    spark-submit jobs/mirror.py from-kafka --bootstrap-servers HOST:PORT --log-dir DIR --topics flights
    spark-submit jobs/mirror.py to-kafka --bootstrap-servers HOST:PORT --log-dir DIR --topics flights
    python jobs/mirror.py between-clusters --consumer.config FILE --producer.config FILE --whitelist 'flights.*'

Each run resumes where the previous run ended, even if it failed; with --follow, a run continues until it is stopped.
Exit code 0: all partitions are up to date, or between-clusters --follow was stopped by SIGTERM or Ctrl-C; 2: wrong
usage, 1: anything else.
"""

from __future__ import annotations

import argparse
import sys
import time

from pyspark import SparkConf, SparkContext

from pyspark_commitlog.pipeline.job import errors_apart
from pyspark_commitlog.pipeline.maintenance import SparkTasks
from pyspark_commitlog.pipeline.mirror import BETWEEN_CLUSTERS, ROUNDS, parser, run_between_clusters
from pyspark_commitlog.storage import LogStoreError, parse_names


def main() -> int:
    with errors_apart():
        options = parser(__doc__).parse_args()
        try:
            if options.direction == BETWEEN_CLUSTERS:
                run_between_clusters(options)
                return 0
            with SparkContext.getOrCreate(SparkConf().setAppName(f"mirror {options.direction}")) as context:
                tasks = SparkTasks(context, "mirror")
                failed = _round(options, tasks)
                while options.follow is not None and not failed:
                    time.sleep(options.follow)
                    failed = _round(options, tasks)
        except LogStoreError as error:
            print(f"mirror: {error}", file=sys.stderr)
            return 1
        return int(failed)


def _round(options: argparse.Namespace, tasks: SparkTasks) -> bool:
    """Mirrors all topics once. Returns True if a partition could not be brought up to date."""
    failed = False
    for mirrored in ROUNDS[options.direction](options, parse_names("--topics", options.topics), tasks):
        failed |= mirrored.error is not None
        print(mirrored, file=sys.stderr if mirrored.error else sys.stdout, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
