"""The command line that the maintenance jobs share."""

from __future__ import annotations

import argparse
import getpass
import os
import socket
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NoReturn

from pyspark_commitlog.pipeline.options import local_directory
from pyspark_commitlog.storage import ConfigOverrides, InvalidConfigError, MaintenanceRun, SystemClock

EPOCH_MS_MIN = 100_000_000_000  # of 1973: fewer digits are a date without dashes, or seconds


class Parser(argparse.ArgumentParser):
    """One whose wrong uses end with exit code 1: 2 says that a log is damaged."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: {message}\n")


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
    add("--as-of", type=_instant, metavar="TIME", help="as if it were that time: ISO 8601, else UTC, or ms since 1970")
    add("--dry-run", action="store_true", help="change nothing, print the same report")
    add("--json", action="store_true", help="print a JSON object a partition, one a line")
    add("--wait", action="store_true", help="wait for partitions that another job works on, instead of failing there")
    return parser


def split(given: list[str]) -> list[str]:
    """The values of an option that may be repeated, and hold several separated by commas."""
    return [each.strip() for text in given for each in text.split(",") if each.strip()]


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """The values of an option that may be repeated, each ``key=value``. Raises InvalidConfigError for another form."""
    if wrong := [text for text in given if "=" not in text]:
        raise InvalidConfigError(f"{option} {wrong[0]!r}: key=value is expected")
    return dict(text.split("=", 1) for text in given)


def _instant(text: str) -> int:
    """Milliseconds since the epoch."""
    if text.isdecimal():
        if int(text) < EPOCH_MS_MIN:
            raise argparse.ArgumentTypeError(f"{text!r}: milliseconds since 1970 have 12 digits or more")
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: neither ISO 8601, such as 2026-11-23T06:00, nor milliseconds since 1970"
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def to_run(name: str, options: argparse.Namespace) -> MaintenanceRun:
    """What the command line asks for. Raises InvalidConfigError."""
    run = MaintenanceRun(
        local_directory(options.log_dir),
        work=_work(name),
        overrides=ConfigOverrides.parse(options.config),
        as_of_ms=options.as_of,
        dry_run=options.dry_run,
        wait=options.wait,
    )
    run.check()
    return run


def _work(name: str) -> str:
    """What whoever finds a partition locked is told: where to look for this job."""
    since = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    return f"{name} since {since:%Y-%m-%d %H:%M:%S} UTC, process {os.getpid()} of {_user()} on {socket.gethostname()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        return f"user {os.getuid()}"
