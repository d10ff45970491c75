"""TransactionStates: reads and writes the state of each transactional id, in ``__transaction_state``.

The newest record of a transactional id counts, synced or not; a process syncs it before acting on it. Every change is
compare-and-set under the log's lock. So if two coordinators of one id run at once, even without its lock, one continues
and the other gets an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple

from ..directory.manager import INTERNAL_PARTITIONS, LogManager
from ..directory.topics_file import TopicDescription
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
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
)
from ..format.internal.state_records import read_transaction_key
from ..format.v2.header import LAYOUT
from ..groups.appending import SyncThreads, append_entries
from ..groups.coordinator_logs import CoordinatorLogs
from ..writing.log import Log
from .transaction import ungrouped

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
RECORD_BYTES_MAX = 30  # without key and value

_Entry = tuple[bytes, bytes]


class StateChange(NamedTuple):
    """A state to be written if ``expected`` is the newest one of its transactional id; None: if there is none."""

    transactional_id: str
    expected: TransactionLogValue | None
    value: TransactionLogValue


class AtOnce(NamedTuple):
    """The result of :meth:`TransactionStates.replace_at_once` for each change: its error, or the log to be synced."""

    errors: Sequence[Exception | None]
    logs: Sequence[Log | None]


class TransactionStates:
    """The states in ``__transaction_state`` of one log directory.

    The manager caches states, so that each call reads only newer records.
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

        Reads records written since the last call. Raises UnknownTopicOrPartitionError if the partition of the id is
        missing from the directory or cannot be determined.
        """
        return self._logs.values(transactional_id).get(TransactionLogKey(transactional_id))

    def one_look(self) -> AbstractContextManager[None]:
        """Like :meth:`CoordinatorLogs.one_look`, for :meth:`newest`."""
        return self._logs.one_look()

    def newest_to_write(self, transactional_id: str) -> TransactionLogValue | None:
        """Like :meth:`newest`, for a coordinator: repairs the log after a power cut.

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
        """Like :meth:`CoordinatorLogs.describe`, for ``__transaction_state``."""
        return self._logs.describe(count)

    def unreadable(self, partitions: Iterable[int] | None = None) -> list[InvalidRecordError]:
        """Like :meth:`CoordinatorLogs.unreadable`, after :meth:`all`, or after :meth:`read`."""
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

        States in one partition share a lock and a batch. If the batch is refused, each gets one of its own. An error
        may be an OSError, too.
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
        """Writes the states in one partition that fit those before them; returns the errors of the others.

        Raises errors that concern all of them.
        """
        log = self.manager.open_log(*partition)
        with log.exclusively():
            return self._replace_locked(log, partition.partition, changes, sync=sync)

    def _replace_locked(
        self, log: Log, partition: int, changes: Sequence[StateChange], *, sync: bool
    ) -> list[LogStoreError | None]:
        latest = self._logs.latest(partition)
        errors, newer = _checked(changes, latest.catch_up(log), latest.unreadable)
        if newer:
            entries = [_entry(each) for each in newer]
            info = append_entries(log, entries, self.manager.clock.now_ms())
            if sync:
                log.sync_appended()
            latest.wrote(
                entries, info, [(TransactionLogKey(each.transactional_id), each.value.as_stored) for each in newer]
            )
        return errors

    def replace_at_once(self, changes: Sequence[StateChange]) -> AtOnce | None:
        """Like :meth:`replace_all`, if it need not wait for a thread, a process or a sync; None: nothing was done.

        Several threads may call this and the other methods, if only one does at a time.
        """
        found = self._open_logs(changes)
        if found is None:
            return None
        entries = [_entry(each) for each in changes]
        errors: list[LogStoreError | None] = [None] * len(changes)
        logs: list[Log | None] = [None] * len(changes)
        with ExitStack() as locked:
            for partition, (log, indexes) in sorted(found.items()):
                if not self._is_at_hand(log, partition, [entries[index] for index in indexes], locked):
                    return None
            for partition, (log, indexes) in found.items():
                refused = self._replace_or_fail(log, partition, [changes[index] for index in indexes])
                for index, error in zip(indexes, refused, strict=True):
                    errors[index], logs[index] = error, None if error else log
        return AtOnce(errors, logs)

    def _open_logs(self, changes: Sequence[StateChange]) -> dict[int, tuple[Log, list[int]]] | None:
        """Returns the logs of changes, by the numbers of their partitions, if all are open; and which are in each."""
        found: dict[int, tuple[Log, list[int]]] = {}
        for index, change in enumerate(changes):
            number = self._logs.known_partition(change.transactional_id)
            log = None if number is None else self.manager.opened_log(TRANSACTION_STATE_TOPIC, number)
            if number is None or log is None:
                return None
            found.setdefault(number, (log, []))[1].append(index)
        return found

    def _is_at_hand(self, log: Log, partition: int, entries: Sequence[_Entry], locked: ExitStack) -> bool:
        """Takes the lock of a log until ``locked`` ends, if it is free, everything was read, and there is room."""
        size = LAYOUT.itemsize + sum(RECORD_BYTES_MAX + len(key) + len(value) for key, value in entries)
        try:
            return (
                locked.enter_context(log.if_alone())
                and self._logs.latest(partition).has_all_of(log)
                and log.has_room(size, len(entries), self.manager.clock.now_ms())
            )
        except (LogStoreError, OSError):  # the usual way reports it
            return False

    def _replace_or_fail(
        self, log: Log, partition: int, changes: Sequence[StateChange]
    ) -> Sequence[LogStoreError | None]:
        try:
            return self._replace_locked(log, partition, changes, sync=False)
        except LogStoreError as error:
            if len(changes) == 1 or isinstance(error, StorageError):
                return [error] * len(changes)
            return [self._replace_or_fail(log, partition, [change])[0] for change in changes]

    def sync_logs(self, logs: Iterable[Log]) -> Mapping[Log, StorageError]:
        """Syncs logs of :meth:`replace_at_once`, each once; returns the errors. For any one thread."""
        each = list(dict.fromkeys(logs))
        found = zip(each, self._sync_threads.sync(each), strict=True)
        return {log: failure for log, failure in found if failure is not None}

    def sync(self, transactional_ids: Iterable[str]) -> None:
        """Syncs unsynced states of these ids; those in one partition share a sync. Raises StorageError."""
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


def _entry(change: StateChange) -> _Entry:
    return TransactionLogKey(change.transactional_id).encode(), change.value.encode()


def _checked(
    changes: Sequence[StateChange],
    values: Mapping[TransactionLogKey, TransactionLogValue],
    unreadable: Mapping[TransactionLogKey, LogStoreError],
) -> tuple[list[LogStoreError | None], list[StateChange]]:
    """Returns the errors of invalid changes, given ``values`` and earlier changes, and the valid changes."""
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
