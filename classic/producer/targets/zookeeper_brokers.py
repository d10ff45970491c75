"""ZooKeeperBrokers: the brokers and topics in a registry, with watches (``zk.connect``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event, Lock
from typing import TypeVar

from ....registry import kafka_nodes
from ....registry.errors import ConnectionLossError, SessionExpiredError
from ....registry.operations import children_if_any
from ....registry.port import Change, Registry, SessionState
from ...errors import NoBrokersForPartitionError
from ...wire.connection import Address
from .port import BrokerPartition

T = TypeVar("T")


class ZooKeeperBrokers:
    """Notices brokers that start, end or move, and new topics, without a restart.

    A watch only notes that something changed; the next call reads the registry and sets the watches again.
    """

    def __init__(self, registry: Registry, read_num_retries: int, *, is_ours: bool) -> None:
        """``is_ours``: :meth:`close` closes the registry, too."""
        self._registry, self._retries, self._is_ours = registry, read_num_retries, is_ours
        self._lock = Lock()  # Guards the brokers and topics; held while the registry is read.
        self._changed = Event()
        self._changed.set()
        self._brokers: dict[int, Address] = {}
        self._is_0_7 = True
        self._topics: dict[str, list[BrokerPartition]] = {}
        registry.listen(self._hear)

    @property
    def is_0_7(self) -> bool:
        return self._read(lambda: self._is_0_7)

    def brokers(self) -> Mapping[int, Address]:
        return self._read(lambda: self._brokers)

    def partitions(self, topic: str) -> Sequence[BrokerPartition]:
        """Reads up to 1 + ``zk.read.num.retries`` times for a topic that no broker has.

        With Kafka 0.7 a topic that is not registered yet has partition 0 of every broker. Brokers of 0.8 and later are
        the leaders of the partitions; a partition without a leader has broker -1.
        """
        for _ in range(1 + self._retries):
            places = self._read(lambda: self._known_places(topic))
            if places:
                return places
            self._changed.set()
        raise NoBrokersForPartitionError(f"topic {topic}: the registry has no broker for it")

    def refresh(self, topic: str) -> None:
        self._changed.set()

    def close(self) -> None:
        if self._is_ours:
            self._registry.close()

    def _hear(self, state: SessionState) -> None:
        self._changed.set()  # watches of an expired session no longer exist, and changes may have been missed

    def _watch(self, change: Change, path: str) -> None:
        self._changed.set()  # only sets a flag, because the registry's thread must not wait for the lock

    def _read(self, get: Callable[[], T]) -> T:
        with self._lock:
            if self._changed.is_set():
                self._read_again()
            return get()

    def _read_again(self) -> None:
        self._changed.clear()
        try:
            self._read_brokers()
        except (ConnectionLossError, SessionExpiredError):
            if not self._brokers:
                self._changed.set()
                raise
            # Brokers take messages without ZooKeeper. Once it answers, in this session or another, _hear is called.
        except BaseException:
            self._changed.set()
            raise

    def _read_brokers(self) -> None:
        found, is_0_7 = {}, True
        for broker in map(int, self._children(kafka_nodes.BROKER_IDS)):
            path = kafka_nodes.broker_path(broker)
            node = self._registry.find(path, self._watch)
            if node is None:  # it went just now
                continue
            is_0_7 = is_0_7 and not (node.data or b"").startswith(b"{")
            endpoint = kafka_nodes.decode_broker(path, node.data).plain_endpoint
            if endpoint is not None:
                found[broker] = Address(endpoint.host, endpoint.port)
        self._brokers, self._topics = found, {}
        if found:  # otherwise the generation of the brokers stays the same
            self._is_0_7 = is_0_7

    def _known_places(self, topic: str) -> list[BrokerPartition]:
        if topic not in self._topics:
            self._topics[topic] = self._old_places(topic) if self._is_0_7 else self._leaders(topic)
        return self._topics[topic]

    def _old_places(self, topic: str) -> list[BrokerPartition]:
        found = []
        for broker in map(int, self._children(kafka_nodes.topic_path(topic))):
            node = self._registry.find(kafka_nodes.old_topic_path(topic, broker), self._watch)
            if node is not None and broker in self._brokers:
                found += [BrokerPartition(broker, each) for each in range(int(node.data or b"0"))]
        return sorted(found) or [BrokerPartition(broker, 0) for broker in sorted(self._brokers)]

    def _leaders(self, topic: str) -> list[BrokerPartition]:
        path = kafka_nodes.topic_path(topic)
        node = self._registry.find(path, self._watch)
        if node is None:
            return []
        return [self._leader(topic, each) for each in sorted(kafka_nodes.decode_topic(path, node.data))]

    def _leader(self, topic: str, partition: int) -> BrokerPartition:
        path = kafka_nodes.state_path(topic, partition)
        node = self._registry.find(path, self._watch)
        leader = -1 if node is None else kafka_nodes.decode_state(path, node.data).leader
        return BrokerPartition(leader if leader in self._brokers else -1, partition)

    def _children(self, path: str) -> list[str]:
        return children_if_any(self._registry, path, self._watch)
