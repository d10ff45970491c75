"""Connections: requests to the brokers of a cluster, for many partitions at once."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from ...storage import TopicPartition, masked
from ..errors import MirrorError, RetriableError
from .cluster import Cluster, masking_errors
from .kafka_python import KafkaError, KafkaNetClient, MetadataRequest, NoError, for_code
from .requests import list_offsets

TIMEOUT_MS = 30_000  # of a request
IN_FLIGHT_MAX = 5  # requests to one broker without an answer, which is what brokers allow an idempotent producer
RequestT = TypeVar("RequestT")


def id_text(topic_id: object) -> str | None:
    """Returns a topic's id as Kafka writes it into its files; None for the zeros of brokers that have none."""
    found = UUID(int=0) if topic_id is None else UUID(str(topic_id))
    return urlsafe_b64encode(found.bytes).rstrip(b"=").decode() if found.int else None


class ListedTopic(NamedTuple):
    """A topic in the brokers' metadata."""

    name: str
    partitions: int
    topic_id: str | None = None  # as in Kafka's files; None: not known, as before Kafka 2.8


class Leader(NamedTuple):
    """The leader of a partition."""

    node: int
    topic_id: UUID | None  # distinguishes the topic from a later one of its name; zeros before Kafka 2.8


class Connections:
    """Connections to the brokers of a cluster. For one thread at a time.

    Methods raise RetriableError if a failed request may succeed later, and MirrorError if it cannot.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Connects with the first request."""
        self.cluster = cluster
        self._leaders: dict[TopicPartition, Leader] = {}
        self._client = self.masking_errors(lambda: KafkaNetClient(**cluster.settings))

    def masking_errors(self, ask: Callable[[], RequestT]) -> RequestT:
        """Like the function :func:`masking_errors`, for this cluster."""
        return masking_errors(self.cluster, ask)

    def check_there(self) -> None:
        """Raises RetriableError if no broker answers."""
        self.masking_errors(lambda: self._client.get_broker_version(timeout_ms=TIMEOUT_MS))

    def ask(self, node: int, request: Any) -> Any:
        """Returns a broker's answer to one request."""
        (answer,) = self.ask_all([(node, request)])
        return answer

    def ask_any(self, request: Any) -> Any:
        """Returns the answer of any broker, preferably one that is not busy."""
        self.check_there()
        return self.ask(self.masking_errors(lambda: self._client.least_loaded_node(True)), request)

    def ask_all(self, requests: Iterable[tuple[int, Any]]) -> Iterator[Any]:
        """Yields the answers to requests (node id, request), in their order.

        Up to five requests are sent ahead of the answer that is awaited.
        """
        sent: deque[Any] = deque()
        for node, request in requests:
            if len(sent) == IN_FLIGHT_MAX:
                yield self._answer(sent.popleft())
            sent.append(self.masking_errors(lambda node=node, request=request: self._send(node, request)))  # type: ignore[misc]
        while sent:
            yield self._answer(sent.popleft())

    def _send(self, node: int, request: Any) -> Any:
        self._client.await_ready(node, TIMEOUT_MS)
        return self._client.send(node, request)

    def _answer(self, future: Any) -> Any:
        self.masking_errors(lambda: self._client.poll(timeout_ms=TIMEOUT_MS, future=future))
        if future.succeeded():
            return future.value
        if future.failed():
            self._leaders.clear()
            error = future.exception
            kind = MirrorError if isinstance(error, KafkaError) and not error.retriable else RetriableError
            raise kind(f"{self.cluster}: {masked(str(error))}") from error
        raise RetriableError(f"{self.cluster}: no answer within {TIMEOUT_MS // 1000} s")

    def check(self, error_code: int, what: str, reason: str | None = None) -> None:
        """Raises RetriableError or MirrorError for an error code in an answer.

        ``what``: the subject of the request, for the message. ``reason``: the broker's own words, if it has any.
        """
        error = for_code(error_code)
        if error is not NoError:
            if error.retriable:
                self._leaders.clear()
            kind = RetriableError if error.retriable else MirrorError
            raise kind(f"{what} of {self.cluster}: {error.message}: {masked(reason or error.description)}")

    def brokers(self) -> frozenset[tuple[str, int]]:
        """Returns host and port of each broker of the cluster, as the brokers tell them to clients."""
        answer = self.ask_any(MetadataRequest(topics=[], allow_auto_topic_creation=False, min_version=1))
        return frozenset((each.host, each.port) for each in answer.brokers)

    def topics(self) -> list[ListedTopic]:
        """Returns all topics except internal ones, by name."""
        answer = self.ask_any(MetadataRequest(topics=None, allow_auto_topic_creation=False, min_version=1))
        for each in answer.topics:
            self.check(each.error_code, f"topic {each.name!r}")
        named = [each for each in answer.topics if not each.is_internal]
        return sorted(ListedTopic(each.name, len(each.partitions), id_text(each.topic_id)) for each in named)

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Returns the given partitions by the broker that leads them; those without a leader are left out."""
        wanted = list(partitions)
        if unknown := sorted({each.topic for each in wanted if each not in self._leaders}):
            self._find(unknown)
        found: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            if partition in self._leaders:
                found.setdefault(self._leaders[partition].node, []).append(partition)
        return found

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, UUID]:
        """Returns the ids of topics by name, as found with the leaders of some of their partitions."""
        known = ((each.topic, self._leaders[each].topic_id) for each in partitions if each in self._leaders)
        return {topic: found for topic, found in known if found is not None and found.int}

    def leader(self, partition: TopicPartition) -> Leader:
        """Returns the leader of one partition; raises the reason that brokers give if it has none."""
        if partition not in self._leaders:
            (topic,) = self._find([partition.topic])
            for each in (topic, *(each for each in topic.partitions if each.partition_index == partition.partition)):
                self.check(each.error_code, str(partition))
        if partition not in self._leaders:
            raise self._no_leader(partition)
        return self._leaders[partition]

    def _no_leader(self, partition: TopicPartition) -> RetriableError:
        return RetriableError(f"{partition} of {self.cluster} has no leader")

    def _find(self, topics: Iterable[str]) -> list[Any]:
        """Asks a broker for leaders. Returns the topics of its answer."""
        named = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        answer = self.ask_any(MetadataRequest(topics=named, allow_auto_topic_creation=False, min_version=4))
        for topic in answer.topics:
            for each in topic.partitions:
                if each.leader_id >= 0:
                    led = TopicPartition(topic.name, each.partition_index)
                    self._leaders[led] = Leader(each.leader_id, topic.topic_id)
        return [*answer.topics]

    def all_leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Like :meth:`leaders`, but raises RetriableError for a partition without a leader."""
        wanted = list(partitions)
        led = self.leaders(wanted)
        if missing := set(wanted) - {each for some in led.values() for each in some}:
            raise self._no_leader(min(missing))
        return led

    def forget_leader(self, partition: TopicPartition) -> None:
        """Forgets the leader of a partition; the next request asks for it again."""
        self._leaders.pop(partition, None)

    def offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        """Returns an offset of each partition; ``at``: EARLIEST, LATEST (the last stable offset), or a time in ms.

        For a time, it is the offset of the first record at or after it; -1 if there is none.
        """
        requests = (
            (node, list_offsets(some, at, is_committed=True)) for node, some in self.all_leaders(partitions).items()
        )
        found: dict[TopicPartition, int] = {}
        for answer in self.ask_all(requests):
            for topic in answer.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    self.check(each.error_code, f"the offsets of {partition}")
                    found[partition] = each.offset
        return found

    def close(self) -> None:
        """Closes all connections."""
        self._client.close()
