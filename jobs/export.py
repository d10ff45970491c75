"""Copies topics to tables, or the changes of Delta tables to topics, each record once.

    commitlog export to-table --log-dir DIR --topic flights --table PATH --checkpoint DIR
    commitlog export to-topic --table PATH --log-dir DIR --topic flights --checkpoint DIR
    commitlog export to-table --log-dir DIR --topic 'flights,weather' --table 'data/{topic}' \\
        --checkpoint 'checkpoints/{topic}' --from-time 2026-11-01
    commitlog export to-table --log-dir DIR --topic flights --table-format parquet --table PATH
    commitlog export to-table --consumer.config FILE --topic flights --table PATH

On a cluster: spark-submit runs jobs/export.py of the package, with the same arguments. Copies all there is now; with
--every, also what is added later. Stop it at any time (Ctrl-C, SIGTERM): it finishes the current micro-batch, and
resumes with the next one when started again. Exit code 0: everything was copied, or it was stopped, 3: damage ended
it, or --read-mode dropmalformed skipped some, 2: wrong usage, 1: anything else; a topic that fails does not stop the
others.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pyspark_commitlog.pipeline.delta.command.arguments import parser, with_log
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.storage import needs_extra


def main(arguments: Sequence[str] | None = None, *, prog: str | None = None) -> int:
    with errors_apart():
        options = with_log(parser(__doc__, prog).parse_args(arguments))
        with needs_extra("export"):
            from pyspark_commitlog.pipeline.delta.runs import ExportRun  # noqa: PLC0415  --help goes without Spark

            return ExportRun(options).run()


if __name__ == "__main__":
    sys.exit(main())
