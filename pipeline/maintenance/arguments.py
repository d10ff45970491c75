"""The command line that the maintenance jobs share."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from pyspark_commitlog.pipeline.options import local_directory
from pyspark_commitlog.storage import ConfigOverrides, MaintenanceRun, masked, parse_instant, work_of


class Parser(argparse.ArgumentParser):
    """One whose wrong uses end with exit code 1: 2 says that a log is damaged. Its errors show no secrets."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: {masked(message)}\n")


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with what all of the jobs take."""
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--log-dir", required=True, help="the log directory: what log.dirs names")
    add(
        *("--topics", "--topic"),
        action="append",
        default=[],
        metavar="NAMES",
        help="names, or regular expressions that match whole names, separated by commas; may be repeated (all topics)",
    )
    add(
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting by Kafka's name: a topic's before the topic's own, a broker's behind them; may be repeated",
    )
    add(
        "--topic-configs",
        action="append",
        default=[],
        metavar="FILE",
        help="what kafka-configs --describe --all or kafka-topics --describe prints: the settings of topics that a "
        "broker made, which its directory does not hold; may be repeated",
    )
    add("--as-of", type=_instant, metavar="TIME", help="as if it were that time: ISO 8601, else UTC, or ms since 1970")
    add("--dry-run", action="store_true", help="change nothing, print the same report")
    add("--json", action="store_true", help="print a JSON object a partition, one a line")
    add("--wait", action="store_true", help="wait for partitions that another job works on, instead of failing there")
    return parser


def _instant(text: str) -> int:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def to_run(name: str, options: argparse.Namespace) -> MaintenanceRun:
    """What the command line asks for. Raises InvalidConfigError."""
    run = MaintenanceRun(
        local_directory(options.log_dir),
        work=work_of(name),
        overrides=ConfigOverrides.parse(options.config, options.topic_configs),
        as_of_ms=options.as_of,
        dry_run=options.dry_run,
        wait=options.wait,
    )
    run.check()
    return run
