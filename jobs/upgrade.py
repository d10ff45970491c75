"""Makes a log directory of today out of one of Kafka 0.7.

    commitlog upgrade --from /data/kafka-0.7 --log-dir data/log
    commitlog upgrade --from DIR --log-dir DIR --positions DIR --config compression.type=lz4

For large directories: spark-submit runs jobs/upgrade.py of the package, with the same arguments. Each message becomes
a record, once, in the partition of the same number. The table from old positions to new offsets is a file
TOPIC-PARTITION.csv for each partition. Stop it at any time and run it again: it goes on where it was. Run it again
after the old broker has stopped, and it copies what was appended since. Exit code 0: everything was copied, 3: a
partition is damaged, 2: wrong usage, 1: anything else; a partition that fails does not stop the others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark_commitlog.classic.upgrade.run import UpgradeRun, upgrade_partitions
from pyspark_commitlog.pipeline.job.command_line import Parser, exit_code
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.pipeline.locations import local_directory
from pyspark_commitlog.pipeline.maintenance.run import job_runner, show
from pyspark_commitlog.storage import LogConfig, LogStoreError, log_to_stderr, parse_pairs, text_of

NAME = "upgrade"


def main(arguments: Sequence[str] | None = None, *, prog: str | None = None) -> int:
    log_to_stderr()
    with errors_apart():
        options = _parser(prog).parse_args(arguments)
        try:
            run = _run(options)
            with job_runner(NAME, f"upgrade of {run.source}") as runner:
                return show(NAME, upgrade_partitions(run, runner), as_json=options.json)
        except (LogStoreError, OSError) as error:
            print(f"{NAME}: {text_of(error)}", file=sys.stderr)
            return exit_code(error)


def _parser(prog: str | None) -> argparse.ArgumentParser:
    parser = Parser(prog=prog, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--from", dest="source", required=True, metavar="DIR", help="the log directory of Kafka 0.7, which stays as is")
    add("--log-dir", required=True, metavar="DIR", help="the log directory to make, or to go on with")
    add("--positions", metavar="DIR", help="where to write the tables of positions (default: LOG_DIR-positions)")
    add(
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the topics that are made, by Kafka's name; may be repeated",
    )
    add("--json", action="store_true", help="print one JSON object per partition, each on a line of its own")
    return parser


def _run(options: argparse.Namespace) -> UpgradeRun:
    target = local_directory(options.log_dir)
    configs = parse_pairs("--config", options.config)
    LogConfig.from_mapping(configs)
    positions = f"{target}-positions" if options.positions is None else local_directory(options.positions)
    run = UpgradeRun(local_directory(options.source), target, positions, configs)
    run.source_partitions()  # raises before Spark starts, which takes seconds
    return run


if __name__ == "__main__":
    sys.exit(main())
