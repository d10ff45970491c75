"""Runs streaming queries to their end, or stops them between two micro-batches when a signal arrives."""

from __future__ import annotations

import atexit
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ...storage import LogStoreError, counted
from ..write.answers import Written
from ..write.exactly_once.checkpoint import check_readable

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


@dataclass(frozen=True)
class Run(Generic[T]):
    """A query to run: ``stream`` through the foreachBatch function ``write``, with its checkpoint.

    ``on_batch`` is called with the batch id and the result of ``write``.
    """

    stream: DataFrame
    write: Callable[[DataFrame, int], T]
    checkpoint: str
    on_batch: Callable[[int, T], None]

    def start(self, every: str | None) -> _Started:
        if not urlsplit(self.checkpoint).scheme:
            check_readable(self.checkpoint)
        gate = BatchGate(self.write, self.on_batch)
        writer = self.stream.writeStream.foreachBatch(gate).option("checkpointLocation", self.checkpoint)
        return _Started(
            gate, (writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)).start()
        )


class _Started(NamedTuple):
    gate: BatchGate
    query: StreamingQuery

    def wait(self) -> StreamingQueryException | None:
        """Waits until the query ends; returns its error, or None if it was stopped."""
        try:
            self.query.awaitTermination()
        except StreamingQueryException as error:
            return None if self.gate.closed else error
        return None


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
    failed: list[Exception] = []
    run = Run(stream, write, checkpoint, on_batch)
    finished = run_together({"": run}, lambda _, error: failed.append(error), every=every)
    for error in failed:
        raise error
    return finished


def run_together(
    runs: Mapping[str, Run[T]], on_failure: Callable[[str, Exception], None], *, every: str | None = None
) -> bool:
    """Runs several queries of one session at once, each as :func:`run_available` does; at least one.

    When a query fails, calls ``on_failure`` with its name and error, and the others continue. Returns False if the
    queries were stopped, and True if they ended.
    """
    started: dict[str, _Started] = {}
    for name, run in runs.items():
        try:
            started[name] = run.start(every)
        except (LogStoreError, PySparkException) as error:
            on_failure(name, error)
    stop = _Stop(list(started.values()))
    signal.signal(signal.SIGINT, stop.on_signal)
    signal.signal(signal.SIGTERM, stop.on_signal)
    context = next(iter(runs.values())).stream.sparkSession.sparkContext
    on_jvm_shutdown(context, stop.before_the_jvm_ends)
    with ThreadPoolExecutor(len(runs)) as threads:
        waiting = {threads.submit(each.wait): name for name, each in started.items()}
        for ended in as_completed(waiting):
            if (failure := ended.result()) is not None:
                on_failure(waiting[ended], failure)
    stop.settle()
    return not any(each.gate.closed for each in started.values())


class ProgressLines:
    """A function for ``on_batch`` that prints one line per micro-batch, if each micro-batch is one file."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()

    def __call__(self, batch_id: int, written: list[Written]) -> None:
        seconds, self._since_s = time.monotonic() - self._since_s, time.monotonic()
        outcome = counted(sum(each.records for each in written), "record") if written else "already written"
        print(f"  file {batch_id + 1}: {outcome}, {seconds:.1f} s", flush=True)


class _Stop:
    """Stops queries between two batches, and only once, even if several signals arrive."""

    def __init__(self, started: Sequence[_Started]) -> None:
        self._started = started
        self._turn = threading.Lock()
        self._over = False

    def now(self) -> None:
        with self._turn:
            if not self._over:
                for each in self._started:
                    each.gate.close()
                for each in self._started:
                    each.query.stop()
                self._over = True

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Stops the queries from another thread, because this thread may itself be writing the batch to wait for."""
        threading.Thread(target=self.now, daemon=True).start()

    def before_the_jvm_ends(self) -> None:
        """Stops the queries, and then gives the program 10 s to close files and to print, which needs the JVM."""
        self.now()
        threading.main_thread().join(_LAST_WORDS_S)

    def settle(self) -> None:
        """Waits if the queries are being stopped. Call it when they have ended: later signals then do nothing."""
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
    atexit.register(_forget, hooks, hook)


def _forget(hooks: JavaObject, hook: JavaObject) -> None:
    """Removes a hook at the program's end: the JVM ends later, and would log that nothing answers its call."""
    with suppress(Py4JError, OSError):  # the JVM is shutting down, or has ended
        hooks.removeShutdownHook(hook)
