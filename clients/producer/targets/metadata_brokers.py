"""MetadataBrokers: a cluster of Kafka 0.8 or later, as its brokers describe it (``metadata.broker.list``)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

from ....storage import Clock
from ...errors import BrokerUnreachableError, MalformedAnswerError, NoBrokersForPartitionError
from ...wire.broker import Broker
from ...wire.calls import Cluster, cluster
from ...wire.connection import Address, Connection
from .known import KnownPartitions
from .port import BrokerPartition


class MetadataBrokers:
    """The listed brokers are only asked which brokers lead the partitions, and again when that may have changed."""

    is_0_7 = False

    def __init__(
        self, text: str, refresh_ms: int, client_id: str, connect: Callable[[Address], Connection], clock: Clock
    ) -> None:
        """``text``: ``host:port``, separated by commas. Raises InvalidConfigError."""
        self._addresses = [Address.parse(each) for each in text.split(",")]
        self._client_id, self._connect = client_id, connect
        self._brokers: dict[int, Address] = {}
        self._known = KnownPartitions(clock, refresh_ms, self._read)

    def brokers(self) -> Mapping[int, Address]:
        return self._brokers

    def partitions(self, topic: str) -> Sequence[BrokerPartition]:
        """Returns the partitions of a topic; one without a leader has broker -1."""
        return self._known.of(topic)

    def _read(self, topic: str) -> list[BrokerPartition]:
        found = self._asked(topic)
        self._brokers = dict(found.brokers)
        places = [
            BrokerPartition(each.leader if each.leader in found.brokers else -1, partition.partition)
            for partition, each in found.partitions.items()
        ]
        if not places:
            raise NoBrokersForPartitionError(
                f"topic {topic} has no partitions: the brokers answered {found.errors.get(topic, 'nothing')}"
            )
        return sorted(places, key=lambda place: place.partition)

    def _asked(self, topic: str) -> Cluster:
        failures = []
        for address in self._candidates():
            try:
                with closing(self._connect(address)) as connection:
                    return cluster(Broker(connection, self._client_id), [topic])
            except (BrokerUnreachableError, MalformedAnswerError) as error:
                failures.append(str(error))
        raise BrokerUnreachableError(f"no broker of metadata.broker.list answers: {'; '.join(failures)}")

    def _candidates(self) -> Iterator[Address]:
        """Returns the given addresses in random order, then the other known brokers."""
        yield from random.sample(self._addresses, len(self._addresses))
        yield from (each for each in self._brokers.values() if each not in self._addresses)

    def refresh(self, topic: str) -> None:
        self._known.forget(topic)

    def close(self) -> None:
        """Does nothing: each request to a listed broker has its own connection."""
