"""Where a group's offsets are committed: ZooKeeper, the coordinator, or both while a group moves.

Source: ZookeeperConsumerConnector of Kafka 0.8.2.2.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from ...protocol.bodies import ErrorCode
from ...registry import kafka_nodes
from ...registry.operations import put
from ...registry.port import Registry
from ...storage import LogStoreError, TopicPartition, UnknownTopicOrPartitionError
from ..errors import BrokerError, ClientError
from ..wire import calls
from ..wire.broker import Broker
from ..wire.connection import Address, Connection, Terms
from ..wire.finding import first_answer
from ..zookeeper_groups.assignment import Partition

Offsets = dict[Partition, int]
Done = Callable[[Offsets], None]
T = TypeVar("T")
logger = logging.getLogger(__name__)

FETCH_PATIENCE_S = 30.0  # how long to wait while a coordinator loads its offsets, or moves to another broker


class OffsetStore(Protocol):
    """Keeps the offsets of one group. For one thread at a time."""

    def fetch(self, partitions: Collection[Partition]) -> dict[Partition, int | None] | None:
        """Returns committed offsets, with None for a partition without one; None if they cannot be read yet.

        Raises UnknownTopicOrPartitionError if the coordinator does not get to know a partition.
        """
        ...

    def commit(self, offsets: Mapping[Partition, int], retries: int, done: Done) -> None:
        """Commits offsets, and calls ``done`` with those committed, also if others are not.

        Raises RegistryError, and ClientError after the last try.
        """
        ...

    def close(self) -> None:
        """Closes connections, which ends the wait of another thread."""
        ...


class ZooKeeperOffsets:
    """Nodes below /consumers, where old tools expect them."""

    def __init__(self, registry: Registry, group: str) -> None:
        self._registry, self._group = registry, group

    def fetch(self, partitions: Collection[Partition]) -> dict[Partition, int | None] | None:
        found: dict[Partition, int | None] = {}
        for each in partitions:
            path = kafka_nodes.offset_path(self._group, *each)
            node = self._registry.find(path)
            found[each] = _offset(path, node.data) if node is not None and node.data else None
        return found

    def commit(self, offsets: Mapping[Partition, int], retries: int, done: Done) -> None:
        for each, offset in offsets.items():
            put(self._registry, kafka_nodes.offset_path(self._group, *each), str(offset).encode())
            done({each: offset})

    def close(self) -> None:
        return


def _offset(path: str, data: bytes) -> int:
    try:
        return int(data)
    except ValueError:
        raise ClientError(f"{path} has {data[:50]!r}, which is not an offset") from None


class KafkaOffsets:
    """The group's coordinator, which is found through any broker, and found again when it has moved."""

    def __init__(
        self,
        group: str,
        brokers: Callable[[], Iterable[Address]],
        *,
        timeout_ms: int,
        backoff_ms: int,
        client_id: str,
        committed_ms: int = -1,
    ) -> None:
        """``committed_ms``: the time from which brokers count how long to keep a commit; -1: its arrival."""
        self._group, self._brokers = group, brokers
        self._terms, self._backoff_s = Terms(timeout_ms=timeout_ms), backoff_ms / 1000
        self._client_id, self._committed_ms = client_id, committed_ms
        self._coordinator: Broker | None = None
        self._closing = threading.Event()

    def fetch(self, partitions: Collection[Partition]) -> dict[Partition, int | None] | None:
        deadline = time.monotonic() + FETCH_PATIENCE_S
        places = [TopicPartition(each.topic, each.partition) for each in partitions]
        while partitions:
            try:
                found = calls.committed(self._connected(), self._group, places)
                return {each: found.get(place) for each, place in zip(partitions, places, strict=True)}
            except LogStoreError as error:
                self._lose(error)
                if time.monotonic() > deadline or self._closing.wait(self._backoff_s):
                    if isinstance(error, UnknownTopicOrPartitionError):  # which is not to have no offset
                        raise
                    return None
        return {}

    def commit(self, offsets: Mapping[Partition, int], retries: int, done: Done) -> None:
        left = {TopicPartition(each.topic, each.partition): each for each in offsets}
        try:
            self._commit(left, offsets, retries)
        finally:
            done({each: offset for each, offset in offsets.items() if each not in left.values()})

    def _commit(self, left: dict[TopicPartition, Partition], offsets: Mapping[Partition, int], retries: int) -> None:
        """Removes from ``left`` what is committed. Raises the error of the last try."""
        for tries_left in range(retries, -1, -1):
            try:
                if (refused := self._try(left, offsets)) is not None:
                    raise refused
                return
            except LogStoreError as error:
                self._lose(error)
                if not tries_left or self._closing.wait(self._backoff_s):
                    raise

    def _try(self, left: dict[TopicPartition, Partition], offsets: Mapping[Partition, int]) -> LogStoreError | None:
        """Commits the offsets that are left to commit. Returns the errors of those that were refused."""
        asked = {place: offsets[each] for place, each in left.items()}
        refused = None
        for place, code in (self._answered(asked) if asked else {}).items():
            error = calls.error_of(code, f"the commit of group {self._group} for {place}")
            if error is None:
                del left[place]
            refused = error or refused
        return refused

    def _answered(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return calls.commit(self._connected(), self._group, asked, committed_ms=self._committed_ms)

    def _connected(self) -> Broker:
        if self._closing.is_set():
            raise ClientError("the consumer was closed")
        if self._coordinator is None:
            found = first_answer(
                self._brokers(),
                self._connect,
                lambda broker: calls.coordinator(broker, self._group),
                f"the cluster of group {self._group}",
            )
            self._coordinator = self._connect(found)
        return self._coordinator

    def _connect(self, address: Address) -> Broker:
        return Broker(Connection(address, self._terms), self._client_id)

    def _lose(self, error: LogStoreError) -> None:
        """Forgets the coordinator, unless it is only loading its offsets."""
        logger.info("the coordinator of group %s: %s", self._group, error)
        is_loading = isinstance(error, BrokerError) and error.code == ErrorCode.coordinator_load_in_progress
        if self._coordinator is not None and not is_loading:
            self._coordinator.connection.close()
            self._coordinator = None

    def close(self) -> None:
        self._closing.set()
        if (coordinator := self._coordinator) is not None:
            coordinator.connection.close()


class DualOffsets:
    """Both stores, while a group moves: reads the larger offset, and commits to the coordinator first."""

    def __init__(self, kafka: OffsetStore, zookeeper: OffsetStore) -> None:
        self._kafka, self._zookeeper = kafka, zookeeper

    def fetch(self, partitions: Collection[Partition]) -> dict[Partition, int | None] | None:
        in_log, in_tree = self._kafka.fetch(partitions), self._zookeeper.fetch(partitions)
        if in_log is None or in_tree is None:
            return None
        return {each: _larger(in_log.get(each), in_tree.get(each)) for each in partitions}

    def commit(self, offsets: Mapping[Partition, int], retries: int, done: Done) -> None:
        self._kafka.commit(offsets, retries, lambda some: self._zookeeper.commit(some, retries, done))

    def close(self) -> None:
        self._kafka.close()
        self._zookeeper.close()


def _larger(one: int | None, other: int | None) -> int | None:
    given = [each for each in (one, other) if each is not None]
    return max(given, default=None)
