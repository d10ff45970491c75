"""What the sink can do only in a classic session, through its JVM: notice the end of a query, name jobs, see failures.

Imported only in a classic session, since a client of Spark Connect has no py4j. With Connect, a foreachBatch function
runs in its own process, and all that it holds is released when that ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from .exactly_once.checkpoint import DIGEST_LETTERS, NO_PLAN, Checkpoint, LocalCheckpoint, Plan
from .kept_writers import release_run

DESCRIPTION = "spark.job.description"
JobFailedError = Py4JJavaError  # PySpark raises it if Spark's error has no Python class: a worker was killed


class _EndOfQueries:
    """A listener in its Java form: the Python one would parse the progress of every micro-batch."""

    def onQueryStarted(self, _event: Any) -> None:  # noqa: N802  Spark's name, and so below
        """Nothing to do."""

    def onQueryProgress(self, _event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryIdle(self, _event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        run_id = event.runId().toString()
        release_run(run_id)
        _checkpoints.pop(run_id, None)

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


_watched: set[tuple[str, int]] = set()  # application and session
_checkpoints: dict[str, Checkpoint] = {}  # of running queries, by run: later micro-batches need not ask the JVM


def watch(session: SparkSession, query_id: str, run_id: str) -> Checkpoint:
    """Returns the checkpoint of a query, and sees to it that the query's writers are closed when it ends.

    ``session`` is that of a micro-batch, a copy of the session that started the query. Only listeners of the latter are
    notified of the query's end; one is added per session. If a thread writes after its query has ended, its writer is
    closed with the sink.
    """
    if run_id in _checkpoints:
        return _checkpoints[run_id]
    gateway = session.sparkContext._gateway
    assert gateway is not None
    assert gateway.jvm is not None
    running = session._jsparkSession.sharedState().activeStreamingQueries()
    query = running.get(gateway.jvm.java.util.UUID.fromString(query_id))
    if query is None:
        return Checkpoint()
    started_by = query.sparkSession()
    if (key := (session.sparkContext.applicationId, started_by.hashCode())) not in _watched:
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        started_by.streams().addListener(
            gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(_EndOfQueries())
        )
        _watched.add(key)
    _checkpoints[run_id] = _checkpoint_at(query.resolvedCheckpointRoot(), started_by, gateway.jvm)
    return _checkpoints[run_id]


def _checkpoint_at(root: str, session: Any, jvm: Any) -> Checkpoint:
    """Returns the checkpoint at ``root``, a path of Hadoop's, which is not quoted as a URI is."""
    scheme, _, path = root.partition(":")
    if scheme == "file" and path.startswith("/"):
        return LocalCheckpoint("/" + path.lstrip("/"))
    return RemoteCheckpoint(root, session, jvm)


class RemoteCheckpoint(Checkpoint):
    """A checkpoint on a file system of Hadoop's, which stores writes durably by itself, so plans are only read."""

    def __init__(self, root: str, session: Any, jvm: Any) -> None:
        """``session`` and ``jvm`` are objects of the JVM."""
        self._root = root
        self._conf = session.sessionState().newHadoopConf()
        self._jvm = jvm

    def plan(self, batch: int) -> Plan:
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/offsets/{batch}")
        files = path.getFileSystem(self._conf)
        if not files.exists(path):
            return NO_PLAN
        stream = files.open(path)
        try:
            digest = self._jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex(stream)
        finally:
            stream.close()
        return Plan(path.toString(), digest[:DIGEST_LETTERS])


@contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Appends ``text`` to the description, in Spark's UI, of the jobs started inside."""
    context = session.sparkContext
    before = context.getLocalProperty(DESCRIPTION)
    context.setJobDescription(text if before is None else f"{before}<br/>{text}")
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


def committed_version(session: SparkSession, path: str, app_id: str) -> int | None:
    """Returns the newest ``txnVersion`` of a ``txnAppId`` in the Delta table at ``path``, or None."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    assert gateway.jvm is not None
    log = gateway.jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)
    found = log.unsafeVolatileSnapshot().transactions().get(app_id)
    return int(found.get()) if found.isDefined() else None
