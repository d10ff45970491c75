"""Fetcher: reads the committed batches of many partitions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from ...storage import FetchAnswer, Records, TopicIds, TopicPartition, find_made_again, visible_records
from ..errors import RetriableError
from .connections import Connections, id_text
from .failing import Failing
from .kafka_python import OffsetOutOfRangeError
from .patience import PATIENCE_S
from .requests import EARLIEST, FETCH_BY_ID, LATEST, FetchLimits, fetch

_PAUSE_S = 0.2
_FETCH_MIN = 4  # the first version with transactions


class Fetcher:
    """Fetches from the leaders of many partitions. For one thread at a time."""

    def __init__(self, connections: Connections, limits: FetchLimits) -> None:
        """``connections``: the caller closes them."""
        self._connections, self._limits = connections, limits
        self._failing: Failing[TopicPartition] = Failing(connections.cluster)

    def fetch(
        self, positions: Mapping[TopicPartition, int], ids: TopicIds | None = None
    ) -> dict[TopicPartition, FetchAnswer | None]:
        """Returns the batches from each position on, by partition; partitions without new batches are left out.

        None for a position that the partition's log does not have. A partition without a leader is left out, and
        tried again with the next call. Nothing is fetched from a topic that has another id than in ``ids``; brokers
        before Kafka 3.1 do not check that themselves. Raises RetriableError for such a topic, if all partitions have
        been without a leader for a minute, or if no broker answers.
        """
        led = self._connections.leaders(positions)
        by_id = self._checked_ids(positions, ids or {})
        requests = (
            (node, self._request({each: positions[each] for each in some}, by_id)) for node, some in led.items()
        )
        names = {each: name for name, each in by_id.items()}
        found: dict[TopicPartition, FetchAnswer | None] = {}
        answered = set()
        for answer in self._connections.ask_all(requests):
            for topic in answer.responses:
                for each in topic.partitions:
                    partition = TopicPartition(topic.topic or names[topic.topic_id], each.partition_index)
                    if self._note(partition, each, positions[partition], found):
                        answered.add(partition)
        if self._failing.note(positions.keys(), answered):
            time.sleep(_PAUSE_S)
        return found

    def _checked_ids(self, positions: Mapping[TopicPartition, int], ids: TopicIds) -> dict[str, UUID]:
        """Returns the ids to fetch by. Raises RetriableError if a topic has another one now."""
        now = self._connections.topic_ids(positions)
        if text := find_made_again(ids, {name: id_text(each) or "" for name, each in now.items()}):
            raise RetriableError(f"{self._connections.cluster}: {text}")
        return {name: each for name, each in now.items() if name in ids}

    def _request(self, positions: Mapping[TopicPartition, int], by_id: Mapping[str, UUID]) -> Any:
        """Returns a Fetch by the topics' ids if all have one, and the broker knows that version; otherwise by names."""
        has_ids = all(each.topic in by_id for each in positions)
        versions = {"min_version": _FETCH_MIN} | ({} if has_ids else {"max_version": FETCH_BY_ID - 1})
        return fetch(positions, self._limits, is_committed=True, topic_ids=by_id, **versions)

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
