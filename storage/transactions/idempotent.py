"""IdempotentProducer: appends without a transaction; repeats a failed append without duplicating records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ..directory.manager import LogManager
from ..directory.protected_topics import check_takes_records
from ..errors import LogStoreError, StorageError, UnfinishedAppendError, text_of
from ..format.files.file_names import TopicPartition
from ..format.tables import Records
from ..format.v2 import BatchFields
from ..recovery.producer_state import Producer
from ..text import counted
from ..writing.append_info import AppendInfo, repeated_append
from ..writing.log import Log
from .producer_ids import allot_producer_id, is_known
from .states import TransactionStates

TRIES = 3  # attempts of an append: a disk that fails this often will not recover soon


class _Position(NamedTuple):
    """The producer id that writes to a partition, and its progress there."""

    producer_id: int
    next_sequence: int

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, 0)

    def stamped_on(self, fields: BatchFields) -> BatchFields:
        return replace(fields, producer_id=self.producer_id, producer_epoch=0, base_sequence=self.next_sequence)

    def after(self, records: int) -> _Position:
        return self._replace(next_sequence=(self.next_sequence + records) % 2**31)


@dataclass
class _Attempt:
    """An append that may need several tries; each try leaves out records that earlier tries left in the log.

    The log itself detects a repetition only among the last five batches of a producer.
    """

    records: Records
    position: _Position
    first_offset: int = 0

    def append(self, log: Log, fields: BatchFields) -> AppendInfo:
        """Appends the records that are not in the log yet, and syncs all; the caller holds the log's lock."""
        there, count = self.appended(log), len(self.records)
        if not there:
            self.first_offset = log.log_end_offset
            return log.append_records(self.records, self.position.stamped_on(fields))
        if there < count:
            rest = self.records.slice(there, count)
            info = log.append_records(rest, self.position.after(there).stamped_on(fields))
            return info._replace(first_offset=self.first_offset)
        log.sync()
        entry = log.producers.last_entry(self.position.producer_id)
        assert entry is not None
        return repeated_append([*entry.batches])._replace(first_offset=self.first_offset)

    def appended(self, log: Log) -> int:
        """Returns how many of the records, the first ones, are in the log."""
        reached = (log.next_sequence(self.position.producer) - self.position.next_sequence) % 2**31
        return reached if reached <= len(self.records) else 0  # otherwise, there is another log now


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
        Raises the errors of append_records; InvalidTopicError for an internal topic; UnfinishedAppendError once the
        disk has failed :data:`TRIES` times, after which some or all of the records may be in the log.
        """
        check_takes_records(topic)
        topic_partition = TopicPartition(topic, partition)
        fields, attempt = fields or BatchFields(), None
        for tries_left in reversed(range(TRIES)):
            try:
                log = self._manager.open_log(*topic_partition)
                with log.exclusively():  # held from the check of the log's state of the id until the append
                    attempt = attempt or _Attempt(records, self._position(topic_partition, log))
                    info = attempt.append(log, fields)
                self._positions[topic_partition] = attempt.position.after(len(records))
                return info
            except (StorageError, OSError) as error:
                self._positions.pop(topic_partition, None)  # some may be in the log: do not reuse their sequences
                if not tries_left:
                    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
                    said = f"appending to {topic_partition} failed {TRIES} times: {text_of(cause)}"
                    appended = 0 if attempt is None else self._appended(topic_partition, attempt)
                    raise UnfinishedAppendError(said, appended) from error
        raise AssertionError("the last try returns or raises")

    def _appended(self, topic_partition: TopicPartition, attempt: _Attempt) -> int | None:
        """Returns how many records of an attempt are in the log; None if that cannot be found out."""
        try:
            return attempt.appended(self._manager.open_log(*topic_partition))
        except (LogStoreError, OSError):
            return None

    def _position(self, topic_partition: TopicPartition, log: Log) -> _Position:
        """Returns the producer id and next sequence to append with; the caller holds the log's lock.

        Continues with the last append's if the log has the same next sequence, else begins with an id that is unknown
        to the log.
        """
        position = self._positions.get(topic_partition)
        if position is not None and log.next_sequence(position.producer) == position.next_sequence:
            return position
        if self._newest_id is None or is_known(self._newest_id, [log]):
            self._newest_id = allot_producer_id(self._states, [log])
        return _Position(self._newest_id, 0)


def appended_before(error: Exception, before: int, noun: str) -> str:
    """Returns ``appended before this: 12 records``, as the end of ``error``, which ended an append.

    ``before`` counts the records of earlier appends.
    """
    appended = error.appended if isinstance(error, UnfinishedAppendError) else 0
    least = "at least " if appended is None else ""
    return f"appended before this: {least}{counted(before + (appended or 0), noun)}"
