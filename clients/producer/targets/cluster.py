"""OldCluster: which brokers take messages, as the three ways to find them report it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...wire import Address
from .port import BrokerPartition


class OldCluster(Protocol):
    """Brokers and partitions. For any thread. ``partitions`` and ``refresh`` are those of :class:`Target`."""

    @property
    def is_0_7(self) -> bool:
        """Whether the brokers are of Kafka 0.7. Raises as ``partitions``."""
        ...

    def brokers(self) -> Mapping[int, Address]:
        """Returns where the brokers are that are there now, by id. Raises as ``partitions``."""
        ...

    def partitions(self, topic: str) -> Sequence[BrokerPartition]: ...

    def refresh(self, topic: str) -> None: ...

    def close(self) -> None: ...
