"""Runs a streaming query to its end, or stops it between two micro-batches when a signal arrives."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar
from urllib.parse import urlsplit

from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ..write import Written, check_readable

T = TypeVar("T")

# Spark stops its context at priority 50 of Hadoop's shutdown hooks; higher ones run first.
_BEFORE_SPARK_STOPS = 100
_BATCH_TIMEOUT_S = 300
_LAST_WORDS_S = 10


class BatchGate:
    """A foreachBatch function that calls ``write`` until it is closed; later batches raise InterruptedError."""

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
        """Waits until the current batch is complete. Later batches raise InterruptedError."""
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

    Calls ``on_batch`` with the batch id and the result of ``write``. SIGTERM and SIGINT, sent to this process or to the
    JVM that started it, stop the query after the current batch, so that the output and the checkpoint agree. Returns
    True if the query ended, and False if it was stopped, so that another run has to continue. Raises CorruptionError if
    a file of the checkpoint is empty after a power cut (``check_readable``).
    """
    if not urlsplit(checkpoint).scheme:
        check_readable(checkpoint)
    gate = BatchGate(write, on_batch)
    writer = stream.writeStream.foreachBatch(gate).option("checkpointLocation", checkpoint)
    query = (writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)).start()
    stop = _Stop(gate, query)
    signal.signal(signal.SIGINT, stop.on_signal)
    signal.signal(signal.SIGTERM, stop.on_signal)
    on_jvm_shutdown(stream.sparkSession.sparkContext, stop.before_the_jvm_ends)
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if not gate.closed:
            raise
    stop.settle()
    return not gate.closed


class ProgressLines:
    """A function for ``on_batch`` that prints one line per micro-batch, if each micro-batch is one file."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()

    def __call__(self, batch_id: int, written: list[Written]) -> None:
        seconds, self._since_s = time.monotonic() - self._since_s, time.monotonic()
        outcome = f"{sum(each.records for each in written):,} records" if written else "already written"
        print(f"  file {batch_id + 1}: {outcome}, {seconds:.1f} s", flush=True)


class _Stop:
    """Stops a query between two batches, and only once, even if several signals arrive."""

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
        """Stops the query from another thread: this one runs the handler, and may be writing the batch to wait for."""
        threading.Thread(target=self.now, daemon=True).start()

    def before_the_jvm_ends(self) -> None:
        """Stops the query, and then gives the program 10 s to close files and to print, which needs the JVM."""
        self.now()
        threading.main_thread().join(_LAST_WORDS_S)

    def settle(self) -> None:
        """Waits if the query is being stopped. Call it when the query has ended: later signals then do nothing."""
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


def on_jvm_shutdown(context: SparkContext, function: Callable[[], None]) -> None:
    """Makes the JVM call ``function`` before Spark stops: under spark-submit, the JVM gets the signals."""
    gateway = context._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    hooks = gateway.jvm.org.apache.hadoop.util.ShutdownHookManager.get()
    seconds = gateway.jvm.java.util.concurrent.TimeUnit.SECONDS
    hook = gateway.jvm.java.lang.Thread(_Runnable(function))  # never started: a Runnable that can be hashed
    hooks.addShutdownHook(hook, _BEFORE_SPARK_STOPS, _BATCH_TIMEOUT_S + _LAST_WORDS_S, seconds)
