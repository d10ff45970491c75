"""TransactionStates: reads and writes the state of each transactional id, in ``__transaction_state``.

The newest record of a transactional id counts, synced or not; a process syncs it before acting on it. Every change is
compare-and-set under the log's lock. So if two coordinators of one id run at once, even without its lock, one continues
and the other gets an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from ..directory import INTERNAL_PARTITIONS, LogManager, TopicDescription
from ..errors import (
    InvalidRecordError,
    InvalidTxnStateError,
    LockHeldError,
    LogStoreError,
    ProducerFencedError,
    StorageError,
)
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import (
    TRANSACTION_STATE_TOPIC,
    TopicPartitions,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
)
from ..format.internal.state_records import read_transaction_key
from ..groups import CoordinatorLogs, SyncThreads, append_entries
from ..writing import Log, Producer
from .transaction import Transaction

# Which states may follow which (Kafka's TransactionState.validPreviousStates). Empty and a second Ongoing are written
# for clients: a producer of theirs announces itself, and adds partitions one after the other.
_BEGINNINGS = frozenset({TransactionState.EMPTY, TransactionState.ONGOING})
LEGAL: Mapping[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _BEGINNINGS,
    TransactionState.ONGOING: frozenset(
        {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: _BEGINNINGS,
    TransactionState.COMPLETE_ABORT: _BEGINNINGS,
    TransactionState.DEAD: _BEGINNINGS,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.PREPARE_ABORT}),
}
UNDECIDED = frozenset({TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE})
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
UNFINISHED = UNDECIDED | PREPARED  # a coordinator that takes over ends transactions in these states
COMPLETED = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


class StateChange(NamedTuple):
    """A state to be written if ``expected`` is the newest one of its transactional id; None: if there is none."""

    transactional_id: str
    expected: TransactionLogValue | None
    value: TransactionLogValue


class TransactionStates:
    """The states in ``__transaction_state`` of one log directory.

    The manager caches what was read, so that each call reads only newer records.
    """

    def __init__(self, manager: LogManager, *, partitions: int = INTERNAL_PARTITIONS) -> None:
        """``partitions``: how many ``__transaction_state`` gets if it must be created."""
        self.manager = manager
        self._sync_threads = SyncThreads()
        self._logs = CoordinatorLogs(
            manager,
            TRANSACTION_STATE_TOPIC,
            decode_key=read_transaction_key,
            decode_value=_decode_value,
            name_of=lambda key: key.transactional_id,
            partitions=partitions,
        )

    # Reading

    def newest(self, transactional_id: str) -> TransactionLogValue | None:
        """Returns the state of a transactional id; None if it has none. Takes no lock.

        Reads what was written since the last call. Raises UnknownTopicOrPartitionError if the partition of the id is
        missing from the directory or cannot be determined.
        """
        return self._logs.values(transactional_id).get(TransactionLogKey(transactional_id))

    def newest_to_write(self, transactional_id: str) -> TransactionLogValue | None:
        """As :meth:`newest`, for a coordinator: repairs the log after a power cut.

        See :meth:`CoordinatorLogs.values_to_write`. May take the append lock of the partition.
        """
        return self._logs.values_to_write(transactional_id).get(TransactionLogKey(transactional_id))

    def all(self, failures: list[LogStoreError] | None = None) -> Iterator[tuple[str, TransactionLogValue]]:
        """Yields all transactional ids in the partitions of this directory, with their states.

        Raises LogStoreError if a partition cannot be read; with ``failures``, adds the error to that list instead and
        reads the other partitions.
        """
        for values in self._logs.each(failures):
            for key, value in list(values.items()):
                yield key.transactional_id, value

    def describe_partitions(self, count: int) -> TopicDescription:
        """As :meth:`CoordinatorLogs.describe`, for ``__transaction_state``."""
        return self._logs.describe(count)

    def unreadable(self, partitions: Iterable[int] | None = None) -> list[InvalidRecordError]:
        """As :meth:`CoordinatorLogs.unreadable`, after :meth:`all`, or after :meth:`read`."""
        return self._logs.unreadable(partitions)

    def read(self, partition: int) -> None:
        """Reads a partition of ``__transaction_state``, for :meth:`unreadable`."""
        self._logs.latest(partition).catch_up()

    def missing(self) -> str | None:
        """Returns a sentence about missing partitions of ``__transaction_state``; None if the directory has all."""
        return self._logs.missing()

    # Changing

    def settled(self, transactional_id: str) -> TransactionLogValue | None:
        """Syncs the partition of a transactional id, then returns its newest state; None if it has none.

        A killed writer may not have synced the state, so sync it before acting on it.
        """
        log = self._log(transactional_id)
        with log.exclusively():
            log.sync()
            return self.newest(transactional_id)

    def replace(
        self,
        transactional_id: str,
        expected: TransactionLogValue | None,
        value: TransactionLogValue,
        *,
        sync: bool = True,
    ) -> None:
        """Writes the state ``value`` if ``expected`` is the newest state; None: if there is no state.

        Raises ProducerFencedError if another state is the newest, InvalidTxnStateError for a change that no coordinator
        makes, and StorageError if the disk failed, after which the state may or may not be written.
        """
        partition = self._logs.partition_to_write(transactional_id)
        (error,) = self._replace_in(partition, [StateChange(transactional_id, expected, value)], sync=sync)
        if error is not None:
            raise error

    def replace_all(self, changes: Sequence[StateChange]) -> list[Exception | None]:
        """Writes several states, in order and unsynced; returns the error of each, as :meth:`replace` raises it.

        Those in one partition share a lock and a batch. If the batch is refused, each gets one of its own. An error may
        be an OSError, too.
        """
        errors: list[Exception | None] = [None] * len(changes)
        by_partition: dict[TopicPartition, list[int]] = {}
        for index, change in enumerate(changes):
            try:
                partition = self._logs.partition_to_write(change.transactional_id)
                by_partition.setdefault(partition, []).append(index)
            except (LogStoreError, OSError) as error:
                errors[index] = error
        for partition, indexes in sorted(by_partition.items()):
            found = self._replace_or_refuse(partition, [changes[index] for index in indexes])
            for index, refusal in zip(indexes, found, strict=True):
                errors[index] = refusal
        return errors

    def _replace_or_refuse(
        self, partition: TopicPartition, changes: Sequence[StateChange]
    ) -> Sequence[Exception | None]:
        try:
            return self._replace_in(partition, changes, sync=False)
        except (LogStoreError, OSError) as error:
            if len(changes) == 1 or isinstance(error, (StorageError, LockHeldError, OSError)):
                return [error] * len(changes)
            return [self._replace_or_refuse(partition, [change])[0] for change in changes]

    def _replace_in(
        self, partition: TopicPartition, changes: Sequence[StateChange], *, sync: bool
    ) -> list[LogStoreError | None]:
        """Writes the states in one partition that fit those before them; returns what is wrong with each of the others.

        Raises what concerns all of them.
        """
        log, latest = self.manager.open_log(*partition), self._logs.latest(partition.partition)
        with log.exclusively():
            errors, newer = _checked(changes, latest.catch_up(log), latest.unreadable)
            entries = [(TransactionLogKey(each.transactional_id).encode(), each.value.encode()) for each in newer]
            if entries:
                info = append_entries(log, entries, self.manager.clock.now_ms())
                if sync:
                    log.sync_appended()
                latest.wrote(entries, info)
        return errors

    def sync(self, transactional_ids: Iterable[str]) -> None:
        """Syncs what was written unsynced for these ids; those of one partition share a sync. Raises StorageError."""
        logs = {self._logs.partition_to_write(each): self._log(each) for each in transactional_ids}
        for failure in self._sync_threads.sync(list(logs.values())):
            if failure is not None:
                raise failure

    def forget(self, transactional_id: str, expected: TransactionLogValue) -> bool:
        """Writes a tombstone for a transactional id if ``expected`` is its newest state; returns whether it did.

        Unsynced: if a crash loses the tombstone, the next expiry forgets the id.
        """
        log = self._log(transactional_id)
        with log.exclusively():
            if not _is_same(self.newest(transactional_id), expected):
                return False
            entry = (TransactionLogKey(transactional_id).encode(), None)
            append_entries(log, [entry], self.manager.clock.now_ms())
            return True

    def coordinator_epoch(self, transactional_id: str) -> int:
        """Returns the coordinator epoch for markers: as in a broker, the leader epoch of the id's partition."""
        return self._log(transactional_id).leader_epoch

    def _log(self, transactional_id: str) -> Log:
        return self.manager.open_log(*self._logs.partition_to_write(transactional_id))


def _checked(
    changes: Sequence[StateChange],
    values: Mapping[TransactionLogKey, TransactionLogValue],
    unreadable: Mapping[TransactionLogKey, LogStoreError],
) -> tuple[list[LogStoreError | None], list[StateChange]]:
    """Returns what is wrong with each change, after ``values`` and the changes before it, and those that are right."""
    errors: list[LogStoreError | None] = []
    newer: dict[str, TransactionLogValue] = {}
    right = []
    for change in changes:
        name = change.transactional_id
        key = TransactionLogKey(name)
        error = unreadable.get(key) or _refusal(change, newer.get(name, values.get(key)))
        errors.append(error)
        if error is None:
            newer[name] = change.value
            right.append(change)
    return errors, right


def _refusal(change: StateChange, found: TransactionLogValue | None) -> LogStoreError | None:
    if not _is_same(found, change.expected):
        return ProducerFencedError(
            f"transactional id {change.transactional_id!r} has {state_text(found)}, but this coordinator wrote "
            f"{state_text(change.expected)}: another coordinator took the id over, so this one stops"
        )
    try:
        check_legal(change.transactional_id, found, change.value)
    except InvalidTxnStateError as error:
        return error
    return None


def _decode_value(_: TransactionLogKey, data: bytes) -> TransactionLogValue:
    return TransactionLogValue.decode(data)


def check_legal(transactional_id: str, before: TransactionLogValue | None, after: TransactionLogValue) -> None:
    """Raises InvalidTxnStateError if no coordinator changes state ``before`` to ``after``: see :data:`LEGAL`."""
    state = TransactionState.EMPTY if before is None else before.transaction_status
    continues = before is None or state is not TransactionState.ONGOING or _continues(before, after)
    if after.transaction_status not in LEGAL[state] or not continues:
        raise InvalidTxnStateError(
            f"transactional id {transactional_id!r}: {state_text(after)} cannot follow {state_text(before)}"
        )


def _continues(before: TransactionLogValue, after: TransactionLogValue) -> bool:
    """Whether a state after Ongoing is an end of that transaction, or the same one with at least its partitions."""
    if after.transaction_status is not TransactionState.ONGOING:
        return True
    is_its_producer = (before.producer_id, before.producer_epoch) == (after.producer_id, after.producer_epoch)
    return is_its_producer and set(ungrouped(before)) <= set(ungrouped(after))


def _is_same(one: TransactionLogValue | None, other: TransactionLogValue | None) -> bool:
    """Whether two states are equal in producer id, epoch, status and partitions."""
    if one is None or other is None or one is other:
        return one is other
    return _identity(one) == _identity(other)


def _identity(value: TransactionLogValue) -> tuple[int, int, TransactionState, tuple[TopicPartition, ...]]:
    return value.producer_id, value.producer_epoch, value.transaction_status, ungrouped(value)


def state_text(value: TransactionLogValue | None) -> str:
    """Returns a state as text for messages: ``Ongoing of producer 7, epoch 3``, or ``no state`` for None."""
    if value is None:
        return "no state"
    name = value.transaction_status.name.title().replace("_", "")
    return f"{name} of producer {value.producer_id}, epoch {value.producer_epoch}"


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
    records' own, for a client of Kafka that ends its transaction and goes on with its epoch.
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
