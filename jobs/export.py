"""Copies a topic to a Delta table, or the changes of a Delta table to a topic, each record once: docs/tables.md.

    spark-submit jobs/export.py to-table --log-dir DIR --topic flights --table PATH --checkpoint DIR
    spark-submit jobs/export.py to-topic --table PATH --log-dir DIR --topic flights --checkpoint DIR

Copies all there is now; with --every, also what is added later. Stop it at any time (Ctrl-C, SIGTERM): it finishes the
current micro-batch, and resumes with the next one when started again. Exit code 0: everything was copied, or it was
stopped, 2: wrong usage, 1: anything else.
"""

from __future__ import annotations

import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.delta import advice, parser, query
from pyspark_commitlog.pipeline.job import errors_apart, run_available
from pyspark_commitlog.storage import LogStoreError

DONE = "Everything was copied."


def main() -> int:
    with errors_apart():
        options = parser(__doc__).parse_args()
        spark = SparkSession.builder.appName(f"export {options.topic}, {options.direction}").getOrCreate()
        try:
            stream, write = query(spark, options)
            finished = run_available(stream, write, options.checkpoint, _print_progress, every=options.every)
        except (LogStoreError, PySparkException) as error:
            print(f"export: {error}{advice(options, error)}", file=sys.stderr)
            return 1
        print(DONE if finished else "Stopped between two micro-batches; the next run resumes there.")
        spark.stop()
        return 0


def _print_progress(batch_id: int, _written: object) -> None:
    print(f"  micro-batch {batch_id} written", flush=True)


if __name__ == "__main__":
    sys.exit(main())
