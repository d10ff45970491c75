"""Flags, execution and output shared by the commands that process all partitions."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ... import storage
from ..arguments import parse_instant, parse_interval, settings_given
from ..flags import complete_topic
from ..output import print_json
from .bars import Watched

PASSES = {"compact": 2, "erase": 2}  # reads of a log: one for its keys, one to copy the kept records or to search


def option(name: str, **more: Any) -> Any:
    """Returns the option of the maintenance flag for a parameter; ``more`` for typer alone."""
    flag = storage.MAINTENANCE_FLAGS[name]
    return typer.Option(*flag.names_for(name), metavar=flag.metavar, help=flag.text, **more)


Topics = Annotated[list[str] | None, option("topics", autocompletion=complete_topic)]
Config = Annotated[list[str] | None, option("config")]
TopicConfigs = Annotated[list[str] | None, option("topic_configs")]
AsOf = Annotated[str | None, option("as_of")]
Every = Annotated[str | None, option("every")]
Wait = Annotated[bool, option("wait")]


@dataclass(frozen=True)
class Asked:
    """The flags of a maintenance command."""

    log_dir: str
    topics: Sequence[str] | None
    config: Sequence[str] | None
    as_json: bool
    dry_run: bool = False
    wait: bool = False
    topic_configs: Sequence[str] | None = None
    as_of: str | None = None
    every: str | None = None

    def to_run(self, name: str) -> storage.MaintenanceRun:
        """Returns the run of the command ``name`` with these flags. Raises InvalidConfigError."""
        with settings_given():
            overrides = storage.ConfigOverrides.parse(self.config or (), self.topic_configs or (), log_dir=self.log_dir)
        run = storage.MaintenanceRun(
            self.log_dir,
            holder=storage.describe_holder(f"commitlog {name}"),
            overrides=overrides,
            as_of_ms=None if self.as_of is None else parse_instant("--as-of", self.as_of),
            dry_run=self.dry_run,
            wait=self.wait,
        )
        run.check()
        return run


def carry_out(name: str, asked: Asked, operation: storage.Operation) -> None:
    """Runs ``operation``, again and again if ``asked.every`` is given, and exits with the code of the last run."""
    if asked.every is None:
        code = run_once(name, asked, operation)
    elif asked.as_of is not None:
        raise typer.BadParameter("--every and --as-of cannot be used together")
    else:
        code = repeat({name: parse_interval("--every", asked.every)}, lambda _: run_once(name, asked, operation))
    if code:
        raise typer.Exit(code)


def repeat(intervals_ms: Mapping[str, int], run: Callable[[str], int]) -> int:
    """Calls ``run`` with each name when it is due, until SIGTERM or Ctrl-C, which let the current run finish.

    Returns the exit code of the last run. An error in the first run ends the process; later ones are printed.
    """
    over, code = threading.Event(), None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    for name in storage.when_due(intervals_ms, over):
        try:
            code = run(name)
        except (storage.LogStoreError, OSError) as error:
            if code is None:
                raise
            typer.echo(f"commitlog: {name}: {error}", err=True)
            code = 1
        sys.stdout.flush()
    return code or 0


def run_once(name: str, asked: Asked, operation: storage.Operation) -> int:
    """Runs ``operation`` and prints the outcome of each partition as it finishes, then the sums.

    Without a choice of topics, unchanged partitions are not printed.

    Returns the exit code: 0 if all is well, 3 if a log is damaged, 1 for any other problem.
    """
    run = asked.to_run(name)
    with run.manager() as manager:
        selection = storage.select_partitions(manager, asked.topics or (), run.overrides)
    tally = storage.Tally()
    runner = Watched(run, PASSES.get(name, 1)) if sys.stderr.isatty() else storage.in_this_process
    for outcome in operation(run, selection, runner):
        tally.add(outcome)
        if asked.as_json:
            print_json([outcome.to_json()])
        elif asked.topics or not outcome.is_quiet:
            typer.echo(str(outcome))
    typer.echo(f"{name}: {tally}", err=asked.as_json)
    return tally.exit_code
