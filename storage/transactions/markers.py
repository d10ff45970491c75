"""Markers: how the end of a transaction is written to the partitions it touched. Doing it again changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pyspark_commitlog.storage.errors import StorageError, UnknownTopicOrPartitionError
from pyspark_commitlog.storage.format.internal import TransactionLogValue, TransactionState
from pyspark_commitlog.storage.log import Log, Producer
from pyspark_commitlog.storage.manager import LogManager, TopicPartition
from pyspark_commitlog.storage.transactions.states import TransactionStates, completed, ungrouped

logger = logging.getLogger(__name__)


def carry_out(states: TransactionStates, transactional_id: str, decided: TransactionLogValue) -> TransactionLogValue:
    """Bring a decided transaction, whose state is synced, to its Complete state, which is returned.

    On disk after a crash: some of the markers, which a second call leaves alone.
    """
    commit = decided.transaction_status is TransactionState.PREPARE_COMMIT
    producer = Producer(decided.producer_id, decided.producer_epoch)
    coordinator_epoch = states.coordinator_epoch(transactional_id)
    logs = open_logs(states.manager, ungrouped(decided))
    for log in logs.values():
        end(log, producer, commit=commit, coordinator_epoch=coordinator_epoch)
    for log in logs.values():
        log.flush()
    return completed(decided, states.manager.clock.now_ms())


def end(log: Log, producer: Producer, *, commit: bool, coordinator_epoch: int) -> None:
    """Write the marker of a transaction to a partition, unless it is there; not synced.

    ``producer`` is the one of the marker. A partition without records of it gets one too, so that whoever still writes
    under an older epoch is refused there.
    """
    with log.exclusively():
        known = log.producers.last_entry(producer.id)
        if known is None or known.epoch < producer.epoch or (known.in_transaction and known.epoch == producer.epoch):
            log.end_transaction(producer, commit=commit, coordinator_epoch=coordinator_epoch)


def open_logs(manager: LogManager, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Log]:
    """The logs of partitions, in the order in which their locks are taken, without those deleted since."""
    logs = {}
    for place in sorted(partitions):
        try:
            logs[place] = manager.open_log(*place)
        except UnknownTopicOrPartitionError as error:
            logger.warning("%s; its transaction ends without it", error)
    return logs


def checkpoint(manager: LogManager, logs: dict[TopicPartition, Log]) -> None:
    """Snapshots and recovery points at the ends of logs that are synced: opening them costs little then.

    All of it can be made again, so that a disk which refuses it stops nobody.
    """
    try:
        for log in logs.values():
            log.write_snapshot()
        manager.write_recovery_points({place: log.recovery_point for place, log in logs.items()})
    except (StorageError, OSError) as error:
        logger.warning("%s; the next opening takes longer", error)
