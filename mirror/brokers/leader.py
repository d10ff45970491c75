"""PartitionLeader: requests to the leader of one partition, like those of a replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

from ...storage import TopicPartition
from ..errors import MirrorError, OutsideLogError, RetriableError
from .cluster import Cluster
from .connections import Connections, Leader
from .kafka_python import InitProducerIdRequest, OffsetOutOfRangeError
from .patience import patiently
from .requests import EARLIEST, FETCH_BY_ID, LATEST, FetchLimits, fetch, list_offsets, produce

FETCH_BYTES = 8 << 20  # per fetch of a partition, and so in a task's memory, unless one batch is larger
_PRODUCE_VERSION_MAX = 12  # the last version with topic names


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
        self._partition = TopicPartition(topic, partition)
        self._connections = Connections(cluster)

    def fetch(self, offset: int, last_epoch: int, bytes_max: int) -> Fetched:
        """Returns about ``bytes_max`` bytes of batches, beginning with the one that contains ``offset``.

        Includes transaction markers, and batches of open and aborted transactions. ``last_epoch`` is the leader epoch
        of the batch before ``offset``, or NO_EPOCH. Raises OutsideLogError for an offset that the log does not have.
        """
        limits = FetchLimits(bytes_max, bytes_max, fetch_max_wait_ms=0)

        def request(leader: Leader) -> Any:
            return fetch(
                {self._partition: offset},
                limits,
                is_committed=False,
                last_epoch=last_epoch,
                topic_ids={self._partition.topic: leader.topic_id},
                min_version=FETCH_BY_ID,
            )

        found = self._ask(request, lambda answer: answer.responses[0].partitions[0])
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
        found = self._ask(lambda _: request, lambda answer: answer)
        return found.producer_id, found.producer_epoch

    def produce(self, batch: bytes) -> int:
        """Appends one batch of an idempotent producer, and waits for all replicas. Returns the batch's base offset."""
        found = self._ask(
            lambda _: produce({self._partition: batch}, max_version=_PRODUCE_VERSION_MAX),
            lambda answer: answer.responses[0].partition_responses[0],
        )
        offset: int = found.base_offset
        return offset

    def _offset(self, timestamp: int) -> int:
        found = self._ask(
            lambda _: list_offsets([self._partition], timestamp, is_committed=False),
            lambda answer: answer.topics[0].partitions[0],
        )
        offset: int = found.offset
        return offset

    def _ask(self, request: Callable[[Leader], Any], part: Callable[[Any], Any]) -> Any:
        """Sends a request, retries for up to a minute, and returns ``part`` of the answer: that with the error code."""

        def ask() -> Any:
            try:
                leader = self._connections.leader(self._partition)
                found = part(self._connections.ask(leader.node, request(leader)))
                if found.error_code == OffsetOutOfRangeError.errno:
                    raise OutsideLogError(f"{self} does not have the requested offset")
                self._connections.check(found.error_code, str(self._partition), getattr(found, "error_message", None))
                return found
            except RetriableError:
                self._connections.forget_leader(self._partition)
                raise

        return patiently(ask)

    def __str__(self) -> str:
        return f"{self._partition} of {self._connections.cluster}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._connections.close()
