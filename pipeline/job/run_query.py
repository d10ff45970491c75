"""Runs a query to its end, or stops it between two micro-batches on request."""

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

from ..write import Written, check_readable

T = TypeVar("T")

# Spark stops its context at priority 50 of Hadoop's shutdown hooks; higher ones run first.
_BEFORE_SPARK_STOPS = 100
_BATCH_TIMEOUT_S = 300
_LAST_WORDS_S = 10


class BatchGate:
    """A foreachBatch function that can be closed: the current batch completes, and no further one begins."""

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
        """Waits for the current batch to complete; no further one begins."""
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
    """Runs ``stream`` through the foreachBatch function ``write`` until all current input is processed.

    With ``every``, such as ``10 seconds``, continues with new input, one micro-batch per interval, until stopped.

    ``on_batch`` gets the batch id and the result of ``write``. SIGTERM and SIGINT, sent to this process or to the JVM
    around it, stop the query after the current batch, so that the output and the checkpoint agree. Returns True if the
    query ended, False if it was stopped and another run will continue. Raises CorruptionError for a checkpoint that a
    power cut left without content (``check_readable``).
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
    """Prints one line per micro-batch, for a source with one file per micro-batch."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()

    def __call__(self, batch_id: int, written: list[Written]) -> None:
        seconds, self._since_s = time.monotonic() - self._since_s, time.monotonic()
        outcome = f"{sum(each.records for each in written):,} records" if written else "already written"
        print(f"  file {batch_id + 1}: {outcome}, {seconds:.1f} s", flush=True)


class _Stop:
    """Stops a query between two batches, only once, no matter how many signals arrive."""

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
        """Stops in a separate thread: a handler must not wait for a batch that its own thread may be writing."""
        threading.Thread(target=self.now, daemon=True).start()

    def before_the_jvm_ends(self) -> None:
        """Stops, then lets the program close files and print its last lines, which go through the JVM."""
        self.now()
        threading.main_thread().join(_LAST_WORDS_S)

    def settle(self) -> None:
        """Called when the query has ended; waits if it is just being stopped."""
        with self._turn:
            self._over = True


class _Runnable:
    """Wraps a Python function as a java.lang.Runnable."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def run(self) -> None:
        self._function()

    class Java:
        implements = ("java.lang.Runnable",)


def _on_jvm_shutdown(spark: SparkSession, function: Callable[[], None]) -> None:
    """Calls ``function`` before Spark stops itself: under spark-submit it is the JVM that gets the signal."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    hooks = gateway.jvm.org.apache.hadoop.util.ShutdownHookManager.get()
    seconds = gateway.jvm.java.util.concurrent.TimeUnit.SECONDS
    hook = gateway.jvm.java.lang.Thread(_Runnable(function))  # never started: a Runnable that can be hashed
    hooks.addShutdownHook(hook, _BEFORE_SPARK_STOPS, _BATCH_TIMEOUT_S + _LAST_WORDS_S, seconds)
