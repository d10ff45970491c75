"""TransactionalWriter: appends a task's records to a transaction (in Kafka, the partition leader does)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..directory.manager import LogManager
from ..errors import TransactionRefusedError
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import TransactionLogValue, TransactionState
from ..format.v2 import EncodedBatches
from ..writing.append_info import AppendInfo
from ..writing.log import Log
from .states import TransactionStates, state_text
from .transaction import Transaction

NOTHING_UNSYNCED: Mapping[TopicPartition, int] = MappingProxyType({})
WRITE_BACK_BYTES = 1 << 18  # size of an append; smaller ones are only written out by the sync at the end


class TransactionalWriter:
    """Appends to the partitions of one transaction, in any process. Use it in one thread at a time.

    Logs stay open with the manager: in a process that is reused, open the manager only once.
    """

    def __init__(
        self,
        manager: LogManager,
        transaction: Transaction,
        *,
        unsynced: Mapping[TopicPartition, int] = NOTHING_UNSYNCED,
    ) -> None:
        """Neither reads nor writes yet.

        ``unsynced``: the base offsets of the segments that :meth:`sync` need not sync, by partition, as
        :meth:`TransactionCoordinator.syncing` yields them. Pass them only on the coordinator's machine.
        """
        self._manager = manager
        self._transaction = transaction
        self._partitions = frozenset(transaction.partitions)
        self._states = TransactionStates(manager)
        self._unsynced = unsynced
        self._written: dict[TopicPartition, Log] = {}

    def append(self, topic: str, partition: int, batches: EncodedBatches) -> AppendInfo:
        """Appends batches of validated records; :meth:`sync` syncs them, and the commit makes them visible.

        Changes the buffer of ``batches`` in place: producer, sequences, offsets, leader epoch, checksum. Before it
        writes, reads the newest state of the transactional id under the partition's lock: a process that ends the
        transaction writes the state before it takes this lock, so that no record can follow the marker.

        Raises TransactionRefusedError, with nothing written, if the transaction is no longer ongoing, and ValueError
        for a partition that is not part of the transaction; and the errors of :meth:`Log.append_transactional`.
        """
        topic_partition = TopicPartition(topic, partition)
        if topic_partition not in self._partitions:
            raise ValueError(f"{self._transaction} was not begun with partition {partition} of topic {topic!r}")
        log = self._manager.open_log(topic, partition)
        with log.exclusively():
            check_ongoing(self._states, self._transaction)
            self._written[topic_partition] = log
            info = log.append_transactional(batches, self._transaction.producer)
        if info.size >= WRITE_BACK_BYTES:
            log.segments.active.begin_sync()
        return info

    def sync(self) -> None:
        """Syncs all appended records, except those in segments that the coordinator syncs.

        Raises StorageError if the disk fails; the transaction must then be aborted.
        """
        for partition, log in self._written.items():
            if not self._is_synced_by_coordinator(partition, log):
                log.sync_appended()
        self._written.clear()

    def _is_synced_by_coordinator(self, partition: TopicPartition, log: Log) -> bool:
        """Whether the coordinator syncs the log's active segment; a roll has synced the segments before it."""
        return self._unsynced.get(partition) == log.segments.active.base_offset


def check_ongoing(states: TransactionStates, transaction: Transaction) -> TransactionLogValue:
    """Returns the state of a transaction. Raises TransactionRefusedError if the transaction is not ongoing."""
    found = states.newest(transaction.transactional_id)
    if (
        found is None
        or found.transaction_status is not TransactionState.ONGOING
        or (found.producer_id, found.producer_epoch) != transaction.producer
    ):
        raise TransactionRefusedError(f"{transaction} is not ongoing: its transactional id has {state_text(found)}")
    return found
