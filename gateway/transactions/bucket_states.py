"""Transactions on an object store: states in memory, and ends that are one commit or none.

A transaction is staged until it ends (:class:`StagedTransactions`). The coordinator is the same as over a directory:
what it stores is kept here, and in place of markers a commit names what was staged. A restart aborts what is open, and
its producers must begin again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...protocol import ErrorCode, RequestError
from ...storage import (
    GROUP_METADATA_TOPIC,
    PREPARED,
    UNDECIDED,
    LogManager,
    LogStoreError,
    Producer,
    ProducerFencedError,
    StagedTransactions,
    TopicPartition,
    TransactionLogValue,
    TransactionState,
    client_producer_id,
    positive_hash,
)
from ..producer_ids import ProducerIds
from ..threads import Worker
from .held import Opened, is_late
from .markers import Done
from .store import Write

EXPIRY_MS = 7 * 24 * 3_600_000  # of an id that no client uses, as Kafka's transactional.id.expiration.ms


@dataclass(frozen=True)
class _Use:
    """In place of a lock: the log's commits keep other processes out."""

    transactional_id: str


class BucketStates:
    """The states of transactional ids. Belongs to the thread of the store."""

    def __init__(self, manager: LogManager, staged: StagedTransactions, partitions: int) -> None:
        """``partitions``: of ``__consumer_offsets``, which is not there, but gives groups their places."""
        self._manager, self._staged, self._partitions = manager, staged, partitions
        self._producer_ids = ProducerIds()
        self._values: dict[str, TransactionLogValue] = {}

    def open(self, transactional_id: str, *, create: bool) -> Opened | None:
        """Returns the state of an id; None if it has no state and ``create`` is False."""
        value = self._values.get(transactional_id)
        return Opened(_Use(transactional_id), value, 0) if create or value is not None else None

    def release(self, lock: object) -> None:
        """Forgets an id whose transaction was decided and cannot be committed."""
        assert isinstance(lock, _Use)
        value = self._values.get(lock.transactional_id)
        if value is not None and value.transaction_status in PREPARED:
            del self._values[lock.transactional_id]
            self._staged.forget(lock.transactional_id)

    def new_producer_id(self) -> int:
        """Returns a producer id that no other producer has."""
        return client_producer_id(self._producer_ids.next(self._manager))

    def offsets_partition(self, group: str) -> TopicPartition:
        """Returns the partition of ``__consumer_offsets`` that would hold a group."""
        return TopicPartition(GROUP_METADATA_TOPIC, positive_hash(group) % self._partitions)

    def newest(self, transactional_id: str) -> TransactionLogValue | None:
        """Returns the state of an id."""
        return self._values.get(transactional_id)

    def all(self, failures: list[LogStoreError]) -> list[tuple[str, TransactionLogValue]]:
        """Returns all ids with their states."""
        return list(self._values.items())

    def unfinished(self, now_ms: int, failures: list[LogStoreError]) -> list[str]:
        """Returns the ids whose transaction is decided but not ended, or too old; forgets ids that have expired."""
        for name, value in self.all(failures):
            is_open = value.transaction_status in PREPARED | UNDECIDED
            if not is_open and now_ms - value.transaction_last_update_timestamp_ms >= EXPIRY_MS:
                del self._values[name]
                self._staged.forget(name)
        return [
            name
            for name, value in self._values.items()
            if value.transaction_status in PREPARED
            or (value.transaction_status in UNDECIDED and is_late(value, now_ms))
        ]

    def write(self, writes: Collection[Write]) -> list[Exception | None]:
        """Keeps states; a producer that begins takes over its id by a commit. Returns an error or None for each."""
        return [self._keep(write) for write in writes]

    def _keep(self, write: Write) -> Exception | None:
        name, value = write.transactional_id, write.value
        if value.transaction_status is TransactionState.EMPTY:
            try:
                self._staged.begin(name, Producer(value.producer_id, value.producer_epoch), write.after)
            except ProducerFencedError as error:  # at another gateway: nothing that this one knows of the id counts
                self._values.pop(name, None)
                self._staged.forget(name)
                return RequestError(ErrorCode.producer_fenced, str(error))
            except (LogStoreError, OSError) as error:
                return error
        self._values[name] = value
        return None

    def close(self) -> None:
        """Closes the manager."""
        self._manager.close()


class BucketEnds:
    """Commits or drops what was staged. For any thread; the store is waited for in a thread of its own."""

    are_forgotten = True

    def __init__(self, staged: StagedTransactions) -> None:
        self._staged = staged
        self._worker = Worker("gateway-transaction-ends")

    def start(self) -> None:
        """Starts the thread."""
        self._worker.start()

    def stop(self) -> None:
        """Ends the thread, after what was given."""
        self._worker.stop()

    def write(self, decided: TransactionLogValue, coordinator_epoch: int, now_ms: int, done: Done) -> None:
        """Ends a transaction as it was decided, then calls ``done``; with an error, call it again."""

        def run() -> None:
            try:
                if decided.transaction_status is TransactionState.PREPARE_COMMIT:
                    self._staged.commit(decided.producer_id)
                else:
                    self._staged.abort(decided.producer_id)
            except Exception as error:
                done(error)
            else:
                done(None)

        self._worker.run(run)
