"""ProducerFigures: counters of a producer, for monitoring (the MBeans of Kafka 0.7)."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from ...storage import Clock


class ProducerFigures(NamedTuple):
    """Figures since the producer was opened."""

    events: int  # messages that were offered to the queue
    dropped_events: int  # events for which the queue had no room
    queue_size: int  # the messages in the queue now
    lost_events: int  # events from the queue that could not be sent; the log has the reasons
    sent_messages: int
    produce_requests: int  # sends of one or more messages; with bootstrap.servers librdkafka divides and joins them
    produce_request_ms: int  # the time of all of them together
    max_produce_request_ms: int  # the time of the slowest one
    seconds: float  # since the producer was opened

    @property
    def produce_requests_per_second(self) -> float:
        return self.produce_requests / self.seconds if self.seconds else 0.0


@dataclass
class Counters:
    """Counts the figures, from several threads."""

    clock: Clock

    def __post_init__(self) -> None:
        self._lock = Lock()  # Guards the counts.
        self._opened_ms = self.clock.now_ms()
        self._dropped = self._lost = self._sent = self._requests = self._ms = self._max_ms = 0

    def count_dropped(self, events: int) -> None:
        with self._lock:
            self._dropped += events

    def count_lost(self, events: int) -> None:
        with self._lock:
            self._lost += events

    def count_request(self, messages: int, took_ms: int) -> None:
        """Counts a request. ``messages``: the number sent; 0 if the request failed."""
        with self._lock:
            self._requests += 1
            self._sent += messages
            self._ms += took_ms
            self._max_ms = max(self._max_ms, took_ms)

    def figures(self, accepted: int = 0, queue_size: int = 0) -> ProducerFigures:
        """Returns the figures. ``accepted``: the number of messages that were put into the queue."""
        seconds = (self.clock.now_ms() - self._opened_ms) / 1000
        with self._lock:
            return ProducerFigures(
                events=accepted + self._dropped,
                dropped_events=self._dropped,
                queue_size=queue_size,
                lost_events=self._lost,
                sent_messages=self._sent,
                produce_requests=self._requests,
                produce_request_ms=self._ms,
                max_produce_request_ms=self._max_ms,
                seconds=seconds,
            )
