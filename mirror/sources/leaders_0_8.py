"""Leaders: the brokers of a cluster of Kafka 0.8 to 0.10, and which of them leads a partition."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...clients.errors import BrokerUnreachableError
from ...clients.wire.broker import Broker
from ...clients.wire.calls import Cluster, cluster
from ...clients.wire.connection import Address, Connection
from ...registry.errors import RegistryError
from ...storage import TopicPartition
from ..errors import RetriableError

PAUSE_S = 0.2  # between two questions for a leader
_REGISTRY_PAUSE_S = 1.0  # between two looks for the brokers that leaders are on


class Leaders:
    """A connection to each broker that is registered. What fails is found again with a later call.

    Methods raise RetriableError if the registry or no broker answers.
    """

    def __init__(self, registered: Callable[[], Mapping[int, Address]], name: str) -> None:
        """``registered``: reads the registry. ``name``: of the cluster, in errors."""
        self._registered, self._name = registered, name
        self._brokers: dict[int, Broker] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._asked_s = self._read_s = -_REGISTRY_PAUSE_S

    def broker(self, node: int) -> Broker:
        return self._brokers[node]

    def described(self, topics: Sequence[str] | None = None) -> Cluster:
        """Returns what the first broker that answers knows of topics; None: of all."""
        if not self._brokers:
            self._find_brokers()
        reasons = [f"{self._name} has no broker"]
        for broker in random.sample([*self._brokers.values()], len(self._brokers)):
            try:
                return cluster(broker, topics)
            except BrokerUnreachableError as error:
                reasons.append(f"{self._name}: {error}")
        self.close()
        raise RetriableError(reasons[-1])

    def of(self, partitions: Iterable[TopicPartition], *, at_once: bool = True) -> dict[int, list[TopicPartition]]:
        """Returns partitions by the broker that leads them; without those that have none.

        ``at_once``: ask for leaders that are not known, even if a broker was asked a moment ago.
        """
        wanted = list(partitions)
        missing = [each for each in wanted if each not in self._leaders]
        if missing and (at_once or time.monotonic() - self._asked_s >= PAUSE_S):
            self._find_leaders(missing)
        found: dict[int, list[TopicPartition]] = {}
        for each in wanted:
            if each in self._leaders:
                found.setdefault(self._leaders[each], []).append(each)
        return found

    def forget(self, partition: TopicPartition) -> None:
        """Lets a later call ask who leads a partition."""
        self._leaders.pop(partition, None)

    def lose(self, node: int) -> None:
        """Forgets a broker that does not answer; a later call finds where it is, or who leads in its place."""
        self._brokers.pop(node).connection.close()
        self._leaders = {each: leader for each, leader in self._leaders.items() if leader != node}

    def close(self) -> None:
        """Ends all connections; the next call makes others."""
        self._leaders.clear()
        while self._brokers:
            self._brokers.popitem()[1].connection.close()

    def _find_leaders(self, partitions: Sequence[TopicPartition]) -> None:
        self._asked_s = time.monotonic()
        states = self.described(sorted({each.topic for each in partitions})).partitions
        found = {each: states[each].leader for each in partitions if each in states and states[each].leader >= 0}
        is_read = time.monotonic() - self._read_s < _REGISTRY_PAUSE_S
        if not is_read and any(leader not in self._brokers for leader in found.values()):
            self._find_brokers()
        self._leaders |= {each: leader for each, leader in found.items() if leader in self._brokers}

    def _find_brokers(self) -> None:
        """Reads the registry; connections to brokers that are where they were stay."""
        self._read_s = time.monotonic()
        try:
            there = self._registered()
        except RegistryError as error:
            raise RetriableError(f"{self._name}: {error}") from error
        for node in [each for each, broker in self._brokers.items() if there.get(each) != broker.connection.address]:
            self.lose(node)
        for node in there.keys() - self._brokers.keys():
            self._brokers[node] = Broker(Connection(there[node]))
