"""Transaction and TransactionPart, the values that a coordinator and its tasks exchange, and a transaction's states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import TopicPartitions, TransactionLogValue, TransactionState
from ..recovery.producer_state import Producer

COMPLETED = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


@dataclass(frozen=True)
class Transaction:
    """A begun transaction, for the tasks that write to it and for the process that ends it. Can be pickled."""

    transactional_id: str
    producer_id: int
    epoch: int  # the epoch of its records; its markers have the next one
    partitions: tuple[TopicPartition, ...]  # all that it may touch, ascending
    timeout_ms: int  # the age at which retention aborts it, unless its transactional id is locked
    start_ms: int = -1  # time when it began

    @property
    def producer(self) -> Producer:
        """The producer id and epoch of the transaction's records."""
        return Producer(self.producer_id, self.epoch)

    @property
    def successor(self) -> Producer:
        """The producer id and epoch of the transaction's markers; they fence writers that use :attr:`producer`."""
        return Producer(self.producer_id, self.epoch + 1)

    def __str__(self) -> str:
        return f"transaction of {self.transactional_id!r} (producer {self.producer_id}, epoch {self.epoch})"


class TransactionPart(NamedTuple):
    """The number of records that a task wrote to a partition; parts for the same partition are added up."""

    topic: str
    partition: int
    records: int


def abort_command(directory: str, topic: str, partition: int, first_offset: int) -> str:
    """Returns the command that aborts an open transaction, which no coordinator ends, for messages."""
    return (
        f"commitlog transactions --log-dir {directory} --abort --topic {topic} --partition {partition} "
        f"--start-offset {first_offset}"
    )


# The states of a transaction


def empty_state(producer: Producer, timeout_ms: int, now_ms: int) -> TransactionLogValue:
    """Returns the state of a producer that has announced itself and has begun no transaction."""
    return TransactionLogValue(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        transaction_timeout_ms=timeout_ms,
        transaction_status=TransactionState.EMPTY,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=now_ms,
    )


def ongoing(transaction: Transaction) -> TransactionLogValue:
    """Returns the Ongoing state of a transaction, to be written before its first record."""
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=TransactionState.ONGOING,
        transaction_partitions=grouped(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.start_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )


def extended_state(
    before: TransactionLogValue, partitions: Iterable[TopicPartition], now_ms: int
) -> TransactionLogValue:
    """Returns the Ongoing state with ``partitions`` added to those of ``before``; a transaction begins if none is."""
    is_ongoing = before.transaction_status is TransactionState.ONGOING
    known = ungrouped(before) if is_ongoing else ()
    return replace(
        before,
        transaction_status=TransactionState.ONGOING,
        transaction_partitions=grouped([*known, *partitions]),
        transaction_last_update_timestamp_ms=now_ms,
        transaction_start_timestamp_ms=before.transaction_start_timestamp_ms if is_ongoing else now_ms,
    )


def prepared_state(
    before: TransactionLogValue,
    partitions: Iterable[TopicPartition],
    now_ms: int,
    *,
    commit: bool,
    raise_epoch: bool = True,
) -> TransactionLogValue:
    """Returns the Prepare state, which decides the transaction in state ``before``; ``partitions`` will get markers.

    The state and the markers have an epoch that is one above that of the records. Without ``raise_epoch`` they have the
    records' own, for a client of Kafka that ends its transaction and keeps its epoch.
    """
    is_fenced = before.transaction_status is TransactionState.PREPARE_EPOCH_FENCE  # a broker has raised it already
    return replace(
        before,
        producer_epoch=before.producer_epoch + (raise_epoch and not is_fenced),
        transaction_status=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        transaction_partitions=grouped(partitions),
        transaction_last_update_timestamp_ms=now_ms,
    )


def completed_state(before: TransactionLogValue, now_ms: int) -> TransactionLogValue:
    """Returns the Complete state that follows the Prepare state ``before``, once all markers are written."""
    return replace(
        before,
        transaction_status=COMPLETED[before.transaction_status],
        transaction_partitions=(),
        transaction_last_update_timestamp_ms=now_ms,
    )


def grouped(partitions: Iterable[TopicPartition]) -> tuple[TopicPartitions, ...]:
    """Returns partitions grouped by topic, as a state stores them."""
    by_topic = groupby(sorted(set(partitions)), key=lambda partition: partition[0])
    return tuple(TopicPartitions(topic, tuple(number for _, number in each)) for topic, each in by_topic)


def ungrouped(value: TransactionLogValue) -> tuple[TopicPartition, ...]:
    """Returns the partitions of a state, ascending."""
    topics = value.transaction_partitions or ()
    return tuple(sorted(TopicPartition(each.topic, number) for each in topics for number in each.partition_ids))
