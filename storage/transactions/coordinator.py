"""TransactionCoordinator: begins, commits and aborts the transactions of one transactional id.

The steps of a transaction, each with what happens after a crash that follows it:

1. :meth:`begin` writes Ongoing, synced: the next start aborts the transaction.
2. Tasks append (:class:`TransactionalWriter`), sync and report: as after step 1.
3. :meth:`commit` takes the locks of all partitions, compares their content with the reports, appends the offset commits
   and syncs them: as after step 1.
4. It writes PrepareCommit and syncs it, which is the decision: the next start writes the missing markers.
5. It writes the markers, syncs them, and releases the locks: only the Complete state is missing.
6. It writes CompleteCommit, unsynced: nothing is missing.
7. :meth:`checkpoint` writes producer snapshots and recovery points: nothing; they only make opening faster.

Records carry the epoch of Ongoing; PrepareCommit, CompleteCommit and the markers carry the next one, as does the next
transaction (KIP-890): a writer that still uses the old epoch is rejected. A coordinator that takes over a transactional
id raises the epoch once more, since its predecessor may be a broker's, which does not raise it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Self

from ..directory.manager import LogManager
from ..errors import (
    AppendError,
    InvalidConfigError,
    OutcomeUnknownError,
    StorageError,
    TransactionAbortedError,
    TransactionRefusedError,
)
from ..filesystem.open_files import OPEN_FILES
from ..format.constants import INT32_MAX
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import TransactionLogValue, TransactionState
from ..groups.offsets import CommittedOffset, GroupOffsets, commit_batches
from ..recovery.producer_state import Producer
from ..writing.log import Log
from .background_sync import BackgroundSync
from .counted import check_counted
from .ending import Ending, open_logs, sync_all
from .producer_ids import allot_producer_id, is_of_transactional_client
from .states import UNDECIDED, UNFINISHED, TransactionStates, state_text
from .transaction import Transaction, TransactionPart, ongoing
from .transactional_id import TransactionalIdLock
from .writer import check_ongoing

TRANSACTION_TIMEOUT_MS = 900_000  # the broker's transaction.max.timeout.ms: it takes over transactions we leave open
EPOCH_MAX = 32766  # of records; the last transaction's markers carry 32767, then a new producer id follows
SNAPSHOT_LAG_BYTES = 1 << 20  # bytes of a log that are read in a millisecond; a snapshot per trigger would cost more

Offsets = Mapping[str, Mapping[TopicPartition, CommittedOffset]]  # by group
ABORTED = frozenset({TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT})
NO_OFFSETS: Offsets = MappingProxyType({})

_OPENS_SLOWLY = "%s; snapshots or recovery points are missing, so opening the logs takes longer"

logger = logging.getLogger(__name__)


class TransactionCoordinator:
    """Begins and ends the transactions of one transactional id, one after another. Use it in one thread at a time."""

    def __init__(
        self, manager: LogManager, transactional_id: str, timeout_ms: int, lock: TransactionalIdLock | None
    ) -> None:
        """Use :meth:`open` or :meth:`resume` instead."""
        self.manager = manager
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self._lock = lock
        self._states = TransactionStates(manager)
        self._ending = Ending(self._states, transactional_id)
        self._groups = GroupOffsets(manager)
        self._newest: TransactionLogValue | None = None  # the state that this coordinator wrote or completed last
        self._is_new = True  # no transaction begun yet
        self._to_checkpoint: dict[TopicPartition, Log] = {}
        self._stopped: str | None = None

    @classmethod
    def open(
        cls,
        manager: LogManager,
        transactional_id: str,
        *,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        holder: str = "",
    ) -> Self:
        """Takes over the transactional id: locks it until :meth:`close`, and ends an unfinished transaction.

        ``timeout_ms`` is the age at which retention may abort a transaction if no process holds the lock. ``holder``
        describes this process to others that want the lock. The result is a context manager. Raises LogDirLockedError,
        without waiting, while another process holds the lock; InvalidConfigError for an invalid id or timeout; and the
        errors of :meth:`recover`.
        """
        if not 1 <= timeout_ms <= INT32_MAX:
            raise InvalidConfigError(f"transaction.timeout.ms is {timeout_ms}; it must be from 1 to {INT32_MAX}")
        try:
            lock = TransactionalIdLock.take(manager, transactional_id, holder)
            try:
                coordinator = cls(manager, transactional_id, timeout_ms, lock)
                coordinator.recover()
            except BaseException:
                lock.release()
                raise
        except OSError as error:
            raise StorageError(f"transactional id {transactional_id!r} cannot be taken over: {error}") from error
        return coordinator

    @classmethod
    def resume(cls, manager: LogManager, transaction: Transaction) -> Self:
        """Returns a coordinator that can commit or abort a transaction which another process began.

        It takes no lock: if two processes try to end the transaction, compare-and-set of the state lets one succeed.
        """
        return cls(manager, transaction.transactional_id, transaction.timeout_ms, None)

    def recover(self) -> None:
        """Ends the last transaction if it is unfinished: completes it if it was decided, aborts it otherwise.

        Costs one read if no transaction is unfinished. Call it before every transaction, since the previous one may
        have stopped at an error, and before reading committed offsets of the group. Raises StorageError if the disk
        fails; the next call then continues.
        """
        self._check_not_stopped()
        newest = self._states.newest_to_write(self.transactional_id)
        if newest is not None and newest.transaction_status in UNFINISHED:
            newest = self._states.settled(self.transactional_id)
            logger.warning(
                "transactional id %r: found unfinished %s; completing it", self.transactional_id, state_text(newest)
            )
            newest = self._ending.bring_to_complete(newest)
        self._is_new |= newest != self._newest
        self._newest = newest

    def begin(
        self,
        partitions: Iterable[TopicPartition],
        *,
        groups: Collection[str] = (),
        counted: Mapping[TopicPartition, int] | None = None,
    ) -> Transaction:
        """Begins a transaction that may write to ``partitions`` and commit offsets of ``groups``.

        The Ongoing state is synced on return. The transaction includes the partitions of ``__consumer_offsets`` that
        hold the groups. ``counted``: for each partition whose records the groups' committed offsets count, the end of
        the counted records; None: unknown, so nothing is checked.

        Raises ProgressMismatchError if a counted partition has later transactions (:func:`check_counted`),
        ProducerFencedError if another coordinator took over, UnknownTopicOrPartitionError, StorageError.
        """
        self._check_not_stopped()
        offsets = {*map(self._groups.partition_of, groups)}
        touched = {*partitions, *offsets}
        OPEN_FILES.check_room_for_locks(len(touched), f"a transaction over {len(touched):,} partitions")  # to commit it
        logs = {partition: self.manager.open_log(*partition) for partition in touched}
        if self._newest is not None and counted is not None:
            check_counted(
                self._states,
                self.transactional_id,
                self._newest,
                logs,
                counted=counted,
                offsets=offsets,
                look=self._is_new,
            )
        producer = self._next_producer(logs.values())
        transaction = Transaction(
            transactional_id=self.transactional_id,
            producer_id=producer.id,
            epoch=producer.epoch,
            partitions=tuple(sorted(touched)),
            timeout_ms=self.timeout_ms,
            start_ms=self.manager.clock.now_ms(),
        )
        value = ongoing(transaction)
        self._states.replace(self.transactional_id, self._newest, value)
        self._newest, self._is_new = value, False
        return transaction

    def _next_producer(self, logs: Collection[Log]) -> Producer:
        """Returns the producer with its next epoch, or another producer id if that epoch cannot be used.

        That is so if a client's producer had the transactional id, if the epochs are used up, or if one of ``logs`` has
        records of the epoch: a partition's directory may have been copied from another log directory, or
        ``producer_ids.json`` restored.
        """
        if self._newest is not None and not is_of_transactional_client(self._newest.producer_id):
            producer = Producer(self._newest.producer_id, self._newest.producer_epoch + self._is_new)
            if producer.epoch <= EPOCH_MAX and not any(_is_used(log, producer) for log in logs):
                return producer
        return Producer(allot_producer_id(self._states, logs), 0)

    @contextmanager
    def syncing(self, transaction: Transaction) -> Iterator[dict[TopicPartition, int]]:
        """Within the ``with`` block, syncs the appends of tasks on this machine: :meth:`commit` then waits for little.

        Yields, for each partition, the base offset of its active segment, which tasks need not sync: pass it to
        :class:`TransactionalWriter` as ``unsynced``. The segment's file is open in this process, so a failing write is
        reported here (fsync(2)). Tasks must sync the segments that they begin, which are not open here. Raises
        TransactionAbortedError if the disk failed: the transaction was aborted and may be tried again.
        """
        logs = {partition: self.manager.open_log(*partition) for partition in transaction.partitions}
        with BackgroundSync(logs.values()) as background:
            yield {partition: log.segments.active.base_offset for partition, log in logs.items()}
        if background.error is not None:
            raise self._aborted(transaction, background.error) from background.error

    # Committing

    def commit(self, transaction: Transaction, parts: Iterable[TransactionPart], offsets: Offsets = NO_OFFSETS) -> None:
        """Makes all records of the transaction visible, and commits ``offsets`` of groups with them.

        ``parts`` are the reports of all tasks, after :meth:`TransactionalWriter.sync`. Syncs unsynced records of the
        tasks before the decision; on return, the commit is complete and durable. Raises

        - TransactionAbortedError: the records differ from the reports (a task ran twice, a report is lost), or the disk
          failed before the decision; the transaction was aborted and may be tried again with another :meth:`begin`;
        - TransactionRefusedError: the transaction is not ongoing (another coordinator, or retention, ended it); stop;
        - OutcomeUnknownError: writing the decision failed; stop, the next :meth:`open` finds out the result;
        - StorageError: the commit is decided, but markers could not be written; stop, the next :meth:`open` does so.
        """
        self._check_not_stopped()
        with ExitStack() as held:
            try:
                logs = open_logs(self.manager, transaction.partitions)
                for log in logs.values():
                    held.enter_context(log.exclusively())
                value = check_ongoing(self._states, transaction)
                touched = _check_reports(transaction, parts, logs)
                touched |= self._append_offsets(transaction, offsets, logs)
                sync_all([logs[partition] for partition in touched])
            except (TransactionAbortedError, AppendError, StorageError, OSError) as error:
                held.close()
                raise self._aborted(transaction, error) from error
            decided = self._decide_to_commit(value, touched)
            self._ending.write_markers(decided)
        self._newest = self._ending.complete(decided)
        self._to_checkpoint |= {partition: log for partition, log in logs.items() if partition in touched}

    def checkpoint(self) -> None:
        """Writes producer snapshots and recovery points of all partitions committed to since the last call.

        They make the next opening faster and can be recreated, so a disk error is logged, not raised. Holds the append
        locks until the recovery points are written: one of a log that another process truncates, or of a topic that it
        deletes and creates again, would be above the end of what is synced.
        """
        logs, self._to_checkpoint = self._to_checkpoint, {}
        try:
            with ExitStack() as held:
                for log in (logs[partition] for partition in sorted(logs)):
                    held.enter_context(log.exclusively())
                    log.write_snapshot(lag_bytes=SNAPSHOT_LAG_BYTES)
                    log.sync_aborted()
                self._write_recovery_points(logs)
        except (StorageError, OSError) as error:
            logger.warning(_OPENS_SLOWLY, error)

    def _write_recovery_points(self, logs: Mapping[TopicPartition, Log]) -> None:
        try:
            self.manager.write_recovery_points({partition: log.recovery_point for partition, log in logs.items()})
        except OSError as error:  # raised under the locks, it would stop all writes to a log
            logger.warning(_OPENS_SLOWLY, error)

    def _append_offsets(
        self, transaction: Transaction, offsets: Offsets, logs: Mapping[TopicPartition, Log]
    ) -> set[TopicPartition]:
        """Appends offset commits to the transaction, unsynced; returns their ``__consumer_offsets`` partitions."""
        by_partition: dict[TopicPartition, dict[str, Mapping[TopicPartition, CommittedOffset]]] = {}
        for group, committed in offsets.items():
            if committed:
                by_partition.setdefault(self._groups.partition_of(group), {})[group] = committed
        for partition, groups in by_partition.items():
            if partition not in logs:
                raise ValueError(f"{transaction} was not begun with the groups {', '.join(groups)}")
            log = logs[partition]
            batches = commit_batches(groups, self.manager.clock.now_ms(), log.context.config)
            log.append_transactional(batches, transaction.producer)
        return set(by_partition)

    def _decide_to_commit(self, value: TransactionLogValue, touched: Iterable[TopicPartition]) -> TransactionLogValue:
        try:
            return self._ending.decide(value, touched, commit=True)
        except StorageError as error:
            self._stopped = f"the decision of producer {value.producer_id}, epoch {value.producer_epoch}: {error}"
            raise OutcomeUnknownError(
                f"transactional id {self.transactional_id!r}: writing the decision of its transaction failed "
                f"({error}), so it is unknown whether it is committed; start the query again, which finds out and "
                "completes it"
            ) from error

    # Aborting

    def abort(self, transaction: Transaction) -> None:
        """Aborts a transaction: none of its records ever becomes visible. Durable on return; may be repeated.

        Writes a marker to every partition that the transaction began with, since a task without a report may still be
        writing. Raises TransactionRefusedError if the transaction was committed or another one follows it, and
        StorageError, after which the next :meth:`open` aborts it.
        """
        self._check_not_stopped()
        newest = self._states.settled(self.transactional_id)
        if not _is_abortable(newest, transaction):
            raise TransactionRefusedError(
                f"{transaction} cannot be aborted any more: its transactional id has {state_text(newest)}"
            )
        self._newest = self._ending.bring_to_complete(newest)

    def _aborted(self, transaction: Transaction, reason: Exception) -> TransactionAbortedError:
        """Aborts the transaction because of ``reason``; returns the error to raise."""
        self.abort(transaction)
        return TransactionAbortedError(f"{transaction} was aborted: {reason}")

    # Closing

    def close(self, *, keep_lock_file: bool = False) -> None:
        """Releases the lock. An open transaction stays open: a process with its :class:`Transaction` may end it.

        With ``keep_lock_file``, leaves the lock file in the directory, for callers that close at any moment, such as a
        query at its end: a file that vanishes would disturb a running copy or removal of the directory. The expiry of
        transactional ids removes the file.
        """
        if self._lock is not None:
            self._lock.release(keep_file=keep_lock_file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check_not_stopped(self) -> None:
        if self._stopped is not None:
            raise OutcomeUnknownError(
                f"transactional id {self.transactional_id!r} must be opened again, because an error interrupted "
                f"{self._stopped}"
            )


def _is_abortable(newest: TransactionLogValue | None, transaction: Transaction) -> bool:
    """Whether ``newest``, the state of the transactional id, shows the transaction as undecided or aborted."""
    if newest is None:
        return False
    producer = (newest.producer_id, newest.producer_epoch)
    if newest.transaction_status in UNDECIDED:
        return producer == transaction.producer
    return producer == transaction.successor and newest.transaction_status in ABORTED


def _is_used(log: Log, producer: Producer) -> bool:
    """Whether a partition already has records of the producer's epoch, which is about to begin, or of a newer one."""
    known = log.producers.last_entry(producer.id)
    if known is None or known.epoch < producer.epoch:
        return False
    return known.epoch > producer.epoch or known.in_transaction or bool(known.batches)


def _check_reports(
    transaction: Transaction, parts: Iterable[TransactionPart], logs: Mapping[TopicPartition, Log]
) -> set[TopicPartition]:
    """Compares the number of records in each partition with the tasks' reports; returns the partitions with records.

    Raises TransactionAbortedError if they differ.
    """
    reported: Counter[TopicPartition] = Counter()
    for part in parts:
        reported[TopicPartition(part.topic, part.partition)] += part.records
    if not reported.keys() <= logs.keys():
        outside = ", ".join(map(str, sorted(reported.keys() - logs.keys())))
        raise TransactionAbortedError(f"tasks reported records of {outside}, which are not part of the transaction")
    for partition, log in logs.items():
        written = log.next_sequence(transaction.producer)
        if written != reported[partition] % 2**31:
            topic, number = partition
            raise TransactionAbortedError(
                f"partition {number} of {topic!r} holds {written} records of the transaction, but tasks reported "
                f"{reported[partition]}: a task ran twice, or its report was lost"
            )
    return {partition for partition, records in reported.items() if records}
