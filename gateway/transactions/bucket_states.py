"""Transactions on an object store: the coordinator's states in memory, and ends that are one commit.

The records of a transaction are in the log (:class:`ClientTransactions`). The coordinator is the same as over a
directory: the states it stores are kept here, and a commit replaces the markers. A restart aborts open transactions,
and their producers must begin again. If a gateway is killed, another one aborts its open transactions after having seen
them for as long as their timeouts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import NamedTuple

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...storage import (
    GROUP_METADATA_TOPIC,
    PREPARED,
    UNDECIDED,
    AtOnce,
    ClientTransaction,
    ClientTransactions,
    Log,
    LogManager,
    LogStoreError,
    Producer,
    ProducerFencedError,
    StorageError,
    TopicPartition,
    TransactionLogValue,
    TransactionState,
    client_producer_id,
    give_up,
    positive_hash,
)
from ..producer_ids import ProducerIds
from ..threads.worker import Worker
from .held import Opened, is_late
from .markers import Done
from .store import Write

logger = logging.getLogger(__name__)

EXPIRY_MS = 7 * 24 * 3_600_000  # for an id that no client uses, like Kafka's transactional.id.expiration.ms


@dataclass(frozen=True)
class _Use:
    """Used in place of a lock: the log's commits keep other processes out."""

    transactional_id: str


class BucketStates:
    """The states of transactional ids. Belongs to the thread of the store."""

    def __init__(self, manager: LogManager, transactions: ClientTransactions, partitions: int) -> None:
        """``partitions``: how many ``__consumer_offsets`` would have.

        It does not exist, but its number places groups.
        """
        self._manager, self._transactions, self._partitions = manager, transactions, partitions
        self._producer_ids = ProducerIds()
        self._of_others: dict[ClientTransaction, float] = {}  # open transactions, and when they were first seen
        self._values: dict[str, TransactionLogValue] = {}

    def open(self, transactional_id: str, *, create: bool) -> Opened | None:
        """Returns the state of an id; None if it has no state and ``create`` is False."""
        value = self._values.get(transactional_id)
        return Opened(_Use(transactional_id), value, 0) if create or value is not None else None

    def release(self, lock: object) -> None:
        """Forgets an id whose transaction was decided, and whose end was refused."""
        assert isinstance(lock, _Use)
        value = self._values.get(lock.transactional_id)
        if value is not None and value.transaction_status in PREPARED:
            del self._values[lock.transactional_id]
            self._transactions.forget(lock.transactional_id)

    def new_producer_id(self) -> int:
        """Returns a producer id that no other producer has."""
        return client_producer_id(self._producer_ids.next(self._manager))

    def offsets_partition(self, group: str) -> TopicPartition:
        """Returns the partition of ``__consumer_offsets`` that would hold a group."""
        return TopicPartition(GROUP_METADATA_TOPIC, positive_hash(group) % self._partitions)

    def newest(self, transactional_id: str) -> TransactionLogValue | None:
        """Returns the state of an id."""
        return self._values.get(transactional_id)

    def one_look(self) -> AbstractContextManager[None]:
        """Does nothing: states are in memory."""
        return nullcontext()

    def all(self, failures: list[LogStoreError]) -> list[tuple[str, TransactionLogValue]]:
        """Returns all ids with their states."""
        return list(self._values.items())

    def unfinished(self, now_ms: int, failures: list[LogStoreError]) -> list[str]:
        """Returns the ids whose transaction is decided but not ended, or too old; forgets ids that have expired.

        Aborts what other processes have left open.
        """
        self._abort_abandoned(failures)
        for name, value in self.all(failures):
            is_open = value.transaction_status in PREPARED | UNDECIDED
            if not is_open and now_ms - value.transaction_last_update_timestamp_ms >= EXPIRY_MS:
                del self._values[name]
                self._transactions.forget(name)
        return [
            name
            for name, value in self._values.items()
            if value.transaction_status in PREPARED
            or (value.transaction_status in UNDECIDED and is_late(value, now_ms))
        ]

    def _abort_abandoned(self, failures: list[LogStoreError]) -> None:
        """Aborts the transactions of other processes that this one has seen for as long as their timeouts."""
        log, now_s = self._manager.bucket, time.monotonic()
        assert log is not None
        with log.reading() as state:
            found = [each.transaction for each in state.open.values() if not self._transactions.has(each.transaction)]
        self._of_others = {each: self._of_others.get(each, now_s) for each in found}
        for each, seen_s in self._of_others.items():
            if now_s - seen_s >= each.timeout_ms / 1000:
                try:
                    log.commit(partial(give_up, transaction=each))
                except LogStoreError as error:
                    failures.append(error)
                else:
                    logger.warning("aborted the transaction of %s, which its gateway has left open", each.name)

    def write(self, writes: Collection[Write]) -> list[Exception | None]:
        """Keeps states; a producer that begins takes over its id by a commit. Returns an error or None for each."""
        return [self._keep(write) for write in writes]

    def write_at_once(self, writes: Sequence[Write]) -> AtOnce | None:
        """Writes nothing: a state may need a commit."""
        return None

    def sync(self, logs: Collection[Log]) -> Mapping[Log, StorageError]:
        """Has nothing to sync."""
        return {}

    def _begin(self, write: Write) -> None:
        value = write.value
        producer = Producer(value.producer_id, value.producer_epoch)
        self._transactions.begin(write.transactional_id, producer, value.transaction_timeout_ms, write.after)

    def _keep(self, write: Write) -> Exception | None:
        name, value = write.transactional_id, write.value
        if value.transaction_status is TransactionState.EMPTY:
            try:
                self._begin(write)
            except ProducerFencedError as error:  # another gateway has the id, so this one's state is void
                self._values.pop(name, None)
                self._transactions.forget(name)
                return RequestError(ErrorCode.producer_fenced, str(error))
            except (LogStoreError, OSError) as error:
                return error
        self._values[name] = value
        return None

    def close(self) -> None:
        """Closes the manager."""
        self._manager.close()


class _End(NamedTuple):
    producer_id: int
    is_commit: bool
    done: Done


class BucketEnds:
    """Commits or aborts transactions. For any thread; a thread of its own waits for the store."""

    are_forgotten = True

    def __init__(self, transactions: ClientTransactions) -> None:
        self._transactions = transactions
        self._worker = Worker("gateway-transaction-ends")
        self._guard = Lock()  # Guards what is asked.
        self._asked: list[_End] = []  # an end that comes during a commit waits for the next one

    def start(self) -> None:
        """Starts the thread."""
        self._worker.start()

    def stop(self) -> None:
        """Ends the thread after the queued ends; aborts transactions that are still open."""
        self._worker.stop()
        self._transactions.abort_all()

    def write(self, decided: TransactionLogValue, coordinator_epoch: int, now_ms: int, done: Done) -> None:
        """Ends a transaction as it was decided, then calls ``done``; with an error, call it again."""
        is_commit = decided.transaction_status is TransactionState.PREPARE_COMMIT
        with self._guard:
            self._asked.append(_End(decided.producer_id, is_commit, done))
            is_first = len(self._asked) == 1
        if is_first:
            self._worker.run(self._end)

    def _end(self) -> None:
        with self._guard:
            asked, self._asked = self._asked, []
        results: Sequence[Exception | None]
        try:
            results = self._transactions.end([(each.producer_id, each.is_commit) for each in asked])
        except Exception as error:
            results = [error] * len(asked)
        for each, result in zip(asked, results, strict=True):
            each.done(result)
