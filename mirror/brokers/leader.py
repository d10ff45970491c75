"""PartitionLeader: requests to the leader of one partition, like those of a replica."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self
from uuid import UUID

from ...storage import masked
from ..errors import MirrorError, OutsideLogError
from .cluster import Cluster, masking_errors
from .kafka_python import (
    FetchRequest,
    InitProducerIdRequest,
    KafkaError,
    KafkaNetClient,
    ListOffsetsRequest,
    MetadataRequest,
    NoError,
    OffsetOutOfRangeError,
    ProduceRequest,
    for_code,
)

FETCH_BYTES = 8 << 20  # per fetch of a partition, and so in a task's memory, unless one batch is larger
PATIENCE_S = 60.0  # how long to retry while a leader moves or does not answer
NO_EPOCH = -1  # stands for an unknown leader epoch
_PAUSE_S = 0.2
_FETCH_VERSION_MIN = 13  # the first version with topic ids, which tell a recreated topic from the deleted one
_PRODUCE_VERSION_MAX = 12  # the last version with topic names
EARLIEST, LATEST = -2, -1  # ListOffsetsRequest


class Fetched(NamedTuple):
    """The answer of a partition's leader to a fetch."""

    batches: bytes  # the last batch may be incomplete; empty at the end of the log
    high_watermark: int


class PartitionLeader:
    """Sends requests to the leader of a partition; a context manager.

    If the leader does not answer, or another broker becomes the leader, retries for a minute. Methods raise MirrorError
    with the broker's message.
    """

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._topic_id: UUID | None = None
        self._node: int | None = None
        self._client = masking_errors(cluster, lambda: KafkaNetClient(**cluster.settings))

    def fetch(self, offset: int, last_epoch: int, bytes_max: int) -> Fetched:
        """Returns about ``bytes_max`` bytes of batches, beginning with the one that contains ``offset``.

        Includes transaction markers, and batches of open and aborted transactions. ``last_epoch`` is the leader epoch
        of the batch before ``offset``, or NO_EPOCH. Raises OutsideLogError for an offset that the log does not have.
        """
        found = self._ask(lambda: self._fetch_request(offset, last_epoch, bytes_max), lambda x: x.responses[0])
        if found.diverging_epoch is not None and found.diverging_epoch.end_offset >= 0:
            raise MirrorError(
                f"{self}: the leader's log diverged from the mirror at offset {found.diverging_epoch.end_offset} "
                "(an unclean leader election); mirror into a new directory"
            )
        return Fetched(bytes(found.records or b""), found.high_watermark)

    def bounds(self) -> tuple[int, int]:
        """Returns the log start offset and the high watermark."""
        return self._offset(EARLIEST), self._offset(LATEST)

    def producer_id(self) -> tuple[int, int]:
        """Returns the id and epoch of a new producer."""
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        found = self._ask(lambda: request, None)
        return found.producer_id, found.producer_epoch

    def produce(self, batch: bytes) -> int:
        """Appends one batch of an idempotent producer, and waits for all replicas. Returns the batch's base offset."""
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
        """Sends a request, retries for up to a minute, and returns the partition's part of the answer.

        ``of_topic`` returns the topic's part of an answer; if it is None, returns the whole answer.
        """
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
