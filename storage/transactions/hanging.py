"""Finds and aborts hanging transactions: open in a partition, but known to no coordinator (Kafka's KIP-664).

A hanging transaction holds back the last stable offset of its partition forever. As with ``kafka-transactions``,
``--find-hanging`` lists them, and ``--abort`` writes an abort marker by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ..bucket.clients.transactions import give_up_producer
from ..clock import instant
from ..directory.manager import LogManager
from ..errors import InvalidTxnStateError, LogDirLockedError, LogStoreError
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import TransactionLogValue
from ..reading.reader import LogReader
from ..recovery.producer_state import Producer
from .abandoned import OpenPartition, OpenTransaction, epoch_of_records, open_transactions
from .coordinator import TRANSACTION_TIMEOUT_MS
from .states import UNDECIDED, UNFINISHED, TransactionStates, state_text
from .transaction import abort_command, ungrouped
from .transactional_id import TransactionalIdLock


class HoldingTransaction(NamedTuple):
    """The open transaction that holds back a partition's last stable offset."""

    producer_id: int
    epoch: int
    first_offset: int  # of the transaction: the last stable offset
    last_timestamp: int  # ms, of its newest record; -1: none

    def __str__(self) -> str:
        since = f", last written {instant(self.last_timestamp)}" if self.last_timestamp >= 0 else ""
        return (
            f"open transaction from offset {self.first_offset}, producer {self.producer_id}, epoch {self.epoch}{since}"
        )


class HangingTransaction(NamedTuple):
    """An open transaction of a partition that belongs to no transactional id of the log."""

    transaction: HoldingTransaction
    abort: str  # the command that ends it

    def __str__(self) -> str:
        return (
            f"{self.transaction}: no transactional id of this log has it, so no coordinator ends it, and readers of "
            f"committed records wait for ever. Once its producer has stopped, abort it: {self.abort}"
        )


def hanging_transactions(manager: LogManager, partition: TopicPartition, log: LogReader) -> list[HangingTransaction]:
    """Returns the open transactions of a partition that neither a coordinator nor retention ends, by their offsets.

    Returns none while a partition of ``__transaction_state``, which may have their ids, cannot be read.
    """
    ongoing = [_described(log, *each) for each in log.producers.ongoing.items()]
    unread: list[LogStoreError] = []
    known = [*TransactionStates(manager).all(unread)] if ongoing else []
    return [
        HangingTransaction(each, abort_command(manager.directory, *partition, each.first_offset))
        for each in ongoing
        if not unread and _is_nobodys(known, partition, each)
    ]


def _is_nobodys(
    known: Iterable[tuple[str, TransactionLogValue]], partition: TopicPartition, found: HoldingTransaction
) -> bool:
    """Whether no transactional id has the transaction, or a newer epoch of its producer; retention ends such a one."""
    if _coordinator_of(known, partition, found.producer_id, found.epoch) is not None:
        return False
    return not any(each.producer_id == found.producer_id and each.producer_epoch > found.epoch for _, each in known)


def holding_transaction(log: LogReader) -> HoldingTransaction | None:
    """Returns the transaction that holds back a log's last stable offset; None if no transaction is open."""
    first_offset = next(iter(log.producers.ongoing), None)
    if first_offset is None:
        return None
    return _described(log, first_offset, log.producers.ongoing[first_offset])


def find_hanging(
    manager: LogManager,
    *,
    max_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
    now_ms: int | None = None,
    failures: list[LogStoreError] | None = None,
) -> list[OpenTransaction]:
    """Returns the open transactions that no coordinator ends, with the partitions where they hang, oldest first.

    Omits transactions younger than ``max_timeout_ms``, because their coordinator may still add the partition; on an
    object store also those younger than their timeouts.
    ``failures``: as for :func:`open_transactions`. If a partition of ``__transaction_state`` is among the failures, its
    coordinator's transactions may be returned as hanging.
    """
    known = [*TransactionStates(manager).all([] if failures is not None else None)]  # open_transactions reports them
    found = open_transactions(manager, now_ms=now_ms, failures=failures)
    is_remote = manager.bucket is not None  # there, a gateway or retention ends it after its own timeout
    old = (each for each in found if each.age_ms >= max(max_timeout_ms, each.timeout_ms if is_remote else 0))
    return [hanging for each in old if (hanging := _hanging_part(known, each)).partitions]


def _hanging_part(known: Iterable[tuple[str, TransactionLogValue]], found: OpenTransaction) -> OpenTransaction:
    def hangs(part: OpenPartition) -> bool:
        return _coordinator_of(known, part.topic_partition, found.producer_id, found.epoch) is None

    return replace(found, partitions=tuple(filter(hangs, found.partitions)))


def _coordinator_of(
    known: Iterable[tuple[str, TransactionLogValue]], partition: TopicPartition, producer_id: int, epoch: int
) -> tuple[str, TransactionLogValue] | None:
    """Returns the transactional id, and its state, whose coordinator will end a transaction in ``partition``.

    None: there is no such id, and the transaction hangs. ``epoch`` is that of the transaction's records.
    """
    for transactional_id, value in known:
        if (
            value.producer_id == producer_id
            and value.transaction_status in UNFINISHED
            and epoch_of_records(value, {epoch: ()}) == epoch
            and partition in ungrouped(value)
        ):
            return transactional_id, value
    return None


def abort_transaction(
    manager: LogManager, topic: str, partition: int, start_offset: int, *, dry_run: bool = False
) -> HoldingTransaction:
    """Writes an abort marker for the transaction that begins at ``start_offset`` of this partition; returns it.

    Like Kafka's tool, gives the marker the producer's epoch and the coordinator's epoch, 0 if that is unknown. The
    marker is synced on return; after a crash before that, the log has the whole marker or none of it. With ``dry_run``,
    writes nothing. On an object store, the transaction is aborted in all partitions, and its gateway gets an error when
    it continues. Raises InvalidTxnStateError if no open transaction begins at the offset or a coordinator will end it,
    and LogDirLockedError while a broker runs on the directory. If no readable partition of ``__transaction_state`` has
    the transaction and another one cannot be read, raises the error of that one.
    """
    with manager.open_reader(topic, partition) as reader:
        found = _beginning_at(reader, start_offset)
    if manager.bucket is not None:
        if not dry_run:
            manager.bucket.commit(partial(give_up_producer, producer_id=found.producer_id))
        return found
    _check_hangs(manager, TopicPartition(topic, partition), found)
    if not dry_run:
        log = manager.open_log(topic, partition)
        with log.exclusively():
            found = _beginning_at(log, start_offset)
            log.end_transaction(Producer(found.producer_id, found.epoch), commit=False)
            log.sync()
    return found


def _beginning_at(log: LogReader, first_offset: int) -> HoldingTransaction:
    producer_id = log.producers.ongoing.get(first_offset)
    if producer_id is None:
        known = ", ".join(f"{first} (producer {each})" for first, each in log.producers.ongoing.items())
        raise InvalidTxnStateError(
            f"{log.context.directory}: no open transaction begins at offset {first_offset}; "
            + (f"open transactions begin at {known}" if known else "none is open there")
        )
    return _described(log, first_offset, producer_id)


def _described(log: LogReader, first_offset: int, producer_id: int) -> HoldingTransaction:
    producer = log.producers.last_entry(producer_id)
    assert producer is not None  # since it has an open transaction
    return HoldingTransaction(producer_id, producer.epoch, first_offset, producer.last_timestamp)


def _check_hangs(manager: LogManager, partition: TopicPartition, found: HoldingTransaction) -> None:
    unread: list[LogStoreError] = []
    coordinator = _coordinator_of(TransactionStates(manager).all(unread), partition, found.producer_id, found.epoch)
    if coordinator is None and unread:
        raise unread[0]  # the unread partition may have the id that ends it
    if coordinator is not None:
        transactional_id, value = coordinator
        raise InvalidTxnStateError(
            f"{partition}: the transaction from offset {found.first_offset} does not hang: "
            f"transactional id {transactional_id!r} has it as {state_text(value)}, "
            f"{_who_ends_it(manager, transactional_id, value)}"
        )


def _who_ends_it(manager: LogManager, transactional_id: str, value: TransactionLogValue) -> str:
    try:
        TransactionalIdLock.check_free(manager, transactional_id)
    except LogDirLockedError as error:
        return f"and is in use: {error}"
    ends_ms = value.transaction_start_timestamp_ms + value.transaction_timeout_ms
    is_waiting = value.transaction_status in UNDECIDED and manager.clock.now_ms() < ends_ms
    when = f"from {instant(ends_ms)} on, when its transaction.timeout.ms has passed" if is_waiting else "now"
    return f"so start its query again, which ends it, or run commitlog retain, which does so {when}"
