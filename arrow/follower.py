"""Follower: returns the records of a topic as they are appended."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from os import PathLike
from typing import Self

from ..storage import (
    InvalidConfigError,
    Isolation,
    LogManager,
    Marks,
    OffsetOutOfRangeError,
    Records,
    TopicIds,
    TopicPartition,
    find_made_again,
    ms_of,
    parse_instant,
    topic_ids,
)
from .rows import Record, from_records
from .table import chosen_partitions, isolation_of

LOOK_EVERY_S = 0.1  # how often a follower that has returned every record checks for more
NEW_PARTITIONS_EVERY_S = 5.0  # how often it checks for partitions that were added to the topic
FETCH_BYTES = 1024 * 1024  # bytes that are read from a partition before the next one's turn

Path = str | PathLike[str]
Start = str | int | datetime | Mapping[int, int]


def follow(
    path: Path,
    topic: str,
    *,
    start: Start = "latest",
    partition: int | Collection[int] | None = None,
    isolation: Isolation | str = Isolation.READ_COMMITTED,
    timeout: float | None = None,
    topic_id: str | None = None,
) -> Follower:
    """Returns an iterator of the records of a topic, which waits for further records at the end of the log.

    ``start`` is "earliest", "latest" (the default), an offset, a dict of offsets by partition (like
    :attr:`Follower.position`; partitions that are not in it start at their earliest record), or a time: a datetime with
    a time zone, or ISO 8601 text (UTC unless it has a zone). A time means the first record that is not older.
    ``partition``: one, several, or None for all, with those that are added to the topic later. ``isolation``:
    ``read_committed`` or ``read_uncommitted``. ``timeout``: the iterator ends when no record came for this many
    seconds; with 0 at the current end of the log, and with None (the default) only by :meth:`Follower.close`.
    ``topic_id``: the topic must have this id, which :attr:`Follower.topic_id` was when the offsets in ``start`` were
    stored.

    Records of a partition come in the order of their offsets. Takes no lock and changes nothing. Raises
    InvalidConfigError for an invalid argument, NotALogDirError, UnknownTopicOrPartitionError, OffsetOutOfRangeError
    for an offset that the log does not have, and for a topic with another id, and MissingSegmentError if first segments
    were lost and ``start`` is before their end; an offset after them can be followed.

    >>> for record in follow("data/log", "orders", start="earliest", timeout=5):  # doctest: +SKIP
    ...     print(record.partition, record.offset, record.key, record.value)
    """
    manager = LogManager.open(os.fspath(path))
    try:
        sources = chosen_partitions(manager, topic, partition)
        ids = topic_ids(manager, sources)  # before the logs are opened
        _check_same_topic({} if topic_id is None else {topic: topic_id}, ids)
        _check_named(start, sources)
        return Follower(manager, sources, start, isolation_of(isolation), timeout, ids, finds_more=partition is None)
    except BaseException:
        manager.close()
        raise


def _check_named(start: Start, sources: Collection[TopicPartition]) -> None:
    """Raises InvalidConfigError if ``start`` has an offset for a partition that is not followed."""
    followed = [source.partition for source in sources]
    other = [number for number in start if number not in followed] if isinstance(start, Mapping) else []
    if other:
        raise InvalidConfigError(
            f"start has an offset for partition {other[0]}, but partitions {followed} are followed"
        )


def _check_same_topic(known: TopicIds, now: TopicIds) -> None:
    """Raises OffsetOutOfRangeError if the topic has another id now."""
    if text := find_made_again(known, now):
        raise OffsetOutOfRangeError(
            f"{text}, so its offsets are those of other records: compare it with what you have read, and follow it "
            "with another start"
        )


class Follower(Iterator[Record]):
    """An iterator over the records of a topic, as :func:`follow` returns it; a context manager that closes it.

    After a timeout or an error, iterating again continues after the last record that it returned. Iterate in one
    thread at a time; any thread, or a signal handler, may call :meth:`close`.

    Iterating raises OffsetOutOfRangeError if records were deleted before they were returned, or if the topic was
    deleted and created again, StorageError if it was deleted, and the errors of LogReader.records for damage.
    """

    def __init__(
        self,
        manager: LogManager,
        sources: Collection[TopicPartition],
        start: Start,
        isolation: Isolation,
        timeout: float | None,
        ids: TopicIds,
        *,
        finds_more: bool,
    ) -> None:
        """For :func:`follow`. ``ids``: the topic's ids. ``finds_more``: also follow partitions that are added later."""
        if timeout is not None and timeout < 0:
            raise InvalidConfigError(f"timeout is {timeout}; it must be 0 seconds or more, or None to wait for ever")
        self._manager, self._isolation, self._timeout, self._finds_more = manager, isolation, timeout, finds_more
        self._ids = ids
        self._cursors = {source: _Cursor.at(start, manager, source, isolation) for source in sources}
        self._records = self._arriving()
        self._asked_s = self._listed_s = time.monotonic()
        self._turn = threading.Lock()  # held while records are read, so that no file in use is closed
        self._closing = threading.Event()

    @property
    def position(self) -> dict[int, int]:
        """The offset of the next record, by partition; also after :meth:`close`.

        Pass it to :func:`follow` as ``start`` to continue there. A program that stores it in one transaction with its
        results has each effect exactly once.
        """
        return {source.partition: cursor.position for source, cursor in sorted(self._cursors.items())}

    @property
    def topic_id(self) -> str | None:
        """The id of the topic, which differs if a topic is created again; None for one from before Kafka 2.8.

        Store it with :attr:`position`, and give it to :func:`follow` as ``topic_id``.
        """
        return next(iter(self._ids.values()), None)

    def __next__(self) -> Record:
        try:
            with self._turn:
                return self._next()
        finally:
            if self._closing.is_set():
                self._release()

    def _next(self) -> Record:
        self._asked_s = time.monotonic()
        try:
            if self._closing.is_set():
                raise StopIteration
            record = next(self._records)
        except BaseException:  # any error ends a generator; the next one begins at the position
            self._records = self._arriving()
            raise
        self._cursors[TopicPartition(record.topic, record.partition)].position = record.offset + 1
        return record

    def _arriving(self) -> Iterator[Record]:
        """Yields records until none has come for the timeout, or the follower is closed."""
        while True:
            self._look()
            yield from self._round()
            waited_s = time.monotonic() - self._asked_s
            left_s = LOOK_EVERY_S if self._timeout is None else min(LOOK_EVERY_S, self._timeout - waited_s)
            if left_s <= 0 or self._closing.wait(left_s):
                return

    def _look(self) -> None:
        """Finds appended records and added partitions."""
        self._manager.catch_up()
        _check_same_topic(self._ids, topic_ids(self._manager, self._cursors))
        marks = self._manager.all_marks()  # once for all partitions
        for source, cursor in self._cursors.items():
            cursor.catch_up(self._manager, marks.get(source, Marks()))
        if self._finds_more and time.monotonic() - self._listed_s >= NEW_PARTITIONS_EVERY_S:
            self._listed_s = time.monotonic()
            for source in chosen_partitions(self._manager, next(iter(self._cursors)).topic, None):
                if source not in self._cursors:
                    self._cursors[source] = _Cursor.at("earliest", self._manager, source, self._isolation)

    def _round(self) -> Iterator[Record]:
        """Yields the records up to the ends that the last check found, a fetch of each partition in turn."""
        fetches = {source: cursor.fetches(self._isolation) for source, cursor in self._cursors.items()}
        while fetches:
            for source, each in [*fetches.items()]:
                records = next(each, None)
                if records is None:
                    del fetches[source]
                else:
                    yield from from_records(records, source)

    def close(self) -> None:
        """Ends the iteration, even if it is waiting, and closes the log."""
        self._closing.set()
        self._release()

    def _release(self) -> None:
        """Closes the files; if records are being read, the call of ``__next__`` does this at its end."""
        if self._turn.acquire(blocking=False):
            try:
                for cursor in self._cursors.values():
                    cursor.log.close()
                self._manager.close()
            finally:
                self._turn.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Cursor:
    """How far a follower has come in a partition."""

    def __init__(self, manager: LogManager, source: TopicPartition) -> None:
        self._source = source
        self._inode = self._inode_in(manager)
        self.log = manager.open_watcher(*source)
        self.position = self.log.log_start_offset  # of the next record to return

    @classmethod
    def at(cls, start: Start, manager: LogManager, source: TopicPartition, isolation: Isolation) -> Self:
        """Returns a cursor at ``start``. Raises InvalidConfigError, OffsetOutOfRangeError."""
        cursor = cls(manager, source)
        cursor.position = cursor._first(start, isolation)
        return cursor

    def _first(self, start: Start, isolation: Isolation) -> int:
        if isinstance(start, Mapping):
            start = start.get(self._source.partition, "earliest")
        if start == "earliest":
            return self._earliest()
        if start == "latest":
            return self.log.stable_end(isolation)
        if isinstance(start, str | datetime):
            return self._at_time(_time_ms(start), isolation)
        if isinstance(start, bool) or not isinstance(start, int):
            raise InvalidConfigError(f"start is {start!r}; {_STARTS}")
        first, end = self.log.log_start_offset, self.log.log_end_offset
        if not first <= start <= end:
            raise OffsetOutOfRangeError(
                f"{self._source} has offsets {first} to {end}, but not {start}: start at one of these or at "
                "'earliest', or give a dict of offsets by partition"
            )
        return start

    def _earliest(self) -> int:
        lost = self.log.lost_start()
        if lost is not None:
            raise lost
        return self.log.log_start_offset

    def _at_time(self, timestamp_ms: int, isolation: Isolation) -> int:
        found = self.log.first_at(timestamp_ms, isolation)
        if found is None:
            return self.log.stable_end(isolation)
        return max(found, self._earliest()) if found < self.log.log_start_offset else found

    def catch_up(self, manager: LogManager, marks: Marks) -> None:
        """Finds appended records. Raises OffsetOutOfRangeError if the log no longer has the position."""
        self.log.catch_up(marks)
        first, end = self.log.log_start_offset, self.log.log_end_offset
        if self._inode_in(manager) != self._inode or self.position > max(first, end):
            raise OffsetOutOfRangeError(
                f"{self._source} was deleted and created again, or cut, while it was followed up to offset "
                f"{self.position}: compare it with what you have read, and follow it with another start"
            )
        if self.position < first:
            raise OffsetOutOfRangeError(
                f"{self._source}: offsets {self.position} to {first - 1} were deleted before they were read; to "
                "continue with the remaining records, follow with start='earliest'"
            )

    def _inode_in(self, manager: LogManager) -> int | None:
        status = manager.filesystem.status(manager.partition_path(*self._source))
        return None if status is None else status.inode

    def fetches(self, isolation: Isolation) -> Iterator[Records]:
        """Yields the records up to the end that the log has now; then the position is that end."""
        first, end = self.position, self.log.stable_end(isolation)
        yield from self.log.records(first, end, isolation=isolation, fetch_bytes=FETCH_BYTES)
        self.position = max(self.position, end)
        self.log.rest(first, end)


_STARTS = "it must be 'earliest', 'latest', an offset, a dict of offsets by partition, or a time"


def _time_ms(start: str | datetime) -> int:
    """Returns a time in ms, rounded up, so that no earlier record matches. Raises InvalidConfigError."""
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise InvalidConfigError(f"start {start} has no time zone; give it one, such as datetime.UTC")
        return ms_of(start)
    try:
        return parse_instant(start)
    except ValueError as error:
        raise InvalidConfigError(f"start: {error}; {_STARTS}") from None
