"""Spark sessions to measure in, streams in them, and measuring in several sessions, one after the other."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from benchmarks.comparison import Setting
from benchmarks.floors import ReadyBatches
from benchmarks.timing import Seconds, Timing
from pyspark_commitlog.pipeline.session import spark_session
from tests.support.spark_connector import connector_jars

SESSIONS = 6
NEAR_ROUNDS = 20  # times the rounds, over all sessions: two that lie so near take more to tell apart


@contextmanager
def closing_session() -> Iterator[SparkSession]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        # All of it from the start: a heap that grows and shrinks takes 300 ms of a core from whoever's turn it is.
        "spark.driver.extraJavaOptions": "-Xms2g -XX:+AlwaysPreTouch",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": connector_jars(),
    }
    spark = spark_session("benchmarks", master="local[2]", settings=settings)
    spark.dataSource.register(ReadyBatches)
    try:
        yield spark
    finally:
        spark.stop()


def run_stream(writer: DataStreamWriter, checkpoint: Path) -> list[int]:
    """Run a query until it has all there is; the rows of each of its micro-batches that had any."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def in_sessions(measure: Callable[[Setting], Seconds], setting: Setting) -> dict[str, Timing]:
    """What ``measure`` finds in several processes, and so JVMs, taken together: for what is set beside its floor.

    Each JVM compiles the same code in its own way and keeps to that; a floor of 280 ms in one takes 400 in another.
    ``measure`` is a function of a module, and is told its share of the rounds.
    """
    share = setting._replace(rounds=max(1, setting.rounds * NEAR_ROUNDS // SESSIONS))
    found: Seconds = {}
    for _ in range(SESSIONS):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            for name, seconds in process.submit(measure, share).result().items():
                found.setdefault(name, []).extend(seconds)
    return {name: Timing.of(seconds) for name, seconds in found.items()}
