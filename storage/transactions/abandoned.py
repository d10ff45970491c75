"""Lists open transactions and what they hold back, and ends abandoned ones.

An abandoned query must not hold back the last stable offset for ever. A held lock on the transactional id means that
its owner is alive. Without a held lock, the transaction gets its ``transaction.timeout.ms``, since a batch write holds
no lock. A decided transaction is completed, no matter which process decided it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ..directory import INTERNAL_TOPICS, LogManager, TopicPartition
from ..errors import LogDirLockedError, LogStoreError, ProducerFencedError, kept_in
from ..format.constants import NO_TIMESTAMP
from ..format.internal.internal_topics import TransactionLogValue, TransactionState
from ..writing import Producer
from .ending import Ending, open_logs, write_marker
from .states import LEFT, PREPARED, TransactionStates, told
from .transactional_id import TransactionalIdLock

TRANSACTIONAL_ID_EXPIRATION_MS = 604_800_000  # transactional.id.expiration.ms: seven days


class OpenPartition(NamedTuple):
    """The part of an open transaction in one partition."""

    topic: str
    partition: int
    first_offset: int  # of the transaction
    last_stable_offset: int  # of the partition: equals first_offset if this transaction holds it back
    log_end_offset: int

    @property
    def holds_back(self) -> bool:
        """Whether this transaction is the one that read_committed readers wait for."""
        return self.first_offset == self.last_stable_offset


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that has not reached its Complete state."""

    transactional_id: str | None  # None: no transactional id has this producer, as after a broker's id was deleted
    producer_id: int
    epoch: int  # of its records
    state: str  # Ongoing, PrepareCommit, PrepareAbort; Superseded: its producer has a newer epoch; Unknown
    age_ms: int  # since it began, or since its last record if nothing else is known
    timeout_ms: int  # of its coordinator; -1: unknown
    partitions: tuple[OpenPartition, ...]  # those with its records; if empty, nothing is held back


class Resolution(Enum):
    """What was done about an open transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    LEFT = "left"


@dataclass(frozen=True)
class ResolvedTransaction:
    """An open transaction, and what was done about it, or would be."""

    transaction: OpenTransaction
    resolution: Resolution
    reason: str


class _Seen(NamedTuple):
    """Records of an open transaction in a partition."""

    place: OpenPartition
    epoch: int
    last_timestamp: int  # ms


def open_transactions(
    manager: LogManager, *, now_ms: int | None = None, failures: list[LogStoreError] | None = None
) -> list[OpenTransaction]:
    """All transactions that have not ended, oldest first. Takes no lock, and opens every partition.

    Works on a broker's directory too; ``now_ms`` defaults to the manager's clock. Skips partitions of internal topics
    that are missing from the directory: ``TransactionStates.missing`` lists them. Another partition that
    cannot be read raises; with ``failures``, its error is added there, and the others are read.
    """
    now_ms = manager.clock.now_ms() if now_ms is None else now_ms
    states = {value.producer_id: (name, value) for name, value in TransactionStates(manager).all(failures)}
    seen = _seen_in_partitions(manager, failures)
    found = []
    for producer_id in seen.keys() | states.keys():
        name, value = states.get(producer_id, (None, None))
        in_epochs: dict[int, list[_Seen]] = {}
        for each in seen.get(producer_id, []):
            in_epochs.setdefault(each.epoch, []).append(each)
        if value is not None and value.transaction_status in LEFT:
            in_epochs.setdefault(epoch_of_records(value, in_epochs), [])
        found += [_described(name, value, producer_id, epoch, parts, now_ms) for epoch, parts in in_epochs.items()]
    return sorted(found, key=lambda each: (-each.age_ms, each.producer_id, each.epoch))


def _seen_in_partitions(manager: LogManager, failures: list[LogStoreError] | None) -> dict[int, list[_Seen]]:
    found: dict[int, list[_Seen]] = {}
    for place in _places(manager):
        with kept_in(failures):
            for producer_id, seen in _seen_in(manager, place):
                found.setdefault(producer_id, []).append(seen)
    return found


def _places(manager: LogManager) -> Iterator[TopicPartition]:
    for topic in manager.topics().values():
        for partition in topic.partitions:
            if topic.name not in INTERNAL_TOPICS or manager.is_here(topic.name, partition):
                yield topic.name, partition


def _seen_in(manager: LogManager, place: TopicPartition) -> Iterator[tuple[int, _Seen]]:
    with manager.open_reader(*place) as log:
        for first_offset, producer_id in log.producers.ongoing.items():
            producer = log.producers.last_entry(producer_id)
            assert producer is not None  # since it has an open transaction
            where = OpenPartition(*place, first_offset, log.last_stable_offset, log.log_end_offset)
            yield producer_id, _Seen(where, producer.epoch, producer.last_timestamp)


def epoch_of_records(value: TransactionLogValue, in_epochs: Mapping[int, object]) -> int:
    """The records' epoch: one below our Prepare state's, or equal to that of a broker's (before KIP-890)."""
    if value.transaction_status is TransactionState.ONGOING or value.producer_epoch in in_epochs:
        return value.producer_epoch
    return value.producer_epoch - 1


def _described(
    name: str | None, value: TransactionLogValue | None, producer_id: int, epoch: int, seen: list[_Seen], now_ms: int
) -> OpenTransaction:
    began_ms = max((each.last_timestamp for each in seen), default=NO_TIMESTAMP)
    state = "Unknown" if value is None else "Superseded"
    if value is not None and value.transaction_status in LEFT and epoch == epoch_of_records(value, {epoch: seen}):
        state = told(value).split()[0]
        began_ms = value.transaction_start_timestamp_ms
    return OpenTransaction(
        transactional_id=name,
        producer_id=producer_id,
        epoch=epoch,
        state=state,
        age_ms=now_ms - began_ms if began_ms >= 0 else 0,
        timeout_ms=-1 if value is None else value.transaction_timeout_ms,
        partitions=tuple(sorted(each.place for each in seen)),
    )


# Ending abandoned transactions


def resolve_dead_transactions(
    manager: LogManager,
    *,
    now_ms: int | None = None,
    dry_run: bool = False,
    failures: list[LogStoreError] | None = None,
) -> list[ResolvedTransaction]:
    """End abandoned transactions, as the first step of retention. Returns one report per open transaction.

    Completes decided ones. Aborts Ongoing ones older than their timeout, and those whose transactional id has a newer
    epoch. Only reports those of producers that no transactional id has. Does nothing while another process holds the
    lock of the transactional id. With ``dry_run``, writes to no log. A partition that cannot be
    read or written raises; with ``failures``, its error is added there, and the others follow.
    """
    resolved = []
    for each in open_transactions(manager, now_ms=now_ms, failures=failures):
        with kept_in(failures):
            resolved.append(resolve(manager, each, dry_run=dry_run))
    return resolved


def resolve(manager: LogManager, found: OpenTransaction, *, dry_run: bool = False) -> ResolvedTransaction:
    """The same for one transaction, whose state may have changed since it was found."""
    if found.transactional_id is None:
        reason = (
            "no transactional id has this producer, so nothing ends it: run commitlog transactions --abort once you "
            "are sure that its __transaction_state is not in another directory of a broker"
        )
        return ResolvedTransaction(found, Resolution.LEFT, reason)
    if found.state == "Ongoing" and found.age_ms < found.timeout_ms:
        reason = f"its transaction.timeout.ms of {found.timeout_ms} has not passed"
        return ResolvedTransaction(found, Resolution.LEFT, reason)
    try:
        lock = TransactionalIdLock.take(manager, found.transactional_id, "the retention of abandoned transactions")
    except LogDirLockedError as error:
        return ResolvedTransaction(found, Resolution.LEFT, str(error))
    with lock:
        return _resolve_locked(TransactionStates(manager), found, found.transactional_id, dry_run=dry_run)


def _resolve_locked(
    states: TransactionStates, found: OpenTransaction, transactional_id: str, *, dry_run: bool
) -> ResolvedTransaction:
    newest = states.settled(transactional_id)
    if newest is None or not _is_still(found, newest):
        return ResolvedTransaction(found, Resolution.LEFT, f"its transactional id has {told(newest)} in the meantime")
    if found.state == "Superseded":
        if not dry_run:
            _abort_superseded(states, found)
        reason = f"its transactional id has moved on: {told(newest)}"
        return ResolvedTransaction(found, Resolution.ABORTED, reason)
    is_commit = newest.transaction_status is TransactionState.PREPARE_COMMIT
    reason = "decided, but not ended" if newest.transaction_status in PREPARED else "older than its timeout"
    if not dry_run:
        try:
            Ending(states, transactional_id).bring_to_complete(newest)
        except ProducerFencedError as error:
            return ResolvedTransaction(found, Resolution.LEFT, str(error))
    return ResolvedTransaction(found, Resolution.COMMITTED if is_commit else Resolution.ABORTED, reason)


def _is_still(found: OpenTransaction, newest: TransactionLogValue) -> bool:
    """Whether the state that the judgement is based on still holds: another may have begun or decided since."""
    if newest.producer_id != found.producer_id:
        return False
    is_of_it = newest.transaction_status in LEFT and epoch_of_records(newest, {found.epoch: ()}) == found.epoch
    if found.state == "Superseded":
        return newest.producer_epoch > found.epoch and not is_of_it
    return is_of_it and told(newest).split()[0] == found.state


def _abort_superseded(states: TransactionStates, found: OpenTransaction) -> None:
    """Abort a transaction whose state may be deleted long since, so that only the logs show its partitions."""
    successor = Producer(found.producer_id, found.epoch + 1)
    coordinator_epoch = states.coordinator_epoch(found.transactional_id or "")
    for log in open_logs(states.manager, ((each.topic, each.partition) for each in found.partitions)).values():
        with log.exclusively():
            known = log.producers.last_entry(found.producer_id)
            if known is not None and known.in_transaction and known.epoch == found.epoch:
                now_ms = states.manager.clock.now_ms()
                write_marker(log, successor, commit=False, coordinator_epoch=coordinator_epoch, now_ms=now_ms)
                log.flush()


# Forgetting idle ids


def expire_transactional_ids(
    manager: LogManager,
    *,
    now_ms: int | None = None,
    expiration_ms: int = TRANSACTIONAL_ID_EXPIRATION_MS,
    failures: list[LogStoreError] | None = None,
) -> list[str]:
    """Forget transactional ids that have been idle for ``expiration_ms`` (``transactional.id.expiration.ms``).

    Each batch write without an id of its own leaves one behind. Keeps ids that are locked and ids with an open
    transaction; an id that is used again later starts with another producer id. Returns the names of the forgotten ids.
    ``failures``: :meth:`TransactionStates.all`.
    """
    now_ms = manager.clock.now_ms() if now_ms is None else now_ms
    states, forgotten = TransactionStates(manager), []
    for transactional_id, value in states.all(failures):
        is_idle = now_ms - value.transaction_last_update_timestamp_ms >= expiration_ms
        if is_idle and value.transaction_status not in LEFT:
            with suppress(LogDirLockedError), TransactionalIdLock.take(manager, transactional_id, "expiration"):
                if states.forget(transactional_id, value):
                    forgotten.append(transactional_id)
    return forgotten
