"""TransactionStore: reads and writes ``__transaction_state``, and answers in the coordinator's thread.

Pending states are written together, and those in one partition share a sync, so producers that commit at the same time
do not wait for each other. States are written in the coordinator's thread if that need not wait, otherwise in a thread
of their own, which also syncs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, Protocol

from ...protocol.errors import is_fault
from ...storage import (
    PREPARED,
    UNDECIDED,
    AtOnce,
    GroupOffsets,
    Log,
    LogDirLockedError,
    LogManager,
    LogStoreError,
    Producer,
    StateChange,
    StorageError,
    TopicPartition,
    TransactionalIdLock,
    TransactionLogValue,
    TransactionStates,
    client_producer_id,
    this_process,
)
from ..config import GatewayConfig
from ..producer_ids import ProducerIds
from ..threads.disk import Disk, Home, Store
from .held import Opened, is_late

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Write:
    transactional_id: str
    expected: TransactionLogValue | None
    value: TransactionLogValue
    sync: bool
    done: Callable[[Exception | None], None]
    after: Producer | None = None  # the earlier producer of the client that continues as the producer of ``value``


class States(Protocol):
    """The storage of states. Belongs to the thread of the store."""

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

    def one_look(self) -> AbstractContextManager[None]:
        """Within the block, reads the log once for all calls of :meth:`newest`; nothing else is written there."""
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

    def write_at_once(self, writes: Sequence[Write]) -> AtOnce | None:
        """Writes states if that need not wait; returns the errors, and the logs for :meth:`sync`.

        None: nothing was written. For a thread other than the store's, while that does not use this object.
        """
        ...

    def sync(self, logs: Collection[Log]) -> Mapping[Log, StorageError]:
        """Syncs logs, each once; returns the errors."""
        ...

    def close(self) -> None:
        """Ends the use of all ids."""
        ...


class StoredStates:
    """The states in the log, and the locks of ids. Belongs to the thread of the store."""

    def __init__(self, manager: LogManager, config: GatewayConfig | None = None) -> None:
        """``config``: has the partition numbers of topics to create; None: Kafka's defaults."""
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

    def one_look(self) -> AbstractContextManager[None]:
        """Within the block, reads the log once for all calls of :meth:`newest`; nothing else is written there."""
        return self._states.one_look()

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

        None: the state is durable, or only written if no sync was requested.
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

    def write_at_once(self, writes: Sequence[Write]) -> AtOnce | None:
        """See :meth:`TransactionStates.replace_at_once`."""
        return self._states.replace_at_once(
            [StateChange(each.transactional_id, each.expected, each.value) for each in writes]
        )

    def sync(self, logs: Collection[Log]) -> Mapping[Log, StorageError]:
        """See :meth:`TransactionStates.sync_logs`."""
        return self._states.sync_logs(logs)

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


class _Unsynced(NamedTuple):
    """States that were written at once."""

    writes: Sequence[Write]
    found: AtOnce

    @property
    def to_sync(self) -> Iterator[Log]:
        """The logs that must be synced."""
        return (log for write, log in zip(self.writes, self.found.logs, strict=True) if write.sync and log is not None)

    def errors(self, failures: Mapping[Log, StorageError]) -> Iterator[Exception | None]:
        """Yields the error of each write, after the syncs."""
        for write, error, log in zip(self.writes, *self.found, strict=True):
            yield error or (failures.get(log) if write.sync and log is not None else None)


class TransactionStore(Store[States, Write]):
    """The states. Its methods and the callbacks passed to them are called in the coordinator's thread.

    States from one turn of the coordinator are written in its thread, if that need not wait, and synced together in the
    thread of the disk. Others are written there.
    """

    WHAT = "states of transactions cannot be read or stored"

    def __init__(self, disk: Disk[States], home: Home) -> None:
        super().__init__(disk, home)
        self._is_open = False  # the thread of the disk has used it
        self._unsynced: list[_Unsynced] = []  # changed under ``_guard``

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

        ``after``: the earlier producer of a recovering client, which continues as the producer of ``value``. Calls
        ``done`` with None when it is durable, or an error.
        """
        self._put(Write(transactional_id, expected, value, sync, done, after))

    def _begin_flush(self) -> None:
        if self._is_open:
            self._home.run(self._flush_at_once)  # after the other tasks of this turn
        else:
            self._disk.run(self._flush)

    def _flush_first(self) -> None:
        if self._waiting:  # their task comes too late
            self._disk.run(self._flush)

    def _flush_at_once(self) -> None:
        """Writes the pending states; if that would have to wait, leaves it to the thread of the disk."""
        found = None
        if self._using.acquire(blocking=False):
            try:
                if not self._waiting:
                    return
                found = self._disk.opened.write_at_once(self._waiting)
                writes = [] if found is None else self._taken()
            except Exception:  # ours
                logger.exception("states of transactions could not be written at once")
            finally:
                self._using.release()
        if found is None:
            self._disk.run(self._flush)
        else:
            self._sync_soon(_Unsynced(writes, found))

    def _sync_soon(self, unsynced: _Unsynced) -> None:
        if next(unsynced.to_sync, None) is None:
            self._answer_after([unsynced], {})
            return
        with self._guard:
            self._unsynced.append(unsynced)
            is_first = len(self._unsynced) == 1
        if is_first:
            self._disk.run(self._sync)

    def _sync(self) -> None:
        """Syncs, in the thread of the disk, the states that one or more turns have written."""
        with self._guard:
            groups, self._unsynced = self._unsynced, []
        logs = [log for each in groups for log in each.to_sync]
        try:
            failures = self._disk.opened.sync(logs)
        except Exception as error:  # such as no room for a thread: without an answer, the ids would be busy for ever
            failures = dict.fromkeys(logs, StorageError(f"states could not be synced: {error}"))
        self._home.run(partial(self._answer_after, groups, failures))

    def _answer_after(self, groups: Sequence[_Unsynced], failures: Mapping[Log, StorageError]) -> None:
        for group in groups:
            errors = list(group.errors(failures))
            for each in filter(None, errors):
                self._note(each)
            self._answer_all(group.writes, errors)

    @contextmanager
    def _one_look(self, disk: States) -> Iterator[States]:
        with disk.one_look():
            yield disk

    def _is_fault(self, error: Exception) -> bool:
        return is_fault(error)

    def _write(self, disk: States, writes: Sequence[Write]) -> Sequence[Exception | None]:
        self._is_open = True
        return disk.write(writes)

    def _answer(self, write: Write, error: Exception | None) -> None:
        write.done(error)
