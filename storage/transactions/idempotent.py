"""IdempotentProducer: appends without a transaction, each record once, though a try may fail (spec 5.1)."""

from __future__ import annotations

from dataclasses import replace

from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.format.v2 import BatchFields
from pyspark_commitlog.storage.log import AppendInfo
from pyspark_commitlog.storage.manager import LogManager, TopicPartition
from pyspark_commitlog.storage.transactions.producer_ids import allot_producer_id
from pyspark_commitlog.storage.transactions.states import TransactionStates

TRIES = 3  # of an append: a disk that fails so often will not do better soon


class IdempotentProducer:
    """A producer with an id of its own, for as long as this object lives. Belongs to the manager's thread."""

    def __init__(self, manager: LogManager) -> None:
        """Raises LogDirLockedError while a broker runs on the directory."""
        manager.check_writable()
        self._manager = manager
        self._producer_id = allot_producer_id(TransactionStates(manager))
        self._next_sequences: dict[TopicPartition, int] = {}

    def append(self, topic: str, partition: int, records: Records, fields: BatchFields | None = None) -> AppendInfo:
        """Append to a partition; synced when it returns, as :meth:`Log.append_records` does it.

        Where the disk fails, the log is recovered and the append repeated: what of it got in is recognised by its
        sequence numbers. Raises as append_records does; StorageError once the disk failed :data:`TRIES` times, and then
        a part of the records, or all, may be in the log.
        """
        place = (topic, partition)
        sequence = self._next_sequences.get(place, 0)
        numbered = replace(
            fields or BatchFields(), producer_id=self._producer_id, producer_epoch=0, base_sequence=sequence
        )
        info = self._append(place, records, numbered, TRIES - 1)
        self._next_sequences[place] = (sequence + len(records)) % 2**31
        return info

    def _append(self, place: TopicPartition, records: Records, fields: BatchFields, tries_left: int) -> AppendInfo:
        try:
            return self._manager.open_log(*place).append_records(records, fields)
        except StorageError:
            if not tries_left:
                raise
        return self._append(place, records, fields, tries_left - 1)
