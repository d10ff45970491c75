"""Spark sessions for measurements, streams in them, and measurements over several successive sessions."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from benchmarks.comparison import Setting
from benchmarks.floors import ReadyBatches
from benchmarks.timing import Seconds, Timing
from pyspark_commitlog import spark_session
from tests.support.spark.connector import connector_jars

SESSIONS = 6
NEAR_ROUNDS = 20  # times the rounds, over all sessions: figures this close need more rounds

Given = ParamSpec("Given")
Result = TypeVar("Result")


@contextmanager
def closing_session(more: Mapping[str, str] | None = None, jars: Sequence[str] = ()) -> Iterator[SparkSession]:
    """A session with Delta; ``more`` settings and ``jars`` are added."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        # All of it from the start: growing and shrinking the heap takes 300 ms of a core from the peer being timed.
        "spark.driver.extraJavaOptions": "-Xms2g -XX:+AlwaysPreTouch",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": ",".join([connector_jars(), *jars]),
        **(more or {}),
    }
    spark = spark_session("benchmarks", master="local[2]", settings=settings, delta=True)
    spark.dataSource.register(ReadyBatches)
    try:
        yield spark
    finally:
        spark.stop()


def run_stream(writer: DataStreamWriter, checkpoint: Path) -> list[int]:
    """Run a query until it has read everything. Returns the row counts of its non-empty micro-batches."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def in_sessions(measure: Callable[[Setting], Seconds], setting: Setting) -> dict[str, Timing]:
    """Combine the results of ``measure`` in several processes, and so JVMs: for comparisons with a floor.

    Each JVM compiles the same code in its own way and keeps the result; a floor of 280 ms in one takes 400 ms in
    another. ``measure`` is a function of a module, and gets its share of the rounds.
    """
    share = setting._replace(rounds=max(1, setting.rounds * NEAR_ROUNDS // SESSIONS))
    found: Seconds = {}
    for _ in range(SESSIONS):
        for name, seconds in in_own_process(measure, share).items():
            found.setdefault(name, []).extend(seconds)
    return {name: Timing.of(seconds) for name, seconds in found.items()}


def in_own_process(measure: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
    """What ``measure``, a function of a module, returns in a new process, with an environment and JVM of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(measure, *given, **named).result()
