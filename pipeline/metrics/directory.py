"""A log directory as Prometheus metrics: lag under the names of kafka-lag-exporter, the rest as ``commitlog_...``.

Does not depend on Spark, so that ``commitlog metrics`` can serve the same metrics. Reads the directory only when
metrics are requested.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...storage import (
    INTERNAL_TOPICS,
    GroupDescription,
    GroupLags,
    LogFigures,
    LogManager,
    LogReader,
    LogStoreError,
    TopicPartition,
    lag_ms,
    location,
    log_figures,
    open_transactions,
    progress_topic,
)

logger = logging.getLogger(__name__)

PORT = 9308
NOBODY = "unknown"  # kafka-lag-exporter's value if a group has no members


class Gauge(NamedTuple):
    """The name, the help text and the labels of a metric."""

    name: str
    help: str
    labels: tuple[str, ...]


_PARTITION = ("cluster_name", "topic", "partition")
_GROUP = ("cluster_name", "group")
_GROUP_PARTITION = (*_GROUP, "topic", "partition", "member_host", "consumer_id", "client_id")

# The names and labels of kafka-lag-exporter, for which dashboards and alerts exist.
GROUP_OFFSET = Gauge("kafka_consumergroup_group_offset", "The offset a group reads next", _GROUP_PARTITION)
GROUP_LAG = Gauge(
    "kafka_consumergroup_group_lag", "Offsets up to the log end that a group has not read", _GROUP_PARTITION
)
GROUP_LAG_SECONDS = Gauge(
    "kafka_consumergroup_group_lag_seconds", "The age of the oldest record that a group has not read", _GROUP_PARTITION
)
GROUP_MAX_LAG = Gauge("kafka_consumergroup_group_max_lag", "The largest lag of a group in a partition", _GROUP)
GROUP_MAX_LAG_SECONDS = Gauge(
    "kafka_consumergroup_group_max_lag_seconds", "The largest lag of a group in a partition, in seconds", _GROUP
)
GROUP_SUM_LAG = Gauge("kafka_consumergroup_group_sum_lag", "The lag of a group in all partitions", _GROUP)
GROUP_TOPIC_SUM_LAG = Gauge(
    "kafka_consumergroup_group_topic_sum_lag", "The lag of a group in all partitions of a topic", (*_GROUP, "topic")
)
LATEST_OFFSET = Gauge("kafka_partition_latest_offset", "The log end offset", _PARTITION)
EARLIEST_OFFSET = Gauge("kafka_partition_earliest_offset", "The log start offset", _PARTITION)
POLL_TIME_MS = Gauge(
    "kafka_consumergroup_poll_time_ms", "How long it took to read all metrics, in ms", ("cluster_name",)
)

# Metrics that only a log directory can provide.
LAST_STABLE_OFFSET = Gauge(
    "commitlog_partition_last_stable_offset", "The offset up to which readers of committed records read", _PARTITION
)
SIZE_BYTES = Gauge("commitlog_partition_size_bytes", "The size of all .log files", _PARTITION)
SEGMENTS = Gauge("commitlog_partition_segments", "The number of segments", _PARTITION)
UNREADABLE = Gauge("commitlog_partition_unreadable", "1 for a partition that could not be read", _PARTITION)
SINK_BATCHES = Gauge(
    "commitlog_sink_batches", "Micro-batches that a sink committed to a topic", ("cluster_name", "group", "topic")
)
OPEN_TRANSACTIONS = Gauge(
    "commitlog_open_transactions", "Transactions that hold records back", ("cluster_name", "state")
)
OPEN_TRANSACTION_AGE = Gauge(
    "commitlog_open_transaction_age_seconds",
    "The age of a transaction that holds records back",
    ("cluster_name", "transactional_id", "producer_id", "epoch", "state"),
)
HANGING_TRANSACTION_AGE = Gauge(
    "commitlog_hanging_transaction_age_seconds",
    "The age of a transaction in a partition that no transactional id has: commitlog transactions --abort ends it",
    (*_PARTITION, "producer_id", "epoch", "first_offset"),
)
SUCCESS = Gauge("commitlog_scrape_success", "1 if everything could be read, else 0", ("cluster_name",))


class Gauges:
    """Collects samples of metrics, all with the same label ``cluster_name``; iterates over the metrics."""

    def __init__(self, cluster_name: str) -> None:
        self._cluster_name = cluster_name
        self._families: dict[str, GaugeMetricFamily] = {}

    def set(self, gauge: Gauge, value: float, *labels: object) -> None:
        """Adds a sample to a metric; ``labels`` are the values of its labels after ``cluster_name``, in order."""
        if gauge.name not in self._families:
            self._families[gauge.name] = GaugeMetricFamily(gauge.name, gauge.help, labels=gauge.labels)
        self._families[gauge.name].add_metric([self._cluster_name, *map(str, labels)], value)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._families.values())


class Consumer(NamedTuple):
    """A consumer group, or a streaming query, with the next offset that it reads in each partition."""

    group: str
    offsets: Mapping[TopicPartition, int]
    members: Mapping[TopicPartition, tuple[str, str, str]]  # host, consumer id and client id of the reader, if known


class GroupPartition(NamedTuple):
    """The position and the lag of a consumer in a partition; ``lag_seconds`` is None if it is not known."""

    group: str
    topic: str
    partition: int
    offset: int
    lag: int
    lag_seconds: float | None
    member: tuple[str, str, str] = (NOBODY, NOBODY, NOBODY)

    @classmethod
    def of(cls, consumer: Consumer, partition: TopicPartition, end: int, lag_seconds: float | None) -> GroupPartition:
        """Returns the position and the lag of a consumer; ``end`` is the offset up to which it can read."""
        offset = consumer.offsets[partition]
        member = consumer.members.get(partition, (NOBODY, NOBODY, NOBODY))
        return cls(consumer.group, *partition, offset, max(0, end - offset), lag_seconds, member)


def add_groups(gauges: Gauges, rows: Iterable[GroupPartition]) -> None:
    """Adds the samples of all metrics of groups: offsets and lags, by partition, topic and group."""
    lags: dict[str, list[GroupPartition]] = {}
    for row in rows:
        labels = (row.group, row.topic, row.partition, *row.member)
        gauges.set(GROUP_OFFSET, row.offset, *labels)
        gauges.set(GROUP_LAG, row.lag, *labels)
        if row.lag_seconds is not None:
            gauges.set(GROUP_LAG_SECONDS, row.lag_seconds, *labels)
        lags.setdefault(row.group, []).append(row)
    for group, parts in lags.items():
        gauges.set(GROUP_MAX_LAG, max(part.lag for part in parts), group)
        gauges.set(GROUP_SUM_LAG, sum(part.lag for part in parts), group)
        seconds = [part.lag_seconds for part in parts if part.lag_seconds is not None]
        if seconds:
            gauges.set(GROUP_MAX_LAG_SECONDS, max(seconds), group)
        for topic in sorted({part.topic for part in parts}):
            gauges.set(GROUP_TOPIC_SUM_LAG, sum(part.lag for part in parts if part.topic == topic), group, topic)


def _no_consumers() -> Sequence[Consumer]:
    return ()


class DirectoryMetrics(Collector):
    """A Prometheus collector that reads a log directory whenever metrics are requested; takes no lock.

    If a part cannot be read, a metric and a warning report it, and all other parts are served: a damaged partition does
    not hide the others.
    """

    def __init__(
        self,
        directory: str,
        cluster_name: str | None = None,
        consumers: Callable[[], Iterable[Consumer]] = _no_consumers,
    ) -> None:
        """Opens nothing, so the directory may be created later.

        ``cluster_name`` is the value of this label, by default the name of the directory. ``consumers`` returns
        consumers that are not groups of the directory. Raises InvalidConfigError for a path on another file system.
        """
        self._directory = location(directory)
        self.cluster_name = cluster_name or PurePath(self._directory).name or self._directory
        self._consumers = consumers
        self._turn = threading.Lock()  # two requests may come at once
        self._lags: GroupLags | None = None

    def collect(self) -> Iterator[Metric]:
        """Reads the directory and returns all metrics."""
        with self._turn:
            began_s = time.monotonic()
            gauges = Gauges(self.cluster_name)
            scrape = _Scrape(gauges)
            with scrape.at(self._directory):
                if self._lags is None:
                    self._lags = GroupLags(LogManager.open(self._directory))
                self._lags.manager.catch_up()
                scrape.everything(self._lags, self._consumers())
            gauges.set(SUCCESS, not scrape.failures)
            gauges.set(POLL_TIME_MS, (time.monotonic() - began_s) * 1000)
            return iter([*gauges])

    def close(self) -> None:
        """Closes the log files; the next request opens them again."""
        with self._turn:
            if self._lags is not None:
                self._lags.manager.close()
                self._lags = None


class _Scrape:
    """Reads a log directory once and adds what it finds to ``gauges``; counts the parts that it cannot read."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges
        self.failures = 0

    @contextmanager
    def at(self, what: str) -> Iterator[None]:
        """Logs and counts an error of the block, and continues after the block."""
        try:
            yield
        except (LogStoreError, OSError) as error:
            self._failed(what, error)

    def _failed(self, what: str, error: Exception) -> None:
        self.failures += 1
        logger.warning("metrics of %s: %s", what, error)

    def everything(self, lags: GroupLags, more: Iterable[Consumer]) -> None:
        consumers = [*more]
        with self.at("groups"):
            unreadable = list[LogStoreError]()
            groups = lags.groups(unreadable)
            self._add_sinks(groups)
            consumers += map(_consumer, groups)
            for error in unreadable:
                self._failed("groups", error)
        figures, rows = self._read_logs(lags, consumers)
        add_groups(self._gauges, rows)
        if any(each.last_stable_offset < each.log_end_offset for each in figures):
            with self.at("open transactions"):
                self._add_transactions(lags.manager)

    def _add_sinks(self, groups: Iterable[GroupDescription]) -> None:
        for group in groups:
            for partition, committed in group.offsets.items():
                if (topic := progress_topic(partition)) is not None:
                    self._gauges.set(SINK_BATCHES, committed.offset, group.name, topic)

    def _read_logs(
        self, lags: GroupLags, consumers: Sequence[Consumer]
    ) -> tuple[list[LogFigures], list[GroupPartition]]:
        figures: list[LogFigures] = []
        rows: list[GroupPartition] = []
        for partition in map(TopicPartition._make, lags.looks.partitions()):
            failures = self.failures
            with self.at(str(partition)), lags.looks.look(partition) as log:
                figures.append(log_figures(partition, log))
                now_ms = lags.manager.clock.now_ms()
                rows += [_lag_of(each, partition, log, now_ms) for each in consumers if partition in each.offsets]
                self._add_figures(figures[-1])
            if self.failures > failures:
                self._gauges.set(UNREADABLE, 1, *partition)
        return figures, rows

    def _add_figures(self, figures: LogFigures) -> None:
        if figures.topic in INTERNAL_TOPICS and not figures.log_end_offset:
            return  # most of their hundred partitions never get a record
        labels = (figures.topic, figures.partition)
        self._gauges.set(EARLIEST_OFFSET, figures.log_start_offset, *labels)
        self._gauges.set(LATEST_OFFSET, figures.log_end_offset, *labels)
        self._gauges.set(LAST_STABLE_OFFSET, figures.last_stable_offset, *labels)
        self._gauges.set(SIZE_BYTES, figures.size, *labels)
        self._gauges.set(SEGMENTS, figures.segments, *labels)

    def _add_transactions(self, manager: LogManager) -> None:
        counts: dict[str, int] = {}
        unreadable = list[LogStoreError]()
        found = open_transactions(manager, failures=unreadable)
        for error in unreadable:
            self._failed("open transactions", error)
        for each in found:
            if each.partitions:
                counts[each.state] = counts.get(each.state, 0) + 1
                labels = (each.transactional_id or "", each.producer_id, each.epoch, each.state)
                self._gauges.set(OPEN_TRANSACTION_AGE, each.age_ms / 1000, *labels)
            for part in each.partitions if each.transactional_id is None else ():
                place = (*part.topic_partition, each.producer_id, each.epoch, part.first_offset)
                self._gauges.set(HANGING_TRANSACTION_AGE, each.age_ms / 1000, *place)
        for state, count in counts.items():
            self._gauges.set(OPEN_TRANSACTIONS, count, state)


def _consumer(group: GroupDescription) -> Consumer:
    return Consumer(
        group.name,
        {partition: committed.offset for partition, committed in group.offsets.items()},
        {
            partition: (each.host, each.consumer_id, each.client_id)
            for each in group.members
            for partition in each.partitions
        },
    )


def _lag_of(consumer: Consumer, partition: TopicPartition, log: LogReader, now_ms: int) -> GroupPartition:
    behind_ms = lag_ms(log, consumer.offsets[partition], now_ms)
    return GroupPartition.of(consumer, partition, log.log_end_offset, None if behind_ms is None else behind_ms / 1000)
