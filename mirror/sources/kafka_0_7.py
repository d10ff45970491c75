"""Brokers of Kafka 0.7, found in ZooKeeper or by a list. Each has partitions of its own, and offsets are positions.

A broker of 0.7 does not tell its topics: they are in the registry, or in a setting. Source: ZookeeperConsumerConnector
and FetcherRunnable of Kafka 0.7.2.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, Protocol

from ...classic.errors import BrokerError, BrokerUnreachableError, MalformedAnswerError
from ...classic.requests_0_7 import Code, Fetch, Offsets
from ...classic.upgrade.forwarding import PositionAnswer
from ...classic.wire.connection import Address, Connection, Terms
from ...classic.wire.finding import addresses
from ...classic.wire.kafka_0_7 import PositionBroker, PositionSet
from ...registry import kafka_nodes
from ...registry.opening import open_registry
from ...registry.operations import children_if_any
from ...registry.port import Registry
from ...storage import TopicIds
from ..brokers.connections import ListedTopic
from ..brokers.failing import Failing
from ..brokers.requests import LATEST
from ..errors import MirrorError, as_mirror_errors
from .port import BrokerPartition

_FETCH_BYTES = 300 << 10
_FETCH_BYTES_MAX = 1 << 30  # a larger message cannot be
_PARTS_MAX = 1000  # fetches of one request
_SIZE_BYTES = 4  # before each message
_PAUSE_S = 0.2  # between two looks for brokers that do not answer


class Found(NamedTuple):
    """Brokers that are there, and their partitions."""

    brokers: Mapping[int, Address]
    partitions: Sequence[BrokerPartition]


class Finder(Protocol):
    """Finds brokers and partitions."""

    def find(self, terms: Terms) -> Found:
        """Raises RegistryError, and as :class:`PositionBroker`."""


@dataclass(frozen=True)
class Registered:
    """Brokers by ``zk.connect``, and what they registered there."""

    connect: str

    def find(self, terms: Terms) -> Found:
        del terms
        with open_registry("", self.connect) as registry:
            return registered(registry)

    def __str__(self) -> str:
        return f"Kafka 0.7 by ZooKeeper at {self.connect}"


def registered(registry: Registry) -> Found:
    """Returns the brokers of 0.7 in a registry. Raises MirrorError for brokers of a later Kafka."""
    brokers = addresses(registry)
    for broker in brokers:
        node = registry.find(kafka_nodes.broker_path(broker))
        if node is not None and (node.data or b"").startswith(b"{"):
            raise MirrorError(f"broker {broker} is of Kafka 0.8 or later: use zookeeper.connect in place of zk.connect")
    found: list[BrokerPartition] = []
    for topic in children_if_any(registry, kafka_nodes.BROKER_TOPICS):
        for name in children_if_any(registry, kafka_nodes.topic_path(topic)):
            node = registry.find(kafka_nodes.old_topic_path(topic, int(name)))
            if node is not None and int(name) in brokers:
                found += [BrokerPartition(topic, each, int(name)) for each in range(int(node.data or b"0"))]
    return Found(brokers, found)


@dataclass(frozen=True)
class Listed:
    """Brokers by ``broker.list``, and the topics that the settings name."""

    brokers: Mapping[int, Address]
    topics: tuple[str, ...]

    def find(self, terms: Terms) -> Found:
        """A broker has the partitions that it does not call wrong; those without a message are left out."""
        found: list[BrokerPartition] = []
        for broker, address in self.brokers.items():
            with Connection(address, terms) as connection:
                for topic in self.topics:
                    found += _partitions(PositionBroker(connection), broker, topic)
        return Found(self.brokers, found)

    def __str__(self) -> str:
        return "Kafka 0.7 at " + ",".join(f"{broker}:{address}" for broker, address in self.brokers.items())


def _partitions(at: PositionBroker, broker: int, topic: str) -> Iterator[BrokerPartition]:
    for number in count():
        answer = at.fetch(Fetch(topic, number, 0, 1))
        if answer.code == Code.WRONG_PARTITION:
            return
        if answer.code not in (Code.NONE, Code.OFFSET_OUT_OF_RANGE) and answer.error is not None:
            raise answer.error
        if at.offsets_before(Offsets(topic, number, LATEST, 1)) != [0]:
            yield BrokerPartition(topic, number, broker)


@dataclass(frozen=True)
class BrokerSources:
    """Brokers of Kafka 0.7."""

    finder: Finder
    fetch_bytes: int = _FETCH_BYTES  # of a partition; doubled for a larger message
    pause_ms: int = 1000  # after a fetch that brought nothing: brokers of 0.7 answer at once
    timeout_ms: int = 30_000

    def open(self) -> BrokerSource:
        return BrokerSource(self)

    def __str__(self) -> str:
        return str(self.finder)


class BrokerSource:
    """Connections to brokers of 0.7; as :class:`Source`."""

    def __init__(self, settings: BrokerSources) -> None:
        self._settings = settings
        self._brokers: dict[int, PositionBroker] = {}
        self._partitions: Sequence[BrokerPartition] = ()
        self._failing: Failing[BrokerPartition] = Failing(settings)
        self._sizes: dict[BrokerPartition, int] = {}  # of the next fetch, where it is not that of the settings
        self._found_s = -_PAUSE_S

    def topics(self) -> list[ListedTopic]:
        """A broker that is gone has no partitions now."""
        self._find()
        counts: dict[str, int] = {}
        for each in self._partitions:
            counts[each.topic] = max(counts.get(each.topic, 0), each.partition + 1)
        return sorted(ListedTopic(*each) for each in counts.items())

    def partitions(self, topic: ListedTopic) -> list[BrokerPartition]:
        return [each for each in self._partitions if each.topic == topic.name]

    def configs(self, topic: str) -> Mapping[str, str]:
        """The settings of these topics stay where they are: brokers do not tell them."""
        del topic
        return {}

    def offsets(self, partitions: Iterable[BrokerPartition], at: int) -> dict[BrokerPartition, int]:
        found: dict[BrokerPartition, int] = {}
        for some in self._by_broker(partitions):
            with self._asking(some[0].broker):
                for each in some:
                    found[each] = self._offset(each, at)
        return found

    def _offset(self, partition: BrokerPartition, at: int) -> int:
        found = self._brokers[partition.broker].offsets_before(Offsets(partition.topic, partition.partition, at, 1))
        if not found:
            raise MirrorError(f"{partition} of {self._settings}: the broker does not say where its log begins and ends")
        return found[0]

    def fetch(
        self, positions: Mapping[BrokerPartition, int], ids: TopicIds | None = None
    ) -> dict[BrokerPartition, PositionAnswer | None]:
        del ids  # topics have none
        answers: dict[BrokerPartition, PositionSet] = {}
        for some in self._by_broker(positions):
            asked = [self._fetch_of(each, positions[each]) for each in some]
            with self._asking(some[0].broker):
                answers |= zip(some, self._brokers[some[0].broker].multi_fetch(asked), strict=True)
        found: dict[BrokerPartition, PositionAnswer | None] = {}
        for each, answer in answers.items():
            self._take(each, answer, found)
        self._failing.note(positions.keys(), answers.keys())
        if not found:
            time.sleep(self._settings.pause_ms / 1000)
        return found

    def _fetch_of(self, partition: BrokerPartition, position: int) -> Fetch:
        size = self._sizes.get(partition, self._settings.fetch_bytes)
        return Fetch(partition.topic, partition.partition, position, size)

    def _take(
        self, partition: BrokerPartition, answer: PositionSet, found: dict[BrokerPartition, PositionAnswer | None]
    ) -> None:
        """Adds an answer to ``found`` if it is of use; a message that is larger than what was asked for is not."""
        if answer.code == Code.OFFSET_OUT_OF_RANGE:
            found[partition] = None
        elif answer.error is not None:
            raise MirrorError(f"{self._settings}: {answer.error}") from answer.error
        elif self._is_whole(partition, answer):
            place = f"{partition} of {self._settings}"
            found[partition] = PositionAnswer(answer.message_set, answer.asked.position, place)

    def _is_whole(self, partition: BrokerPartition, answer: PositionSet) -> bool:
        """Whether an answer has a whole message, or damage; if a message is larger, the next fetch asks for twice that.

        Raises MirrorError for a message that is larger than any may be.
        """
        data, size = answer.message_set, answer.asked.size
        if not data:
            return False
        is_cut = len(data) < _SIZE_BYTES or len(data) - _SIZE_BYTES < int.from_bytes(data[:_SIZE_BYTES], "big")
        if not is_cut or len(data) < size:  # with less than that, the file ends here: the message is damaged
            self._sizes.pop(partition, None)
            return True
        if size >= _FETCH_BYTES_MAX:
            raise MirrorError(f"{partition} of {self._settings}: a message needs more than {size} bytes")
        self._sizes[partition] = 2 * size
        return False

    def close(self) -> None:
        while self._brokers:
            self._brokers.popitem()[1].connection.close()

    def _by_broker(self, partitions: Iterable[BrokerPartition]) -> Iterator[list[BrokerPartition]]:
        """Yields partitions by what one request asks a broker for; without those whose broker is not there."""
        found: dict[int, list[BrokerPartition]] = {}
        for each in partitions:
            found.setdefault(each.broker, []).append(each)
        if not found.keys() <= self._brokers.keys() and time.monotonic() - self._found_s >= _PAUSE_S:
            self._find()
        for broker, mine in found.items():
            for first in range(0, len(mine), _PARTS_MAX):
                if broker in self._brokers:  # it may not have answered the request before
                    yield mine[first : first + _PARTS_MAX]

    @contextmanager
    def _asking(self, broker: int) -> Iterator[None]:
        """Lets a broker that does not answer be looked for later; raises MirrorError if it refuses for good."""
        try:
            yield
        except (BrokerUnreachableError, MalformedAnswerError):
            self._brokers.pop(broker).connection.close()
        except BrokerError as error:
            raise MirrorError(f"{self._settings}: {error}") from error

    def _find(self) -> None:
        """Finds brokers and partitions; connections to brokers that are where they were stay.

        Raises RetriableError if that cannot be known now.
        """
        self._found_s = time.monotonic()
        terms = Terms(timeout_ms=self._settings.timeout_ms)
        with as_mirror_errors(self._settings):
            there, self._partitions = self._settings.finder.find(terms)
        for broker in [each for each, known in self._brokers.items() if there.get(each) != known.connection.address]:
            self._brokers.pop(broker).connection.close()
        for broker in there.keys() - self._brokers.keys():
            self._brokers[broker] = PositionBroker(Connection(there[broker], terms))
