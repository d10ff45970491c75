"""TransactionalWriter: what a task has of a transaction (the partition leader's part in Kafka)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyspark_commitlog.storage.errors import TransactionRefusedError
from pyspark_commitlog.storage.format.internal import TransactionLogValue, TransactionState
from pyspark_commitlog.storage.format.v2 import EncodedBatches
from pyspark_commitlog.storage.log import AppendInfo, Log
from pyspark_commitlog.storage.manager import LogManager, TopicPartition
from pyspark_commitlog.storage.transactions.states import TransactionStates, told
from pyspark_commitlog.storage.transactions.ticket import Transaction

NOTHING_LEFT: Mapping[TopicPartition, int] = MappingProxyType({})
WRITE_BACK_BYTES = 1 << 18  # of an append: what is smaller is written once, by the sync at the end


class TransactionalWriter:
    """Appends to the partitions of one transaction, in any process. Belongs to one thread at a time.

    Logs stay open with the manager: in a process that is used again, open the manager once.
    """

    def __init__(
        self, manager: LogManager, transaction: Transaction, *, left: Mapping[TopicPartition, int] = NOTHING_LEFT
    ) -> None:
        """Reads and writes nothing yet. ``left``, on the coordinator's machine: what its ``syncing`` yields."""
        self._manager = manager
        self._transaction = transaction
        self._partitions = frozenset(transaction.partitions)
        self._states = TransactionStates(manager)
        self._left = left
        self._written: dict[tuple[str, int], Log] = {}

    def append(self, topic: str, partition: int, batches: EncodedBatches) -> AppendInfo:
        """Append batches of validated records; they are synced by :meth:`flush`, and seen once it is committed.

        Their buffer is stamped in place: producer, next sequences, offsets, leader epoch, checksum. Before anything is
        written the newest state of the transactional id is read, under the partition's lock: whoever ends the
        transaction writes that state first and takes this lock later, so that no record comes behind the marker.

        Raises TransactionRefusedError, and nothing was written, where the transaction is not ongoing any more, and
        ValueError for a partition that is none of it; else as :meth:`Log.append_transactional`.
        """
        if (topic, partition) not in self._partitions:
            raise ValueError(f"{self._transaction} was not begun with partition {partition} of topic {topic!r}")
        log = self._manager.open_log(topic, partition)
        with log.exclusively():
            check_ongoing(self._states, self._transaction)
            self._written[topic, partition] = log
            info = log.append_transactional(batches, self._transaction.producer)
        if info.size >= WRITE_BACK_BYTES:
            log.begin_sync()
        return info

    def flush(self) -> None:
        """Return when everything appended is on the disk, but for what is left to the coordinator.

        Raises StorageError; the transaction must then be aborted.
        """
        for place, log in self._written.items():
            if not self._is_left(place, log):
                log.sync_appended()
        self._written.clear()

    def _is_left(self, place: TopicPartition, log: Log) -> bool:
        """Whether what is appended goes into a segment that the coordinator syncs; what was rolled is synced anyway."""
        return self._left.get(place) == log.segments.active.base_offset


def check_ongoing(states: TransactionStates, transaction: Transaction) -> TransactionLogValue:
    """The state of a transaction that may be written to; TransactionRefusedError where it may not."""
    found = states.newest(transaction.transactional_id)
    if (
        found is None
        or found.transaction_status is not TransactionState.ONGOING
        or (found.producer_id, found.producer_epoch) != transaction.producer
    ):
        raise TransactionRefusedError(f"{transaction} is not ongoing: its transactional id has {told(found)}")
    return found
