"""Ends a transaction: writes the decision, the markers in the partitions it touched, and the Complete state.

Any process that finds a step begun may repeat it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import suppress

from ..directory import LogManager, TopicPartition
from ..errors import ProducerFencedError, UnknownTopicOrPartitionError
from ..format.internal.internal_topics import TransactionLogValue, TransactionState
from ..writing import Log, Producer
from .states import PREPARED, UNDECIDED, TransactionStates, completed, prepared, ungrouped

logger = logging.getLogger(__name__)


class Ending:
    """Ends one transactional id's transaction."""

    def __init__(self, states: TransactionStates, transactional_id: str) -> None:
        self._states = states
        self._transactional_id = transactional_id

    def bring_to_complete(self, newest: TransactionLogValue | None) -> TransactionLogValue | None:
        """Complete what was decided, abort what was not. Returns the Complete state, or ``newest`` if nothing was open.

        ``newest`` must be synced. Raises ProducerFencedError if it is not the newest any more, StorageError.
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
        """Write the Prepare state, synced; ``partitions`` get markers. Raises as TransactionStates.replace."""
        decided = prepared(value, partitions, self._states.manager.clock.now_ms(), commit=commit)
        self._states.replace(self._transactional_id, value, decided)
        return decided

    def write_markers(self, decided: TransactionLogValue) -> None:
        """Write and sync the missing markers; the decision must be synced before.

        After a crash, some of them are on disk; a second call does not repeat them.
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
        """Write the Complete state, unsynced, since the decision implies it.

        Only Complete can follow a decision, so if another state is found, another process has written it.
        """
        value = completed(decided, self._states.manager.clock.now_ms())
        with suppress(ProducerFencedError):
            self._states.replace(self._transactional_id, decided, value, sync=False)
        return value


def write_marker(log: Log, producer: Producer, *, commit: bool, coordinator_epoch: int, now_ms: int) -> None:
    """Write the marker of a transaction to a partition, unless it exists; not synced.

    ``producer`` is the marker's. A partition without records of the transaction gets a marker too, so that it rejects
    writers that still use an older epoch.
    """
    with log.exclusively():
        known = log.producers.last_entry(producer.id)
        if known is None or known.epoch < producer.epoch or (known.in_transaction and known.epoch == producer.epoch):
            log.end_transaction(producer, commit=commit, coordinator_epoch=coordinator_epoch, now_ms=now_ms)


def flush_all(logs: Collection[Log]) -> None:
    """Sync all logs to disk; starts all of them before waiting for the first."""
    for log in logs:
        log.begin_sync()
    for log in logs:
        log.flush()


def open_logs(manager: LogManager, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Log]:
    """The logs of partitions, in the order in which their locks must be taken, without those deleted since."""
    logs = {}
    for place in sorted(partitions):
        try:
            logs[place] = manager.open_log(*place)
        except UnknownTopicOrPartitionError as error:
            logger.warning("%s; its transaction ends without it", error)
    return logs
