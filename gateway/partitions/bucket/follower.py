"""BucketFollower: a thread that reads what others committed to a log on an object store.

A look is one request if there is nothing new. While a client waits for records, there is a look every interval;
otherwise one a second, which finds new topics.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ....storage import LogStoreError
from ...threads import Worker
from ..open_partitions import Partitions
from ..topics import Topics
from .partition import BucketPartition

IDLE_S = 1.0

logger = logging.getLogger(__name__)


class BucketFollower:
    """Wakes the fetches that wait for what others committed, and closes the partitions of topics that they deleted."""

    def __init__(
        self, partitions: Partitions, topics: Topics, catch_up: Callable[[], object], interval_ms: int
    ) -> None:
        """``catch_up`` reads what others committed; it waits for the store."""
        self._partitions, self._topics, self._catch_up = partitions, topics, catch_up
        self._interval_s = interval_ms / 1000
        self._seen = topics.changes
        self._idle_until_s = 0.0
        self._worker = Worker("gateway-follower")

    def start(self) -> None:
        """Starts the thread."""
        self._worker.start()
        self._worker.repeat(self._interval_s, self._follow)

    def stop(self) -> None:
        """Ends the thread."""
        self._worker.stop()

    def _follow(self) -> None:
        try:
            self._look()
        except (LogStoreError, OSError) as error:
            logger.warning("%s", error)

    def _look(self) -> None:
        led = [each for each in self._partitions.all() if isinstance(each, BucketPartition)]
        now_s = time.monotonic()
        if now_s >= self._idle_until_s or any(each.has_waiters for each in led):
            self._idle_until_s = now_s + IDLE_S
            self._catch_up()
        for each in led:
            if each.has_moved():
                each.wake()
        self._look_at_topics()

    def _look_at_topics(self) -> None:
        """Closes the partitions of topics that no longer exist, or were made again, or have other settings."""
        changes = self._topics.changes
        if changes == self._seen:
            return
        self._seen = changes
        topics = self._topics.all()
        for each in self._partitions.all():
            if each.topic not in topics or not each.is_usable:
                self._partitions.close_topic(each.topic)
