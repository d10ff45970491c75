"""The lag of groups: how many offsets are unread, as in ``kafka-consumer-groups``, and how old the oldest one is.

Takes no locks. The lag in time is computed from the timestamp of the first unread record, not estimated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..directory.admin import topic_id
from ..directory.manager import LogManager
from ..errors import LogStoreError, kept_in
from ..format.constants import NO_TIMESTAMP
from ..format.files.file_names import TopicPartition
from ..reading.aborted import Isolation
from ..reading.marks import Marks
from ..reading.reader import LogReader
from ..reading.watcher import LogWatcher
from ..topic_rules import SINK_PREFIX
from .offsets import CommittedOffset, GroupOffsets
from .share_offsets import ShareOffsets
from .states import GroupDescription, GroupMember, described_groups

FIRST_RECORD_BYTES = 64 * 1024  # bytes per read, to find a record: it is in the first batch unless that is aborted


class LogFigures(NamedTuple):
    """Offsets and size of a partition's log at one moment."""

    topic: str
    partition: int
    log_start_offset: int
    last_stable_offset: int
    log_end_offset: int
    size: int  # bytes of all segments' .log files
    segments: int


@dataclass(frozen=True)
class PartitionLag:
    """The lag of a group in a partition."""

    group: str
    topic: str
    partition: int
    committed: CommittedOffset | None  # None: a member has the partition, but committed nothing for it
    log: LogFigures | None  # None: there is no such partition, as with the progress of a sink, or it cannot be read
    lag_ms: int | None  # 0: everything was read; None: unknown
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """Offsets up to the log end, counted like Kafka with markers and aborted records. None: unknown."""
        if self.committed is None or self.log is None:
            return None
        return self.log.log_end_offset - self.committed.offset

    @property
    def sink_topic(self) -> str | None:
        """The topic that a sink writes to, if ``topic`` is ``__sink.…``: the offset counts micro-batches, not records.

        None: the offset is one of records.
        """
        return self.topic.removeprefix(SINK_PREFIX) if self.topic.startswith(SINK_PREFIX) else None


@dataclass(frozen=True)
class ShareLag:
    """The lag of a share group in a partition."""

    group: str
    topic: str  # the name, or the topic's id if no topic here has this id
    partition: int
    start_offset: int | None
    log_end_offset: int | None
    lag: int | None  # records that the group has not finished; None: unknown


class LogLooks:
    """Opens logs of one directory repeatedly; each access after the first reads only appended data.

    Belongs to the manager's thread. Keeps no files open between two accesses.
    """

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._watchers: dict[TopicPartition, LogWatcher] = {}

    def partitions(self) -> list[TopicPartition]:
        """Returns all existing partitions, and drops the cached state of partitions that no longer exist."""
        self._manager.catch_up()
        topics = self._manager.topics().values()
        there = [each for topic in topics for each in topic.topic_partitions]
        for gone in self._watchers.keys() - {*there}:
            del self._watchers[gone]
        return there

    @contextmanager
    def look(self, topic_partition: TopicPartition, marks: Marks | None = None) -> Iterator[LogWatcher]:
        """Yields the log of a partition as it is now, for reading within the ``with`` block.

        ``marks``: its entries in the checkpoints, if the caller has just read them, for many logs at once.
        Raises UnknownTopicOrPartitionError, CorruptionError, and StorageError if the log vanishes during the access.
        """
        log = self._watchers.pop(topic_partition, None)
        if log is None:
            log = self._manager.open_watcher(*topic_partition)
        else:
            log.catch_up(marks)
        try:
            yield log
        finally:
            log.close()
        self._watchers[topic_partition] = log


def log_figures(topic_partition: TopicPartition, log: LogReader) -> LogFigures:
    """Returns the offsets and the size of an open log."""
    size = log.file_bytes()
    return LogFigures(
        *topic_partition, log.log_start_offset, log.last_stable_offset, log.log_end_offset, size, len(log.segments)
    )


def lag_ms(log: LogReader, offset: int, now_ms: int) -> int | None:
    """Returns the age, in ms, of the first record at or above ``offset``.

    0 if there is no such record; None if it has no timestamp.

    Ignores aborted records below the last stable offset; above it, records of every transaction count.
    """
    timestamp_ms = _first_timestamp(log, offset)
    if timestamp_ms is None:
        return 0
    return None if timestamp_ms == NO_TIMESTAMP else max(0, now_ms - timestamp_ms)


def _first_timestamp(log: LogReader, offset: int) -> int | None:
    """Returns the timestamp, in ms, of the first record at or above ``offset``; None if there is no record."""
    begin, stable = max(offset, log.log_start_offset), log.last_stable_offset
    for start, isolation in ((begin, Isolation.READ_COMMITTED), (max(begin, stable), Isolation.READ_UNCOMMITTED)):
        found = log.records(start, log.log_end_offset, isolation=isolation, columns=(), fetch_bytes=FIRST_RECORD_BYTES)
        for records in found:
            return int(records.timestamps[0])
    return None


class GroupLags:
    """Groups of one log directory, and their lag. Takes no lock, and belongs to the manager's thread."""

    def __init__(self, manager: LogManager) -> None:
        self.manager = manager
        self.looks = LogLooks(manager)
        self._groups = GroupOffsets(manager)
        self._share_groups = ShareOffsets(manager)

    def groups(self, failures: list[LogStoreError] | None = None) -> list[GroupDescription]:
        """Returns all groups, sorted by name.

        Raises the errors of :meth:`GroupOffsets.contents`, which describes ``failures``.
        """
        return described_groups(self._groups.contents(failures), self._topic_ids)

    def missing(self) -> str | None:
        """Like :meth:`GroupOffsets.missing`."""
        return self._groups.missing()

    def _topic_ids(self) -> dict[str, str]:
        """Returns the names of the topics in this directory, by topic id."""
        topics = self.manager.topics().values()
        return {found: topic.name for topic in topics if (found := topic_id(self.manager, topic)) is not None}

    def lags(self, group: GroupDescription, failures: list[LogStoreError] | None = None) -> list[PartitionLag]:
        """Returns a group's lag in each partition with a commit of the group or assigned to a member, in order.

        Raises the errors of :meth:`LogLooks.look`; with ``failures``, adds the error to that list instead, and the
        partition's ``log`` and ``lag_ms`` are None.
        """
        members = {topic_partition: member for member in group.members for topic_partition in member.partitions}
        there = {*self.looks.partitions()}
        found = []
        for topic_partition in sorted({*group.offsets, *members}):
            committed, member = group.offsets.get(topic_partition), members.get(topic_partition)
            lag = PartitionLag(group.name, *topic_partition, committed, None, None, member)
            with kept_in(failures):
                lag = self._with_lag(lag) if topic_partition in there else lag
            found.append(lag)
        return found

    def share_lags(self, group: GroupDescription, failures: list[LogStoreError] | None = None) -> list[ShareLag]:
        """Returns a share group's lag in each partition with a state of the group, in order.

        Raises the errors of :meth:`lags`.
        """
        there, topics = {*self.looks.partitions()}, self._topic_ids()
        found = []
        for (id_, partition), offset in self._share_groups.fetch(group.name, failures).items():
            topic, end = topics.get(id_, id_), None
            with kept_in(failures):
                topic_partition = TopicPartition(topic, partition)
                if topic_partition in there:
                    with self.looks.look(topic_partition) as log:
                        end = log.log_end_offset
            lag = None if end is None else offset.lag(end)
            found.append(ShareLag(group.name, topic, partition, offset.start_offset, end, lag))
        return sorted(found, key=lambda each: (each.topic, each.partition))

    def _with_lag(self, lag: PartitionLag) -> PartitionLag:
        topic_partition = TopicPartition(lag.topic, lag.partition)
        with self.looks.look(topic_partition) as log:
            now_ms = self.manager.clock.now_ms()
            behind_ms = None if lag.committed is None else lag_ms(log, lag.committed.offset, now_ms)
            return replace(lag, log=log_figures(topic_partition, log), lag_ms=behind_ms)
