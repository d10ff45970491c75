"""Source and Sources: what can be read of a cluster or a log directory, whatever its generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from ...storage import FetchAnswer, TopicIds, TopicPartition
from ..brokers.connections import ListedTopic


class BrokerPartition(NamedTuple):
    """A partition of Kafka 0.7, where each broker has partitions of its own. Offsets in it are byte positions."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.broker}-{self.partition}"


SourcePartition = TopicPartition | BrokerPartition  # what a mirror keeps progress of
P = TypeVar("P")
A_co = TypeVar("A_co", covariant=True)


class AnySource(Protocol[P, A_co]):
    """An open source of partitions P, whose fetches bring A. For one thread at a time.

    Methods raise RetriableError if it does not answer for now.
    """

    def topics(self) -> Iterable[ListedTopic]:
        """Returns all topics except internal ones. Their numbers of partitions are below ``partitions``."""

    def partitions(self, topic: ListedTopic) -> list[P]:
        """Returns the partitions of a topic as :meth:`topics` found it the last time."""

    def configs(self, topic: str) -> Mapping[str, str]:
        """Returns the settings of a topic that differ from Kafka's defaults."""

    def offsets(self, partitions: Iterable[P], at: int) -> dict[P, int]:
        """Returns the first (EARLIEST) or the next offset (LATEST) of each partition that has a leader now.

        For a time: an offset at or before the first record of that time or later; -1 if there is none. Brokers before
        0.10.1 know only the times of files, and answer with the first offset of a file.
        """

    def fetch(self, positions: Mapping[P, int], ids: TopicIds | None = None) -> Mapping[P, A_co | None]:
        """Returns what each partition has from its position on; None for a position that its log does not have.

        A partition with nothing new is left out, and one without a leader. ``ids``: those with which :meth:`topics`
        returned the topics; nothing is returned from a later topic of such a name, if the brokers can tell it. Raises
        RetriableError for one, and if no partition has had a leader for a minute.
        """

    def close(self) -> None:
        """Closes all connections."""


class AnySources(Protocol[P, A_co]):
    """What opens a source, in any thread."""

    def open(self) -> AnySource[P, A_co]: ...


Source = AnySource[TopicPartition, FetchAnswer]
Sources = AnySources[TopicPartition, FetchAnswer]


def numbered(topic: ListedTopic) -> list[TopicPartition]:
    """Returns the partitions of a topic, from 0 on."""
    return [TopicPartition(topic.name, number) for number in range(topic.partitions)]
