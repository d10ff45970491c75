"""What the sink has of a classic session only: its JVM tells when a query ends and how a job failed, and names jobs.

Loaded where there is such a session: a client of Spark Connect has no py4j. There a foreachBatch function runs in a
process of its own, whose end gives back all it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.checkpoint import DIGEST_LETTERS, NO_PLAN, Checkpoint, LocalCheckpoint, Plan
from pyspark_commitlog.pipeline.coordination import release_run

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
        _checkpoints.pop(run_id, None)

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


_watched: set[tuple[str, int]] = set()  # by application, sessions
_checkpoints: dict[str, Checkpoint] = {}  # by run, of queries that run: their further micro-batches ask for nothing


def watch(session: SparkSession, query_id: str, run_id: str) -> Checkpoint:
    """The checkpoint of a query, whose writers are given back when it ends.

    ``session`` is that of a micro-batch, a copy of the one that started the query; only the latter's listeners, one for
    a session, hear of its end. What a thread writes that outlives its query is given back with the sink.
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
    """``root`` is one of Hadoop's paths, which are not quoted as URIs are."""
    scheme, _, path = root.partition(":")
    if scheme == "file" and path.startswith("/"):
        return LocalCheckpoint("/" + path.lstrip("/"))
    return RemoteCheckpoint(root, session, jvm)


class RemoteCheckpoint(Checkpoint):
    """One on a file system that Hadoop reaches, which keeps what was written when it says so: its plans are read."""

    def __init__(self, root: str, session: Any, jvm: Any) -> None:
        """The objects are those of the JVM."""
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
    """Jobs started inside have ``text`` in Spark's UI, behind what the thread's jobs are described as anyway."""
    context = session.sparkContext
    before = context.getLocalProperty(DESCRIPTION)
    context.setJobDescription(text if before is None else f"{before}<br/>{text}")
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None takes it away


def committed_version(session: SparkSession, path: str, app_id: str) -> int | None:
    """The newest ``txnVersion`` that the Delta table at ``path`` has of a ``txnAppId``, None where it has none."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    assert gateway.jvm is not None
    log = gateway.jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)
    found = log.unsafeVolatileSnapshot().transactions().get(app_id)
    return int(found.get()) if found.isDefined() else None
