"""KnownPartitions: a cache of the partitions of topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from ....storage import Clock
from .port import BrokerPartition

Read = Callable[[str], list[BrokerPartition]]


class KnownPartitions:
    """Reads a topic's partitions once, and again after ``refresh_ms`` or :meth:`forget`. For any thread.

    A negative ``refresh_ms``: only after :meth:`forget`.
    """

    def __init__(self, clock: Clock, refresh_ms: int, read: Read) -> None:
        """``read`` returns the partitions of a topic; it is called by one thread at a time."""
        self._clock, self._refresh_ms, self._read = clock, refresh_ms, read
        self._lock = Lock()  # Guards the topics; held while they are read.
        self._topics: dict[str, tuple[int, list[BrokerPartition]]] = {}  # when they were read, and the partitions

    def of(self, topic: str) -> Sequence[BrokerPartition]:
        """Returns the partitions of a topic. Raises like ``read``."""
        with self._lock:
            now_ms = self._clock.now_ms()
            read_ms, found = self._topics.get(topic, (now_ms, []))
            if not found or 0 <= self._refresh_ms <= now_ms - read_ms:
                found = self._read(topic)
                self._topics[topic] = now_ms, found
            return found

    def forget(self, topic: str) -> None:
        """Makes the next call read the topic again."""
        self._topics.pop(topic, None)
