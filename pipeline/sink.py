"""The foreachBatch writer: a micro-batch of a streaming query, appended to a topic once.

How far a query got is a committed consumer offset: group = ``txnAppId``, topic ``__sink.<topic>``, partition 0, offset
= batch id + 1, metadata = JSON of query id, run id and records. A batch below it is skipped.

What holds today: the records are on the disk before that offset is, and the offset before Spark's own checkpoint. A
driver that is killed between records and offset writes the batch again when it comes back, and its records are there
twice. One Kafka transaction around both closes the gap: it begins where :meth:`CommitLogSink.__call__` has found the
batch not done, and its commit takes the place of :meth:`_Progress.commit`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from pyspark_commitlog.pipeline.schema import WriteColumns
from pyspark_commitlog.pipeline.topics import Target
from pyspark_commitlog.pipeline.writer import WRITTEN, TaskWriter, Written
from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, InvalidConfigError, LogManager


def commitlog_sink(
    *,
    topic: str,
    log_dir: str,
    txnAppId: str | None = None,  # noqa: N803  Spark's name for it, as in Delta's writer
    partitions: int | None = None,
    configs: Mapping[str, str] | None = None,
) -> CommitLogSink:
    """The function for ``writeStream.foreachBatch`` that appends to ``topic`` in the directory ``log_dir``.

    Rows have a column ``value`` (binary or string) and may have ``key``, ``timestamp``, ``partition`` (int) and
    ``headers``; others are left out. A missing topic is made with ``partitions`` (1) and ``configs``, Kafka's topic
    settings by name; one that is there must have them. ``configs`` may hold the producer's ``batch.size`` (262144).

    ``txnAppId`` names the writer, by default the query's id: two queries that write to a topic need two.

    Raises InvalidConfigError at once for settings that are wrong in themselves. The function itself raises, before
    anything is written, InvalidConfigError for columns, speculation or a ``txnAppId`` of another query,
    TopicExistsError for a topic with other settings, and LogDirLockedError where a broker runs on the directory.
    """
    return CommitLogSink(Target.parse(topic, log_dir, partitions, configs or {}), txnAppId)


class CommitLogSink:
    """What :func:`commitlog_sink` returns: call it with a DataFrame and a batch id."""

    def __init__(self, target: Target, app_id: str | None) -> None:
        self._target = target
        self._app_id = app_id

    def __call__(self, frame: DataFrame, batch_id: int) -> list[Written]:
        """Write ``frame`` and answer what each task wrote; an empty list for a batch that was written before."""
        columns = WriteColumns.of(frame, self._target.topic)
        _refuse_speculation(frame.sparkSession)
        run = _Run.of(frame.sparkSession, self._app_id)
        with LogManager.open(self._target.directory, create=True) as manager:
            topic = self._target.prepare(manager)
            progress = _Progress(GroupOffsets(manager), topic.name, run)
            if progress.is_done(batch_id):
                return []
            rows = columns.select(frame).mapInArrow(TaskWriter(self._target, topic), WRITTEN).collect()
            written = [Written(*row) for row in rows]
            progress.commit(batch_id, written)
        return written

    def close(self) -> None:
        """Leave the topic as a clean stop leaves it: nothing to recover, indexes cut to size, snapshots at the ends.

        For when the query has ended: tasks keep their logs open as long as their processes live. Without it nothing is
        lost; the next start, or a broker, looks at more of the log.
        """
        with LogManager.open(self._target.directory, create=True) as manager:
            topic = manager.topics().get(self._target.topic)
            for number in topic.partitions if topic is not None else ():
                manager.open_log(self._target.topic, number)


class _Run(NamedTuple):
    """Who writes: a query and its present run, as Spark tells; both empty outside a classic streaming query."""

    app_id: str
    query_id: str
    run_id: str

    @classmethod
    def of(cls, session: SparkSession, app_id: str | None) -> _Run:
        query_id = run_id = ""
        if not is_remote():
            # StreamExecution sets both on the thread that calls foreachBatch.
            query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
            run_id = session.sparkContext.getLocalProperty("spark.jobGroup.id") or "" if query_id else ""
        if not app_id and not query_id:
            raise InvalidConfigError("txnAppId must be given: outside a streaming query there is no query id to take")
        return cls(app_id or query_id, query_id, run_id)


class _Progress:
    """How far the group ``txnAppId`` got with a topic."""

    def __init__(self, groups: GroupOffsets, topic: str, run: _Run) -> None:
        self._groups = groups
        self._place = (f"__sink.{topic}", 0)
        self._run = run

    def is_done(self, batch_id: int) -> bool:
        """Raises InvalidConfigError where another query wrote under this name, or this run wrote the batch already."""
        found = self._groups.fetch(self._run.app_id).get(self._place)
        if found is None:
            return False
        self._check_same_query(json.loads(found.metadata or "{}"), found.offset, batch_id)
        return found.offset > batch_id

    def commit(self, batch_id: int, written: list[Written]) -> None:
        """From here on the batch is skipped. Before: its records are there, and are written again by a new start."""
        metadata = {
            "queryId": self._run.query_id,
            "runId": self._run.run_id,
            "records": sum(each.records for each in written),
        }
        offset = CommittedOffset(batch_id + 1, json.dumps(metadata, separators=(",", ":")))
        self._groups.commit(self._run.app_id, {self._place: offset})

    def _check_same_query(self, wrote: dict[str, str], offset: int, batch_id: int) -> None:
        topic, run = self._place[0].removeprefix("__sink."), self._run
        other = wrote.get("queryId", "")
        if other and run.query_id and other != run.query_id:
            raise InvalidConfigError(
                f"txnAppId {run.app_id!r} wrote {offset} batches to topic {topic} as query {other}, and this is query "
                f"{run.query_id}: a new checkpoint with an old txnAppId would skip or repeat them. Take another "
                f"txnAppId, or delete the offsets of group {run.app_id!r} to begin anew on purpose"
            )
        if run.run_id and wrote.get("runId") == run.run_id and offset == batch_id + 1:
            raise InvalidConfigError(
                f"batch {batch_id} was written to topic {topic} in this very run: a foreachBatch function that writes "
                "to a topic twice needs a txnAppId for each"
            )


def _refuse_speculation(session: SparkSession) -> None:
    if session.conf.get("spark.speculation", "false") == "true":
        raise InvalidConfigError(
            "spark.speculation=true starts a task twice, and both would append: set it to false for a query that "
            "writes to a log"
        )
