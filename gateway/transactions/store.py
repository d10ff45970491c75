"""TransactionStore: reads and writes ``__transaction_state`` in a thread of its own, and answers in the coordinator's.

Pending states are written together, and those in one partition share a sync, so producers that commit at the same time
do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

from ...protocol import is_fault
from ...storage import (
    PREPARED,
    UNDECIDED,
    GroupOffsets,
    LogDirLockedError,
    LogManager,
    LogStoreError,
    Producer,
    StateChange,
    TopicPartition,
    TransactionalIdLock,
    TransactionLogValue,
    TransactionStates,
    client_producer_id,
    this_process,
)
from ..config import GatewayConfig
from ..producer_ids import ProducerIds
from ..threads import Store
from .held import Opened, is_late


@dataclass(frozen=True, eq=False)
class Write:
    transactional_id: str
    expected: TransactionLogValue | None
    value: TransactionLogValue
    sync: bool
    done: Callable[[Exception | None], None]
    after: Producer | None = None  # whose client goes on as the producer of ``value``


class States(Protocol):
    """Where states are kept. Belongs to the thread of the store."""

    def open(self, transactional_id: str, *, create: bool) -> Opened | None:
        """Begins to use an id, with its newest state. None if it has none and ``create`` is False."""
        ...

    def release(self, lock: Any) -> None:
        """Ends the use of an id."""
        ...

    def new_producer_id(self) -> int:
        """Returns a producer id that no other producer has."""
        ...

    def offsets_partition(self, group: str) -> TopicPartition:
        """Returns the partition of ``__consumer_offsets`` that holds a group."""
        ...

    def newest(self, transactional_id: str) -> TransactionLogValue | None:
        """Returns the newest state of an id."""
        ...

    def all(self, failures: list[LogStoreError]) -> list[tuple[str, TransactionLogValue]]:
        """Returns all ids with their newest states; appends errors to ``failures``."""
        ...

    def unfinished(self, now_ms: int, failures: list[LogStoreError]) -> list[str]:
        """Returns the ids whose transaction is decided but not ended, or is older than its timeout."""
        ...

    def write(self, writes: Collection[Write]) -> Sequence[Exception | None]:
        """Writes states; returns an error or None for each."""
        ...

    def close(self) -> None:
        """Ends the use of all ids."""
        ...


class StoredStates:
    """The states in the log, and the locks of ids. Belongs to the thread of the store."""

    def __init__(self, manager: LogManager, config: GatewayConfig | None = None) -> None:
        """``config``: the source of the partition numbers of topics to create; None: Kafka's defaults."""
        config = config or GatewayConfig()
        self._manager = manager
        self._states = TransactionStates(manager, partitions=config.transaction_state_log_num_partitions)
        self._groups = GroupOffsets(manager, partitions=config.offsets_topic_num_partitions)
        self._producer_ids = ProducerIds()
        self._locks: set[TransactionalIdLock] = set()

    def open(self, transactional_id: str, *, create: bool) -> Opened | None:
        """Takes the lock of an id and returns its newest state, synced.

        None if it has no state and ``create`` is False.
        """
        if not create and self._states.newest_to_write(transactional_id) is None:
            return None
        try:
            lock = TransactionalIdLock.take(self._manager, transactional_id, f"a gateway, {this_process()}")
        except LogDirLockedError:
            return Opened(None, self._states.newest_to_write(transactional_id), -1)
        try:
            value = self._states.settled(transactional_id)
            epoch = self._states.coordinator_epoch(transactional_id)
        except BaseException:
            lock.release()
            raise
        self._locks.add(lock)
        return Opened(lock, value, epoch)

    def release(self, lock: TransactionalIdLock) -> None:
        """Releases the lock of an id."""
        self._locks.discard(lock)
        lock.release()

    def new_producer_id(self) -> int:
        """Returns a producer id that no other producer has."""
        return client_producer_id(self._producer_ids.next(self._manager))

    def offsets_partition(self, group: str) -> TopicPartition:
        """Returns the partition of ``__consumer_offsets`` that holds a group."""
        return self._groups.partition_of(group)

    def newest(self, transactional_id: str) -> TransactionLogValue | None:
        """Returns the newest state of an id."""
        return self._states.newest(transactional_id)

    def all(self, failures: list[LogStoreError]) -> list[tuple[str, TransactionLogValue]]:
        """Returns all ids with their newest states.

        Appends errors of partitions that cannot be read to ``failures``.
        """
        return list(self._states.all(failures))

    def unfinished(self, now_ms: int, failures: list[LogStoreError]) -> list[str]:
        """Returns the ids whose transaction is decided but not ended, or is older than its timeout."""
        return [
            name
            for name, value in self.all(failures)
            if value.transaction_status in PREPARED
            or (value.transaction_status in UNDECIDED and is_late(value, now_ms))
        ]

    def write(self, writes: Collection[Write]) -> Sequence[Exception | None]:
        """Writes states; returns an error or None for each.

        None: it is durable, or written if no sync was asked for.
        """
        changes = [StateChange(write.transactional_id, write.expected, write.value) for write in writes]
        errors = self._states.replace_all(changes)
        synced = {
            write.transactional_id for write, error in zip(writes, errors, strict=True) if write.sync and not error
        }
        try:
            self._states.sync(sorted(synced))
        except (LogStoreError, OSError) as failure:
            return [failure if write.sync and not error else error for write, error in zip(writes, errors, strict=True)]
        return errors

    def close(self) -> None:
        """Releases all locks, and closes the manager."""
        for lock in list(self._locks):
            self.release(lock)
        self._manager.close()


class OthersStates:
    """The states of ids that other nodes coordinate. For any thread."""

    def __init__(self, open_manager: Callable[[], LogManager]) -> None:
        """The manager is opened at the first use."""
        self._open_manager, self._guard = open_manager, Lock()
        self._states: TransactionStates | None = None

    def newest(self, transactional_id: str) -> TransactionLogValue | None:
        """Returns the newest state of an id."""
        with self._guard:
            if self._states is None:
                self._states = TransactionStates(self._open_manager())
            return self._states.newest(transactional_id)

    def close(self) -> None:
        """Closes the manager."""
        with self._guard:
            if self._states is not None:
                self._states.manager.close()


class TransactionStore(Store[States, Write]):
    """The states. Its methods and the callbacks passed to them are called in the coordinator's thread."""

    WHAT = "states of transactions cannot be read or stored"

    def write(
        self,
        transactional_id: str,
        expected: TransactionLogValue | None,
        value: TransactionLogValue,
        done: Callable[[Exception | None], None],
        *,
        sync: bool = True,
        after: Producer | None = None,
    ) -> None:
        """Writes a state if ``expected`` is still the newest one.

        ``after``: the producer whose client goes on as that of ``value``, if it is one that recovers. Calls ``done``
        with None when it is durable, or an error.
        """
        self._put(Write(transactional_id, expected, value, sync, done, after))

    def _is_fault(self, error: Exception) -> bool:
        return is_fault(error)

    def _write(self, disk: States, writes: Sequence[Write]) -> Sequence[Exception | None]:
        return disk.write(writes)

    def _answer(self, write: Write, error: Exception | None) -> None:
        write.done(error)
