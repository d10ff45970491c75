"""ClusterMetadata: the topic ``__remote_log_metadata`` of a running cluster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from ...storage import (
    REMOTE_LOG_METADATA_TOPIC,
    BatchFields,
    Records,
    RemoteRecord,
    SegmentMetadata,
    TopicIdPartition,
    TopicPartition,
    encode_batches,
    parse_remote_record,
    produced_batches,
    segments_of,
)
from ..brokers.admin import Admin
from ..brokers.cluster import Cluster
from ..brokers.connections import Connections
from ..brokers.fetcher import Fetcher
from ..brokers.leader import PartitionLeader
from ..brokers.requests import FetchLimits
from ..errors import MirrorError

_PATIENCE_S = 60.0
_PAUSE_S = 0.2
_RECORDS_AT_ONCE = 100  # of a batch: each has some hundred bytes


class ClusterMetadata:
    """Reads and adds records. A context manager, for one thread."""

    def __init__(self, cluster: Cluster) -> None:
        """Waits up to a minute until the brokers have made the topic, which they do a moment after they start.

        Raises MirrorError if they do not, and RetriableError if no broker answers.
        """
        self._cluster, self._partitions = cluster, _partitions(cluster)
        self._connections = Connections(cluster)

    def segments(self, partition: TopicIdPartition) -> dict[str, SegmentMetadata]:
        """Returns a partition's segments by id, but those that are deleted, as the brokers know them now."""
        place = TopicPartition(REMOTE_LOG_METADATA_TOPIC, partition.metadata_partition(self._partitions))
        return segments_of(self._read(place), partition)

    def append(self, records: Sequence[RemoteRecord]) -> None:
        """Adds records of one partition, in their order; all replicas have them on return.

        A producer that repeats a request adds nothing twice, as its batches have sequence numbers. Killed in between,
        the first ones are there.
        """
        number = records[0].partition.metadata_partition(self._partitions)
        with PartitionLeader(self._cluster, REMOTE_LOG_METADATA_TOPIC, number) as leader:
            producer_id, epoch = leader.producer_id()
            for start in range(0, len(records), _RECORDS_AT_ONCE):
                values: list[bytes | None] = [each.encode() for each in records[start : start + _RECORDS_AT_ONCE]]
                columns = Records.to_append([None] * len(values), values, time.time_ns() // 1_000_000)
                batches = encode_batches(columns, BatchFields(), batch_bytes_max=1 << 20)
                for batch, _ in produced_batches(
                    batches, producer_id=producer_id, producer_epoch=epoch, base_sequence=start, transactional=False
                ):
                    leader.produce(batch)

    def _read(self, place: TopicPartition) -> list[RemoteRecord]:
        found: list[RemoteRecord] = []
        for records in Fetcher(self._connections, FetchLimits()).read(place):
            found += map(parse_remote_record, records.values.to_list() if records.values else [])
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._connections.close()


def _partitions(cluster: Cluster) -> int:
    deadline_s = time.monotonic() + _PATIENCE_S
    with Admin(cluster) as admin:
        while (topic := admin.topic(REMOTE_LOG_METADATA_TOPIC)) is None:
            if time.monotonic() > deadline_s:
                raise MirrorError(
                    f"{cluster} has no topic {REMOTE_LOG_METADATA_TOPIC}: its brokers must be started with "
                    "remote.log.storage.system.enable=true"
                )
            time.sleep(_PAUSE_S)
    return topic.partitions
