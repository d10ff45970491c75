"""Running a query to its end, and stopping it between two micro-batches when asked to."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar
from urllib.parse import urlsplit

from pyspark.errors import StreamingQueryException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_commitlog.pipeline.checkpoint import check_readable
from pyspark_commitlog.pipeline.writer import Written

T = TypeVar("T")

# Spark stops its context at priority 50 of Hadoop's shutdown hooks; higher ones run first.
_BEFORE_SPARK_STOPS = 100
_BATCH_TIMEOUT_S = 300
_LAST_WORDS_S = 10


class BatchGate:
    """A foreachBatch function that can be closed: the batch in flight ends well, no further one begins."""

    def __init__(self, write: Callable[[DataFrame, int], T], on_batch: Callable[[int, T], None]) -> None:
        self._write = write
        self._on_batch = on_batch
        self._turn = threading.Lock()
        self.closed = False

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        with self._turn:
            if self.closed:
                raise InterruptedError(f"batch {batch_id} was not started: the query is being stopped")
            self._on_batch(batch_id, self._write(frame, batch_id))

    def close(self) -> None:
        """Return when no batch is in flight and none will begin."""
        with self._turn:
            self.closed = True


def run_available(
    stream: DataFrame,
    write: Callable[[DataFrame, int], T],
    checkpoint: str,
    on_batch: Callable[[int, T], None],
    *,
    every: str | None = None,
) -> bool:
    """Run ``stream`` through the foreachBatch function ``write`` until its input of now is used up.

    With ``every``, such as ``10 seconds``, it goes on with what comes, a micro-batch every so often, until stopped.

    ``on_batch`` gets the batch id and what ``write`` answered. SIGTERM and SIGINT, sent to this process or to the JVM
    around it, end the query when the batch in flight is whole: what was written and the checkpoint agree. Answers
    whether the query came to its end; False: it was stopped, and another run goes on. Raises CorruptionError for a
    checkpoint that a power cut left without content (``check_readable``).
    """
    if not urlsplit(checkpoint).scheme:
        check_readable(checkpoint)
    gate = BatchGate(write, on_batch)
    writer = stream.writeStream.foreachBatch(gate).option("checkpointLocation", checkpoint)
    query = (writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)).start()
    stop = _Stop(gate, query)
    signal.signal(signal.SIGINT, stop.on_signal)
    signal.signal(signal.SIGTERM, stop.on_signal)
    _on_jvm_shutdown(stream.sparkSession, stop.before_the_jvm_ends)
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if not gate.closed:
            raise
    stop.settle()
    return not gate.closed


class ProgressLines:
    """Prints a line a micro-batch, for a source that gives a file a micro-batch."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()

    def __call__(self, batch_id: int, written: list[Written]) -> None:
        seconds, self._since_s = time.monotonic() - self._since_s, time.monotonic()
        told = f"{sum(each.records for each in written):,} records" if written else "already written"
        print(f"  file {batch_id + 1}: {told}, {seconds:.1f} s", flush=True)


class _Stop:
    """Ends a query between two batches, once, however many signals ask for it."""

    def __init__(self, gate: BatchGate, query: StreamingQuery) -> None:
        self._gate = gate
        self._query = query
        self._turn = threading.Lock()
        self._over = False

    def now(self) -> None:
        with self._turn:
            if not self._over:
                self._gate.close()
                self._query.stop()
                self._over = True

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """In a thread of its own: a handler must not wait for a batch that its own thread may be writing."""
        threading.Thread(target=self.now, daemon=True).start()

    def before_the_jvm_ends(self) -> None:
        """And let the program say so and close what it has open: what it prints goes through the JVM."""
        self.now()
        threading.main_thread().join(_LAST_WORDS_S)

    def settle(self) -> None:
        """The query has ended: return when nobody is about to stop it."""
        with self._turn:
            self._over = True


class _Runnable:
    """A Python function as a java.lang.Runnable."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def run(self) -> None:
        self._function()

    class Java:
        implements = ("java.lang.Runnable",)


def _on_jvm_shutdown(spark: SparkSession, function: Callable[[], None]) -> None:
    """Under spark-submit the JVM is the process that gets the signal: do ``function`` before Spark stops itself."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    hooks = gateway.jvm.org.apache.hadoop.util.ShutdownHookManager.get()
    seconds = gateway.jvm.java.util.concurrent.TimeUnit.SECONDS
    hook = gateway.jvm.java.lang.Thread(_Runnable(function))  # never started: a Runnable that can be hashed
    hooks.addShutdownHook(hook, _BEFORE_SPARK_STOPS, _BATCH_TIMEOUT_S + _LAST_WORDS_S, seconds)
