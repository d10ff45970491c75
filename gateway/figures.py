"""Figures: the gateway's own counts, for metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock

from ..storage import CorruptionError

PLACES_MAX = 1000  # at most this many damaged places are named

logger = logging.getLogger(__name__)


@dataclass
class OfTopic:
    """Records and bytes in and out of a topic since the start."""

    records_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    produced: int = 0  # batches
    fetched: int = 0  # how often a partition was requested and answered


@dataclass
class Times:
    """How often something was done, and how long that took in total."""

    count: int = 0
    seconds: float = 0.0


@dataclass
class Figures:
    """Counts since the start. For any thread."""

    topics: dict[str, OfTopic] = field(default_factory=dict)
    requests: dict[int, Times] = field(default_factory=dict)  # by kind
    syncs: Times = field(default_factory=Times)
    served_together: int = 0  # Produce requests, in turns
    failed_produces: int = 0  # partitions whose batch was refused
    failed_fetches: int = 0  # partitions that were answered with an error
    failed_maintenance: int = 0  # partitions that could not be maintained, and exits of the process that maintains them
    damaged: set[tuple[str, str]] = field(default_factory=set)  # files, with the positions of damage in them
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def appended(self, topic: str, records: int, size: int, batches: int = 1) -> None:
        """Counts batches that were appended."""
        with self._lock:
            mine = self.topics.setdefault(topic, OfTopic())
            mine.records_in += records
            mine.bytes_in += size
            mine.produced += batches

    def fetched(self, sizes: Mapping[str, int]) -> None:
        """Counts what a fetch answered, in bytes by topic."""
        with self._lock:
            for topic, size in sizes.items():
                mine = self.topics.setdefault(topic, OfTopic())
                mine.bytes_out += size
                mine.fetched += 1

    def failed(self, *, produces: int = 0, fetches: int = 0) -> None:
        """Counts partitions for which a request failed; their topics need not exist, so they are not kept."""
        with self._lock:
            self.failed_produces += produces
            self.failed_fetches += fetches

    def found_damage(self, error: CorruptionError) -> None:
        """Notes damage in a file; logs it the first time that this position is found damaged.

        Does nothing for what clients sent, which is in no file.
        """
        if error.path is None:
            return
        place = error.path, "" if error.position is None else str(error.position)
        with self._lock:
            is_known = place in self.damaged or len(self.damaged) >= PLACES_MAX
            if not is_known:
                self.damaged.add(place)
        if not is_known:
            logger.error("%s", error)

    def maintenance_failed(self) -> None:
        """Counts a partition whose maintenance failed, or an exit of the process that maintains them."""
        with self._lock:
            self.failed_maintenance += 1

    def answered(self, key: int, seconds: float, count: int = 1) -> None:
        """Counts requests of a kind; ``seconds`` is the time from the last byte of each to its answer."""
        with self._lock:
            mine = self.requests.setdefault(key, Times())
            mine.count += count
            mine.seconds += seconds * count

    def together(self, count: int) -> None:
        """Counts requests that were served together with others."""
        with self._lock:
            self.served_together += count

    def synced(self, seconds: float) -> None:
        """Counts a sync of a partition."""
        with self._lock:
            self.syncs.count += 1
            self.syncs.seconds += seconds

    def snapshot(self) -> Figures:
        """Returns a consistent copy."""
        with self._lock:
            return Figures(
                {topic: replace(each) for topic, each in self.topics.items()},
                {key: replace(each) for key, each in self.requests.items()},
                replace(self.syncs),
                self.served_together,
                self.failed_produces,
                self.failed_fetches,
                self.failed_maintenance,
                set(self.damaged),
            )
