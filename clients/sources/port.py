"""Source and Sources: the interface to read a cluster of any Kafka generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ...storage import FetchAnswer, TopicPartition
from ..brokers import ListedTopic


class Source(Protocol):
    """An open source; for one thread at a time. Methods raise RetriableError if it does not answer at the moment."""

    def topics(self) -> Iterable[ListedTopic]:
        """Returns all topics except internal ones."""

    def configs(self, topic: str) -> Mapping[str, str]:
        """Returns the settings of a topic that differ from Kafka's defaults."""

    def offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        """Returns the first (EARLIEST) or the next offset (LATEST) of each partition that has a leader now.

        For a time: an offset at or before the first record of that time or later; -1 if there is none. Brokers before
        0.10.1 know only the times of files, and answer with the first offset of a file.
        """

    def fetch(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, FetchAnswer | None]:
        """Returns the batches of each partition from its position on; None if its log does not have the position.

        A partition with nothing new is left out, and one without a leader. Raises RetriableError if none of them has
        had a leader for a minute.
        """

    def close(self) -> None:
        """Closes all connections."""


class Sources(Protocol):
    """Opens a source, in any thread."""

    def open(self) -> Source: ...
