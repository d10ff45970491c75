"""A run of the export job over all topics that its arguments name."""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...storage import LogStoreError
from ..job import Run, check_delta, exit_code, job_session, run_together
from .command.words import DELTA
from .export import advice, each_topic, is_load, load, query

DONE = "Everything was copied."


class ExportRun:
    """A run of the job; ``failed`` says whether a topic was not copied."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.topics: dict[str, Namespace] = {}
        self.failed = False

    def run(self) -> int:
        """Copies all topics and prints what was copied. Returns the exit code."""
        options = self.options
        try:
            self.topics = {each.topic: each for each in each_topic(options)}
            spark = job_session(f"export {options.topic}, {options.direction}", delta=_needs_delta(options))
            if _needs_delta(options):
                check_delta(spark)  # before a query starts
        except LogStoreError as error:
            print(f"export: {error}", file=sys.stderr)
            return exit_code(error)
        finished = self._load_all(spark) if is_load(options) else self._run_queries(spark)
        if self.failed:
            return 1
        print(DONE if finished else "Stopped between two micro-batches; the next run resumes there.")
        spark.stop()
        return 0

    def _load_all(self, spark: SparkSession) -> bool:
        for topic, options in self.topics.items():
            try:
                print(f"  {topic}: {load(spark, options)}", flush=True)
            except (LogStoreError, PySparkException) as error:
                self._fail(topic, error)
        return True

    def _run_queries(self, spark: SparkSession) -> bool:
        runs: dict[str, Run[object]] = {}
        for topic, options in self.topics.items():
            try:
                stream, write = query(spark, options)
            except (LogStoreError, PySparkException) as error:
                self._fail(topic, error)
            else:
                runs[topic] = Run(stream, write, options.checkpoint, partial(self._print_progress, topic))
        return not runs or run_together(runs, self._fail, every=self.options.every)

    def _fail(self, topic: str, error: Exception) -> None:
        self.failed = True
        print(f"export: {self._named(topic)}{error}{advice(self.topics[topic], error)}", file=sys.stderr, flush=True)

    def _print_progress(self, topic: str, batch_id: int, _written: object) -> None:
        print(f"  {self._named(topic)}micro-batch {batch_id} written", flush=True)

    def _named(self, topic: str) -> str:
        return "" if topic == self.options.topic else f"{topic}: "


def _needs_delta(options: Namespace) -> bool:
    return bool(options.direction != "to-table" or options.table_format == DELTA)
