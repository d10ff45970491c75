"""What a mirror asks of brokers: topics and their configs, and whole record batches, as they lie in a partition's log.

Batches are what replicas exchange; clients, which deal in records, give neither gaps nor markers nor epochs.
kafka-python speaks the protocol, and comes with the extra ``kafka``.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from uuid import UUID

from pyspark_commitlog.pipeline.columns import nearest
from pyspark_commitlog.storage import InvalidConfigError, LogConfig, LogStoreError, is_secret, masked

try:
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigFilterType, ConfigResource, ConfigResourceType
    from kafka.errors import KafkaError, NoError, OffsetOutOfRangeError, for_code
    from kafka.net.compat import KafkaNetClient
    from kafka.net.manager import KafkaConnectionManager
    from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
    from kafka.protocol.metadata import MetadataRequest
    from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("mirroring needs kafka-python: pip install 'spark-commitlog[kafka]'") from missing

FETCH_BYTES = 8 << 20  # of a partition at a time: what a task holds in memory, unless one batch is larger
PATIENCE_S = 60.0  # with a leader that moves or does not answer
NO_EPOCH = -1  # of what lies before an offset, where that is not known
_PAUSE_S = 0.2
_FETCH_VERSION_MIN = 13  # by topic id: a topic that was deleted and made again is another one
_PRODUCE_VERSION_MAX = 12  # by topic name
_EARLIEST, _LATEST = -2, -1  # ListOffsetsRequest


class MirrorError(LogStoreError):
    """What stands between a log and a broker's; the message says what to do."""


class OutsideLogError(MirrorError):
    """An offset that the broker's log does not hold."""


class Secret(str):
    """Text that no ``repr`` shows, its own or that of what holds it: kafka-python logs its settings for debugging."""

    def __repr__(self) -> str:
        return "'***'"


@dataclass(frozen=True)
class Cluster:
    """How brokers are reached; travels to the workers. Secrets among the settings are in no ``repr`` and no error."""

    settings: dict[str, Any]  # of kafka-python, by its names

    @classmethod
    def parse(cls, bootstrap_servers: str, settings: Mapping[str, str]) -> Self:
        """``settings`` by kafka-python's names, or with dots as Kafka's own have: ``security.protocol``.

        Raises InvalidConfigError naming the one that is unknown.
        """
        known = KafkaConnectionManager.DEFAULT_CONFIG
        given = {name.replace(".", "_"): value for name, value in settings.items()}
        for name in given:
            if name not in known:
                raise InvalidConfigError(f"unknown client setting {name!r}{nearest(name, known)}")
        hidden = {name: Secret(value) if is_secret(name) else value for name, value in given.items()}
        return cls({"bootstrap_servers": bootstrap_servers} | hidden)

    def __str__(self) -> str:
        return f"Kafka at {self.settings['bootstrap_servers']}"


class KafkaTopic(NamedTuple):
    """A topic as the brokers have it."""

    name: str
    id: str  # as partition.metadata has it
    partitions: int
    configs: dict[str, str]  # Kafka's topic settings that are in force and differ from Kafka's defaults


class Admin:
    """Topics of a cluster. A context manager."""

    def __init__(self, cluster: Cluster) -> None:
        """Raises MirrorError where no broker answers."""
        self._cluster = cluster
        self._client = _told(cluster, lambda: KafkaAdminClient(**cluster.settings))

    def names(self) -> list[str]:
        """All topics but internal ones, sorted."""
        topics = _told(self._cluster, self._client.describe_topics)
        return sorted(each["name"] for each in topics if not each["is_internal"])

    def topic(self, name: str) -> KafkaTopic | None:
        """None where there is no such topic."""
        (found,) = _told(self._cluster, lambda: self._client.describe_topics([name]))
        if not found["partitions"]:
            return None
        topic_id = urlsafe_b64encode(UUID(found["topic_id"]).bytes).rstrip(b"=").decode()
        return KafkaTopic(name, topic_id, len(found["partitions"]), self._configs(name))

    def _configs(self, name: str) -> dict[str, str]:
        resource = [ConfigResource(ConfigResourceType.TOPIC, name)]
        found = _told(
            self._cluster, lambda: self._client.describe_configs(resource, config_filter=ConfigFilterType.ALL)
        )
        defaults = LogConfig().to_mapping()
        values = {key: config["value"] for key, config in found["topic"][name].items() if key in defaults}
        in_force = LogConfig.from_mapping(values).to_mapping()
        return {key: value for key, value in in_force.items() if value != defaults[key]}

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """With the brokers' replication factor; returns when its partitions have leaders. Raises MirrorError."""
        wanted = {name: {"num_partitions": partitions, "configs": dict(configs)}}
        _told(self._cluster, lambda: self._client.create_topics(wanted, wait_for_metadata=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.close()


class Fetched(NamedTuple):
    """What a broker has from an offset on."""

    batches: bytes  # the last may be partial; empty at the end of the log
    high_watermark: int


class PartitionLeader:
    """Requests to the leader of a partition. One that moves, or does not answer, is looked for again for a minute.

    Everything raises MirrorError with what the broker said. A context manager.
    """

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._topic_id: UUID | None = None
        self._node: int | None = None
        self._client = _told(cluster, lambda: KafkaNetClient(**cluster.settings))

    def fetch(self, offset: int, last_epoch: int, bytes_max: int) -> Fetched:
        """Whole batches from that which holds ``offset`` on, those of open and aborted transactions and markers too.

        ``last_epoch``: the leader epoch of what lies before ``offset``, -1 for none. Raises OutsideLogError for an
        offset that the log does not have.
        """
        found = self._ask(lambda: self._fetch_request(offset, last_epoch, bytes_max), lambda x: x.responses[0])
        if found.diverging_epoch is not None and found.diverging_epoch.end_offset >= 0:
            raise MirrorError(
                f"{self}: its log goes on otherwise than what was mirrored from offset "
                f"{found.diverging_epoch.end_offset} on (an unclean leader election); mirror into a new directory"
            )
        return Fetched(bytes(found.records or b""), found.high_watermark)

    def bounds(self) -> tuple[int, int]:
        """Where its log begins, and its high watermark."""
        return self._offset(_EARLIEST), self._offset(_LATEST)

    def producer_id(self) -> tuple[int, int]:
        """A new producer's id and epoch."""
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        found = self._ask(lambda: request, None)
        return found.producer_id, found.producer_epoch

    def produce(self, batch: bytes) -> int:
        """Append one batch of an idempotent producer, and wait for all replicas; the offset of its first record."""
        partition = ProduceRequest.TopicProduceData.PartitionProduceData(index=self._partition, records=batch)
        topic = ProduceRequest.TopicProduceData(name=self._topic, partition_data=[partition])
        found = self._ask(
            lambda: ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic], max_version=_PRODUCE_VERSION_MAX),
            lambda x: x.responses[0],
            "partition_responses",
        )
        offset: int = found.base_offset
        return offset

    def _offset(self, timestamp: int) -> int:
        of_partition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
        partition = of_partition(partition_index=self._partition, current_leader_epoch=-1, timestamp=timestamp)
        topic = ListOffsetsRequest.ListOffsetsTopic(name=self._topic, partitions=[partition])
        found = self._ask(
            lambda: ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic]), lambda x: x.topics[0]
        )
        offset: int = found.offset
        return offset

    def _fetch_request(self, offset: int, last_epoch: int, bytes_max: int) -> FetchRequest:
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=self._partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=-1,
            partition_max_bytes=bytes_max,
        )
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=bytes_max,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=self._topic, topic_id=self._topic_id, partitions=[partition])],
            forgotten_topics_data=[],
            rack_id="",
            min_version=_FETCH_VERSION_MIN,
        )

    def _ask(
        self, request: Callable[[], Any], of_topic: Callable[[Any], Any] | None, partitions: str = "partitions"
    ) -> Any:
        """What was answered for the partition, ``of_topic`` being its part for the topic; None: the whole answer."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                node = self._find_leader()
                answer = self._client.send_and_receive(node, request())
                found = answer if of_topic is None else getattr(of_topic(answer), partitions)[0]
                if (error := for_code(found.error_code)) is not NoError:
                    raise error(getattr(found, "error_message", None))
                return found
            except OffsetOutOfRangeError as error:
                raise OutsideLogError(f"{self}: {error}") from None
            except KafkaError as error:
                if not error.retriable or time.monotonic() > deadline_s:
                    raise MirrorError(f"{self}: {masked(str(error))}") from error
                self._node = None
                time.sleep(_PAUSE_S)

    def _find_leader(self) -> int:
        if self._node is None:
            self._client.get_broker_version(timeout_ms=int(PATIENCE_S * 1000))
            wanted = MetadataRequest.MetadataRequestTopic(name=self._topic)
            request = MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
            (topic,) = self._client.send_and_receive(self._client.least_loaded_node(True), request).topics
            if (error := for_code(topic.error_code)) is not NoError:
                raise error()
            (partition,) = [each for each in topic.partitions if each.partition_index == self._partition]
            if (error := for_code(partition.error_code)) is not NoError:
                raise error()
            self._topic_id, self._node = topic.topic_id, partition.leader_id
        return self._node

    def __str__(self) -> str:
        return f"partition {self._partition} of topic {self._topic!r} of {self._cluster}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.close()


def _told(cluster: Cluster, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except KafkaError as error:
        raise MirrorError(f"{cluster}: {masked(str(error))}") from error
