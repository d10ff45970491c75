"""Runs a maintenance operation with Spark and prints its outcomes."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ...storage import (
    InvalidConfigError,
    LogStoreError,
    MaintenanceRun,
    Operation,
    PartitionOutcome,
    Runner,
    Selection,
    Tally,
    in_this_process,
    log_to_stderr,
    needs_extra,
    select_partitions,
    when_due,
)
from ..job.command_line import exit_code, to_run
from ..job.stderr import is_submitted

if TYPE_CHECKING:
    from pyspark import SparkContext

RUN_TIMEOUT_S = 300  # how long a run may take to finish after a signal


def maintain(name: str, options: argparse.Namespace, operation: Operation) -> int:
    """Runs ``operation`` with Spark and prints the outcomes; ``options`` are those of ``job.arguments``.

    With ``--every``, again and again until it is stopped. Returns the exit code of the last run: 0 if all went well, 3
    if a log is damaged, 2 for wrong usage, 1 for any other problem.
    """
    log_to_stderr()
    try:
        if options.every is not None and options.as_of is not None:
            raise InvalidConfigError("--every and --as-of cannot be used together")
        ready = _prepare(name, options)  # before Spark starts, which takes seconds
        with spark_context(f"{name} of {ready[0].directory}") as context:
            if options.every is None:
                return show(
                    name, operation(*ready, _tasks(context, name)), as_json=options.json, is_brief=not options.topics
                )
            return _repeat(name, options, operation, context)
    except (LogStoreError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return exit_code(error)


@contextmanager
def spark_context(name: str) -> Iterator[SparkContext]:
    """Yields Spark's context, which is stopped at the block's end. Raises MissingExtraError without Spark."""
    with needs_extra("this job"):
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415  --help goes without
    with SparkContext.getOrCreate(SparkConf().setAppName(name)) as context:
        yield context


@contextmanager
def job_runner(name: str, app_name: str) -> Iterator[Runner]:
    """Yields the runner of a job's tasks: Spark under spark-submit, otherwise this process, one after the other."""
    if not is_submitted():
        yield in_this_process
        return
    with spark_context(app_name) as context:
        yield _tasks(context, name)


def _tasks(context: SparkContext, name: str) -> Runner:
    from .spark_tasks import SparkTasks  # noqa: PLC0415  imports Spark

    return SparkTasks(context, name)


def _prepare(name: str, options: argparse.Namespace) -> tuple[MaintenanceRun, Selection]:
    run = to_run(name, options)
    with run.manager() as manager:
        return run, select_partitions(manager, options.topics, run.overrides)


def _repeat(name: str, options: argparse.Namespace, operation: Operation, context: SparkContext) -> int:
    """Runs the operation whenever it is due, until a signal; the current run then finishes."""
    from ..job.run_query import on_jvm_shutdown  # noqa: PLC0415  imports Spark

    over, code = threading.Event(), 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    on_jvm_shutdown(context, partial(_end_with_the_run, over))
    for _ in when_due({name: options.every}, over):
        try:
            code = show(
                name,
                operation(*_prepare(name, options), _tasks(context, name)),
                as_json=options.json,
                is_brief=not options.topics,
            )
        except (LogStoreError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 1
    return code


def _end_with_the_run(over: threading.Event) -> None:
    """Lets the current run finish, when the JVM of spark-submit gets a signal: Spark stops once this returns."""
    over.set()
    threading.main_thread().join(RUN_TIMEOUT_S)


def show(name: str, outcomes: Iterable[PartitionOutcome], *, as_json: bool, is_brief: bool = False) -> int:
    """Prints each outcome as it arrives, then the sums. Returns the exit code.

    ``is_brief`` leaves out unchanged partitions.
    """
    tally = Tally()
    for outcome in outcomes:
        tally.add(outcome)
        if as_json or not (is_brief and outcome.is_quiet):
            print(json.dumps(outcome.to_json()) if as_json else outcome, flush=True)
    print(f"{name}: {tally}", file=sys.stderr if as_json else sys.stdout, flush=True)
    return tally.exit_code
