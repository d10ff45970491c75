"""Finds the brokers of partitions: part of the partition's name in 0.7, later the leader."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from ...registry.port import Registry
from ..consumer import SimpleConsumer, Wire
from ..wire.calls import cluster
from ..wire.connection import Address, Terms
from ..wire.finding import addresses, first_answer
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
        self._registry, self._config = registry, config
        self._terms = Terms(timeout_ms=config.socket_timeout_ms)

    def locate(self, partitions: Collection[Partition]) -> Mapping[Partition, Address]:
        topics = sorted({each.topic for each in partitions})
        there = first_answer(
            addresses(self._registry).values(),
            self._terms,
            self._config.client_id,
            lambda broker: cluster(broker, topics),
            "no broker is registered",
        )
        leaders = {
            Partition(place.topic, place.partition): each.leader
            for place, each in there.partitions.items()
            if each.leader in there.brokers
        }
        return {each: there.brokers[leaders[each]] for each in partitions if each in leaders}


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
