"""KnownPartitions: the partitions of topics, as they were when the target was last asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from ....storage import Clock
from .port import BrokerPartition

Read = Callable[[str], list[BrokerPartition]]


class KnownPartitions:
    """Asks once for a topic, and again after ``refresh_ms``, or when it was forgotten. For any thread."""

    def __init__(self, clock: Clock, refresh_ms: int, read: Read) -> None:
        """``read``: asks for the partitions of a topic; by one thread at a time."""
        self._clock, self._refresh_ms, self._read = clock, refresh_ms, read
        self._lock = Lock()
        self._topics: dict[str, tuple[int, list[BrokerPartition]]] = {}  # when they were read, and the partitions

    def of(self, topic: str) -> Sequence[BrokerPartition]:
        """Returns the partitions of a topic. Raises as ``read``."""
        with self._lock:
            now_ms = self._clock.now_ms()
            read_ms, found = self._topics.get(topic, (now_ms, []))
            if not found or now_ms - read_ms >= self._refresh_ms:
                found = self._read(topic)
                self._topics[topic] = now_ms, found
            return found

    def forget(self, topic: str) -> None:
        """Lets the next call ask again."""
        self._topics.pop(topic, None)
