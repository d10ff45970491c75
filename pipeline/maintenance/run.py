"""Runs a maintenance operation with Spark and prints its outcomes."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterable, Iterator
from typing import Protocol

from pyspark import SparkConf, SparkContext

from ...storage import LogStoreError, MaintenanceRun, PartitionOutcome, Runner, Selection, Tally, select_partitions
from ..job import to_run
from .spark_tasks import SparkTasks


class Operation(Protocol):
    """A maintenance operation of storage over selected partitions."""

    def __call__(self, run: MaintenanceRun, selection: Selection, runner: Runner, /) -> Iterator[PartitionOutcome]: ...


def maintain(name: str, options: argparse.Namespace, operation: Operation) -> int:
    """Runs ``operation`` with Spark and prints the outcomes; ``options`` are those of ``job.arguments``.

    Returns the exit code: 0 if all went well, 3 if a log is damaged, 1 for any other problem.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        run = to_run(name, options)
        with run.manager() as manager:
            selection = select_partitions(manager, options.topics, run.overrides)
        with SparkContext.getOrCreate(SparkConf().setAppName(f"{name} of {run.directory}")) as context:
            return show(name, operation(run, selection, SparkTasks(context, name)), as_json=options.json)
    except (LogStoreError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1


def show(name: str, outcomes: Iterable[PartitionOutcome], *, as_json: bool) -> int:
    """Prints each outcome as it arrives, then the number of each kind. Returns the exit code."""
    tally = Tally()
    for outcome in outcomes:
        tally.add(outcome)
        print(json.dumps(outcome.to_json()) if as_json else outcome, flush=True)
    print(f"{name}: {tally}", file=sys.stderr if as_json else sys.stdout, flush=True)
    return tally.exit_code
