"""Clusters of Kafka 0.11 and newer, by today's protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...storage import FetchAnswer, TopicIds, TopicPartition
from ..brokers.admin import Admin
from ..brokers.cluster import Cluster
from ..brokers.connections import Connections, ListedTopic
from ..brokers.fetcher import Fetcher
from ..brokers.requests import FetchLimits
from .port import Source, numbered


@dataclass(frozen=True)
class ClusterSources:
    """A cluster of today's brokers; Kafka 0.11 or newer."""

    cluster: Cluster
    limits: FetchLimits

    def open(self) -> Source:
        return ClusterSource(self.cluster, self.limits)

    def __str__(self) -> str:
        return str(self.cluster)


class ClusterSource:
    """Connections to a cluster of today's brokers."""

    def __init__(self, cluster: Cluster, limits: FetchLimits) -> None:
        self._cluster = cluster
        self._connections = Connections(cluster)
        self._fetcher = Fetcher(self._connections, limits)

    def topics(self) -> list[ListedTopic]:
        return self._connections.topics()

    def partitions(self, topic: ListedTopic) -> list[TopicPartition]:
        return numbered(topic)

    def configs(self, topic: str) -> Mapping[str, str]:
        with Admin(self._cluster) as admin:
            found = admin.topic(topic)
        return {} if found is None else found.configs

    def offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        led = self._connections.leaders(partitions)
        return self._connections.offsets([each for some in led.values() for each in some], at)

    def fetch(
        self, positions: Mapping[TopicPartition, int], ids: TopicIds | None = None
    ) -> dict[TopicPartition, FetchAnswer | None]:
        return self._fetcher.fetch(positions, ids)

    def close(self) -> None:
        self._connections.close()
