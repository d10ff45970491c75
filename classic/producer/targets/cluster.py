"""OldCluster: the interface of the three ways to find the brokers of an old cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...wire.connection import Address
from .port import BrokerPartition


class OldCluster(Protocol):
    """Brokers and partitions. For any thread. ``partitions`` and ``refresh`` are those of :class:`Target`."""

    @property
    def is_0_7(self) -> bool:
        """Whether the brokers are of Kafka 0.7. Raises like ``partitions``."""
        ...

    def brokers(self) -> Mapping[int, Address]:
        """Returns the addresses of the available brokers, by id. Raises like ``partitions``."""
        ...

    def partitions(self, topic: str) -> Sequence[BrokerPartition]: ...

    def refresh(self, topic: str) -> None: ...

    def close(self) -> None: ...
