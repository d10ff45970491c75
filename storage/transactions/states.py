"""TransactionStates: the state of each transactional id, in ``__transaction_state``.

The newest record of a transactional id counts, whether synced or not: a process syncs it before acting on it. Every
change is compare-and-set under the log's lock, so that of two simultaneous coordinators, whatever happened to their
locks, one continues and the other gets an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from ..directory import LogManager, TopicDescription, TopicPartition
from ..errors import InvalidTxnStateError, LogStoreError, ProducerFencedError
from ..format.internal.internal_topics import (
    TRANSACTION_STATE_TOPIC,
    TopicPartitions,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    decode_transaction_key,
)
from ..groups import CoordinatorLogs, keyed_batches
from ..writing import Log
from .transaction import Transaction

# Which states may follow which (Kafka's TransactionState.validPreviousStates, without what only its clients request).
LEGAL: Mapping[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: frozenset({TransactionState.ONGOING}),
    TransactionState.ONGOING: frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.ONGOING}),
    TransactionState.DEAD: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.PREPARE_ABORT}),
}
UNDECIDED = frozenset({TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE})
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
LEFT = UNDECIDED | PREPARED  # what a coordinator that takes over must complete
COMPLETED = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


class TransactionStates:
    """``__transaction_state`` of one log directory. The manager caches what was read; only newer records are read."""

    def __init__(self, manager: LogManager) -> None:
        self.manager = manager
        self._logs = CoordinatorLogs(
            manager,
            TRANSACTION_STATE_TOPIC,
            decode_key=decode_transaction_key,
            decode_value=_decode_value,
            name_of=lambda key: key.transactional_id,
        )

    # Reading

    def newest(self, transactional_id: str) -> TransactionLogValue | None:
        """The state of a transactional id, for the cost of reading what was written since the last call; takes no lock.

        Raises UnknownTopicOrPartitionError if its partition is missing from the directory or cannot be determined.
        """
        return self._logs.values(transactional_id).get(TransactionLogKey(transactional_id))

    def all(self, failures: list[LogStoreError] | None = None) -> Iterator[tuple[str, TransactionLogValue]]:
        """All transactional ids in the partitions of this directory, with their states.

        A partition that cannot be read raises; with ``failures``, its error is added there, and the others are read.
        """
        for values in self._logs.each(failures):
            for key, value in list(values.items()):
                yield key.transactional_id, value

    def describe_partitions(self, count: int) -> TopicDescription:
        """:meth:`CoordinatorLogs.describe` for ``__transaction_state``."""
        return self._logs.describe(count)

    def missing(self) -> str | None:
        """A sentence about partitions of ``__transaction_state`` missing from the directory; None if all exist."""
        return self._logs.missing()

    # Changing

    def settled(self, transactional_id: str) -> TransactionLogValue | None:
        """The newest state, synced with all before it, since a killed writer may not have synced it."""
        log = self._log(transactional_id)
        with log.exclusively():
            log.flush()
            return self.newest(transactional_id)

    def replace(
        self,
        transactional_id: str,
        expected: TransactionLogValue | None,
        value: TransactionLogValue,
        *,
        sync: bool = True,
    ) -> None:
        """Write a new state if ``expected`` is the newest.

        Raises ProducerFencedError if another is, InvalidTxnStateError for a change that no coordinator makes, and
        StorageError if the disk failed, after which the state may or may not be written.
        """
        log = self._log(transactional_id)
        with log.exclusively():
            found = self.newest(transactional_id)
            if not _is_same(found, expected):
                raise ProducerFencedError(
                    f"transactional id {transactional_id!r} has {told(found)}, but {told(expected)} was written last: "
                    "another coordinator took it over, so this one stops"
                )
            check_legal(transactional_id, found, value)
            entry = (TransactionLogKey(transactional_id).encode(), value.encode())
            batches = keyed_batches([entry], self.manager.clock.now_ms(), log.context.config)
            info = log.append_encoded(batches, sync=sync)
            self._logs.latest(self._partition(transactional_id)).wrote(*entry, info)

    def forget(self, transactional_id: str, expected: TransactionLogValue) -> bool:
        """Write a tombstone if ``expected`` is the newest; unsynced: if it is lost, the id is forgotten next time."""
        log = self._log(transactional_id)
        with log.exclusively():
            if not _is_same(self.newest(transactional_id), expected):
                return False
            entry = (TransactionLogKey(transactional_id).encode(), None)
            now_ms = self.manager.clock.now_ms()
            log.append_encoded(keyed_batches([entry], now_ms, log.context.config), sync=False)
            return True

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The coordinator epoch for markers: as in a broker, the leader epoch of the id's partition."""
        return self._log(transactional_id).leader_epoch

    def _log(self, transactional_id: str) -> Log:
        return self.manager.open_log(TRANSACTION_STATE_TOPIC, self._partition(transactional_id))

    def _partition(self, transactional_id: str) -> int:
        """The partition that holds the id; creates the topic if it is missing."""
        partition = self._logs.partition_of(transactional_id, create=True)
        assert partition is not None
        return partition


def _decode_value(_: TransactionLogKey, data: bytes) -> TransactionLogValue:
    return TransactionLogValue.decode(data)


def check_legal(transactional_id: str, before: TransactionLogValue | None, after: TransactionLogValue) -> None:
    """Raise InvalidTxnStateError for a change that no coordinator makes: :data:`LEGAL`."""
    state = TransactionState.EMPTY if before is None else before.transaction_status
    if after.transaction_status not in LEGAL[state]:
        raise InvalidTxnStateError(f"transactional id {transactional_id!r}: {told(after)} cannot follow {told(before)}")


def _is_same(one: TransactionLogValue | None, other: TransactionLogValue | None) -> bool:
    """Equal in producer id, epoch and state."""
    if one is None or other is None:
        return one is other
    return _identity(one) == _identity(other)


def _identity(value: TransactionLogValue) -> tuple[int, int, TransactionState]:
    return value.producer_id, value.producer_epoch, value.transaction_status


def told(value: TransactionLogValue | None) -> str:
    """A description of a state."""
    if value is None:
        return "no state"
    name = value.transaction_status.name.title().replace("_", "")
    return f"{name} of producer {value.producer_id}, epoch {value.producer_epoch}"


# The states of a transaction


def ongoing(transaction: Transaction) -> TransactionLogValue:
    """The state to write before the first record."""
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=TransactionState.ONGOING,
        transaction_partitions=grouped(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.start_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )


def prepared(
    before: TransactionLogValue, partitions: Iterable[TopicPartition], now_ms: int, *, commit: bool
) -> TransactionLogValue:
    """The deciding state; ``partitions`` get markers. Like them, its epoch is one above that of the records."""
    is_fenced = before.transaction_status is TransactionState.PREPARE_EPOCH_FENCE  # a broker has raised it already
    return replace(
        before,
        producer_epoch=before.producer_epoch + (not is_fenced),
        transaction_status=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        transaction_partitions=grouped(partitions),
        transaction_last_update_timestamp_ms=now_ms,
    )


def completed(before: TransactionLogValue, now_ms: int) -> TransactionLogValue:
    """The state once all markers are written."""
    return replace(
        before,
        transaction_status=COMPLETED[before.transaction_status],
        transaction_partitions=(),
        transaction_last_update_timestamp_ms=now_ms,
    )


def grouped(partitions: Iterable[TopicPartition]) -> tuple[TopicPartitions, ...]:
    """Partitions grouped by topic, as in a state."""
    by_topic = groupby(sorted(set(partitions)), key=lambda place: place[0])
    return tuple(TopicPartitions(topic, tuple(number for _, number in places)) for topic, places in by_topic)


def ungrouped(value: TransactionLogValue) -> tuple[TopicPartition, ...]:
    """The partitions of a state, ascending."""
    topics = value.transaction_partitions or ()
    return tuple(sorted((each.topic, number) for each in topics for number in each.partition_ids))
