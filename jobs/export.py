"""Copies topics to tables, or the changes of Delta tables to topics, each record once: docs/tables.md.

    spark-submit jobs/export.py to-table --log-dir DIR --topic flights --table PATH --checkpoint DIR
    spark-submit jobs/export.py to-topic --table PATH --log-dir DIR --topic flights --checkpoint DIR
    spark-submit jobs/export.py to-table --log-dir DIR --topic 'flights,weather' --table 'data/{topic}' \\
        --checkpoint 'checkpoints/{topic}' --from-time 2026-11-01
    spark-submit jobs/export.py to-table --log-dir DIR --topic flights --table-format parquet --table PATH
    spark-submit jobs/export.py to-table --consumer.config FILE --topic flights --table PATH

Copies all there is now; with --every, also what is added later. Stop it at any time (Ctrl-C, SIGTERM): it finishes the
current micro-batch, and resumes with the next one when started again. Exit code 0: everything was copied, or it was
stopped, 2: wrong usage, 1: anything else; a topic that fails does not stop the others.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.delta import advice, each_topic, is_load, load, parser, query
from pyspark_commitlog.pipeline.job import Run, errors_apart, run_together
from pyspark_commitlog.storage import LogStoreError

DONE = "Everything was copied."


def main() -> int:
    with errors_apart():
        export = Export(parser(__doc__).parse_args())
        return export.run()


class Export:
    """A run of the job; ``failed`` says whether a topic was not copied."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.topics: dict[str, Namespace] = {}
        self.failed = False

    def run(self) -> int:
        options = self.options
        try:
            self.topics = {each.topic: each for each in each_topic(options)}
        except LogStoreError as error:
            print(f"export: {error}", file=sys.stderr)
            return 1
        spark = SparkSession.builder.appName(f"export {options.topic}, {options.direction}").getOrCreate()
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


if __name__ == "__main__":
    sys.exit(main())
