"""Requests of today's protocol to one leader, about some of its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from ...storage import TopicPartition
from .kafka_python import FetchRequest, ListOffsetsRequest, ProduceRequest

EARLIEST, LATEST = -2, -1  # times of list_offsets
FETCH_BY_ID = 13  # the first version of Fetch with topic ids, which tell a recreated topic from the deleted one
NO_EPOCH = -1  # stands for an unknown leader epoch
_ALL_REPLICAS = -1
_PRODUCE_TIMEOUT_MS = 30_000


@dataclass(frozen=True)
class FetchLimits:
    """How much a fetch asks for, and how long a broker waits if it has nothing new; names are Kafka's."""

    fetch_max_bytes: int = 8 << 20
    max_partition_fetch_bytes: int = 1 << 20
    fetch_max_wait_ms: int = 100


def by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, list[TopicPartition]]:
    """Returns partitions in order, by topic."""
    return {topic: list(some) for topic, some in groupby(sorted(partitions), lambda each: each.topic)}


def list_offsets(partitions: Iterable[TopicPartition], at: int, *, is_committed: bool) -> Any:
    """Returns a ListOffsets; ``is_committed``: the latest is the last stable offset, not the high watermark."""
    of_topic = ListOffsetsRequest.ListOffsetsTopic
    of_partition = of_topic.ListOffsetsPartition
    topics = [
        of_topic(
            name=topic,
            partitions=[
                of_partition(partition_index=each.partition, current_leader_epoch=-1, timestamp=at) for each in some
            ],
        )
        for topic, some in by_topic(partitions).items()
    ]
    return ListOffsetsRequest(replica_id=-1, isolation_level=int(is_committed), topics=topics, min_version=2)


def fetch(
    positions: Mapping[TopicPartition, int],
    limits: FetchLimits,
    *,
    is_committed: bool,
    last_epoch: int = NO_EPOCH,
    topic_ids: Mapping[str, UUID | None] | None = None,
    **versions: int,
) -> Any:
    """Returns a Fetch. ``last_epoch``: of the batch before each position.

    ``topic_ids``: by name, for versions from FETCH_BY_ID on. ``versions``: ``min_version`` and ``max_version``.
    """
    of_topic, ids = FetchRequest.FetchTopic, topic_ids or {}
    topics = [
        of_topic(
            topic=topic,
            topic_id=ids.get(topic),
            partitions=[
                of_topic.FetchPartition(
                    partition=each.partition,
                    current_leader_epoch=NO_EPOCH,
                    fetch_offset=positions[each],
                    last_fetched_epoch=last_epoch,
                    log_start_offset=-1,
                    partition_max_bytes=limits.max_partition_fetch_bytes,
                )
                for each in some
            ],
        )
        for topic, some in by_topic(positions).items()
    ]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=limits.fetch_max_wait_ms,
        min_bytes=1,
        max_bytes=limits.fetch_max_bytes,
        isolation_level=int(is_committed),
        session_id=0,
        session_epoch=-1,
        topics=topics,
        forgotten_topics_data=[],
        rack_id="",
        **versions,
    )


def produce(batches: Mapping[TopicPartition, bytes], *, max_version: int, transactional_id: str | None = None) -> Any:
    """Returns a Produce of one batch per partition, whose answer comes once all replicas have them."""
    of_topic = ProduceRequest.TopicProduceData
    of_partition = of_topic.PartitionProduceData
    topics = [
        of_topic(
            name=topic, partition_data=[of_partition(index=each.partition, records=batches[each]) for each in some]
        )
        for topic, some in by_topic(batches).items()
    ]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=_ALL_REPLICAS,
        timeout_ms=_PRODUCE_TIMEOUT_MS,
        topic_data=topics,
        max_version=max_version,
    )
