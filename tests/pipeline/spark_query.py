"""A streaming query of Spark from text files to a topic; ``InlineQuery`` is the same without Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog.arrow.table import read_table
from pyspark_commitlog.pipeline.job.session import spark_session
from pyspark_commitlog.pipeline.write.foreach_batch import CommitLogSink, commitlog_sink
from tests.pipeline.inline_query import BeforeBatch, rows_of
from tests.pipeline.inline_spark import TOPIC
from tests.support.spark import spark_jvm

FIRST_MODIFIED_S = 1_700_000_000
# What a query may end with: errors of ours, Spark's of an entry without bytes, that of a plan that is missing, and what
# Spark asserts of its file source's own log, as when a checkpoint was put back under a run.
OURS = (
    "pyspark_commitlog.storage.errors.",
    "Failed to read log file",
    "doesn't exist",
    "FILE_NOT_EXIST",
    "assertion failed",
)


class CrashError(Exception):
    """The process dies here, as far as Spark's checkpoint is concerned."""


class RefusedError(Exception):
    """A query ended with an error that says why."""


class StoppedError(Exception):
    """Spark stopped a query, because it was started again; some of its input may be left."""


class SparkQuery:
    """Like InlineQuery: from text files to the topic.

    If a query starts while a run with the same id is active in its application, from the same checkpoint or a copy of
    it, Spark stops that run, which ends as if it were complete (``spark.sql.streaming.stopActiveRunOnRestart``, on by
    default). Nothing that Spark says about the run shows this, so it must be set in ``restarted``.
    """

    def __init__(self, spark: SparkSession, inputs: Path, log_dir: str, checkpoint: str) -> None:
        self.batches = 0
        self._spark = spark
        self._inputs = inputs
        self._log_dir = log_dir
        self._checkpoint = checkpoint
        self._sink: CommitLogSink | None = None
        self.restarted: Future[None] | None = None  # another run of the query, if one began within this run

    def run(
        self,
        files: Sequence[int],
        *,
        per_batch: int = 1,
        before_batch: BeforeBatch = lambda _: None,
        after_batch: BeforeBatch = lambda _: None,
    ) -> None:
        self._feed(files)
        self.restarted = None
        sink = self._sink = commitlog_sink(topic=TOPIC, log_dir=self._log_dir, txnAppId="app")

        def write(frame: DataFrame, batch: int) -> None:
            before_batch(batch)
            sink(frame, batch)
            self.batches += 1
            after_batch(batch)

        stream = self._spark.readStream.option("maxFilesPerTrigger", per_batch).text(str(self._inputs))
        writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", self._checkpoint)
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        except StreamingQueryException as error:
            if self.restarted is not None:
                raise StoppedError from error
            if CrashError.__name__ in str(error):
                raise CrashError from error
            if not any(each in str(error) for each in OURS):
                raise
            raise RefusedError(str(error)[:4000]) from error
        finally:
            sink.close()
            if self.restarted is not None:
                self.restarted.result()
        if self.restarted is not None:
            raise StoppedError

    def _feed(self, files: Sequence[int]) -> None:
        """Adds files, each modified one second after the one before, which is the order in which Spark reads them."""
        for file in files:
            path = self._inputs / str(file)
            if not path.exists():
                hidden = path.with_name(f".{file}")
                hidden.write_text("".join(f"{row}\n" for row in rows_of([file])))
                os.utime(hidden, (FIRST_MODIFIED_S + file, FIRST_MODIFIED_S + file))
                hidden.rename(path)

    def content(self) -> list[str]:
        return [value.decode() for value in read_table(self._log_dir, TOPIC)["value"].to_pylist()]


def quiet_session(warehouse: Path) -> SparkSession:
    settings = spark_jvm.SMALL | {"spark.sql.warehouse.dir": str(warehouse)}
    spark = spark_session("set back", master="local[2]", settings=settings)
    spark.sparkContext.setLogLevel("OFF")
    return spark
