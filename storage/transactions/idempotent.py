"""IdempotentProducer: appends without a transaction; repeats a failed append without duplicating records."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..directory.manager import LogManager
from ..directory.protected_topics import check_takes_records
from ..errors import StorageError
from ..format.files.file_names import TopicPartition
from ..format.tables import Records
from ..format.v2 import BatchFields
from ..writing.checked_appends import AppendInfo, Producer
from ..writing.log import Log
from .producer_ids import allot_producer_id, is_known
from .states import TransactionStates

TRIES = 3  # of an append: a disk that fails this often will not recover soon


class _Position(NamedTuple):
    """The producer id that writes to a partition, and its progress there."""

    producer_id: int
    next_sequence: int

    def stamped_on(self, fields: BatchFields) -> BatchFields:
        return replace(fields, producer_id=self.producer_id, producer_epoch=0, base_sequence=self.next_sequence)

    def after(self, records: int) -> _Position:
        return self._replace(next_sequence=(self.next_sequence + records) % 2**31)


class IdempotentProducer:
    """Appends with a producer id of its own as long as this object exists. Use it in the manager's thread.

    If a partition already knows the id, the producer takes another id for that partition, so that its appends are never
    mistaken for another writer's. This happens if ``producer_ids.json`` was lost or restored, or if the partition's
    directory was copied from another log directory.
    """

    def __init__(self, manager: LogManager) -> None:
        """Raises LogDirLockedError while a broker runs on the directory."""
        manager.check_writable()
        self._manager = manager
        self._states = TransactionStates(manager)
        self._newest_id: int | None = None
        self._positions: dict[TopicPartition, _Position] = {}

    def append(self, topic: str, partition: int, records: Records, fields: BatchFields | None = None) -> AppendInfo:
        """Appends to a partition, as :meth:`Log.append_records`; synced on return.

        If the disk fails, recovers the log and repeats the append: sequence numbers show which records are in the log.
        Raises as append_records; InvalidTopicError for an internal topic; StorageError once the disk has failed
        :data:`TRIES` times, after which some or all of the records may be in the log.
        """
        check_takes_records(topic)
        topic_partition = TopicPartition(topic, partition)
        fields, position = fields or BatchFields(), None
        for tries_left in reversed(range(TRIES)):
            try:
                log = self._manager.open_log(*topic_partition)
                with log.exclusively():  # from checking what the log knows of the id to the append
                    position = position or self._position(topic_partition, log)
                    info = log.append_records(records, position.stamped_on(fields))
                self._positions[topic_partition] = position.after(len(records))
                return info
            except (StorageError, OSError) as error:
                self._positions.pop(topic_partition, None)  # some may be in the log: do not reuse their sequences
                if not tries_left:
                    raise StorageError(f"appending to {topic_partition} failed {TRIES} times: {error}") from error
        raise AssertionError("the last try returns or raises")

    def _position(self, topic_partition: TopicPartition, log: Log) -> _Position:
        """Returns the producer id and next sequence to append with; the caller holds the log's lock.

        Continues with the last append's if the log has the same next sequence, else begins with an id that is unknown
        to the log.
        """
        position = self._positions.get(topic_partition)
        if position is not None and log.next_sequence(Producer(position.producer_id, 0)) == position.next_sequence:
            return position
        if self._newest_id is None or is_known(self._newest_id, [log]):
            self._newest_id = allot_producer_id(self._states, [log])
        return _Position(self._newest_id, 0)
