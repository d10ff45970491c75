"""A cluster as the target of a mirror, in transactions of today's protocol: Kafka 0.11 or newer, or our gateway."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ...storage import LogConfig, TopicPartition
from ..brokers.admin import Admin
from ..brokers.cluster import Cluster
from ..brokers.connections import Connections
from ..brokers.fetcher import Fetcher
from ..brokers.requests import FetchLimits
from ..brokers.transactions import TransactionalProducer
from ..errors import RetriableError, TopicThereError
from ..progress import CONFIGS, NextOffset, decoded, encoded, progress_topic
from ..sources.port import SourcePartition
from .port import Batches, Progress, Taking, TargetWriter

_LIMITS = ("max.message.bytes", "segment.bytes")  # of a topic, to the size of a batch


@dataclass(frozen=True)
class ClusterTargets:
    """A cluster of brokers that support transactions."""

    cluster: Cluster
    timeout_ms: int

    def open(self, group: str) -> TargetWriter:
        return ClusterWriter(self.cluster, group, self.timeout_ms)

    def __str__(self) -> str:
        return str(self.cluster)


class ClusterWriter:
    """Produces to a cluster in transactions of one transactional id."""

    def __init__(self, cluster: Cluster, group: str, timeout_ms: int) -> None:
        """Takes over the transactional id, which fences another process that mirrors the same group.id."""
        self._cluster = cluster
        self._connections = Connections(cluster)
        try:
            self._connections.check_there()  # an Admin that finds no broker leaves a thread of kafka-python behind
            self._place = TopicPartition(progress_topic(group), 0)
            self.prepare(self._place.topic, 1, CONFIGS, grow=False)
            self._producer = TransactionalProducer(self._connections, f"mirror-{group}", timeout_ms)
            self._done = self._read_progress()
        except BaseException:
            self._connections.close()
            raise

    def _read_progress(self) -> Progress:
        """Reads the progress topic.

        The last transaction on it has ended, so readers of committed records see its end.
        """
        found: dict[SourcePartition, NextOffset] = {}
        for records in Fetcher(self._connections, FetchLimits()).read(self._place):
            found |= decoded(records)
        return found

    def progress(self, partitions: Iterable[SourcePartition]) -> Progress:
        return {each: self._done[each] for each in partitions if each in self._done}

    def prepare(self, topic: str, partitions: int, configs: Mapping[str, str], *, grow: bool) -> Taking:
        with Admin(self._cluster) as admin:
            found = admin.topic(topic)
            if found is None:
                with suppress(TopicThereError):  # the mirror of another source may be faster
                    admin.create(topic, partitions, LogConfig.of_kafka(dict(configs)))
                found = admin.topic(topic)
            if found is None:
                raise RetriableError(f"{self._cluster} created topic {topic!r}, but does not list it")
            if grow and found.partitions < partitions:
                admin.grow(topic, partitions)
                found = found._replace(partitions=partitions)
        limits = {name: value for name, value in found.configs.items() if name in _LIMITS}
        return Taking(found.partitions, LogConfig.from_mapping(limits).batch_size_max)

    def write(self, batches: Batches, progress: Progress) -> None:
        self._producer.write({**batches, self._place: encoded(progress, int(time.time() * 1000))})

    def close(self) -> None:
        self._connections.close()
