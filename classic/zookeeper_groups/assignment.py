"""The assignment of partitions to streams: a function of sorted lists, so all members compute the same.

Source: ZookeeperConsumerConnector of Kafka 0.7.2, PartitionAssignor of 0.8.2.2 and 0.10.2.2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from itertools import cycle
from typing import NamedTuple

from ...storage import string_hash
from ..errors import RebalanceError


class Partition(NamedTuple):
    """A partition of a topic; in 0.7, of a topic on one broker."""

    topic: str
    partition: int
    broker: int | None = None  # in 0.7

    @property
    def name(self) -> str:
        """Its name within its topic, as in the registry."""
        return f"{self.partition}" if self.broker is None else f"{self.broker}-{self.partition}"

    def __str__(self) -> str:
        return f"{self.topic}/{self.name}"


class Stream(NamedTuple):
    """A thread of a consumer that reads partitions."""

    consumer: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.number}"


class Strategy(Enum):
    """The rule of a group, which all members must share (``partition.assignment.strategy``)."""

    RANGE = "range"
    ROUNDROBIN = "roundrobin"


def assign(
    strategy: Strategy, partitions: Mapping[str, Collection[Partition]], streams: Mapping[str, Collection[Stream]]
) -> dict[Partition, Stream]:
    """Returns the stream that reads each partition.

    ``partitions``, ``streams``: by topic, in any order. Raises RebalanceError if the strategy does not allow such a
    group.
    """
    return _by_range(partitions, streams) if strategy is Strategy.RANGE else _in_turn(partitions, streams)


def _by_range(
    partitions: Mapping[str, Collection[Partition]], streams: Mapping[str, Collection[Stream]]
) -> dict[Partition, Stream]:
    """Each stream of a topic gets adjacent partitions; if they do not divide evenly, the first streams get one more."""
    found: dict[Partition, Stream] = {}
    for topic, there in partitions.items():
        readers = sorted(streams.get(topic, ()), key=str)
        if not readers:
            continue
        each, more = divmod(len(there), len(readers))
        rest = iter(sorted(there, key=_sorted_by))
        for index, reader in enumerate(readers):
            for _ in range(each + (index < more)):
                found[next(rest)] = reader
    return found


def _sorted_by(partition: Partition) -> tuple[str, int]:
    """0.7 sorts names as text, so 0-10 comes before 0-2; later Kafkas sort numbers."""
    return ("", partition.partition) if partition.broker is None else (partition.name, 0)


def _in_turn(
    partitions: Mapping[str, Collection[Partition]], streams: Mapping[str, Collection[Stream]]
) -> dict[Partition, Stream]:
    """Assigns all partitions of all topics to the streams in turn, in an order that mixes the topics."""
    kinds = {frozenset(each) for each in streams.values()}
    if len(kinds) > 1:
        raise RebalanceError(
            "roundrobin needs the same topics, with as many streams each, from every consumer of a group; use range"
        )
    readers = cycle(sorted(next(iter(kinds), frozenset()), key=str))
    mixed = sorted(
        (each for there in partitions.values() for each in there),
        key=lambda each: string_hash(f"[{each.topic},{each.partition}]"),
    )
    return dict(zip(mixed, readers, strict=False))
