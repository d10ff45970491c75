"""How a transaction ends: the decision, the markers in the partitions it touched, and the word that all is done.

Each step may be done again, by whoever finds that it was begun.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import suppress

from pyspark_commitlog.storage.errors import ProducerFencedError, UnknownTopicOrPartitionError
from pyspark_commitlog.storage.format.internal import TransactionLogValue, TransactionState
from pyspark_commitlog.storage.log import Log, Producer
from pyspark_commitlog.storage.manager import LogManager, TopicPartition
from pyspark_commitlog.storage.transactions.states import (
    PREPARED,
    UNDECIDED,
    TransactionStates,
    completed,
    prepared,
    ungrouped,
)

logger = logging.getLogger(__name__)


class Ending:
    """The end of one transactional id's transaction."""

    def __init__(self, states: TransactionStates, transactional_id: str) -> None:
        self._states = states
        self._transactional_id = transactional_id

    def bring_to_complete(self, newest: TransactionLogValue | None) -> TransactionLogValue | None:
        """Carry out what was decided, abort what was not; the Complete state, or what else there was.

        ``newest`` must be synced. Raises ProducerFencedError where it is not the newest any more, StorageError.
        """
        if newest is not None and newest.transaction_status in UNDECIDED:
            newest = self.decide(newest, ungrouped(newest), commit=False)
        if newest is not None and newest.transaction_status in PREPARED:
            self.write_markers(newest)
            newest = self.complete(newest)
        return newest

    def decide(
        self, value: TransactionLogValue, partitions: Iterable[TopicPartition], *, commit: bool
    ) -> TransactionLogValue:
        """Write Prepare, synced; ``partitions`` get markers. Raises as TransactionStates.replace does."""
        decided = prepared(value, partitions, self._states.manager.clock.now_ms(), commit=commit)
        self._states.replace(self._transactional_id, value, decided)
        return decided

    def write_markers(self, decided: TransactionLogValue) -> None:
        """Write and sync the markers that are missing; the decision is synced before.

        On disk after a crash: some of them, which a second call leaves alone.
        """
        commit = decided.transaction_status is TransactionState.PREPARE_COMMIT
        producer = Producer(decided.producer_id, decided.producer_epoch)
        coordinator_epoch = self._states.coordinator_epoch(self._transactional_id)
        now_ms = self._states.manager.clock.now_ms()
        logs = open_logs(self._states.manager, ungrouped(decided))
        for log in logs.values():
            write_marker(log, producer, commit=commit, coordinator_epoch=coordinator_epoch, now_ms=now_ms)
        flush_all(logs.values())

    def complete(self, decided: TransactionLogValue) -> TransactionLogValue:
        """Write Complete, unsynced: the decision says the same.

        A decision is followed by nothing else, so that where another state is found, another has seen to it.
        """
        value = completed(decided, self._states.manager.clock.now_ms())
        with suppress(ProducerFencedError):
            self._states.replace(self._transactional_id, decided, value, sync=False)
        return value


def write_marker(log: Log, producer: Producer, *, commit: bool, coordinator_epoch: int, now_ms: int) -> None:
    """Write the marker of a transaction to a partition, unless it is there; not synced.

    ``producer`` is the one of the marker. A partition without records of it gets one too, so that whoever still writes
    under an older epoch is refused there.
    """
    with log.exclusively():
        known = log.producers.last_entry(producer.id)
        if known is None or known.epoch < producer.epoch or (known.in_transaction and known.epoch == producer.epoch):
            log.end_transaction(producer, commit=commit, coordinator_epoch=coordinator_epoch, now_ms=now_ms)


def flush_all(logs: Collection[Log]) -> None:
    """Return when all are on the disk; each begins to go there before any is waited for."""
    for log in logs:
        log.begin_sync()
    for log in logs:
        log.flush()


def open_logs(manager: LogManager, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Log]:
    """The logs of partitions, in the order in which their locks are taken, without those deleted since."""
    logs = {}
    for place in sorted(partitions):
        try:
            logs[place] = manager.open_log(*place)
        except UnknownTopicOrPartitionError as error:
            logger.warning("%s; its transaction ends without it", error)
    return logs
