"""Source and Sources: what can be read of a cluster, whatever its generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ...storage import FetchAnswer, TopicPartition
from ..brokers import ListedTopic


class Source(Protocol):
    """An open source; for one thread at a time. Methods raise RetriableError if it does not answer for now."""

    def topics(self) -> Iterable[ListedTopic]:
        """Returns all topics except internal ones."""

    def configs(self, topic: str) -> Mapping[str, str]:
        """Returns the settings of a topic that differ from Kafka's defaults."""

    def offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        """Returns the first (EARLIEST) or the next offset (LATEST) of each partition that has a leader now.

        For a time in ms: one from which on all records of that time or later are; -1 if there are none. Brokers before
        0.10.1 know the times of files only, and answer where one begins.
        """

    def fetch(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, FetchAnswer | None]:
        """Returns what each partition has from its position on; None for a position that its log does not have.

        A partition with nothing new is left out, and one without a leader. Raises RetriableError if none of them has
        had a leader for a minute.
        """

    def close(self) -> None:
        """Closes all connections."""


class Sources(Protocol):
    """What opens a source, in any thread."""

    def open(self) -> Source: ...
