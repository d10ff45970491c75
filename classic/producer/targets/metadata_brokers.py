"""MetadataBrokers: a cluster of Kafka 0.8 or later, as its brokers describe it (``metadata.broker.list``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....storage import Clock
from ...errors import NoBrokersForPartitionError
from ...wire.broker import Broker
from ...wire.connection import Address, Connection
from ...wire.leaders import Leaders
from .known import KnownPartitions
from .port import BrokerPartition


class MetadataBrokers:
    """The listed brokers are only asked which brokers lead the partitions, and again when that may have changed."""

    is_0_7 = False

    def __init__(
        self, text: str, refresh_ms: int, client_id: str, connect: Callable[[Address], Connection], clock: Clock
    ) -> None:
        """``text``: ``host:port``, separated by commas. Raises InvalidConfigError."""
        listed = [Address.parse(each) for each in text.split(",")]
        self._leaders = Leaders(
            lambda: listed,
            "metadata.broker.list",
            lambda address: Broker(connect(address), client_id),
            given_first=True,
        )
        self._known = KnownPartitions(clock, refresh_ms, self._read)

    def brokers(self) -> Mapping[int, Address]:
        return self._leaders.brokers

    def partitions(self, topic: str) -> Sequence[BrokerPartition]:
        """Returns the partitions of a topic; one without a leader has broker -1."""
        return self._known.of(topic)

    def _read(self, topic: str) -> list[BrokerPartition]:
        found = self._leaders.described([topic])
        places = [
            BrokerPartition(each.leader if each.leader in found.brokers else -1, partition.partition)
            for partition, each in found.partitions.items()
        ]
        if not places:
            raise NoBrokersForPartitionError(
                f"topic {topic} has no partitions: the brokers answered {found.errors.get(topic, 'nothing')}"
            )
        return sorted(places, key=lambda place: place.partition)

    def refresh(self, topic: str) -> None:
        self._known.forget(topic)

    def close(self) -> None:
        """Does nothing: each request to a listed broker has its own connection."""
