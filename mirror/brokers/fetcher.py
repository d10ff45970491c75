"""Fetcher: reads the committed batches of many partitions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...storage import FetchAnswer, Records, TopicPartition, visible_records
from ..errors import RetriableError
from .connections import Connections, by_topic
from .failing import Failing
from .kafka_python import FetchRequest, OffsetOutOfRangeError
from .leader import EARLIEST, LATEST
from .patience import PATIENCE_S

_PAUSE_S = 0.2
_VERSION_MIN, _VERSION_MAX = 4, 12  # from the first with transactions to the last with names of topics
_READ_COMMITTED = 1


@dataclass(frozen=True)
class FetchLimits:
    """How much a fetch asks for, and how long a broker waits if it has nothing new; names are Kafka's."""

    fetch_max_bytes: int = 8 << 20
    max_partition_fetch_bytes: int = 1 << 20
    fetch_max_wait_ms: int = 100


class Fetcher:
    """Fetches from the leaders of many partitions. For one thread at a time."""

    def __init__(self, connections: Connections, limits: FetchLimits) -> None:
        """``connections``: the caller closes them."""
        self._connections, self._limits = connections, limits
        self._failing: Failing[TopicPartition] = Failing(connections.cluster)

    def fetch(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, FetchAnswer | None]:
        """Returns the batches from each position on, by partition; partitions without new batches are left out.

        None for a position that the partition's log does not have. A partition without a leader is left out, and
        tried again with the next call. Raises RetriableError if all have been without one for a minute, or if no
        broker answers.
        """
        led = self._connections.leaders(positions)
        found: dict[TopicPartition, FetchAnswer | None] = {}
        answered = set()
        for answer in self._connections.ask_all((node, self._request(some, positions)) for node, some in led.items()):
            for topic in answer.responses:
                for each in topic.partitions:
                    partition = TopicPartition(topic.topic, each.partition_index)
                    if self._note(partition, each, positions[partition], found):
                        answered.add(partition)
        if self._failing.note(positions.keys(), answered):
            time.sleep(_PAUSE_S)
        return found

    def read(self, partition: TopicPartition) -> Iterator[Records]:
        """Yields the committed records that a partition has now, in order.

        Raises RetriableError if the leader sends nothing once this has taken a minute.
        """
        (offset,) = self._connections.offsets([partition], EARLIEST).values()
        (end,) = self._connections.offsets([partition], LATEST).values()
        deadline_s = time.monotonic() + PATIENCE_S
        while offset < end:
            answer = self.fetch({partition: offset}).get(partition)
            if answer is not None:
                records, offset = visible_records(answer)
                yield records
            elif time.monotonic() > deadline_s:
                raise RetriableError(f"{partition} of {self._connections.cluster} cannot be read from offset {offset}")

    def _note(
        self, partition: TopicPartition, each: Any, offset: int, found: dict[TopicPartition, FetchAnswer | None]
    ) -> bool:
        """Adds a partition's part of an answer to ``found``. Returns False if it must be asked for again."""
        if each.error_code == OffsetOutOfRangeError.errno:
            found[partition] = None
        elif each.error_code:
            try:
                self._connections.check(each.error_code, str(partition))
            except RetriableError:
                self._connections.forget_leader(partition)
                return False
        elif each.records:
            aborted = [(one.producer_id, one.first_offset) for one in each.aborted_transactions or ()]
            found[partition] = FetchAnswer(bytes(each.records), offset, aborted)
        return True

    def _request(self, partitions: Iterable[TopicPartition], positions: Mapping[TopicPartition, int]) -> Any:
        limits = self._limits
        of_topic = FetchRequest.FetchTopic
        topics = [
            of_topic(
                topic=topic,
                partitions=[
                    of_topic.FetchPartition(
                        partition=each.partition,
                        current_leader_epoch=-1,
                        fetch_offset=positions[each],
                        last_fetched_epoch=-1,
                        log_start_offset=-1,
                        partition_max_bytes=limits.max_partition_fetch_bytes,
                    )
                    for each in some
                ],
            )
            for topic, some in by_topic(partitions).items()
        ]
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=limits.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=limits.fetch_max_bytes,
            isolation_level=_READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=topics,
            forgotten_topics_data=[],
            rack_id="",
            min_version=_VERSION_MIN,
            max_version=_VERSION_MAX,
        )
