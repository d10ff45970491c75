"""Connections: one connection to each available broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from ...errors import NoBrokersForPartitionError
from ...wire.connection import Address, Connection


class Connections:
    """A pool with one connection per broker, made at the first use.

    After ``reconnect_interval`` requests a connection is made again, so that a load balancer can choose again.
    """

    def __init__(self, connect: Callable[[Address], Connection], reconnect_interval: int) -> None:
        self._connect, self._interval = connect, reconnect_interval
        self._lock = Lock()  # Guards the connections and their counts.
        self._open: dict[int, Connection] = {}
        self._requests: dict[int, int] = {}

    def update(self, brokers: Mapping[int, Address]) -> None:
        """Closes connections to brokers that no longer exist or have moved."""
        with self._lock:
            gone = [broker for broker, each in self._open.items() if brokers.get(broker) != each.address]
            for broker in gone:
                self._open.pop(broker).close()
                self._requests.pop(broker)
            for broker, address in brokers.items():
                if broker not in self._open:
                    self._open[broker], self._requests[broker] = self._connect(address), 0

    def to(self, broker: int) -> Connection:
        """Returns the connection for one request. Raises NoBrokersForPartitionError if the broker is not available."""
        with self._lock:
            if broker not in self._open:
                raise NoBrokersForPartitionError(
                    "the partition has no leader" if broker < 0 else f"broker {broker} is not available"
                )
            self._requests[broker] += 1
            if self._requests[broker] > self._interval:
                self._open[broker].disconnect()
                self._requests[broker] = 1
            return self._open[broker]

    def close(self) -> None:
        self.update({})
