"""Fetchers: threads that fetch the partitions of a consumer, ``num.consumer.fetchers`` for each broker.

One more thread finds the brokers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from ...protocol.bodies import ErrorCode
from ...storage import LogStoreError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from ..consumer import EARLIEST_TIME, LATEST_TIME, FetchRequest, MessageSet, SimpleConsumer, Wire
from ..errors import BrokerError
from ..wire.connection import Address
from ..zookeeper_groups.assignment import Partition
from .brokers import Brokers, consumer_of
from .chunks import ChunkQueue
from .config import ConsumerConfig
from .port import Chunk
from .progress import PartitionProgress

_ELSEWHERE = {
    ErrorCode.not_leader_or_follower,
    ErrorCode.leader_not_available,
    ErrorCode.replica_not_available,
    ErrorCode.broker_not_available,
}
_RESETS = {"smallest": EARLIEST_TIME, "earliest": EARLIEST_TIME, "largest": LATEST_TIME, "latest": LATEST_TIME}
_ROOM_S = 0.1  # how long to wait for room in a queue before checking again

logger = logging.getLogger(__name__)


class FetchTask(NamedTuple):
    """A partition to fetch, and the queue of the stream that reads it."""

    progress: PartitionProgress
    queue: ChunkQueue

    def fail(self, error: Exception) -> None:
        """Makes the stream raise an error; the partition is not fetched any more."""
        with self.queue.lock:
            self.queue.put(Chunk(self.progress, error))
            self.progress.has_failed = True


class Fetchers:
    """Fetches partitions between :meth:`start` and :meth:`stop`, which may be repeated, by one thread at a time."""

    def __init__(self, brokers: Brokers, config: ConsumerConfig) -> None:
        self._brokers, self._config = brokers, config
        self._running: _Run | None = None

    def start(self, tasks: Mapping[Partition, FetchTask]) -> None:
        """Starts fetching partitions at the offsets of their progress."""
        self._running = _Run(self._brokers, self._config, tasks)

    def stop(self) -> None:
        """Stops fetching; returns when no thread fetches or adds to a queue any more."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def wake(self) -> None:
        """Notifies the threads that a queue has room again."""
        if (running := self._running) is not None:
            running.room.set()


class _Run:
    """The threads that run between a start and a stop."""

    def __init__(self, brokers: Brokers, config: ConsumerConfig, tasks: Mapping[Partition, FetchTask]) -> None:
        self.brokers, self.config, self.tasks = brokers, config, tasks
        self.stopping, self.room = threading.Event(), threading.Event()
        self._lost = threading.Condition()
        self._unplaced = set(tasks)  # partitions whose broker is not known
        self._fetchers: dict[tuple[Address, int], _Fetcher] = {}  # by broker and number
        self._finder = threading.Thread(target=self._find, name="commitlog leader finder", daemon=True)
        self._finder.start()

    def stop(self) -> None:
        self.stopping.set()
        self.room.set()
        with self._lost:
            self._lost.notify_all()
        self._finder.join()
        for each in self._fetchers.values():
            each.consumer.close()
        for each in self._fetchers.values():
            each.thread.join()

    def lose(self, partitions: Collection[Partition]) -> None:
        """Makes the finder search for the brokers of partitions again."""
        with self._lost:
            self._unplaced.update(partitions)
            self._lost.notify_all()

    def _find(self) -> None:
        while not self.stopping.is_set():
            with self._lost:
                while not self._unplaced and not self.stopping.is_set():
                    self._lost.wait()
                wanted = set(self._unplaced)
            if not self.stopping.is_set() and wanted - self._place(wanted):
                self.stopping.wait(self.config.refresh_leader_backoff_ms / 1000)

    def _place(self, wanted: Collection[Partition]) -> set[Partition]:
        """Passes partitions to the fetchers of their brokers; returns those that have a broker."""
        try:
            found = self.brokers.locate(wanted)
        except (LogStoreError, OSError) as error:
            logger.warning("no broker was found for %d partitions: %s", len(wanted), error)
            return set()
        with self._lost:
            self._unplaced -= set(found)
        placed: dict[tuple[Address, int], list[Partition]] = {}
        for partition, address in found.items():
            placed.setdefault((address, self._number_of(partition)), []).append(partition)
        for place, partitions in placed.items():
            fetcher = self._fetchers.get(place)
            if fetcher is None or not fetcher.add(partitions):
                self._fetchers[place] = _Fetcher(self, place[0], partitions)
        return set(found)

    def _number_of(self, partition: Partition) -> int:
        return (crc32(partition.topic.encode()) + partition.partition) % self.config.num_fetchers


class _Fetcher:
    """A thread for one broker. It ends when the broker is lost."""

    def __init__(self, run: _Run, address: Address, partitions: Collection[Partition]) -> None:
        self._run = run
        self.consumer: SimpleConsumer = consumer_of(address, run.brokers.wire, run.config)
        self._lock = threading.Lock()  # Guards the partitions and the flag.
        self._partitions = set(partitions)
        self._is_over = False
        self.thread = threading.Thread(target=self._fetch, name=f"commitlog fetcher {address}", daemon=True)
        self.thread.start()

    def add(self, partitions: Collection[Partition]) -> bool:
        """Adds partitions to fetch; returns False if this thread has ended."""
        with self._lock:
            if not self._is_over:
                self._partitions.update(partitions)
            return not self._is_over

    def _fetch(self) -> None:
        while not self._run.stopping.is_set():
            try:
                self._round()
            except Exception as error:
                self._end(error)
                return

    def _end(self, error: Exception) -> None:
        with self._lock:
            self._is_over = True
            lost = set(self._partitions)
        self.consumer.close()
        if not self._run.stopping.is_set():
            logger.warning("%s: %s; looking for its %d partitions again", self.consumer.address, error, len(lost))
            self._run.stopping.wait(self._run.config.refresh_leader_backoff_ms / 1000)
            self._run.lose(lost)

    def _round(self) -> None:
        """Fetches once all partitions whose queues have room."""
        with self._lock:
            tasks = [self._run.tasks[each] for each in sorted(self._partitions, key=str)]
        tasks = [each for each in tasks if each.queue.has_room and not each.progress.has_failed]
        for task in tasks:
            if task.progress.fetched is None:
                self._reset(task)
        asked = [
            (task, FetchRequest(each.topic, each.partition, task.progress.fetched, self._run.config.fetch_size))
            for task in tasks
            if task.progress.fetched is not None and not task.progress.has_failed
            for each in (task.progress.partition,)
        ]
        if not asked:
            self._run.room.wait(_ROOM_S)
            self._run.room.clear()
            return
        found = self.consumer.multifetch([request for _, request in asked])
        brought = [self._deliver(*each, content) for each, content in zip(asked, found, strict=True)]
        if not any(brought):
            self._run.stopping.wait(self._pause_ms(found) / 1000)

    def _pause_ms(self, found: Sequence[MessageSet[Any]]) -> int:
        """Returns how long to wait after a fetch without messages.

        Brokers since 0.8 have already waited, unless they had data that old clients cannot see, such as markers of
        transactions.
        """
        config = self._run.config
        if self._run.brokers.wire is Wire.KAFKA_0_7:
            return config.fetcher_backoff_ms
        return config.fetch_wait_max_ms if any(each.error is None and each.is_too_small for each in found) else 0

    def _deliver(self, task: FetchTask, asked: FetchRequest, found: MessageSet[Any]) -> bool:
        """Adds an answer to its queue; returns whether it had any messages."""
        if found.error is not None:
            self._refused(task, asked, found.error)
            return False
        with task.queue.lock:
            if not found.size_in_bytes or task.progress.fetched != asked.offset or task.progress.has_failed:
                return False  # no messages, or the partition is read from another offset by now
            task.progress.fetched = found.next_offset
            task.queue.put(Chunk(task.progress, found))
            if found.next_offset == asked.offset:  # the stream raises what is wrong
                task.progress.has_failed = True
            return True

    def _refused(self, task: FetchTask, asked: FetchRequest, error: LogStoreError) -> None:
        partition = task.progress.partition
        if isinstance(error, OffsetOutOfRangeError):
            if self._run.config.auto_offset_reset not in _RESETS:
                task.fail(error)
                return
            with task.queue.lock:
                if task.progress.fetched == asked.offset:
                    logger.warning("%s; reading from the %s", error, self._run.config.auto_offset_reset)
                    task.progress.fetched = None
        elif isinstance(error, UnknownTopicOrPartitionError) or (
            isinstance(error, BrokerError) and self._run.brokers.wire is Wire.KAFKA_0_8 and error.code in _ELSEWHERE
        ):
            with self._lock:
                self._partitions.discard(partition)
            self._run.lose([partition])
            self._run.stopping.wait(self._run.config.refresh_leader_backoff_ms / 1000)
        else:
            task.fail(error)

    def _reset(self, task: FetchTask) -> None:
        """Sets the offset of a partition that has none, by ``autooffset.reset``."""
        partition, policy = task.progress.partition, self._run.config.auto_offset_reset
        if policy not in _RESETS:
            task.fail(
                OffsetOutOfRangeError(
                    f"{partition}: there is no committed offset, and autooffset.reset = {policy!r} is neither smallest "
                    "nor largest"
                )
            )
            return
        try:
            found = self.consumer.get_offsets_before(partition.topic, partition.partition, _RESETS[policy], 1)
        except (BrokerError, UnknownTopicOrPartitionError) as error:
            self._refused(task, FetchRequest(partition.topic, partition.partition, -1, 0), error)
            return
        with task.queue.lock:
            if found and task.progress.fetched is None:
                task.progress.begin_at(found[0])
