"""Ending: writes a transaction's decision, the markers in its partitions, and the Complete state.

Any process may repeat a step that another process began.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import suppress

from ..directory.manager import LogManager
from ..errors import ProducerFencedError, UnknownTopicOrPartitionError
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import TransactionLogValue, TransactionState
from ..recovery.producer_state import Producer
from ..writing.log import Log
from .states import PREPARED, UNDECIDED, TransactionStates
from .transaction import completed_state, prepared_state, ungrouped

logger = logging.getLogger(__name__)


class Ending:
    """The steps that end a transaction of one transactional id."""

    def __init__(self, states: TransactionStates, transactional_id: str) -> None:
        self._states = states
        self._transactional_id = transactional_id

    def bring_to_complete(self, newest: TransactionLogValue | None) -> TransactionLogValue | None:
        """Ends the transaction in state ``newest``: completes it if it was decided, aborts it otherwise.

        Returns the Complete state, or ``newest`` if no transaction is open. ``newest`` must be synced. Raises
        ProducerFencedError if another process has written a newer state, StorageError.
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
        """Writes the Prepare state, which decides the transaction, and syncs it; returns it.

        ``partitions`` are those that will get markers. Raises the errors of :meth:`TransactionStates.replace`.
        """
        decided = prepared_state(value, partitions, self._states.manager.clock.now_ms(), commit=commit)
        self._states.replace(self._transactional_id, value, decided)
        return decided

    def write_markers(self, decided: TransactionLogValue) -> None:
        """Writes and syncs the missing markers; the decision must be synced before.

        After a crash, some markers are on disk; a second call writes only the others.
        """
        commit = decided.transaction_status is TransactionState.PREPARE_COMMIT
        producer = Producer(decided.producer_id, decided.producer_epoch)
        coordinator_epoch = self._states.coordinator_epoch(self._transactional_id)
        now_ms = self._states.manager.clock.now_ms()
        logs = open_logs(self._states.manager, ungrouped(decided))
        for log in logs.values():
            write_marker(log, producer, commit=commit, coordinator_epoch=coordinator_epoch, now_ms=now_ms)
        sync_all(logs.values())

    def complete(self, decided: TransactionLogValue) -> TransactionLogValue:
        """Writes the Complete state, unsynced, since the decision implies it; returns it.

        Only Complete can follow a decision. If the log has another state by now, another process has written Complete,
        and this call writes nothing.
        """
        value = completed_state(decided, self._states.manager.clock.now_ms())
        with suppress(ProducerFencedError):
            self._states.replace(self._transactional_id, decided, value, sync=False)
        return value


def write_marker(log: Log, producer: Producer, *, commit: bool, coordinator_epoch: int, now_ms: int) -> None:
    """Writes the marker of a transaction to a partition, unless the marker exists; not synced.

    ``producer`` has the epoch of the marker. A partition without records of the transaction gets a marker too, so that
    it rejects writers that still use an older epoch.
    """
    with log.exclusively():
        known = log.producers.last_entry(producer.id)
        if known is None or known.epoch < producer.epoch or (known.in_transaction and known.epoch == producer.epoch):
            log.end_transaction(producer, commit=commit, coordinator_epoch=coordinator_epoch, now_ms=now_ms)


def sync_all(logs: Collection[Log]) -> None:
    """Syncs all logs; starts writing all of them before it waits for the first."""
    for log in logs:
        log.segments.active.begin_sync()
    for log in logs:
        log.sync()


def open_logs(manager: LogManager, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Log]:
    """Opens the logs of partitions, in the order in which their locks must be taken; skips deleted partitions."""
    logs = {}
    for partition in sorted(partitions):
        try:
            logs[partition] = manager.open_log(*partition)
        except UnknownTopicOrPartitionError as error:
            logger.warning("%s; the transaction ends without a marker in this partition", error)
    return logs
