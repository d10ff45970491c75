"""Uses of a classic session's JVM by the sink: notice the end of a query, describe jobs, find checkpoints.

Imported only in a classic session, since a client of Spark Connect has no py4j. With Connect, a foreachBatch function
runs in a process of its own, whose end releases all locks and files.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from .exactly_once.checkpoint import DIGEST_LETTERS, NO_PLAN, Checkpoint, LocalCheckpoint, Plan
from .kept_writers import release_run

DESCRIPTION = "spark.job.description"
# The folder that Spark makes for a query without a checkpoint, and deletes when it ends (Utils.createTempDir).
_TEMPORARY = re.compile(r"/temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/?$")
JobFailedError = Py4JJavaError  # raised by PySpark if Spark's error has no Python class, as when a worker was killed

logger = logging.getLogger(__name__)


class _EndOfQueries:
    """Closes the writers of queries that end. A Java listener: a Python one would parse each micro-batch's progress."""

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
    """Returns the checkpoint of a query, and makes the end of the query close the query's writers.

    ``session`` is the session of a micro-batch, a copy of the one that started the query. Spark notifies only the
    listeners of the original session when the query ends; this function adds one listener to each such session. If the
    query has ended already, returns an unknown checkpoint, and closing the sink closes the writer.
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
    root = query.resolvedCheckpointRoot()
    warn_if_temporary(root)
    _checkpoints[run_id] = _checkpoint_at(root, started_by, gateway.jvm)
    return _checkpoints[run_id]


def warn_if_temporary(root: str) -> None:
    """Logs a warning for a checkpoint that Spark deletes with the query. Called once for each run of a query."""
    if _TEMPORARY.search(root):
        logger.warning(
            "this query has no checkpointLocation, so its next start writes all rows again: Spark has put its progress "
            "into %s, which does not outlast it. Give the query .option('checkpointLocation', '…'), or set "
            "spark.sql.streaming.checkpointLocation and a queryName; with commitlog_sink(txnAppId='…') alone, the next "
            "start is refused",
            root,
        )


def _checkpoint_at(root: str, session: Any, jvm: Any) -> Checkpoint:
    """Returns the checkpoint at ``root``, a Hadoop ``Path`` as text: nothing in ``root`` is percent-encoded."""
    scheme, _, path = root.partition(":")
    if scheme == "file" and path.startswith("/"):
        return LocalCheckpoint("/" + path.lstrip("/"))
    return RemoteCheckpoint(root, session, jvm)


class RemoteCheckpoint(Checkpoint):
    """A checkpoint on a Hadoop file system.

    Only plans are read; nothing is synced, because such a file system stores writes durably by itself.
    """

    def __init__(self, root: str, session: Any, jvm: Any) -> None:
        """``root`` is the checkpoint's path for Hadoop; ``session`` and ``jvm`` are objects of the JVM."""
        self._root = root
        self._conf = session.sessionState().newHadoopConf()
        self._jvm = jvm

    def plan(self, batch: int) -> Plan:
        path = self._path(batch)
        digest = self._read(path, self._jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex)
        return NO_PLAN if digest is None else Plan(path.toString(), digest[:DIGEST_LETTERS])

    def plan_text(self, batch: int) -> str:
        to_string = self._jvm.org.apache.commons.io.IOUtils.toString
        return self._read(self._path(batch), lambda stream: to_string(stream, "UTF-8")) or ""

    def _path(self, batch: int) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/offsets/{batch}")

    def _read(self, path: Any, read: Callable[[Any], str]) -> str | None:
        files = path.getFileSystem(self._conf)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return read(stream)
        finally:
            stream.close()


@contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Appends ``text`` to the description, in Spark's UI, of jobs that are started in the block."""
    context = session.sparkContext
    before = context.getLocalProperty(DESCRIPTION)
    context.setJobDescription(text if before is None else f"{before}<br/>{text}")
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


def committed_version(session: SparkSession, path: str, app_id: str) -> int | None:
    """Returns the newest ``txnVersion`` of a ``txnAppId`` in the Delta table at ``path``, or None."""
    found = _snapshot(session, path).transactions().get(app_id)
    return int(found.get()) if found.isDefined() else None


def table_version(session: SparkSession, path: str) -> int:
    """Returns the version of the Delta table at ``path`` that this JVM knows: its last write, or a later one."""
    return int(_snapshot(session, path).version())


def newest_version(session: SparkSession, path: str) -> int:
    """Returns the newest version of the Delta table at ``path``, without a job of Spark."""
    log, nothing = _log(session, path), _jvm(session).scala.Option.empty()
    return int(log.update(False, nothing, nothing).version())


def properties_at(session: SparkSession, path: str, version: int) -> dict[str, str] | None:
    """Returns the properties of the Delta table at ``path``, or None if this JVM knows another version than this."""
    found = _snapshot(session, path)
    if found.version() != version:
        return None
    return dict(_jvm(session).scala.jdk.javaapi.CollectionConverters.asJava(found.metadata().configuration()))


def _snapshot(session: SparkSession, path: str) -> Any:
    return _log(session, path).unsafeVolatileSnapshot()


def _log(session: SparkSession, path: str) -> Any:
    return _jvm(session).org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)


def _jvm(session: SparkSession) -> Any:
    gateway = session.sparkContext._gateway
    assert gateway is not None
    assert gateway.jvm is not None
    return gateway.jvm
