"""The interface between streams and the wire that reads for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ..topic_filters import TopicFilter
from ..zookeeper_groups.assignment import Partition
from .progress import PartitionProgress

StartOffsets = Mapping[Any, int] | Callable[[Collection[Partition]], Mapping[Any, int]]
"""Where to begin, by topic, partition and, in 0.7, broker: all offsets, or what to ask for some partitions."""


def given_offsets(given: StartOffsets | None, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Returns the start offsets that the program gives for ``partitions``, at most one for each."""
    found = given(partitions) if callable(given) else given or {}
    return {place: offset for each, offset in found.items() if (place := Partition(*each)) in partitions}


class AnyMessage(Protocol):
    """The fields of a message."""

    @property
    def offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


class Messages(Protocol):
    """Messages of one partition, one after the other."""

    @property
    def initial_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    def __iter__(self) -> Iterator[AnyMessage]: ...


class Chunk:
    """Messages of one partition that a stream takes together, or an error that it raises instead."""

    __slots__ = ("content", "is_stale", "progress")

    def __init__(self, progress: PartitionProgress, content: Messages | Exception) -> None:
        self.progress, self.content = progress, content
        self.is_stale = False  # its partition was released, or is read from another offset


class StreamQueue(Protocol):
    """The queue of one stream."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """A lock held while a message is yielded, and while chunks are dropped."""
        ...

    def take(self, timeout_s: float | None) -> Chunk | None:
        """Waits for the next chunk and returns it; None if the consumer was shut down. Raises TimeoutError."""
        ...

    def drop(self, partitions: Collection[Partition] | None = None) -> None:
        """Forgets the chunks of partitions, None: all; after this returns, none of their messages are yielded."""
        ...


class Wire(Protocol):
    """Reads partitions for streams."""

    def open(
        self, counts: Mapping[str, int], topic_filter: TopicFilter | None
    ) -> Mapping[tuple[str, int], StreamQueue]:
        """Joins the group, and returns the queue of each stream. ``counts``: streams by topic; "" with a filter."""
        ...

    def commit_offsets(self) -> None: ...
    def rewind(self, offsets: Mapping[Partition, int]) -> None: ...
    def positions(self) -> Mapping[Partition, int]: ...
    def shutdown(self) -> None: ...
