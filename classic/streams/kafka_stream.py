"""KafkaStream: a blocking iterator over the messages of one stream's partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Generic, Self, TypeVar

from ..errors import ConsumerTimeoutError
from ..zookeeper_groups.assignment import Partition
from .port import AnyMessage, Chunk, StreamQueue

K = TypeVar("K")
V = TypeVar("V")
Decoder = Callable[[bytes], V]

logger = logging.getLogger(__name__)


def as_bytes(data: bytes) -> bytes:
    """The default decoder: returns the stored bytes."""
    return data


class MessageAndMetadata(Generic[K, V]):
    """A message of a stream, with its partition and offset. Key and payload are decoded when they are accessed."""

    __slots__ = ("_decode_key", "_decode_value", "_message", "_place")

    def __init__(self, place: Partition, message: AnyMessage, decode_key: Decoder[K], decode_value: Decoder[V]) -> None:
        self._place, self._message = place, message
        self._decode_key, self._decode_value = decode_key, decode_value

    @property
    def topic(self) -> str:
        return self._place.topic

    @property
    def partition(self) -> int:
        return self._place.partition

    @property
    def broker(self) -> int | None:
        """The broker of the partition; in 0.7 only."""
        return self._place.broker

    @property
    def offset(self) -> int:
        return self._message.offset

    @property
    def next_offset(self) -> int:
        """The offset to read next, after this message, which a program may store with its results."""
        return self._message.next_offset

    @property
    def key(self) -> K | None:
        """The decoded key; None for a message without one."""
        found = self._message.key
        return None if found is None else self._decode_key(found)

    @property
    def message(self) -> V | None:
        """The decoded payload; None for a tombstone."""
        found = self._message.value
        return None if found is None else self._decode_value(found)

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch; -1: there is none."""
        return self._message.timestamp

    @property
    def headers(self) -> Any:
        """Names and values of the headers."""
        return self._message.headers

    def __repr__(self) -> str:
        return f"MessageAndMetadata({self._place}, offset={self.offset})"


class KafkaStream(Generic[K, V]):
    """Messages of some partitions, in order within each partition. For one thread.

    Iterating waits for messages, and ends when the consumer is shut down. A message counts as consumed when it is
    yielded, so a commit made while it is processed includes it. Raises ConsumerTimeoutError if no message comes within
    ``consumer.timeout.ms``; iterating may continue after that. Also raises the error of a partition that cannot be
    read; then the other partitions continue.
    """

    def __init__(self, queue: StreamQueue, timeout_ms: int, decode_key: Decoder[K], decode_value: Decoder[V]) -> None:
        self._queue = queue
        self._timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._decode_key, self._decode_value = decode_key, decode_value
        self._chunk: Chunk | None = None
        self._messages: Iterator[AnyMessage] = iter(())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageAndMetadata[K, V]:
        while True:
            chunk = self._chunk
            if chunk is not None:
                found = self._next_of(chunk)
                if found is not None:
                    return MessageAndMetadata(chunk.progress.partition, found, self._decode_key, self._decode_value)
            self._take()

    def _next_of(self, chunk: Chunk) -> AnyMessage | None:
        """Consumes and returns the next message of a chunk; None if it has no more."""
        try:
            found = next(self._messages, None)
        except Exception:
            with self._queue.lock:
                self._chunk = None
                if chunk.is_stale:
                    return None
                chunk.progress.has_failed = True
                self._queue.drop([chunk.progress.partition])
            raise
        with self._queue.lock:
            if chunk.is_stale:
                self._chunk = None
                return None
            if found is None:
                self._chunk = None
                chunk.progress.consumed = chunk.content.next_offset  # type: ignore[union-attr]
                return None
            chunk.progress.consumed = found.next_offset
        return found

    def _take(self) -> None:
        """Waits for the next chunk. Raises StopIteration after the shutdown."""
        try:
            chunk = self._queue.take(self._timeout_s)
        except TimeoutError:
            raise ConsumerTimeoutError(f"no message came within {self._timeout_s} s") from None
        if chunk is None:
            raise StopIteration
        if isinstance(chunk.content, Exception):
            raise chunk.content
        at = chunk.progress.consumed
        if at is not None and at != chunk.content.initial_offset:
            logger.error(
                "%s: consumed up to %s, but the next messages begin at %s: some may be lost",
                chunk.progress.partition,
                at,
                chunk.content.initial_offset,
            )
        self._chunk, self._messages = chunk, iter(chunk.content)
