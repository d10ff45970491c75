"""The command line shared by the maintenance jobs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from os import environ
from typing import NoReturn

from ...storage import (
    ConfigOverrides,
    InvalidConfigError,
    MaintenanceRun,
    describe_holder,
    masked,
    parse_duration_ms,
    parse_instant,
)
from ..locations import log_location
from .frames import failure_code

# What to do instead of a flag of Kafka's tools about brokers.
_ANSWERS = {
    "--bootstrap-server": "there is no server; name the log directory with --log-dir",
    "--replication-factor": "there are no replicas; leave it out",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors show no secrets. As usual, the exit code for wrong usage is 2."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        answers = [
            answer for flag, answer in _ANSWERS.items() if message.startswith("unrecognized") and flag in message
        ]
        self.exit(2, f"{self.prog}: {'; '.join([masked(message), *answers])}\n")


def add_log_dir(parser: argparse.ArgumentParser) -> None:
    """Adds ``--log-dir``, which COMMITLOG_LOG_DIR stands for."""
    directory = environ.get("COMMITLOG_LOG_DIR")
    parser.add_argument(
        "--log-dir",
        required=directory is None,
        default=directory,
        help="the log directory, as in Kafka's log.dirs (default: COMMITLOG_LOG_DIR)",
    )


def arguments(description: str | None, *, repeats: bool = False) -> argparse.ArgumentParser:
    """Returns a parser with the options that all maintenance jobs take; with ``repeats``, also ``--every``."""
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add_log_dir(parser)
    add(
        *("--topics", "--topic", "-t"),
        action="append",
        default=[],
        metavar="NAMES",
        help="topics, or regular expressions for whole names, separated by commas; may be repeated (default: all)",
    )
    add(
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting by Kafka's name, for this run: a topic's key overrides the topic's own setting, a broker's key "
        "is used only if the topic has none; may be repeated",
    )
    add(
        "--topic-configs",
        action="append",
        default=[],
        metavar="FILE",
        help="a file with the output of kafka-configs --describe --all or kafka-topics --describe: the settings of "
        "a broker's topics, which are not in its directory; may be repeated",
    )
    add(
        "--as-of",
        type=_saying_why(parse_instant),
        metavar="TIME",
        help="act as of this time: ISO 8601 (UTC by default), or ms since 1970",
    )
    add("--dry-run", action="store_true", help="print the same report, but change nothing")
    add("--json", action="store_true", help="print one JSON object per partition, each on a line of its own")
    add("--wait", action="store_true", help="wait for partitions that another job is processing, instead of failing")
    parser.set_defaults(every=None)
    if repeats:
        add(
            "--every",
            type=_saying_why(parse_duration_ms),
            metavar="TIME",
            help="go on until stopped, with a run every '5 minutes'",
        )
    return parser


def _saying_why(parse: Callable[[str], int]) -> Callable[[str], int]:
    """Wraps ``parse`` so that argparse prints the text of a ValueError, which it would replace by its own."""

    def parsed(text: str) -> int:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def to_run(name: str, options: argparse.Namespace) -> MaintenanceRun:
    """Returns the run of the maintenance operation ``name`` with these options. Raises InvalidConfigError."""
    run = MaintenanceRun(
        log_location(options.log_dir),
        holder=describe_holder(name),
        overrides=ConfigOverrides.parse(options.config, options.topic_configs, log_dir=options.log_dir),
        as_of_ms=options.as_of,
        dry_run=options.dry_run,
        wait=options.wait,
    )
    run.check()
    return run


def exit_code(error: Exception) -> int:
    """Returns the exit code of a job that failed: 3 for a damaged log, 2 for wrong usage, 1 for anything else."""
    return max(failure_code(error), 2 if isinstance(error, InvalidConfigError) else 1)
