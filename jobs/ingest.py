"""Writes flights from CSV files to a topic, each file once: ``commitlog ingest [--config local.toml]``.

On a cluster: spark-submit runs jobs/ingest.py of the package, with the same arguments. Stop it at any time (Ctrl-C,
SIGTERM): it finishes the current file, and resumes with the next one when started again. ``commitlog conf local.toml``
prints a settings file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from glob import glob
from pathlib import Path

from pyspark_commitlog.pipeline.job.command_line import Parser, exit_code
from pyspark_commitlog.pipeline.job.settings_files import settings_file
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.storage import InvalidConfigError, LogStoreError, needs_extra


def main(arguments: Sequence[str] | None = None, *, prog: str | None = None) -> int:
    options = _parser(prog).parse_args(arguments)
    with errors_apart(), needs_extra("ingest"):
        from pyspark.errors import PySparkException  # noqa: PLC0415  --help goes without Spark

        from pyspark_commitlog.pipeline.job.frames import cause  # noqa: PLC0415

        try:
            return _ingest(options)
        except (LogStoreError, PySparkException) as error:
            print(f"ingest: {cause(error)}", file=sys.stderr)
            return exit_code(error)


def _ingest(options: argparse.Namespace) -> int:
    from pyspark_commitlog.pipeline.demo import flights  # noqa: PLC0415  --help goes without Spark
    from pyspark_commitlog.pipeline.job.run_query import ProgressLines, run_available  # noqa: PLC0415
    from pyspark_commitlog.pipeline.job.session import Settings, job_session  # noqa: PLC0415
    from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink  # noqa: PLC0415

    settings = Settings.load(options.config)
    topic = settings.topic(options.topic)
    if not glob(str(options.input)):  # before Spark starts, which takes seconds
        raise InvalidConfigError(f"--input {options.input}: no such directory; name the folder of the CSV files")
    sink = commitlog_sink(
        topic=options.topic,
        log_dir=settings.log_dir,
        txnAppId=f"ingest-{options.topic}",
        partitions=topic.partitions,
        configs=topic.configs,
        producer=topic.producer,
    )
    spark = job_session(f"ingest {options.topic}")
    records = flights.to_records(flights.read_stream(spark, options.input))
    finished = run_available(records, sink, f"{settings.checkpoints}/{options.topic}", ProgressLines())
    print("Every file is in the topic." if finished else "Stopped between two files; the next run resumes there.")
    spark.stop()
    sink.close()
    return 0


def _parser(prog: str | None) -> argparse.ArgumentParser:
    parser = Parser(prog=prog, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--config",
        default=settings_file("local.toml"),
        help="the settings file (conf/local.toml here, or else what commitlog conf local.toml prints)",
    )
    parser.add_argument("--input", type=Path, default=Path("data/flights"), help="the CSV files (%(default)s)")
    parser.add_argument("-t", "--topic", default="flights", help="the topic to write to (%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
