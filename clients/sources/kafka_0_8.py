"""Clusters of Kafka 0.8 to 0.10, found in ZooKeeper.

Brokers are found in the registry, topics and leaders by Metadata, as the consumers of that time did. Messages are those
of magic 0 and 1. There are no transactions, so what is below the high watermark is committed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...registry import RegistryError, open_registry
from ...storage import FetchAnswer, TopicPartition
from ..brokers import EARLIEST, ListedTopic
from ..errors import BrokerError, BrokerUnreachableError, MirrorError, RetriableError
from ..wire import Broker, Connection, FetchFrom, addresses, check, cluster, fetch, offsets_before

_FETCH_BYTES = 1 << 20
_FETCH_BYTES_MAX = 1 << 30  # a larger message cannot be
_OUT_OF_RANGE = 1
_MOVED = {3, 5, 6, 9}  # UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER, REPLICA_NOT_AVAILABLE
_PAUSE_S = 0.2


@dataclass(frozen=True)
class ZooKeeperSources:
    """A cluster by ``zookeeper.connect``; Kafka 0.8 to 2.8, while its brokers still answer the requests of 0.8."""

    connect: str
    fetch_bytes: int = _FETCH_BYTES  # of a partition; doubled for a larger message
    wait_ms: int = 100

    def open(self) -> ZooKeeperSource:
        return ZooKeeperSource(self)

    def __str__(self) -> str:
        return f"Kafka by ZooKeeper at {self.connect}"


@dataclass
class _Known:
    """What is known of the cluster until a request fails."""

    brokers: dict[int, Broker] = field(default_factory=dict)
    leaders: dict[TopicPartition, int] = field(default_factory=dict)


class ZooKeeperSource:
    """Connections to the brokers of a cluster; as :class:`Source`."""

    def __init__(self, settings: ZooKeeperSources) -> None:
        self._settings = settings
        self._known = _Known()
        self._sizes: dict[TopicPartition, int] = {}

    def topics(self) -> list[ListedTopic]:
        with self._retriable():
            found = cluster(self._any_broker())
        counts: dict[str, int] = {}
        for partition in found.partitions:
            counts[partition.topic] = counts.get(partition.topic, 0) + 1
        return sorted(ListedTopic(topic, count) for topic, count in counts.items() if topic not in found.errors)

    def configs(self, topic: str) -> Mapping[str, str]:
        """The settings of these topics stay where they are: brokers do not tell them."""
        del topic
        return {}

    def offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        with self._retriable():
            return {partition: self._offset(partition, at) for partition in partitions}

    def _offset(self, partition: TopicPartition, at: int) -> int:
        """Returns where a file begins, by its time; for a time before all files where the first one does."""
        leader = self._leader(partition)
        found = offsets_before(leader, partition, at, 1) or offsets_before(leader, partition, EARLIEST, 1)
        return found[0]

    def fetch(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, FetchAnswer | None]:
        by_leader: dict[int, dict[TopicPartition, FetchFrom]] = {}
        with self._retriable():
            self._find_leaders(positions)
            for partition, offset in positions.items():
                size = self._sizes.get(partition, self._settings.fetch_bytes)
                by_leader.setdefault(self._known.leaders[partition], {})[partition] = FetchFrom(offset, size)
            found: dict[TopicPartition, FetchAnswer | None] = {}
            for node, asked in by_leader.items():
                answers = fetch(self._known.brokers[node], asked, wait_ms=self._settings.wait_ms)
                for partition, answer in answers.items():
                    if answer.error == _OUT_OF_RANGE:
                        found[partition] = None
                        continue
                    if answer.error in _MOVED:
                        self._known.leaders.pop(partition)
                        raise RetriableError(f"{partition} of {self._settings} has no leader that answers")
                    check(answer.error, f"{partition} of {self._settings}")
                    if self._has_whole_message(partition, asked[partition].size, answer.records):
                        found[partition] = FetchAnswer(answer.records, asked[partition].offset)
        return found

    def _has_whole_message(self, partition: TopicPartition, size: int, records: bytes) -> bool:
        """Whether an answer is of use; if a message is larger than was asked for, the next fetch asks for twice that.

        Raises MirrorError for a message that is larger than any may be.
        """
        if not records:
            return False
        if len(records) >= 12 and len(records) >= 12 + int.from_bytes(records[8:12], "big"):
            self._sizes.pop(partition, None)
            return True
        if size >= _FETCH_BYTES_MAX:
            raise MirrorError(f"{partition} of {self._settings}: a message needs more than {size} bytes")
        self._sizes[partition] = 2 * size
        return False

    def close(self) -> None:
        known, self._known = self._known, _Known()
        for broker in known.brokers.values():
            broker.connection.close()

    @contextmanager
    def _retriable(self) -> Iterator[None]:
        """Raises RetriableError for what may be different later, and lets the next call find everything again."""
        try:
            yield
        except (BrokerUnreachableError, RegistryError) as error:
            self.close()
            raise RetriableError(f"{self._settings}: {error}") from error
        except BrokerError as error:
            self.close()
            kind = RetriableError if error.code in _MOVED else MirrorError
            raise kind(f"{self._settings}: {error}") from error

    def _any_broker(self) -> Broker:
        if not self._known.brokers:
            self._known.brokers = self._registered()
        if not self._known.brokers:
            raise RetriableError(f"{self._settings} has no broker")
        return random.choice([*self._known.brokers.values()])

    def _registered(self) -> dict[int, Broker]:
        with open_registry("", self._settings.connect) as registry:
            return {broker: Broker(Connection(address)) for broker, address in addresses(registry).items()}

    def _find_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Finds who leads partitions. Raises RetriableError for one without a leader that is registered."""
        missing = [each for each in partitions if each not in self._known.leaders]
        if missing:
            found = cluster(self._any_broker(), sorted({each.topic for each in missing}))
            self._known.leaders |= {each: state.leader for each, state in found.partitions.items()}
        for each in missing:
            if self._known.leaders.get(each, -1) not in self._known.brokers:
                self.close()
                time.sleep(_PAUSE_S)
                raise RetriableError(f"{each} of {self._settings} has no leader")

    def _leader(self, partition: TopicPartition) -> Broker:
        self._find_leaders([partition])
        return self._known.brokers[self._known.leaders[partition]]
