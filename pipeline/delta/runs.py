"""A run of the export job over all topics that its arguments name."""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...storage import EXIT_DAMAGED, LogStoreError, TopicPartition
from ..job.command_line import exit_code
from ..job.delta_jars import check_delta
from ..job.frames import cause, failure_code
from ..job.run_query import Run, run_together
from ..job.session import job_session
from ..rows.offsets import EARLIEST, offsets_from_json
from ..rows.read_mode import ReadMode
from .command.words import DELTA
from .export import Query, advice, each_topic, is_load, load, query, upkeep_of
from .loads.skipped_damage import SkippedDamage
from .points import Points
from .table_and_tail.upkeep import Upkeep

DONE, DONE_BUT = "Everything was copied.", "Everything else was copied."
# Printed after resumed runs, because the records that earlier runs skipped are not known.
NEW_DONE, NEW_DONE_BUT = "Everything new was copied.", "Everything else that is new was copied."
STOPPED = "Stopped between two micro-batches; the next run resumes there."


class ExportRun:
    """A run of the job.

    ``code`` is the exit code for topics that were not copied, 0 if all were; ``skipped`` is the damage that was
    skipped, and ``resumed`` the topics that earlier runs have copied in part.
    """

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.topics: dict[str, Namespace] = {}
        self.code = 0
        self.skipped = SkippedDamage()
        self.resumed: set[str] = set()

    def run(self) -> int:
        """Copies all topics and prints the results. Returns the exit code."""
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
        self._print_outcome(finished)
        if self.code:
            return self.code
        spark.stop()
        return EXIT_DAMAGED if self.skipped else 0

    def _print_outcome(self, finished: bool) -> None:
        skipped = f"Skipped {self.skipped}." if self.skipped else ""
        done = (NEW_DONE, NEW_DONE_BUT) if self.resumed else (DONE, DONE_BUT)
        outcome = done[bool(skipped)] if finished else STOPPED
        print(*filter(None, (skipped, "" if self.code else outcome)), flush=True)

    def _load_all(self, spark: SparkSession) -> bool:
        for topic, options in self.topics.items():
            try:
                loaded = load(spark, options)
                print(f"  {topic}: {loaded}", flush=True)
                if loaded.resumed:
                    self.resumed.add(topic)
                self._look_for_damage(options, loaded.starts, loaded.ends)
            except (LogStoreError, PySparkException) as error:
                self._fail(topic, error)
        return True

    def _run_queries(self, spark: SparkSession) -> bool:
        runs: dict[str, Run[object]] = {}
        for topic, options in self.topics.items():
            try:
                upkeep = upkeep_of(spark, options)
                described = query(spark, options)
                self._look_for_damage(options, described.reloaded.points, described.reloaded.ends)
            except (LogStoreError, PySparkException) as error:
                self._fail(topic, error)
            else:
                self.resumed.add(topic)  # unless its first micro-batch is in this run
                done = partial(self._end_batch, topic, described, upkeep)
                runs[topic] = Run(described.stream, described.write, options.checkpoint, done)
        return not runs or run_together(runs, self._fail, every=self.options.every)

    def _fail(self, topic: str, error: Exception) -> None:
        self.code = max(self.code, failure_code(error))
        said = f"{self._named(topic)}{cause(error)}{advice(self.topics[topic], error)}"
        print(f"export: {said}", file=sys.stderr, flush=True)

    def _end_batch(self, topic: str, described: Query, upkeep: Upkeep | None, batch_id: int, _written: object) -> None:
        print(f"  {self._named(topic)}micro-batch {batch_id} written", flush=True)
        for name in upkeep.run_due() if upkeep else ():
            print(f"  {self._named(topic)}{name} done", flush=True)
        options = self.topics[topic]
        begins = offsets_from_json(described.starting, "startingOffsets")
        if batch_id == 0 and set(begins.values()) <= {EARLIEST}:
            self.resumed.discard(topic)
        if _skips_damage(options):
            session = described.stream.sparkSession
            self.skipped.add_batch(session, options.log_dir, options.checkpoint, batch_id, begins)

    def _look_for_damage(self, options: Namespace, starts: Points, ends: Points) -> None:
        if _skips_damage(options):
            topic = options.topic
            first, last = ({TopicPartition(topic, n): at for n, at in each.items()} for each in (starts, ends))
            self.skipped.add(options.log_dir, {each: first[each] for each in last}, last)

    def _named(self, topic: str) -> str:
        return "" if topic == self.options.topic else f"{topic}: "


def _needs_delta(options: Namespace) -> bool:
    return bool(options.direction != "to-table" or options.table_format == DELTA)


def _skips_damage(options: Namespace) -> bool:
    """Whether the options skip damage of a log directory; data from brokers is never skipped."""
    is_to_table = options.direction == "to-table" and options.log_dir is not None
    return bool(is_to_table and options.read_mode == ReadMode.DROP_MALFORMED.value)
