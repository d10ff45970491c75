"""The command line shared by the maintenance jobs."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from os import environ
from typing import Any, NoReturn

from ...storage import (
    KEY_FORMS,
    MAINTENANCE_FLAGS,
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

# Advice in place of flags of Kafka's tools about brokers.
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


def pause_s(text: str) -> float:
    """Returns seconds to wait, for ``type`` of an argument; argparse reports any other text."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 5 or 0.5")
    return found


def add_log_dir(parser: argparse.ArgumentParser) -> None:
    """Adds ``--log-dir``, whose default is COMMITLOG_LOG_DIR."""
    directory = environ.get("COMMITLOG_LOG_DIR") or None
    parser.add_argument(
        "--log-dir",
        required=directory is None,
        default=directory,
        help="the log directory, as in Kafka's log.dirs (default: COMMITLOG_LOG_DIR)",
    )


def arguments(description: str | None, *own: str, repeats: bool = False) -> argparse.ArgumentParser:
    """Returns a parser with the options that all maintenance jobs take, and the ``own`` ones of this job, by parameter.

    With ``repeats``, also ``--every``.
    """
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_log_dir(parser)
    parser.add_argument("--dry-run", action="store_true", help="Print the same report, but change nothing.")
    parser.add_argument(
        "--json", action="store_true", help="Print one JSON object per partition, each on its own line."
    )
    parser.set_defaults(every=None)
    for name in (*_OF_ALL, *(("every",) if repeats else ()), *own):
        _add(parser, name)
    return parser


def _add(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the maintenance flag for a parameter."""
    flag = MAINTENANCE_FLAGS[name]
    given: dict[str, Any] = {"metavar": flag.metavar}
    if flag.metavar is None:
        given = {"action": "store_true"}
    elif flag.is_repeatable:
        given |= {"action": "append", "default": []}
    parser.add_argument(*flag.names_for(name), help=flag.text, **{**given, **_VALUES.get(name, {})})


def _saying_why(parse: Callable[[str], int]) -> Callable[[str], int]:
    """Wraps ``parse`` so that argparse prints the text of a ValueError instead of a text of its own."""

    def parsed(text: str) -> int:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


_OF_ALL = ("topics", "config", "topic_configs", "as_of", "wait")
_VALUES: Mapping[str, Mapping[str, Any]] = {  # flags whose values are not any text
    "as_of": {"type": _saying_why(parse_instant)},
    "every": {"type": _saying_why(parse_duration_ms)},
    "keys_as": {"choices": [*KEY_FORMS], "default": "text"},
}


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
