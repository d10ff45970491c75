"""TodaysConnector: streams over the group protocol of brokers, by librdkafka.

Each stream is a member of the group: the brokers assign partitions to it, and the thread that iterates it reads them
(docs/decisions/streams_on_todays_wire.md).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message as Received,
    TopicPartition as Place,
)

from ...storage import InvalidConfigError, LogStoreError, OffsetOutOfRangeError
from ..errors import BrokerError, BrokerUnreachableError, ClientError
from ..topic_filters import TopicFilter
from ..zookeeper_groups.assignment import Partition
from .chunks import ChunkQueue
from .config import ConsumerConfig
from .port import Chunk, StartOffsets, given_offsets
from .progress import PartitionProgress, Progress

_AT_ONCE = 500  # messages taken from librdkafka together
_FULL_MS = 5  # how long the library, whose default is a second, fetches nothing when it holds enough messages
_POLL_S = 0.1  # how long to wait in librdkafka before checking whether the stream was closed
_LOOK_S = 1.0  # how often the topics that a filter chooses from are listed
_RETRY_S = 0.1  # before a commit is repeated
_LOG_LEVEL = 3  # errors
_RESETS = {"smallest": "earliest", "largest": "latest", "earliest": "earliest", "latest": "latest"}
_OUTSIDE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._NO_OFFSET}
_UNREACHABLE = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
_PASSING = {*_UNREACHABLE, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._PARTITION_EOF, KafkaError._UNKNOWN_TOPIC}

logger = logging.getLogger(__name__)


class TodaysConnector:
    """Runs one librdkafka consumer per stream."""

    def __init__(self, config: ConsumerConfig, start_offsets: StartOffsets | None) -> None:
        self._config, self._start_offsets = config, start_offsets
        self._streams: dict[tuple[str, int], StreamSource] = {}
        self._closing = threading.Event()
        self._timer = threading.Thread(target=self._commit_at_intervals, name="commitlog auto commit", daemon=True)

    def open(self, counts: Mapping[str, int], topic_filter: TopicFilter | None) -> dict[tuple[str, int], StreamSource]:
        for topic, count in counts.items():
            for number in range(count):
                wanted = topic_filter if topic_filter is not None else topic
                self._streams[topic, number] = StreamSource(self._config, wanted, self._start_offsets)
        if self._config.auto_commit:
            self._timer.start()
        return self._streams

    def commit_offsets(self) -> None:
        for each in self._streams.values():
            each.commit(self._config.commit_retries_max)

    def _commit_at_intervals(self) -> None:
        while not self._closing.wait((self._config.auto_commit_interval_ms or 0) / 1000):
            for each in self._streams.values():
                each.commit_if_possible()

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        for partition, offset in offsets.items():
            if not any(each.rewind(partition, offset) for each in self._streams.values()):
                raise ClientError(f"{partition} is not read by this consumer now")

    def positions(self) -> dict[Partition, int]:
        return {
            partition: offset
            for each in self._streams.values()
            for partition, offset in each.progress.positions().items()
        }

    def shutdown(self) -> None:
        self._closing.set()
        if self._timer.ident is not None:
            self._timer.join()  # a consumer of the library must not be closed while it commits
        for each in self._streams.values():
            each.close()


class Batch:
    """Messages of one partition, one after the other."""

    def __init__(self, received: Sequence[Received], initial_offset: int) -> None:
        self._received, self.initial_offset = received, initial_offset
        self.next_offset = _offset(received[-1]) + 1

    def __iter__(self) -> Iterator[TodaysMessage]:
        return map(TodaysMessage, self._received)


class TodaysMessage:
    """A message of librdkafka."""

    __slots__ = ("_received", "next_offset", "offset")

    def __init__(self, received: Received) -> None:
        self._received = received
        self.offset = _offset(received)
        self.next_offset = self.offset + 1

    @property
    def key(self) -> bytes | None:
        found: bytes | None = self._received.key()
        return found

    @property
    def value(self) -> bytes | None:
        found: bytes | None = self._received.value()
        return found

    @property
    def timestamp(self) -> int:
        kind, ms = self._received.timestamp()
        return int(ms) if kind else -1

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        found: Any = self._received.headers() or ()
        return tuple(found)


def _offset(received: Received) -> int:
    found = received.offset()
    assert found is not None
    return int(found)


class StreamSource:
    """A member of the group that reads for one stream.

    Only the stream's thread may call :meth:`take`; any thread may call the other methods.
    """

    def __init__(self, config: ConsumerConfig, wanted: str | TopicFilter, start_offsets: StartOffsets | None) -> None:
        """``wanted``: a topic or a filter."""
        self._config, self._wanted, self._start_offsets = config, wanted, start_offsets
        self._queue = ChunkQueue(_AT_ONCE)  # a poll brings no more, and is made when the queue is empty
        self.lock = self._queue.lock
        self.progress = Progress()
        self._rewound: dict[Partition, int] = {}  # where the next poll continues; earlier messages are dropped
        self._polling, self._committing = threading.Lock(), threading.Lock()
        self._subscribed: list[str] = []
        self._look_again = 0.0  # when topics are listed for the filter
        try:
            self._consumer = Consumer({**_settings(config), "logger": logger})
        except KafkaException as error:
            raise InvalidConfigError(f"librdkafka refuses the settings: {error.args[0].str()}") from error
        if isinstance(wanted, str):
            self._subscribe([wanted])

    # The stream's thread

    def take(self, timeout_s: float | None) -> Chunk | None:
        """Like :meth:`.chunks.ChunkQueue.take`."""
        deadline, is_over = None if timeout_s is None else time.monotonic() + timeout_s, False
        while True:
            try:
                return self._queue.take(0)
            except TimeoutError:
                if is_over:
                    raise
            self._poll(_POLL_S if deadline is None else max(0.0, min(_POLL_S, deadline - time.monotonic())))
            is_over = deadline is not None and time.monotonic() >= deadline

    def drop(self, partitions: Collection[Partition] | None = None) -> None:
        """Like :meth:`.chunks.ChunkQueue.drop`."""
        self._queue.drop(partitions)

    def _poll(self, timeout_s: float) -> None:
        with self._polling:
            if self._queue.is_closed:
                return
            self._look_for_topics()
            if not self._subscribed:
                time.sleep(min(timeout_s, _POLL_S))
                return
            self._seek()
            try:
                # The library waits until it has the requested number, so the wait is for the first message only.
                received = self._consumer.consume(1, timeout_s)
                received += self._consumer.consume(_AT_ONCE - 1, 0) if received else []
            except KafkaException as error:
                raise _error("fetching", error.args[0]) from error
        self._sort(received)

    def _seek(self) -> None:
        """Seeks to the offsets that partitions were rewound to; if that fails now, the next poll tries again."""
        with self.lock:
            wanted, self._rewound = self._rewound, {}
        for partition, offset in wanted.items():
            try:
                self._consumer.seek(Place(partition.topic, partition.partition, offset))
            except KafkaException as error:
                with self.lock:
                    self._rewound.setdefault(partition, offset)
                self._fail(partition, error.args[0])

    def _sort(self, received: Sequence[Received]) -> None:
        """Groups received messages into chunks by partition, in order."""
        owned = self.progress.owned()
        runs: dict[tuple[str | None, int | None], list[Received]] = {}
        for each in received:
            if (error := each.error()) is not None:
                self._hear(each, error)
            else:
                runs.setdefault((each.topic(), each.partition()), []).append(each)
        with self.lock:
            for (topic, partition), messages in runs.items():
                assert topic is not None
                assert partition is not None
                place, first = Partition(topic, partition), _offset(messages[0])
                progress = None if place in self._rewound else owned.get(place)
                if progress is None:
                    continue  # the partition was released, or the messages came before a rewind
                before = progress.fetched  # messages below it: the log is shorter now, and auto.offset.reset chose
                content = Batch(messages, first if before is None else min(before, first))
                progress.fetched = content.next_offset
                self._queue.put(Chunk(progress, content))

    def _hear(self, event: Received, error: KafkaError) -> None:
        if error.code() in _PASSING:
            logger.info("%s: %s", self._config.bootstrap_servers, error)
            return
        topic, partition = event.topic(), event.partition()
        self._fail(Partition(topic or "", -1 if partition is None else partition), error)

    def _fail(self, place: Partition, error: KafkaError) -> None:
        self._queue.put(Chunk(PartitionProgress(place, None), _error(f"{place}", error)))

    def _look_for_topics(self) -> None:
        """Lists topics from time to time, and subscribes to those that the filter allows."""
        if isinstance(self._wanted, str) or time.monotonic() < self._look_again:
            return
        self._look_again = time.monotonic() + _LOOK_S
        try:
            there = self._consumer.list_topics(timeout=self._config.socket_timeout_ms / 1000).topics
        except KafkaException as error:
            logger.warning("topics cannot be listed: %s", error)
            return
        is_internal_out = self._config.exclude_internal_topics
        found = sorted(each for each in there if self._wanted.allows(each, exclude_internal=is_internal_out))
        if found != self._subscribed:
            self._subscribe(found)

    def _subscribe(self, topics: list[str]) -> None:
        if topics:
            self._consumer.subscribe(
                topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        elif self._subscribed:
            self._consumer.unsubscribe()
        self._subscribed = topics

    # The group; called within a poll, in the stream's thread

    def _on_assign(self, consumer: Consumer, places: list[Place]) -> None:
        given = given_offsets(self._start_offsets, [_partition(each) for each in places])
        for each in places:
            each.offset = given.get(_partition(each), OFFSET_INVALID)
        with self.lock:
            self.progress.set({each: PartitionProgress(each, None) for each in map(_partition, places)})
        consumer.assign(places)

    def _on_revoke(self, consumer: Consumer, places: list[Place]) -> None:
        self.drop()
        if self._config.auto_commit:
            self.commit_if_possible()
        self._give_up()

    def _on_lost(self, consumer: Consumer, places: list[Place]) -> None:
        logger.warning("group %s rebalanced without this stream", self._config.group_id)
        self._give_up()

    def _give_up(self) -> None:
        with self.lock:
            self.drop()
            self.progress.clear()
            self._rewound.clear()

    # Offsets

    def commit(self, retries: int) -> None:
        """Commits the messages yielded so far. Raises BrokerError or BrokerUnreachableError after the last try."""
        with self._committing:
            for tries_left in range(retries, -1, -1):
                offsets = self.progress.uncommitted()
                if not offsets:
                    return
                error = self._try(offsets)
                if error is None:
                    return
                if not tries_left:
                    raise error
                time.sleep(_RETRY_S)

    def _try(self, offsets: dict[Partition, int]) -> LogStoreError | None:
        places = [Place(each.topic, each.partition, offset) for each, offset in offsets.items()]
        try:
            done = self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            return _error(f"the commit of group {self._config.group_id}", error.args[0])
        refused = None
        for each in done or ():
            if each.error is None:
                self.progress.note_committed({_partition(each): int(each.offset)})
            else:
                refused = _error(f"the commit of group {self._config.group_id} for {_partition(each)}", each.error)
        return refused

    def commit_if_possible(self, retries: int = 0) -> None:
        """Commits the messages yielded so far; logs errors."""
        try:
            self.commit(retries)
        except LogStoreError as error:
            logger.warning("offsets are not committed: %s", error)

    def rewind(self, partition: Partition, offset: int) -> bool:
        """Continues a partition at another offset; returns False if this stream does not read it."""
        with self.lock:
            progress = self.progress.owned().get(partition)
            if progress is None:
                return False
            self.drop([partition])
            progress.begin_at(offset)
            self._rewound[partition] = offset
            return True

    def close(self) -> None:
        """Leaves the group and ends the stream; remaining messages are dropped."""
        self._queue.close()
        with self._polling:
            if self._config.auto_commit:
                self.commit_if_possible(self._config.commit_retries_max)
            self._consumer.close()


def _settings(config: ConsumerConfig) -> dict[str, Any]:
    return {
        "bootstrap.servers": config.bootstrap_servers,
        "group.id": config.group_id,
        "client.id": config.client_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": _RESETS.get(config.auto_offset_reset or "", "error"),
        "partition.assignment.strategy": config.strategy,
        "max.partition.fetch.bytes": config.fetch_size,
        "fetch.min.bytes": max(1, config.fetch_min_bytes),
        "fetch.wait.max.ms": config.fetch_wait_max_ms,
        "fetch.queue.backoff.ms": _FULL_MS,
        "socket.timeout.ms": config.socket_timeout_ms,
        "log_level": _LOG_LEVEL,
        **config.security,
    }


def _partition(place: Place) -> Partition:
    return Partition(place.topic, place.partition)


def _error(what: str, error: KafkaError) -> LogStoreError:
    code = error.code()
    if code in _OUTSIDE:
        return OffsetOutOfRangeError(f"{what}: {error.str()}")
    if code in _UNREACHABLE:
        return BrokerUnreachableError(f"{what}: {error.str()}")
    return BrokerError(what, code, error.name())
