"""SimpleConsumer: the low-level consumer. Each call is one request to one broker, without state between calls.

Source: kafka.consumer.SimpleConsumer of Kafka 0.7.2 and 0.8.2.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, Self

from ...protocol.apis import ApiKey
from ...storage import InvalidConfigError, TopicPartition
from .. import requests_0_7
from ..errors import ClientError
from ..wire import calls
from ..wire.broker import Broker
from ..wire.calls import FetchFrom
from ..wire.connection import Address, Connection, Terms
from ..wire.kafka_0_7 import PositionBroker, PositionSet
from .batch_sets import BatchMessageSet
from .message_sets import MessageSet
from .position_sets import PositionMessageSet

LATEST_TIME = -1  # of get_offsets_before
EARLIEST_TIME = -2
MESSAGE_BYTES_MAX = 100 << 20  # default limit to which a fetch grows for a large message


class Wire(Enum):
    """The protocol to use with the broker."""

    KAFKA_0_7 = "0.7"
    KAFKA_0_8 = "0.8"  # brokers of 0.8 to 3.9, and ours
    TODAY = "today"  # brokers since 0.10: the newest requests that both sides have


class Storage(Enum):
    """Where committed offsets are stored: ``offsets.storage``."""

    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


class FetchRequest(NamedTuple):
    """Up to ``max_size`` bytes of a partition from ``offset`` on."""

    topic: str
    partition: int
    offset: int
    max_size: int


class SimpleConsumer:
    """A consumer of one broker; a context manager that closes it. For any thread, one request at a time.

    It connects at the first call, and repeats a request once if the connection breaks. All calls may raise
    BrokerUnreachableError, ConnectionClosedError and MalformedAnswerError.
    """

    def __init__(
        self,
        host: str,
        port: int,
        so_timeout: int = 30_000,
        buffer_size: int = 65_536,
        *,
        wire: Wire | str = Wire.KAFKA_0_8,
        client_id: str = "commitlog",
        max_message_bytes: int = MESSAGE_BYTES_MAX,
        fetch_wait_ms: int = 0,
        fetch_min_bytes: int = 0,
    ) -> None:
        """``so_timeout``: ms to wait for an answer. ``buffer_size``: the receive buffer in bytes.

        ``fetch_wait_ms``, ``fetch_min_bytes``: a broker of 0.8 or later answers when it has this many bytes, or after
        this time. Raises InvalidConfigError.
        """
        terms = Terms(timeout_ms=so_timeout, receive_buffer_bytes=buffer_size)
        self._connection = Connection(Address(host, port), terms)
        self._api = _api(_wire(wire), self._connection, client_id, fetch_wait_ms, fetch_min_bytes)
        self._max_message_bytes = max_message_bytes

    @property
    def address(self) -> Address:
        """The address of the broker."""
        return self._connection.address

    def fetch(self, request: FetchRequest) -> MessageSet[Any]:
        """Returns messages of a partition. If the broker refused the request, iterating them raises its error.

        If the first message does not fit in ``max_size`` bytes, the size is doubled until it fits, up to
        ``max_message_bytes``.
        """
        return self._grown(request, *self._api.fetch([request]))

    def multifetch(self, requests: Sequence[FetchRequest]) -> list[MessageSet[Any]]:
        """Returns messages of several partitions, in the order of ``requests``, by one request to the broker."""
        found = self._api.fetch(requests)
        return [self._grown(asked, each) for asked, each in zip(requests, found, strict=True)]

    def get_offsets_before(self, topic: str, partition: int, time: int, max_num_offsets: int) -> list[int]:
        """Returns at most ``max_num_offsets`` offsets not after a time in ms, in descending order.

        They are the first offsets of segment files, by the times of the files. For LATEST_TIME they include the log
        end; for EARLIEST_TIME, the result is the log's beginning. On today's wire it is one offset: that of the first
        message not older than the time. Raises BrokerError and UnknownTopicOrPartitionError.
        """
        return self._api.offsets_before(TopicPartition(topic, partition), time, max_num_offsets)

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], storage: Storage | str = Storage.ZOOKEEPER
    ) -> None:
        """Commits offsets of a group: through the broker to ZooKeeper, or to the group's coordinator.

        For the coordinator, this must be a consumer of that broker (:meth:`find_coordinator`). Raises the error of the
        first refused partition, like :func:`wire.check`; others may have been committed. Kafka 0.7 has no such request:
        its consumers write to ZooKeeper.
        """
        self._api.commit(group, offsets, Storage(storage))

    def fetch_offsets(
        self, group: str, partitions: Iterable[TopicPartition], storage: Storage | str = Storage.ZOOKEEPER
    ) -> dict[TopicPartition, int | None]:
        """Returns the committed offset of each partition, None if there is none.

        ``storage`` as in :meth:`commit_offsets`. Raises UnknownTopicOrPartitionError if a coordinator of Kafka 0.8.2
        does not know a partition, and so not its offset.
        """
        return self._api.committed(group, list(partitions), Storage(storage))

    def find_coordinator(self, group: str) -> Address:
        """Returns the address of a group's coordinator. Raises BrokerError, also if it may be found later."""
        return self._api.coordinator(group)

    def close(self) -> None:
        """Closes the consumer; a thread that waits for an answer gets ConnectionClosedError."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _grown(self, asked: FetchRequest, found: MessageSet[Any]) -> MessageSet[Any]:
        size = max(asked.max_size, 1)
        while found.is_too_small and size < self._max_message_bytes:
            size = min(2 * size, self._max_message_bytes)
            (found,) = self._api.fetch([asked._replace(max_size=size)])
        return found


def _wire(wire: Wire | str) -> Wire:
    try:
        return Wire(wire)
    except ValueError:
        known = ", ".join(each.value for each in Wire)
        raise InvalidConfigError(f"wire = {wire!r} is unknown; known are {known}") from None


class _Api(Protocol):
    """The calls of a consumer in one protocol."""

    def fetch(self, asked: Sequence[FetchRequest]) -> Sequence[MessageSet[Any]]: ...
    def offsets_before(self, place: TopicPartition, time_ms: int, most: int) -> list[int]: ...
    def commit(self, group: str, offsets: Mapping[TopicPartition, int], storage: Storage) -> None: ...
    def committed(
        self, group: str, partitions: Sequence[TopicPartition], storage: Storage
    ) -> dict[TopicPartition, int | None]: ...
    def coordinator(self, group: str) -> Address: ...


def _api(wire: Wire, connection: Connection, client_id: str, wait_ms: int, bytes_min: int) -> _Api:
    if wire is Wire.KAFKA_0_7:
        return _Positions(PositionBroker(connection))
    kind = _Offsets if wire is Wire.KAFKA_0_8 else _TodaysOffsets
    return kind(Broker(connection, client_id), wait_ms, bytes_min)


class _Positions:
    """Kafka 0.7."""

    def __init__(self, broker: PositionBroker) -> None:
        self._broker = broker

    def fetch(self, asked: Sequence[FetchRequest]) -> Sequence[PositionMessageSet]:
        if len(asked) == 1:
            return [_position_set(self._broker.fetch(requests_0_7.Fetch(*asked[0])))]
        return [_position_set(each) for each in self._broker.multi_fetch([requests_0_7.Fetch(*each) for each in asked])]

    def offsets_before(self, place: TopicPartition, time_ms: int, most: int) -> list[int]:
        return self._broker.offsets_before(requests_0_7.Offsets(*place, time_ms, most))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], storage: Storage) -> None:
        raise self._unknown()

    def committed(
        self, group: str, partitions: Sequence[TopicPartition], storage: Storage
    ) -> dict[TopicPartition, int | None]:
        raise self._unknown()

    def coordinator(self, group: str) -> Address:
        raise self._unknown()

    def _unknown(self) -> ClientError:
        return ClientError("a broker of Kafka 0.7 does not store offsets of groups: read and write them in ZooKeeper")


def _position_set(found: PositionSet) -> PositionMessageSet:
    return PositionMessageSet(found.message_set, found.asked.position, found.error, found.code)


class _Offsets:
    """Kafka 0.8: versions that brokers before 4 have."""

    def __init__(self, broker: Broker, wait_ms: int, bytes_min: int) -> None:
        self._broker, self._wait_ms, self._bytes_min = broker, wait_ms, bytes_min

    def fetch(self, asked: Sequence[FetchRequest]) -> Sequence[BatchMessageSet]:
        found: list[BatchMessageSet] = []
        for part in _without_repetition(asked):
            found += self._fetch(part, self._fetch_version())
        return found

    def _fetch(self, asked: Sequence[FetchRequest], version: int) -> Iterable[BatchMessageSet]:
        places = {TopicPartition(each.topic, each.partition): FetchFrom(each.offset, each.max_size) for each in asked}
        found = calls.fetch(self._broker, places, wait_ms=self._wait_ms, bytes_min=self._bytes_min, version=version)
        for place, each in places.items():
            got = found[place]
            error = calls.error_of(got.error, f"{place} from offset {each.offset}")
            yield BatchMessageSet(got.records, each.offset, error, got.error, high_watermark=got.high_watermark)

    def _fetch_version(self) -> int:
        return 0

    def offsets_before(self, place: TopicPartition, time_ms: int, most: int) -> list[int]:
        return calls.offsets_before(self._broker, place, time_ms, most)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], storage: Storage) -> None:
        version = 0 if storage is Storage.ZOOKEEPER else self._commit_version()
        for place, code in calls.commit(self._broker, group, offsets, version=version).items():
            calls.check(code, f"the commit of group {group} for {place}")

    def _commit_version(self) -> int:
        return 1

    def committed(
        self, group: str, partitions: Sequence[TopicPartition], storage: Storage
    ) -> dict[TopicPartition, int | None]:
        return calls.committed(self._broker, group, partitions, version=0 if storage is Storage.ZOOKEEPER else 1)

    def coordinator(self, group: str) -> Address:
        return calls.coordinator(self._broker, group)


class _TodaysOffsets(_Offsets):
    """Today's protocol, in the last versions without tagged fields."""

    def _fetch_version(self) -> int:
        return self._broker.version(ApiKey.FETCH, 11)

    def _commit_version(self) -> int:
        return self._broker.version(ApiKey.OFFSET_COMMIT, 2)

    def offsets_before(self, place: TopicPartition, time_ms: int, most: int) -> list[int]:
        found = calls.offset_at(self._broker, place, time_ms, version=self._broker.version(ApiKey.LIST_OFFSETS, 5))
        return [found][:most] if found >= 0 else []


def _without_repetition(asked: Sequence[FetchRequest]) -> Iterable[list[FetchRequest]]:
    """Yields the requests in order, in parts that name each partition once: answers cannot tell repeated ones apart."""
    part: dict[tuple[str, int], FetchRequest] = {}
    for each in asked:
        if each[:2] in part:
            yield list(part.values())
            part = {}
        part[each.topic, each.partition] = each
    if part:
        yield list(part.values())
