"""TransactionalWriter: a task's side of a transaction (in Kafka, that of the partition leader)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..directory import LogManager, TopicPartition
from ..errors import TransactionRefusedError
from ..format.internal.internal_topics import TransactionLogValue, TransactionState
from ..format.v2 import EncodedBatches
from ..writing import AppendInfo, Log
from .states import TransactionStates, told
from .transaction import Transaction

NOTHING_LEFT: Mapping[TopicPartition, int] = MappingProxyType({})
WRITE_BACK_BYTES = 1 << 18  # of an append: smaller ones are written out once, by the sync at the end


class TransactionalWriter:
    """Appends to the partitions of one transaction, in any process. Use it in one thread at a time.

    Logs stay open with the manager: in a process that is reused, open the manager only once.
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
        """Append batches of validated records; :meth:`flush` syncs them, and they become visible with the commit.

        Stamps their buffer in place: producer, next sequences, offsets, leader epoch, checksum. Before anything is
        written, reads the newest state of the transactional id under the partition's lock: a process that ends the
        transaction writes that state before it takes this lock, so that no record can follow the marker.

        Raises TransactionRefusedError, with nothing written, if the transaction is not ongoing any more, and ValueError
        for a partition that is not part of it; otherwise as :meth:`Log.append_transactional`.
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
        """Wait until everything appended is on disk, except what the coordinator syncs.

        Raises StorageError; the transaction must then be aborted.
        """
        for place, log in self._written.items():
            if not self._is_left(place, log):
                log.sync_appended()
        self._written.clear()

    def _is_left(self, place: TopicPartition, log: Log) -> bool:
        """Whether appends go to a segment that the coordinator syncs; rolled segments are synced anyway."""
        return self._left.get(place) == log.segments.active.base_offset


def check_ongoing(states: TransactionStates, transaction: Transaction) -> TransactionLogValue:
    """The state of a transaction that may be written to. Raises TransactionRefusedError if it may not be."""
    found = states.newest(transaction.transactional_id)
    if (
        found is None
        or found.transaction_status is not TransactionState.ONGOING
        or (found.producer_id, found.producer_epoch) != transaction.producer
    ):
        raise TransactionRefusedError(f"{transaction} is not ongoing: its transactional id has {told(found)}")
    return found
