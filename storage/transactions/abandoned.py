"""Lists open transactions with the partitions that wait for them, and ends abandoned ones.

An abandoned query must not hold back the last stable offset forever. While a process holds the lock of a transactional
id, its transaction is not abandoned. Without a held lock, the transaction gets its ``transaction.timeout.ms``, since a
batch write holds no lock. A decided transaction is completed, no matter which process decided it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple

from ..directory.manager import LogManager
from ..directory.protected_topics import INTERNAL_TOPICS
from ..directory.reserve import with_room
from ..errors import LogDirLockedError, LogStoreError, ProducerFencedError, kept_in
from ..format.constants import NO_TIMESTAMP
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import TransactionLogValue, TransactionState
from ..reading.reader import LogReader
from ..recovery.producer_state import Producer
from .ending import Ending, open_logs, write_marker
from .states import PREPARED, UNFINISHED, TransactionStates, state_text
from .transactional_id import TransactionalIdLock

Look = Callable[[TopicPartition], AbstractContextManager[LogReader]]

TRANSACTIONAL_ID_EXPIRATION_MS = 604_800_000  # transactional.id.expiration.ms: seven days


class OpenPartition(NamedTuple):
    """The part of an open transaction in one partition."""

    topic: str
    partition: int
    first_offset: int  # of the transaction
    last_stable_offset: int  # that of the partition; equals first_offset if this transaction holds it back
    log_end_offset: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def holds_back(self) -> bool:
        """Whether this transaction is the one that read_committed readers of the partition wait for."""
        return self.first_offset == self.last_stable_offset


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that has not reached its Complete state."""

    transactional_id: str | None  # None: no transactional id has this producer, as after a broker's id was deleted
    producer_id: int
    epoch: int  # of its records
    state: str  # Ongoing, PrepareCommit, PrepareAbort; Superseded: its producer has a newer epoch; Unknown
    age_ms: int  # time since it began, or since its last record if nothing else is known
    timeout_ms: int  # of its coordinator; -1: unknown
    partitions: tuple[OpenPartition, ...]  # those with its records; if empty, nothing is held back


class Resolution(Enum):
    """The action taken on an open transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    KEPT = "left"  # nothing was done; the value is part of reports


@dataclass(frozen=True)
class ResolvedTransaction:
    """An open transaction, and the action on it, taken or planned."""

    transaction: OpenTransaction
    resolution: Resolution
    reason: str


class _Seen(NamedTuple):
    """Records of an open transaction in a partition."""

    part: OpenPartition
    epoch: int
    last_timestamp: int  # ms


def open_transactions(
    manager: LogManager,
    *,
    now_ms: int | None = None,
    failures: list[LogStoreError] | None = None,
    look: Look | None = None,
) -> list[OpenTransaction]:
    """Returns all transactions that have not ended, oldest first. Takes no lock, and opens every partition.

    The directory may be a broker's. ``now_ms``, from which ages are counted, defaults to the manager's clock. Skips
    partitions of internal topics that are missing from the directory: ``TransactionStates.missing`` lists them. Raises
    LogStoreError if another partition cannot be read; with ``failures``, adds the error to that list instead and reads
    the other partitions. ``look`` opens the log of a partition, for a caller that keeps logs open; None: the manager
    opens it.
    """
    now_ms = manager.clock.now_ms() if now_ms is None else now_ms
    states = {value.producer_id: (name, value) for name, value in _states(manager, failures)}
    seen = _seen_in_partitions(manager, look or (lambda each: manager.open_reader(*each)), failures)
    found = []
    for producer_id in seen.keys() | states.keys():
        name, value = states.get(producer_id, (None, None))
        in_epochs: dict[int, list[_Seen]] = {}
        for each in seen.get(producer_id, []):
            in_epochs.setdefault(each.epoch, []).append(each)
        if value is not None and value.transaction_status in UNFINISHED:
            in_epochs.setdefault(epoch_of_records(value, in_epochs), [])
        found += [_described(name, value, producer_id, epoch, parts, now_ms) for epoch, parts in in_epochs.items()]
    return sorted(found, key=lambda each: (-each.age_ms, each.producer_id, each.epoch))


def _states(manager: LogManager, failures: list[LogStoreError] | None) -> Iterable[tuple[str, TransactionLogValue]]:
    """Returns the states of transactional ids; for a log on an object store, only those with an open transaction."""
    if manager.bucket is None:
        return TransactionStates(manager).all(failures)
    with manager.bucket.reading() as state:
        found = [(each.transaction, each.began_ms) for each in state.open.values()]
    ongoing, none = TransactionState.ONGOING, NO_TIMESTAMP
    return [
        (of.name, TransactionLogValue(of.producer_id, of.producer_epoch, of.timeout_ms, ongoing, (), none, began_ms))
        for of, began_ms in found
    ]


def _seen_in_partitions(
    manager: LogManager, look: Look, failures: list[LogStoreError] | None
) -> dict[int, list[_Seen]]:
    found: dict[int, list[_Seen]] = {}
    for partition in _partitions(manager):
        with kept_in(failures):
            try:
                for producer_id, seen in _seen_in(look, partition):
                    found.setdefault(producer_id, []).append(seen)
            except LogStoreError:
                if manager.find_topic(partition.topic) is not None:  # else it was deleted since it was listed
                    raise
    return found


def _partitions(manager: LogManager) -> Iterator[TopicPartition]:
    for topic in manager.topics().values():
        for each in topic.topic_partitions:
            if topic.name not in INTERNAL_TOPICS or manager.is_here(*each):
                yield each


def _seen_in(look: Look, partition: TopicPartition) -> Iterator[tuple[int, _Seen]]:
    with look(partition) as log:
        for first_offset, producer_id in log.producers.ongoing.items():
            producer = log.producers.last_entry(producer_id)
            assert producer is not None  # since it has an open transaction
            part = OpenPartition(*partition, first_offset, log.last_stable_offset, log.log_end_offset)
            yield producer_id, _Seen(part, producer.epoch, producer.last_timestamp)


def epoch_of_records(value: TransactionLogValue, in_epochs: Mapping[int, object]) -> int:
    """Returns the epoch of a transaction's records, from its state and the epochs found in its partitions.

    In an Ongoing state, the epoch is that of the records. A Prepare state of this engine has the next one, a broker's
    (before KIP-890) the same one: ``in_epochs``, the epochs of open transactions of this producer in the partitions,
    distinguish them.
    """
    if value.transaction_status is TransactionState.ONGOING or value.producer_epoch in in_epochs:
        return value.producer_epoch
    return value.producer_epoch - 1


def _described(
    name: str | None, value: TransactionLogValue | None, producer_id: int, epoch: int, seen: list[_Seen], now_ms: int
) -> OpenTransaction:
    began_ms = max((each.last_timestamp for each in seen), default=NO_TIMESTAMP)
    state = "Unknown" if value is None else "Superseded"
    if value is not None and value.transaction_status in UNFINISHED and epoch == epoch_of_records(value, {epoch: seen}):
        state = state_text(value).split()[0]
        began_ms = value.transaction_start_timestamp_ms
    return OpenTransaction(
        transactional_id=name,
        producer_id=producer_id,
        epoch=epoch,
        state=state,
        age_ms=max(now_ms - began_ms, 0) if began_ms >= 0 else 0,  # it may have begun by another machine's clock
        timeout_ms=-1 if value is None else value.transaction_timeout_ms,
        partitions=tuple(sorted(each.part for each in seen)),
    )


# Ending abandoned transactions


def resolve_dead_transactions(
    manager: LogManager,
    *,
    now_ms: int | None = None,
    dry_run: bool = False,
    failures: list[LogStoreError] | None = None,
) -> list[ResolvedTransaction]:
    """Ends abandoned transactions, as the first step of retention. Returns one report per open transaction.

    Completes decided transactions. Aborts Ongoing ones older than their timeout, and those whose transactional id has a
    newer epoch. Reports, but does not end, transactions of producers that no transactional id has, and transactions
    whose transactional id another process has locked. On a full disk, the directory gives up its reserve. With
    ``dry_run``, writes nothing. Raises LogStoreError if a partition cannot be read or written; with ``failures``,
    adds the error to that list instead and continues with the other transactions.
    """
    resolved = []
    for each in open_transactions(manager, now_ms=now_ms, failures=failures):
        with kept_in(failures):
            task = partial(resolve, manager, each, dry_run=dry_run)
            resolved.append(with_room(manager.filesystem, manager.directory, task))
    return resolved


def resolve(manager: LogManager, found: OpenTransaction, *, dry_run: bool = False) -> ResolvedTransaction:
    """Ends one transaction if it is abandoned, as :func:`resolve_dead_transactions`, and returns the report.

    Reads the state of the transactional id again first, since it may have changed after ``found`` was read.
    """
    if found.transactional_id is None:
        reason = (
            "no transactional id has this producer, so no coordinator ends it: make sure that its __transaction_state "
            "is not in another of the broker's log.dirs, then run commitlog transactions --abort"
        )
        return ResolvedTransaction(found, Resolution.KEPT, reason)
    if found.state == "Ongoing" and found.age_ms < found.timeout_ms:
        reason = f"its transaction.timeout.ms of {found.timeout_ms} has not passed"
        return ResolvedTransaction(found, Resolution.KEPT, reason)
    states = TransactionStates(manager)
    try:
        if dry_run:
            TransactionalIdLock.check_free(manager, found.transactional_id)
            return _planned(found, states.newest(found.transactional_id))
        lock = TransactionalIdLock.take(manager, found.transactional_id, "the retention of abandoned transactions")
    except LogDirLockedError as error:
        return ResolvedTransaction(found, Resolution.KEPT, str(error))
    with lock:
        return _resolve_locked(states, found, found.transactional_id)


def _planned(found: OpenTransaction, newest: TransactionLogValue | None) -> ResolvedTransaction:
    """Returns what is to be done with a transaction; ``newest``: the state of its transactional id."""
    if newest is None or not _is_still(found, newest):
        reason = f"its transactional id has changed to {state_text(newest)} in the meantime"
        return ResolvedTransaction(found, Resolution.KEPT, reason)
    if found.state == "Superseded":
        reason = f"its transactional id has moved on: {state_text(newest)}"
        return ResolvedTransaction(found, Resolution.ABORTED, reason)
    is_commit = newest.transaction_status is TransactionState.PREPARE_COMMIT
    reason = "decided, but not ended" if newest.transaction_status in PREPARED else "older than its timeout"
    return ResolvedTransaction(found, Resolution.COMMITTED if is_commit else Resolution.ABORTED, reason)


def _resolve_locked(states: TransactionStates, found: OpenTransaction, transactional_id: str) -> ResolvedTransaction:
    newest = states.settled(transactional_id)
    planned = _planned(found, newest)
    if newest is None or planned.resolution is Resolution.KEPT:
        return planned
    if found.state == "Superseded":
        _abort_superseded(states, found)
        return planned
    try:
        Ending(states, transactional_id).bring_to_complete(newest)
    except ProducerFencedError as error:
        return ResolvedTransaction(found, Resolution.KEPT, str(error))
    return planned


def _is_still(found: OpenTransaction, newest: TransactionLogValue) -> bool:
    """Whether ``newest`` shows the transaction of ``found`` in the same state, or decided.

    It may have been decided, and ended, since it was found; also by an attempt to end it that failed.
    """
    if newest.producer_id != found.producer_id:
        return False
    is_of_it = newest.transaction_status in UNFINISHED and epoch_of_records(newest, {found.epoch: ()}) == found.epoch
    if found.state == "Superseded":
        return newest.producer_epoch > found.epoch and not is_of_it
    return is_of_it and (newest.transaction_status in PREPARED or state_text(newest).split()[0] == found.state)


def _abort_superseded(states: TransactionStates, found: OpenTransaction) -> None:
    """Writes abort markers for a transaction whose transactional id has a newer epoch, in every partition of ``found``.

    The partitions come from the logs, since no state lists them any more. Durable on return.
    """
    successor = Producer(found.producer_id, found.epoch + 1)
    coordinator_epoch = states.coordinator_epoch(found.transactional_id or "")
    for log in open_logs(states.manager, (each.topic_partition for each in found.partitions)).values():
        with log.exclusively():
            known = log.producers.last_entry(found.producer_id)
            if known is not None and known.in_transaction and known.epoch == found.epoch:
                now_ms = states.manager.clock.now_ms()
                write_marker(log, successor, commit=False, coordinator_epoch=coordinator_epoch, now_ms=now_ms)
                log.sync()


# Forgetting idle ids


def expire_transactional_ids(
    manager: LogManager,
    *,
    now_ms: int | None = None,
    expiration_ms: int = TRANSACTIONAL_ID_EXPIRATION_MS,
    failures: list[LogStoreError] | None = None,
) -> list[str]:
    """Forgets transactional ids that were idle for ``expiration_ms`` (``transactional.id.expiration.ms``).

    Returns the forgotten ids. Each batch write without a ``txnAppId`` adds one to the log. Keeps ids that are locked
    and ids with an open transaction; an id that is used again later starts with another producer id. ``failures``: as
    for :meth:`TransactionStates.all`.
    """
    now_ms = manager.clock.now_ms() if now_ms is None else now_ms
    states, forgotten = TransactionStates(manager), []
    for transactional_id, value in states.all(failures):
        is_idle = now_ms - value.transaction_last_update_timestamp_ms >= expiration_ms
        if is_idle and value.transaction_status not in UNFINISHED:
            with suppress(LogDirLockedError), TransactionalIdLock.take(manager, transactional_id, "expiration"):
                if states.forget(transactional_id, value):
                    forgotten.append(transactional_id)
    return forgotten
