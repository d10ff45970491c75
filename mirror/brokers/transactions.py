"""TransactionalProducer: whole batches for many partitions in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from ...storage import EncodedBatches, TopicPartition, produced_batches
from ..errors import FencedError
from .connections import Connections
from .kafka_python import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
)
from .patience import patiently
from .requests import by_topic, produce

# Later versions are for brokers, or let a broker raise the epoch with each transaction (KIP-890).
_FIND_VERSION_MAX, _ADD_VERSION_MAX, _END_VERSION_MAX, _PRODUCE_VERSION_MAX = 3, 3, 4, 11
_TRANSACTION = 1  # the kind of a coordinator
_FENCED = {47, 90}  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
_MOVED = {14, 15, 16}  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_PAUSE_S = 0.02  # a coordinator is busy for a moment while it ends the last transaction
Batches = Mapping[TopicPartition, EncodedBatches]


class TransactionalProducer:
    """Writes one transaction after another under a transactional id. For one thread at a time.

    After any error it cannot be used again; the next producer of the transactional id, or the timeout, aborts the
    transaction.
    """

    def __init__(self, connections: Connections, transactional_id: str, timeout_ms: int) -> None:
        """Takes over the transactional id, which ends its last transaction; retries for up to a minute.

        Raises RetriableError if the coordinator does not answer, and MirrorError if it refuses.
        """
        self._connections, self._transactional_id = connections, transactional_id
        self._sequences: dict[TopicPartition, int] = {}
        self._coordinator: int | None = None
        found = patiently(lambda: self._init(timeout_ms), pause_s=_PAUSE_S)
        self._producer = (found.producer_id, found.producer_epoch)

    def write(self, batches: Batches) -> None:
        """Writes batches and commits them; on return, readers of committed records see all of them.

        Raises FencedError if another producer took over the transactional id, otherwise RetriableError and MirrorError.
        After an error, either all of the transaction is committed or nothing.
        """
        patiently(lambda: self._add(batches), pause_s=_PAUSE_S)
        for answer in self._connections.ask_all(self._requests(batches)):
            for topic in answer.responses:
                for each in topic.partition_responses:
                    self._check(each.error_code, f"partition {each.index} of topic {topic.name!r}")
        patiently(self._commit, pause_s=_PAUSE_S)

    def _requests(self, batches: Batches) -> Iterator[tuple[int, Any]]:
        """Yields requests by leader, each with at most one batch per partition, as brokers require."""
        for node, partitions in self._connections.all_leaders(batches).items():
            for row in zip_longest(*(self._produced(each, batches[each]) for each in partitions)):
                some = {each: batch for each, batch in zip(partitions, row, strict=True) if batch}
                yield node, produce(some, max_version=_PRODUCE_VERSION_MAX, transactional_id=self._transactional_id)

    def _produced(self, partition: TopicPartition, batches: EncodedBatches) -> Iterator[bytes]:
        producer_id, epoch = self._producer
        sequence = self._sequences.get(partition, 0)
        produced = produced_batches(
            batches, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        for batch, count in produced:
            self._sequences[partition] = sequence = (sequence + count) % 2**31
            yield batch

    def _find_coordinator(self) -> int:
        request = FindCoordinatorRequest(
            key=self._transactional_id, key_type=_TRANSACTION, max_version=_FIND_VERSION_MAX
        )
        answer = self._connections.ask_any(request)
        self._check(answer.error_code, "the coordinator")
        node: int = answer.node_id
        return node

    def _init(self, timeout_ms: int) -> Any:
        answer = self._ask_coordinator(
            InitProducerIdRequest(
                transactional_id=self._transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
                max_version=4,
            )
        )
        self._check(answer.error_code, "the coordinator")
        return answer

    def _add(self, batches: Batches) -> None:
        of_topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        topics = [
            of_topic(name=topic, partitions=[each.partition for each in some])
            for topic, some in by_topic(batches).items()
        ]
        answer = self._ask_coordinator(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._transactional_id,
                v3_and_below_producer_id=self._producer[0],
                v3_and_below_producer_epoch=self._producer[1],
                v3_and_below_topics=topics,
                max_version=_ADD_VERSION_MAX,
            )
        )
        for topic in answer.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                self._check(each.partition_error_code, f"partition {each.partition_index} of topic {topic.name!r}")

    def _commit(self) -> None:
        answer = self._ask_coordinator(
            EndTxnRequest(
                transactional_id=self._transactional_id,
                producer_id=self._producer[0],
                producer_epoch=self._producer[1],
                committed=True,
                max_version=_END_VERSION_MAX,
            )
        )
        self._check(answer.error_code, "the coordinator")

    def _ask_coordinator(self, request: Any) -> Any:
        node = self._find_coordinator() if self._coordinator is None else self._coordinator
        self._coordinator = None  # until it has answered
        answer = self._connections.ask(node, request)
        self._coordinator = node
        return answer

    def _check(self, error_code: int, what: str) -> None:
        if error_code in _FENCED:
            raise FencedError(
                f"transactional id {self._transactional_id!r} at {self._connections.cluster}: another process has "
                "taken it over, or a transaction took longer than transaction.timeout.ms: run one mirror for each "
                "group.id"
            )
        if error_code in _MOVED:
            self._coordinator = None
        self._connections.check(error_code, what)
