"""SyncProducer: chooses partitions, groups and compresses messages by partition, sends them, and retries."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from threading import Lock
from typing import cast

from ...registry.errors import RegistryError
from ...storage import Clock, UnknownTopicOrPartitionError
from ..errors import (
    BrokerError,
    BrokerUnreachableError,
    InvalidPartitionError,
    MalformedAnswerError,
    MessageSizeTooLargeError,
    NoBrokersForPartitionError,
)
from .encoders import DefaultEncoder, Encoder
from .figures import Counters
from .lost import Lost
from .messages import Message, QueueItem, Record
from .partitioners import Partitioner
from .settings import ProducerConfig
from .targets.port import ANY, BrokerPartition, RecordSet, Target

_PASSING_ON = DefaultEncoder()
_ANYWHERE = BrokerPartition(ANY, ANY)
_REPEATED = (  # errors after which another try may succeed
    BrokerError,
    BrokerUnreachableError,
    MalformedAnswerError,
    NoBrokersForPartitionError,
    RegistryError,
    UnknownTopicOrPartitionError,
)

Fail = Callable[[Sequence[QueueItem], Exception], None]
Collated = dict[tuple[str, BrokerPartition], list[QueueItem]]


class SyncProducer:
    """Sends encoded messages. For any thread; one sends at a time.

    If the settings ask for no acknowledgement (``request.required.acks`` 0, and always with Kafka 0.7), a message
    counts as sent when it is written to the connection.
    """

    def __init__(
        self,
        config: ProducerConfig,
        target: Target,
        counters: Counters,
        *,
        clock: Clock,
        partitioner: Partitioner | None,
        key_encoder: Encoder,
    ) -> None:
        """``partitioner``: None if the target chooses partitions."""
        self._config, self._target, self._counters, self._clock = config, target, counters, clock
        self._partitioner, self._key_encoder = partitioner, key_encoder
        self._random = random.Random()
        self._lock = Lock()  # Guards the target: one call at a time uses it.

    def send(self, topic: str, partition: int | None, messages: Sequence[Message]) -> None:
        """Sends messages to one partition of a topic, an index into its sorted partitions; None: any.

        Raises the errors of :meth:`multi_send`.
        """
        self.multi_send([QueueItem(each, topic, partition) for each in messages])

    def multi_send(self, items: Sequence[QueueItem]) -> None:
        """Sends messages with encoded ``data``, in one request to each broker concerned.

        Raises the error if it is the only one and no message was sent, else NotSentError if some were not sent.
        """
        lost = Lost()
        with self._lock:
            unsent = list(items)
            for tries_left in reversed(range(self._config.tries)):
                failed = self._try(unsent, lost, is_last=not tries_left)
                unsent = [item for group in failed for item in group]
                if not unsent:
                    break
                self._prepare_retry({item.topic for item in unsent})
        lost.raise_any(len(items))

    def close(self) -> None:
        """Closes the target, after a send in progress has ended."""
        with self._lock:
            self._target.close()

    def _completed(self, items: Sequence[QueueItem], fail: Fail) -> list[QueueItem]:
        """Returns the messages of one partition with their keys; passes those that cannot be sent to ``fail``."""
        completed, largest = [], self._config.max_message_size
        try:
            has_keys = self._target.has_keys  # asked once: later messages must not overtake one that failed
        except Exception as error:
            fail(items, error)
            return []
        for item in items:
            data, _, _, key = item
            if key is None and type(data) is bytes and len(data) <= largest:  # as most are
                completed.append(item)
                continue
            try:
                completed.append(self._complete(item, largest, has_keys=has_keys))
            except Exception as error:
                fail([item], error)
        return completed

    def _complete(self, item: QueueItem, largest: int, *, has_keys: bool) -> QueueItem:
        """Returns a message with its key.

        Raises InvalidMessageError, MessageSizeTooLargeError, and the encoder's errors.
        """
        data = _PASSING_ON.to_message(item.data)
        record = data if isinstance(data, Record) else Record(data)
        if item.key is not None and record.key is None and has_keys:
            record = record._replace(key=self._encoded_key(item.key))
        if _size_of(record) > largest:
            raise MessageSizeTooLargeError(
                f"topic {item.topic}: a message has {_size_of(record)} bytes, but max.message.size allows {largest}"
            )
        return item._replace(data=record)

    def _encoded_key(self, key: object) -> bytes | None:
        encoded = self._key_encoder.to_message(key)
        return encoded.value if isinstance(encoded, Record) else encoded

    def _try(self, items: list[QueueItem], lost: Lost, *, is_last: bool) -> list[Sequence[QueueItem]]:
        """Sends once. Returns the messages to send again, after errors that may pass."""
        again: list[Sequence[QueueItem]] = []

        def fail(group: Sequence[QueueItem], error: Exception) -> None:
            if is_last or not isinstance(error, _REPEATED):
                lost.add(group, error)
            else:
                again.append(group)

        groups, sets = [], []
        for (topic, place), group in self._collated(items, fail).items():
            if completed := self._completed(group, fail):
                data = cast(list[Message], [item.data for item in completed])
                groups.append(completed)
                sets.append(RecordSet(topic, place, data, self._config.codec_of(topic)))
        if sets:
            self._send(sets, groups, fail)
        return again

    def _send(self, sets: Sequence[RecordSet], groups: Sequence[list[QueueItem]], fail: Fail) -> None:
        began_ms = self._clock.now_ms()
        try:
            failed = {each.number: each.error for each in self._target.send(sets, wait=not self._config.is_async)}
        except Exception as reason:  # before any of them was sent
            failed = dict.fromkeys(range(len(sets)), reason)
        sent = sum(len(group) for number, group in enumerate(groups) if number not in failed)
        self._counters.count_request(sent, self._clock.now_ms() - began_ms)
        for number, error in failed.items():
            fail(groups[number], error)

    def _collated(self, items: Sequence[QueueItem], fail: Fail) -> Collated:
        """Groups messages by topic and partition, in their order."""
        collated: Collated = {}
        choosers: dict[str, _Chooser | Exception] = {}
        unkeyed: dict[str, list[QueueItem]] = {}  # by topic: all messages without a key go to one partition
        for item in items:
            _, topic, partition, key = item
            if key is None and partition is None and topic in unkeyed:  # as most are
                unkeyed[topic].append(item)
                continue
            try:
                place = self._chosen(item, choosers)
            except Exception as error:
                fail([item], error)
                continue
            group = collated.setdefault((topic, place), [])
            group.append(item)
            if key is None and partition is None:
                unkeyed[topic] = group
        return collated

    def _chosen(self, item: QueueItem, choosers: dict[str, _Chooser | Exception]) -> BrokerPartition:
        if item.topic not in choosers:
            choosers[item.topic] = self._chooser(item.topic)
        chooser = choosers[item.topic]
        if isinstance(chooser, Exception):
            raise chooser
        return chooser.place_of(item)

    def _chooser(self, topic: str) -> _Chooser | Exception:
        """Returns the chooser of a topic, or its error.

        To keep their order, the error counts for all messages of the topic.
        """
        try:
            return _Chooser(topic, self._target, self._partitioner, self._random)
        except Exception as error:
            return error

    def _prepare_retry(self, topics: set[str]) -> None:
        self._clock.sleep_ms(self._config.retry_backoff_ms)
        for topic in topics:
            self._target.refresh(topic)


class _Chooser:
    """Chooses partitions of one topic for the messages of one request."""

    def __init__(self, topic: str, target: Target, partitioner: Partitioner | None, chance: random.Random) -> None:
        self._topic, self._target, self._partitioner = topic, target, partitioner
        self._places = None if partitioner is None and target.places_keys else target.partitions(topic)
        led = [place for place in self._places or () if place.broker >= 0]
        self._any = chance.choice(led or self._places or [_ANYWHERE])  # for all messages without a key

    def place_of(self, item: QueueItem) -> BrokerPartition:
        """Raises InvalidPartitionError."""
        if item.partition is not None:
            return self._indexed(item.partition)
        if item.key is None or self._partitioner is None or self._places is None:
            return self._any
        return self._indexed(self._partitioner.partition(item.key, len(self._places)))

    def _indexed(self, index: int) -> BrokerPartition:
        places = self._target.partitions(self._topic) if self._places is None else self._places
        if not 0 <= index < len(places):
            raise InvalidPartitionError(
                f"partition {index} was chosen for a message of topic {self._topic}, "
                f"which has {len(places)}, numbered from 0"
            )
        return places[index]


def _size_of(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.value or b"") + len(record.key or b"") + headers
