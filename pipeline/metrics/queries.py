"""CommitLogMetrics: a StreamingQueryListener that serves the progress of running queries as Prometheus metrics.

Spark calls the listener in a thread of its own, and the listener only stores the progress. Metrics are computed when
Prometheus requests them. So no query waits for the listener or for Prometheus.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID
from wsgiref.simple_server import WSGIServer

from prometheus_client import REGISTRY, CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from ...storage import InvalidConfigError, TopicPartition
from ..rows.offsets import offsets_from_json
from ..write.kept_writers import SinkBatch, newest_batches
from .directory import NOBODY, PORT, Consumer, DirectoryMetrics, Gauge, Gauges, GroupPartition, add_groups

CLUSTER_NAME = "spark"

FINISHED_KEPT = 100  # queries: the memory of a driver that keeps starting unnamed queries must not grow

_QUERY = ("cluster_name", "group")
RUNNING = Gauge("commitlog_query_running", "1 while the query runs, 0 after its end", _QUERY)
FAILED = Gauge("commitlog_query_failed", "1 if the query's last run ended with an error, else 0", _QUERY)
BATCH_ID = Gauge("commitlog_query_batch_id", "The id of the last micro-batch", _QUERY)
INPUT_ROWS = Gauge("commitlog_query_input_rows", "Rows that the last micro-batch read", _QUERY)
OUTPUT_ROWS = Gauge(
    "commitlog_query_output_rows", "Rows that the last micro-batch wrote, if its sink reports that", _QUERY
)
INPUT_RATE = Gauge("commitlog_query_input_rows_per_second", "Rows that arrived per second", _QUERY)
PROCESSED_RATE = Gauge("commitlog_query_processed_rows_per_second", "Rows that were processed per second", _QUERY)
BATCH_SECONDS = Gauge("commitlog_query_batch_seconds", "How long the last micro-batch took", _QUERY)

# Writes by sinks of this process. As in commitlog_sink_batches, a sink is a group of its own in its log directory.
_SINK = (*_QUERY, "log_dir")
_SINK_TOPIC = (*_SINK, "topic")
SINK_RECORDS = Gauge("commitlog_sink_batch_records", "Records of a sink's last micro-batch", _SINK_TOPIC)
SINK_BYTES = Gauge("commitlog_sink_batch_bytes", "Bytes in the log of a sink's last micro-batch", _SINK_TOPIC)
SINK_PARTITIONS = Gauge(
    "commitlog_sink_batch_partitions", "Partitions that a sink's last micro-batch wrote to", _SINK_TOPIC
)
SINK_SECONDS = Gauge("commitlog_sink_batch_seconds", "How long a sink's last micro-batch took", _SINK)
SINK_COMMIT_SECONDS = Gauge(
    "commitlog_sink_commit_seconds", "How long the commit of a sink's last micro-batch took", _SINK
)

# The prefix of every source written in Python; ours is recognized by the format of its offsets.
_PYTHON_SOURCE = "org.apache.spark.sql.execution.datasources.v2.python."


class CommitLogMetrics(StreamingQueryListener):
    """Serves lag, rows and rates of a session's queries: ``spark.streams.addListener(CommitLogMetrics(port=9308))``.

    Each query is a group, named by the query's name or, if it has none, by its id. The group's position is that of the
    query's checkpoint, so no ``kafka.group.id`` is needed. With ``log_dir``, the directory that the queries read, lag
    counts up to the log end and is also given in seconds, and sizes and open transactions are served too
    (``metrics.directory``). Without it, lag counts up to the log end when the query's last micro-batch began.

    The last figures of a query are served after its end too, for the :data:`FINISHED_KEPT` queries that ended last.
    """

    def __init__(
        self,
        port: int | None = PORT,
        *,
        address: str = "127.0.0.1",
        log_dir: str | None = None,
        cluster_name: str | None = None,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        """Serves at ``address:port`` until :meth:`close`; with ``port`` 0, at a free port, which is then :attr:`port`.

        By default, only this machine can connect; ``address="0.0.0.0"`` is for others, too: there is no login.
        With ``port`` None, only adds the metrics to ``registry``, for the caller to serve. ``cluster_name`` is the
        value of this label, by default the name of ``log_dir``, or "spark". Raises OSError if the port is in use.
        """
        queries = _Queries(cluster_name or CLUSTER_NAME, with_lag=log_dir is None)
        self._collectors: list[DirectoryMetrics | _Queries] = [queries]
        if log_dir is not None:
            directory = DirectoryMetrics(log_dir, cluster_name, queries.consumers)
            queries.cluster_name = directory.cluster_name
            self._collectors.append(directory)
        self._queries = queries
        self._registry = registry
        self._server: WSGIServer | None = None
        self.port = port
        for collector in self._collectors:
            registry.register(collector)
        if port is not None:
            self._serve(port, address)

    def _serve(self, port: int, address: str) -> None:
        try:
            self._server, _ = start_http_server(port, address, self._registry)
        except BaseException:
            self.close()
            raise
        self.port = self._server.server_port

    def close(self) -> None:
        """Stops serving. Spark may still call the listener afterwards."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for collector in self._collectors:
            self._registry.unregister(collector)
            collector.close()
        self._collectors.clear()

    # Called by Spark

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  Spark's name, and so below
        self._queries.begin(event.runId, event.name or str(event.id))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._queries.keep(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Does nothing, since the last progress is still right."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self._queries.end(event.runId, has_failed=event.exception is not None)


@dataclass
class _Query:
    """The newest run of a query."""

    group: str
    progress: StreamingQueryProgress | None  # the last one, even of earlier runs; None before the first micro-batch
    is_running: bool = True
    has_failed: bool = False


class _Queries(Collector):
    """A Prometheus collector of the last progress of each query."""

    def __init__(self, cluster_name: str, *, with_lag: bool) -> None:
        self.cluster_name = cluster_name
        self._with_lag = with_lag
        self._turn = threading.Lock()  # Guards the runs.
        self._runs: dict[UUID, _Query] = {}  # runs that ended last come last

    def begin(self, run_id: UUID, group: str) -> None:
        with self._turn:
            self._begin(run_id, group)

    def keep(self, progress: StreamingQueryProgress) -> None:
        with self._turn:
            run = self._runs.get(progress.runId) or self._begin(progress.runId, _group(progress))
            run.progress = progress

    def end(self, run_id: UUID, *, has_failed: bool) -> None:
        with self._turn:
            if run_id in self._runs:
                run = self._runs[run_id] = self._runs.pop(run_id)
                run.is_running, run.has_failed = False, has_failed
                for surplus in self._ended()[:-FINISHED_KEPT]:
                    del self._runs[surplus]

    def _begin(self, run_id: UUID, group: str) -> _Query:
        """Adds a run, which begins with the last figures of the query's earlier run."""
        earlier = [self._runs.pop(each) for each in self._ended() if self._runs[each].group == group]
        return self._runs.setdefault(run_id, _Query(group, earlier[-1].progress if earlier else None))

    def _ended(self) -> list[UUID]:
        return [run_id for run_id, run in self._runs.items() if not run.is_running]

    def close(self) -> None:
        """Does nothing, since nothing is open."""

    def _newest(self) -> list[StreamingQueryProgress]:
        with self._turn:
            return [run.progress for run in self._runs.values() if run.progress is not None]

    def consumers(self) -> list[Consumer]:
        """Returns the queries as consumers of a log directory."""
        return [_consumer(progress) for progress in self._newest()]

    def collect(self) -> Iterator[Metric]:
        gauges = Gauges(self.cluster_name)
        self._add_states(gauges)
        found = self._newest()
        for progress in found:
            _add_query(gauges, progress)
        for batch in newest_batches():
            _add_sink(gauges, batch)
        if self._with_lag:
            add_groups(gauges, [row for progress in found for row in _lags(progress)])
        return iter(gauges)

    def _add_states(self, gauges: Gauges) -> None:
        with self._turn:
            for run in self._runs.values():
                gauges.set(RUNNING, run.is_running, run.group)
                gauges.set(FAILED, run.has_failed, run.group)


def _group(progress: StreamingQueryProgress) -> str:
    return progress.name or str(progress.id)


def _add_query(gauges: Gauges, progress: StreamingQueryProgress) -> None:
    group = _group(progress)
    gauges.set(BATCH_ID, progress.batchId, group)
    gauges.set(INPUT_ROWS, progress.numInputRows or 0, group)
    gauges.set(INPUT_RATE, progress.inputRowsPerSecond, group)
    gauges.set(PROCESSED_RATE, progress.processedRowsPerSecond, group)
    gauges.set(BATCH_SECONDS, progress.batchDuration / 1000, group)
    if progress.sink.numOutputRows >= 0:  # foreachBatch does not report it
        gauges.set(OUTPUT_ROWS, progress.sink.numOutputRows, group)


def _add_sink(gauges: Gauges, batch: SinkBatch) -> None:
    sink = (batch.app_id, batch.log_dir)
    for topic in sorted({each.topic for each in batch.written}):
        written = [each for each in batch.written if each.topic == topic]
        gauges.set(SINK_RECORDS, sum(each.records for each in written), *sink, topic)
        gauges.set(SINK_BYTES, sum(each.bytes for each in written), *sink, topic)
        gauges.set(SINK_PARTITIONS, len({each.partition for each in written}), *sink, topic)
    gauges.set(SINK_SECONDS, batch.seconds, *sink)
    gauges.set(SINK_COMMIT_SECONDS, batch.commit_seconds, *sink)


def _consumer(progress: StreamingQueryProgress) -> Consumer:
    ends, _ = _offsets(progress)
    members = dict.fromkeys(ends, (NOBODY, str(progress.runId), str(progress.id)))
    return Consumer(_group(progress), ends, members)


def _lags(progress: StreamingQueryProgress) -> Iterator[GroupPartition]:
    consumer = _consumer(progress)
    _, latest = _offsets(progress)
    for partition in consumer.offsets:
        if partition in latest:
            yield GroupPartition.of(consumer, partition, latest[partition], None)


def _offsets(progress: StreamingQueryProgress) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Returns, by partition, the offsets up to which a query has read, and the ends up to which it could read.

    If two sources of the query read a partition, the offsets give the larger lag.
    """
    ends: dict[TopicPartition, int] = {}
    latest: dict[TopicPartition, int] = {}
    for source in progress.sources:
        if source.description.startswith(_PYTHON_SOURCE):
            for partition, offset in _parsed(source.endOffset).items():
                ends[partition] = min(offset, ends.get(partition, offset))
            for partition, offset in _parsed(source.latestOffset).items():
                latest[partition] = max(offset, latest.get(partition, offset))
    return ends, latest


def _parsed(offsets: str) -> dict[TopicPartition, int]:
    """Returns the offsets in Spark's JSON; {} if they are missing, or are those of another kind of source."""
    try:
        return offsets_from_json(offsets, "of the query")
    except InvalidConfigError:
        return {}
