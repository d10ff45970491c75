"""Clusters of Kafka 0.8 to 0.10, found in ZooKeeper.

Brokers are found in the registry, topics and leaders by Metadata requests, as consumers of that time did. Messages have
magic 0 or 1. There are no transactions, so everything below the high watermark is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ...classic.errors import BrokerError, BrokerUnreachableError, MalformedAnswerError
from ...classic.wire.broker import Broker
from ...classic.wire.calls import Fetched, FetchFrom, error_of, fetch, offsets_before
from ...classic.wire.connection import Address
from ...classic.wire.finding import addresses
from ...classic.wire.leaders import PAUSE_S, Leaders
from ...registry.opening import open_registry
from ...storage import FetchAnswer, TopicIds, TopicPartition, UnknownTopicOrPartitionError
from ..brokers.connections import ListedTopic
from ..brokers.failing import Failing
from ..brokers.requests import EARLIEST
from ..errors import MirrorError, as_mirror_errors
from .port import numbered

_FETCH_BYTES = 1 << 20
_FETCH_BYTES_MAX = 1 << 30  # a larger message cannot be
_OUT_OF_RANGE = 1
_MOVED = {5, 6, 9}  # LEADER_NOT_AVAILABLE, NOT_LEADER, REPLICA_NOT_AVAILABLE
_NOT_CONVERTED = b"\xff" * 8  # the offset of what stands for a batch that does not fit when it is converted


@dataclass(frozen=True)
class ZooKeeperSources:
    """A cluster by ``zookeeper.connect``; Kafka 0.8 to 2.8, while its brokers still answer the requests of 0.8."""

    connect: str
    fetch_bytes: int = _FETCH_BYTES  # of a partition; doubled for a larger message
    wait_ms: int = 100

    def open(self) -> ZooKeeperSource:
        return ZooKeeperSource(self, self._registered)

    def _registered(self) -> Mapping[int, Address]:
        with open_registry("", self.connect) as registry:
            return addresses(registry)

    def __str__(self) -> str:
        return f"Kafka by ZooKeeper at {self.connect}"


class ZooKeeperSource:
    """Connections to the brokers of a cluster; a :class:`Source`."""

    def __init__(self, settings: ZooKeeperSources, registered: Callable[[], Mapping[int, Address]]) -> None:
        """``registered``: returns where the brokers are, by id."""
        self._settings = settings
        self._leaders = Leaders(lambda: registered().values(), "the registry")
        self._failing: Failing[TopicPartition] = Failing(settings)
        self._sizes: dict[TopicPartition, int] = {}  # of the next fetch, where it is not that of the settings
        self._unseen: dict[TopicPartition, tuple[int, int]] = {}  # offset and high watermark with nothing between

    def topics(self) -> list[ListedTopic]:
        with as_mirror_errors(self._settings):
            found = self._leaders.described()
        counts: dict[str, int] = {}
        for partition in found.partitions:
            counts[partition.topic] = counts.get(partition.topic, 0) + 1
        return sorted(ListedTopic(topic, count) for topic, count in counts.items() if topic not in found.errors)

    def partitions(self, topic: ListedTopic) -> list[TopicPartition]:
        return numbered(topic)

    def configs(self, topic: str) -> Mapping[str, str]:
        """Returns no settings, because brokers of this time do not report them."""
        del topic
        return {}

    def offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for node, some in self._by_leader(partitions).items():
            with self._led_by(node):
                leader = self._leaders.broker(node)
                for partition in some:
                    with self._led(partition):
                        found[partition] = _offset(leader, partition, at)
        return found

    def fetch(
        self, positions: Mapping[TopicPartition, int], ids: TopicIds | None = None
    ) -> dict[TopicPartition, FetchAnswer | None]:
        del ids  # topics have none
        answers: dict[TopicPartition, Fetched] = {}
        for node, some in self._by_leader(positions, at_once=False).items():
            asked = {each: FetchFrom(positions[each], self._size(each)) for each in some}
            with self._led_by(node):
                answers |= fetch(self._leaders.broker(node), asked, wait_ms=self._settings.wait_ms)
        found, answered = self._taken(answers, positions)
        if self._failing.note(positions.keys(), answered) and not answered:
            time.sleep(PAUSE_S)
        return found

    def _by_leader(
        self, partitions: Iterable[TopicPartition], *, at_once: bool = True
    ) -> dict[int, list[TopicPartition]]:
        with as_mirror_errors(self._settings):
            return self._leaders.of(partitions, at_once=at_once)

    def _taken(
        self, answers: Mapping[TopicPartition, Fetched], positions: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, FetchAnswer | None], Collection[TopicPartition]]:
        """Returns what is of use in answers, and the partitions whose leaders answered."""
        found: dict[TopicPartition, FetchAnswer | None] = {}
        answered = set()
        for partition in answers.keys() & positions.keys():
            answer, offset = answers[partition], positions[partition]
            with self._led(partition):
                if answer.error == _OUT_OF_RANGE:
                    found[partition] = None
                elif (error := error_of(answer.error, f"{partition} of {self._settings}")) is not None:
                    raise error
                elif self._has_whole_message(partition, offset, answer):
                    found[partition] = FetchAnswer(answer.records, offset)
                answered.add(partition)
        return found, answered

    def _size(self, partition: TopicPartition) -> int:
        return self._sizes.get(partition, self._settings.fetch_bytes)

    def _has_whole_message(self, partition: TopicPartition, offset: int, answer: Fetched) -> bool:
        """Whether an answer has a complete message; if not, the next fetch asks for twice the size.

        Brokers send a part of such a message, or nothing. They also send nothing below the high watermark if all that
        is there are markers of transactions. Raises MirrorError if a message is larger than the largest allowed size.
        """
        records, end = answer.records, answer.high_watermark
        if len(records) >= 12 and len(records) >= 12 + int.from_bytes(records[8:12], "big"):
            self._sizes.pop(partition, None)
            return True
        is_nothing = not records or records[:8] == _NOT_CONVERTED
        if is_nothing and (offset >= end or self._unseen.get(partition) == (offset, end)):
            return False
        size = self._size(partition)
        if size < _FETCH_BYTES_MAX:
            self._sizes[partition] = min(2 * size, _FETCH_BYTES_MAX)
        elif is_nothing:
            self._sizes.pop(partition, None)
            self._unseen[partition] = offset, end
        else:
            raise MirrorError(f"{partition} of {self._settings}: a message needs more than {size} bytes")
        return False

    def close(self) -> None:
        self._leaders.close()

    @contextmanager
    def _led_by(self, node: int) -> Iterator[None]:
        """Lets the partitions of a broker that does not answer be looked for elsewhere."""
        try:
            yield
        except BrokerUnreachableError:
            self._leaders.lose(node)

    @contextmanager
    def _led(self, partition: TopicPartition) -> Iterator[None]:
        """Lets a partition whose leader has moved be looked for; raises MirrorError if a broker refuses for good."""
        try:
            yield
        except UnknownTopicOrPartitionError:
            self._leaders.forget(partition)
        except BrokerError as error:
            if error.code not in _MOVED:
                raise MirrorError(f"{self._settings}: {error}") from error
            self._leaders.forget(partition)


def _offset(leader: Broker, partition: TopicPartition, at: int) -> int:
    """Returns the first offset of a segment file, chosen by its time.

    For a time before all files, that of the first file.
    """
    found = offsets_before(leader, partition, at, 1) or offsets_before(leader, partition, EARLIEST, 1)
    if not found:
        raise MalformedAnswerError(f"{leader.connection.address}: the broker answered no offset of {partition}")
    return found[0]
