"""BrokerList: a fixed list of brokers of Kafka 0.7 (``broker.list``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....storage import InvalidConfigError
from ...wire.connection import Address
from .port import ANY, BrokerPartition


class BrokerList:
    """Each request goes to a random broker, which chooses the partition.

    With one address, such as that of a load balancer in front of all brokers, all requests use one connection.
    """

    is_0_7 = True

    def __init__(self, text: str) -> None:
        """``text``: ``id:host:port``, separated by commas. Raises InvalidConfigError."""
        self._brokers = dict(_entry(each) for each in text.split(","))

    def brokers(self) -> Mapping[int, Address]:
        return self._brokers

    def partitions(self, topic: str) -> Sequence[BrokerPartition]:
        return [BrokerPartition(broker, ANY) for broker in sorted(self._brokers)]

    def refresh(self, topic: str) -> None:
        """Does nothing: the list is fixed."""

    def close(self) -> None:
        """Does nothing."""


def _entry(text: str) -> tuple[int, Address]:
    broker, _, address = text.strip().partition(":")
    try:
        return int(broker), Address.parse(address)
    except (ValueError, InvalidConfigError) as error:
        raise InvalidConfigError(
            f"broker.list: {text!r} is not a broker: expected id:host:port, such as 0:localhost:9092"
        ) from error
