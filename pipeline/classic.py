"""What the sink has of a classic session only: its JVM tells when a query ends and how a job failed, names jobs, and
hands small rows over with a step less.

Loaded where there is such a session: a client of Spark Connect has no py4j. There a foreachBatch function runs in a
process of its own, whose end gives back all it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import pyarrow as pa
from py4j.clientserver import ClientServer  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.core.rdd import RDD
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from pyspark_commitlog.pipeline.arrow import batches_of
from pyspark_commitlog.pipeline.coordination import release_run

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]

BATCH_BYTES_MAX = "spark.sql.execution.arrow.maxBytesPerBatch"
UNBOUNDED = str(2**31 - 1)
_LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"
DESCRIPTION = "spark.job.description"
JobFailedError = Py4JJavaError  # what PySpark raises where Spark's own error has no form in Python: a worker was killed


class _EndOfQueries:
    """Spark's listener, in its Java form: the Python one would parse the progress of every micro-batch."""

    def onQueryStarted(self, _event: Any) -> None:  # noqa: N802  Spark's name, and so below
        """Nothing to do."""

    def onQueryProgress(self, _event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryIdle(self, _event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        run_id = event.runId().toString()
        release_run(run_id)
        _watched_runs.discard(run_id)

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


_watched: set[tuple[str, int]] = set()  # by application, sessions
_watched_runs: set[str] = set()  # of queries that run, so that their further micro-batches ask the JVM for nothing


def watch(session: SparkSession, query_id: str, run_id: str) -> None:
    """Give writers back when their queries end; once for a session.

    ``session`` is that of a micro-batch, a copy of the one that started the query; only the latter's listeners hear of
    its end. What a thread writes that outlives its query is given back with the sink.
    """
    if run_id in _watched_runs:
        return
    gateway = session.sparkContext._gateway
    assert gateway is not None
    assert gateway.jvm is not None
    running = session._jsparkSession.sharedState().activeStreamingQueries()
    query = running.get(gateway.jvm.java.util.UUID.fromString(query_id))
    if query is None:
        return
    started_by = query.sparkSession()
    if (key := (session.sparkContext.applicationId, started_by.hashCode())) not in _watched:
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        started_by.streams().addListener(
            gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(_EndOfQueries())
        )
        _watched.add(key)
    _watched_runs.add(run_id)


@contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Jobs started inside have ``text`` in Spark's UI, behind what the thread's jobs are described as anyway."""
    context = session.sparkContext
    before = context.getLocalProperty(DESCRIPTION)
    context.setJobDescription(text if before is None else f"{before}<br/>{text}")
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None takes it away


# Rows as messages


def hands_over_messages(session: SparkSession) -> bool:
    """Whether rows may go by :func:`collect_over_messages`, which bounds a batch by the number of its rows alone: where
    the session says that bytes need no bound.

    Calls back from the JVM must come in the thread that called it, as they do by default (PYSPARK_PIN_THREAD): what
    Spark knows of a query, it knows by its thread.
    """
    return session.conf.get(BATCH_BYTES_MAX) == UNBOUNDED and isinstance(session.sparkContext._gateway, ClientServer)


def collect_over_messages(rows: DataFrame, function: Callable[[Batches], Iterable[T]]) -> list[T]:
    """What ``function`` answers for the Arrow batches of each task, as ``mapInArrow`` would hand them to it.

    Spark makes of each row one of a single struct for ``mapInArrow``, a tenth of what the way into Python takes, and
    not where it makes messages for itself (``Dataset.toArrowBatchRdd``; docs/decisions/handing_over_rows.md). It is one
    SQL execution, like any query: settings of the session reach its tasks, and its listeners hear of it.
    """
    session = rows.sparkSession
    zone, large = session.conf.get("spark.sql.session.timeZone"), session.conf.get(_LARGE_TYPES) == "true"
    schema = to_arrow_schema(rows.schema, timezone=zone, prefers_large_types=large)

    def collect() -> list[T]:
        messages: RDD[bytes] = RDD(rows._jdf.toArrowBatchRdd().toJavaRDD(), session.sparkContext, NoOpSerializer())
        # Not a function of this module, which workers would then load.
        return messages.mapPartitions(lambda each: function(batches_of(each, schema))).collect()

    return _as_one_execution(rows, collect)


def _as_one_execution(rows: DataFrame, collect: Callable[[], list[T]]) -> list[T]:
    """Call ``collect`` from within Spark's record of an execution of ``rows``, in this very thread."""
    gateway = rows.sparkSession.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    body: _Body[list[T]] = _Body(collect)
    jvm = gateway.jvm
    assert jvm is not None
    executions, name = jvm.org.apache.spark.sql.execution.SQLExecution, jvm.scala.Option.apply("collect")
    try:
        executions.withNewExecutionId(rows._jdf.queryExecution(), name, body)
    except Py4JJavaError:
        if body.error is not None:
            raise body.error from None  # as Python had it, not as it went through the JVM
        raise
    return body.result


class _Body(Generic[T]):
    """A function for the JVM to call; what it returned or raised stays here."""

    result: T

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self.error: BaseException | None = None

    def apply(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error
            raise

    class Java:
        implements = ("scala.Function0",)
