"""BucketFollower: a thread that reads what others committed to a log on an object store.

A check is one request if there is nothing new. While a client waits for records, it checks once per interval; otherwise
once per second, to find new topics.
"""

from __future__ import annotations

import logging
import time

from ....storage import LogManager, LogStoreError
from ...threads.worker import Worker
from ..open_partitions import Partitions
from ..topics import Topics
from .partition import BucketPartition

IDLE_S = 1.0

logger = logging.getLogger(__name__)


class BucketFollower:
    """Wakes the fetches that wait for records that others committed, and closes partitions of deleted topics."""

    def __init__(self, partitions: Partitions, topics: Topics, manager: LogManager, interval_ms: int) -> None:
        """``manager``: of the log on the object store, which reads what others committed."""
        assert manager.bucket is not None
        self._partitions, self._topics, self._manager, self._log = partitions, topics, manager, manager.bucket
        self._interval_s = interval_ms / 1000
        self._seen = topics.changes
        self._idle_until_s = 0.0
        self._worker = Worker("gateway-follower")
        self._is_waking = False  # also True if it is about to

    def start(self) -> None:
        """Starts the thread."""
        self._worker.start()
        self._worker.repeat(self._interval_s, self._follow)
        self._log.watch(self._wake_soon)

    def stop(self) -> None:
        """Ends the thread."""
        self._log.unwatch(self._wake_soon)
        self._worker.stop()

    def _wake_soon(self) -> None:
        """Wakes the fetches that wait for a commit of this process, such as the end of a transaction."""
        if not self._is_waking:
            self._is_waking = True
            self._worker.run(self._wake)

    def _wake(self) -> None:
        self._is_waking = False  # first: another commit is seen below, or in the next turn
        for each in self._led():
            if each.has_moved():
                each.wake()

    def _led(self) -> list[BucketPartition]:
        return [each for each in self._partitions.all() if isinstance(each, BucketPartition)]

    def _follow(self) -> None:
        try:
            self._look()
        except (LogStoreError, OSError) as error:
            logger.warning("%s", error)

    def _look(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._idle_until_s or any(each.has_waiters for each in self._led()):
            self._idle_until_s = now_s + IDLE_S
            self._manager.catch_up()
        self._wake()
        self._look_at_topics()

    def _look_at_topics(self) -> None:
        """Closes the partitions of topics that were deleted or made again, or whose settings have changed."""
        changes = self._topics.changes
        if changes == self._seen:
            return
        self._seen = changes
        topics = self._topics.all()
        for each in self._led():
            if each.topic not in topics or not each.is_usable or each.has_other_settings:
                self._partitions.close_topic(each.topic)
