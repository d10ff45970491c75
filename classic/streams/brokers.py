"""Finds the brokers of partitions: part of the partition's name in 0.7, later the leader."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from ...registry.port import Registry
from ...storage import TopicPartition
from ..consumer import SimpleConsumer, Wire
from ..wire.broker import Broker
from ..wire.connection import Address, Connection, Terms
from ..wire.finding import addresses
from ..wire.leaders import Leaders
from ..zookeeper_groups.assignment import Partition
from .config import ConsumerConfig


class Brokers(Protocol):
    """Finds brokers. For any thread."""

    wire: Wire

    def locate(self, partitions: Collection[Partition]) -> Mapping[Partition, Address]:
        """Returns the address to fetch each partition from; partitions without a broker now are left out.

        Raises RegistryError, and BrokerUnreachableError if no broker answers.
        """
        ...


class NamedBrokers:
    """Kafka 0.7. A broker may move to another address under its id."""

    wire = Wire.KAFKA_0_7

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def locate(self, partitions: Collection[Partition]) -> Mapping[Partition, Address]:
        there = addresses(self._registry)
        return {each: there[each.broker] for each in partitions if each.broker is not None and each.broker in there}


class LeadingBrokers:
    """Kafka 0.8 to 3: any broker names the leader of a partition."""

    wire = Wire.KAFKA_0_8

    def __init__(self, registry: Registry, config: ConsumerConfig) -> None:
        terms = Terms(timeout_ms=config.socket_timeout_ms)
        self._leaders = Leaders(
            lambda: addresses(registry).values(),
            "the registry",
            lambda address: Broker(Connection(address, terms), config.client_id),
        )

    def locate(self, partitions: Collection[Partition]) -> Mapping[Partition, Address]:
        self._leaders.close()  # after an error: what was known of these partitions may be wrong
        wanted = {TopicPartition(each.topic, each.partition): each for each in partitions}
        led = self._leaders.of(wanted)
        return {wanted[each]: self._leaders.brokers[node] for node, some in led.items() for each in some}


def consumer_of(address: Address, wire: Wire, config: ConsumerConfig) -> SimpleConsumer:
    """Returns a consumer of one broker."""
    return SimpleConsumer(
        *address,
        config.socket_timeout_ms,
        config.socket_buffer_size,
        wire=wire,
        client_id=config.client_id,
        fetch_wait_ms=config.fetch_wait_max_ms,
        fetch_min_bytes=config.fetch_min_bytes,
    )
