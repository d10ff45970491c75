"""Runs maintenance tasks with Spark, and prints their progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar
from uuid import uuid4

from pyspark import SparkContext

Item = TypeVar("Item")
Result = TypeVar("Result")

REPORT_EVERY_S = 10.0


class SparkTasks:
    """Runs a function on items with Spark, one task per item; prints to stderr how many tasks are done."""

    def __init__(self, context: SparkContext, name: str, report_every_s: float = REPORT_EVERY_S) -> None:
        self._context = context
        self._name = name
        self._report_every_s = report_every_s

    def __call__(self, what: str, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """Returns the result of ``task`` for each item, in order; ``what`` names the items in progress lines.

        An interrupt cancels the tasks and is raised again.
        """
        if not items:
            return []
        group = f"{self._name}-{uuid4()}"
        # One thread waits for the results, so another has to poll the status.
        with ThreadPoolExecutor(1) as executor:
            results = executor.submit(self._collect, group, what, task, items)
            try:
                self._report(group, f"{len(items):,} {what}", results)
            except BaseException:
                self._context.cancelJobGroup(group)
                raise
        return results.result()

    def _collect(self, group: str, what: str, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        self._context.setJobGroup(group, f"{self._name}: {len(items):,} {what}", interruptOnCancel=True)
        return self._context.parallelize(items, len(items)).map(task).collect()

    def _report(self, group: str, of_all: str, results: Future[list[Result]]) -> None:
        began_s = time.monotonic()
        while not wait([results], self._report_every_s).done:
            seconds = time.monotonic() - began_s
            line = f"{self._name}: {self._finished(group):,} of {of_all} done after {seconds:.0f} s"
            print(line, file=sys.stderr, flush=True)

    def _finished(self, group: str) -> int:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)
