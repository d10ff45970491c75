"""Writes flights from CSV files to a topic, each file once: ``spark-submit jobs/ingest.py [--config conf/local.toml]``.

Stop it at any time (Ctrl-C, SIGTERM): it finishes the current file, and resumes with the next one when started again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.demo import flights
from pyspark_commitlog.pipeline.job import ProgressLines, Settings, run_available
from pyspark_commitlog.pipeline.write import commitlog_sink


def main() -> int:
    options = _arguments()
    settings = Settings.load(options.config)
    topic = settings.topic(options.topic)
    sink = commitlog_sink(
        topic=options.topic,
        log_dir=settings.log_dir,
        txnAppId=f"ingest-{options.topic}",
        partitions=topic.partitions,
        configs=topic.configs,
        producer=topic.producer,
    )
    spark = SparkSession.builder.appName(f"ingest {options.topic}").getOrCreate()
    records = flights.to_records(flights.read_stream(spark, options.input))
    finished = run_available(records, sink, f"{settings.checkpoints}/{options.topic}", ProgressLines())
    print("Every file is in the topic." if finished else "Stopped between two files; the next run resumes there.")
    spark.stop()
    sink.close()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="conf/local.toml", help="the settings file (%(default)s)")
    parser.add_argument("--input", type=Path, default=Path("data/flights"), help="the CSV files (%(default)s)")
    parser.add_argument("-t", "--topic", default="flights", help="the topic to write to (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
