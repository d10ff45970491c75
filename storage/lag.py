"""How far groups are behind the logs they read: in records, as ``kafka-consumer-groups`` tells it, and in time.

Looks take no lock. Lag in time is the age of the oldest record that a group has not read: since the log is here, it is
the record's own timestamp that counts, and no estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from pyspark_commitlog.storage.errors import LogStoreError
from pyspark_commitlog.storage.format.fields import NO_TIMESTAMP
from pyspark_commitlog.storage.group_states import GroupDescription, GroupMember, described_groups
from pyspark_commitlog.storage.groups import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.manager import LogManager, TopicPartition
from pyspark_commitlog.storage.reader import Isolation, LogReader
from pyspark_commitlog.storage.topics import topic_id
from pyspark_commitlog.storage.watcher import LogWatcher

FIRST_RECORD_BYTES = 64 * 1024  # read at a time to find a record: it is in the first batch, unless that is aborted


class LogFigures(NamedTuple):
    """A partition's log, as a look found it."""

    topic: str
    partition: int
    log_start_offset: int
    last_stable_offset: int
    log_end_offset: int
    size: int  # bytes of all segments' .log files
    segments: int


@dataclass(frozen=True)
class PartitionLag:
    """A group in a partition."""

    group: str
    topic: str
    partition: int
    committed: CommittedOffset | None  # None: a member has the partition, and committed nothing for it
    log: LogFigures | None  # None: there is no such partition, as with the progress of a sink
    lag_ms: int | None  # 0: everything was read; None: not known
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """Offsets up to the log end, as Kafka counts them: markers and aborted records too. None: not known."""
        if self.committed is None or self.log is None:
            return None
        return self.log.log_end_offset - self.committed.offset


class LogLooks:
    """Logs of one directory, to look at again and again: the next look costs what was appended.

    Belongs to the manager's thread. No file stays open between looks.
    """

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._watchers: dict[TopicPartition, LogWatcher] = {}

    def partitions(self) -> list[TopicPartition]:
        """All there are; what is kept of others is forgotten."""
        topics = self._manager.topics().values()
        there = [(topic.name, partition) for topic in topics for partition in topic.partitions]
        for gone in self._watchers.keys() - {*there}:
            del self._watchers[gone]
        return there

    @contextmanager
    def look(self, place: TopicPartition) -> Iterator[LogWatcher]:
        """A log as it is now.

        Raises UnknownTopicOrPartitionError, StorageError where it vanishes meanwhile, CorruptionError.
        """
        log = self._watchers.pop(place, None)
        if log is None:
            log = self._manager.open_watcher(*place)
        else:
            log.catch_up()
        try:
            yield log
        finally:
            log.close()
        self._watchers[place] = log


def log_figures(place: TopicPartition, log: LogReader) -> LogFigures:
    """Of a log as it was looked at."""
    size = log.file_bytes()
    return LogFigures(*place, log.log_start_offset, log.last_stable_offset, log.log_end_offset, size, len(log.segments))


def lag_ms(log: LogReader, offset: int, now_ms: int) -> int | None:
    """The age of the first record at or behind ``offset``; 0 where there is none, None where it has no time.

    Up to the last stable offset, aborted records do not count; behind it whatever is there waits, open or not.
    """
    timestamp_ms = _first_timestamp(log, offset)
    if timestamp_ms is None:
        return 0
    return None if timestamp_ms == NO_TIMESTAMP else max(0, now_ms - timestamp_ms)


def _first_timestamp(log: LogReader, offset: int) -> int | None:
    """Of the first record at or behind ``offset``, ms; None where there is no record."""
    begin, stable = max(offset, log.log_start_offset), log.last_stable_offset
    for start, isolation in ((begin, Isolation.READ_COMMITTED), (max(begin, stable), Isolation.READ_UNCOMMITTED)):
        found = log.records(start, log.log_end_offset, isolation=isolation, columns=(), fetch_bytes=FIRST_RECORD_BYTES)
        for records in found:
            return int(records.timestamps[0])
    return None


class GroupLags:
    """Groups of one log directory, and how far they are behind. Takes no lock, and belongs to the manager's thread."""

    def __init__(self, manager: LogManager) -> None:
        self.manager = manager
        self.looks = LogLooks(manager)
        self._groups = GroupOffsets(manager)

    def groups(self, failures: list[LogStoreError] | None = None) -> list[GroupDescription]:
        """All groups, by name. Raises as reading does; with ``failures``, see :meth:`GroupOffsets.contents`."""
        return described_groups(self._groups.contents(failures), self._topic_ids)

    def missing(self) -> str | None:
        """:meth:`GroupOffsets.missing`."""
        return self._groups.missing()

    def _topic_ids(self) -> dict[str, str]:
        """Names by id, of the topics that are here."""
        topics = self.manager.topics().values()
        return {found: topic.name for topic in topics if (found := topic_id(self.manager, topic)) is not None}

    def lags(self, group: GroupDescription) -> list[PartitionLag]:
        """A group in each partition that it committed an offset for, or that a member has, in their order.

        Raises as :meth:`LogLooks.look` does.
        """
        members = {place: member for member in group.members for place in member.partitions}
        there = {*self.looks.partitions()}
        return [
            self._lag(group.name, place, group.offsets.get(place), members.get(place), is_there=place in there)
            for place in sorted({*group.offsets, *members})
        ]

    def _lag(
        self,
        group: str,
        place: TopicPartition,
        committed: CommittedOffset | None,
        member: GroupMember | None,
        *,
        is_there: bool,
    ) -> PartitionLag:
        if not is_there:
            return PartitionLag(group, *place, committed, None, None, member)
        with self.looks.look(place) as log:
            now_ms = self.manager.clock.now_ms()
            behind_ms = None if committed is None else lag_ms(log, committed.offset, now_ms)
            return PartitionLag(group, *place, committed, log_figures(place, log), behind_ms, member)
