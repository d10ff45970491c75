"""Mirrors topics between a running Kafka and a log directory, or between clusters.

    commitlog mirror from-kafka --bootstrap-servers HOST:PORT --log-dir DIR --topics flights
    commitlog mirror to-kafka --bootstrap-servers HOST:PORT --log-dir DIR --topics flights
    commitlog mirror between-clusters --consumer.config FILE --producer.config FILE --whitelist 'flights.*'

The first two mirror one partition after the other; spark-submit runs jobs/mirror.py of the package, with the same
arguments, and mirrors many at once.
Each run resumes where the previous run ended, even if it failed; with --follow, a run continues until it is stopped.
Exit code 0: all partitions are up to date, or between-clusters --follow was stopped by SIGTERM or Ctrl-C; 3: a
log is damaged, 2: wrong usage, 1: anything else.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from pyspark_commitlog.pipeline.job.command_line import exit_code
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.pipeline.maintenance.run import job_runner
from pyspark_commitlog.pipeline.mirror.between_clusters import BETWEEN_CLUSTERS, run_between_clusters
from pyspark_commitlog.pipeline.mirror.command_line import ROUNDS, parser
from pyspark_commitlog.storage import LogStoreError, Runner, needs_extra, parse_names


def main(arguments: Sequence[str] | None = None, *, prog: str | None = None) -> int:
    with errors_apart():
        options = parser(__doc__, prog).parse_args(arguments)
        try:
            with needs_extra("mirroring", extra="kafka"):
                return _mirror(options)
        except LogStoreError as error:
            print(f"mirror: {error}", file=sys.stderr)
            return exit_code(error)


def _mirror(options: argparse.Namespace) -> int:
    if options.direction == BETWEEN_CLUSTERS:
        run_between_clusters(options)
        return 0
    with job_runner("mirror", f"mirror {options.direction}") as runner:
        code = _round(options, runner)
        while options.follow is not None and not code:
            time.sleep(options.follow)
            code = _round(options, runner)
    return code


def _round(options: argparse.Namespace, runner: Runner) -> int:
    """Mirrors all topics once. Returns the exit code: not 0 if a partition could not be brought up to date."""
    code = 0
    for mirrored in ROUNDS[options.direction](options, parse_names("--topics", options.topics), runner):
        code = max(code, mirrored.exit_code)
        print(mirrored, file=sys.stderr if mirrored.error else sys.stdout, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
