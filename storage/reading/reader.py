"""LogReader: reads a log without changing it.

A reader takes no lock. It sees the log as it was when it was opened or refreshed; segments that compaction or retention
replace later stay readable as long as they are open. If a file is gone, the reader refreshes and continues by
offset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np

from ..clock import Clock, SystemClock
from ..config import INT64_MAX, LogConfig
from ..errors import CorruptRecordError, MissingSegmentError, OffsetOutOfRangeError, PolicyViolationError, StorageError
from ..filesystem import FileSystem, LocalFileSystem
from ..format.files import file_names
from ..format.record_columns import ALL_COLUMNS
from ..format.tables import Bools, Records
from ..recovery import (
    EXPIRATION_CHECK_INTERVAL_MS,
    LoadedLog,
    LogLoader,
    Marker,
    ProducerState,
    ProducerStateManager,
    read_markers,
)
from ..segment import NEVER_COMPACTED, PROBE_BYTES, Holes, LogContext, LogSegment, OffsetAndTimestamp, Place, Window
from .aborted import Outcomes, aborted_runs
from .fetch import ALL_TIMES, INT64_MIN, FetchData, Timespan
from .times import (
    batches_reaching_time,
    end_if_read,
    first_record_not_older,
    largest_record_time,
    segments_reaching_time,
)

FETCH_BYTES = 8 * 1024 * 1024  # read and decoded at once: large enough for speed, small enough for parallel tasks
FETCH_BYTES_A_RECORD = 1024  # to read less for a few records; larger records take more fetches
REOPEN_ATTEMPTS = 5  # if files of a log disappear five times in a row during one read, it is being deleted

T = TypeVar("T")


class Isolation(Enum):
    """Which transactional records a reader sees; the values are those of ``isolation.level``."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class Marks(NamedTuple):
    """The entries of a partition in the checkpoints at the root of a log directory."""

    recovery_point: int | None = None  # everything below was synced; None: unknown
    log_start_offset: int = 0  # everything below is deleted
    was_closed_cleanly: bool = False  # by a broker, and nothing was written since: the log ends at the recovery point


class Checkpoints(Protocol):
    """Where the marks of a log are kept."""

    def read(self) -> Marks: ...

    def write(self, marks: Marks) -> None:
        """Durable when this returns."""
        ...

    def sync(self) -> None:
        """Make what :meth:`read` returned durable: its writer may have been killed before it was."""
        ...

    def holes(self) -> Holes:
        """Where offsets may be missing in the log: it was compacted, or filled with gaps, or this is unknown."""
        ...

    def note_holes(self) -> None:
        """Record that offsets may be missing; durable when this returns."""
        ...


class KeptInMemory:
    """Marks of a standalone log, without a log directory around it."""

    def __init__(
        self, recovery_point: int | None = 0, log_start_offset: int = 0, holes: Holes = Holes.INSIDE_SEGMENTS
    ) -> None:
        self._marks = Marks(recovery_point, log_start_offset)
        self._holes = holes

    def read(self) -> Marks:
        return self._marks

    def write(self, marks: Marks) -> None:
        self._marks = marks

    def sync(self) -> None:
        pass

    def holes(self) -> Holes:
        return self._holes

    def note_holes(self) -> None:
        self._holes = Holes.ANYWHERE


class SegmentDescription(NamedTuple):
    """A segment, for people and planners."""

    base_offset: int
    next_offset: int  # the base offset of the next segment, or the log end
    size: int  # bytes of the .log
    largest_timestamp: int  # ms; -1: no record has one


class LogReader:
    """The log of a partition, for reading."""

    passes_damage = False  # see despite_damage

    def __init__(self, context: LogContext, checkpoints: Checkpoints) -> None:
        self.context = replace(context, holes=self._find_holes)
        self.checkpoints = checkpoints
        self._expiry_checked_ms = context.clock.now_ms()
        self._holes = Holes.ANYWHERE if context.config.compact else Holes.NOWHERE
        self._take(self._load())

    def _find_holes(self) -> Holes:
        """Where offsets may be missing; once that is anywhere, it does not change."""
        if self._holes is not Holes.ANYWHERE:
            self._holes = self.checkpoints.holes()
        return self._holes

    @classmethod
    def open(
        cls,
        directory: str,
        config: LogConfig | None = None,
        *,
        clock: Clock | None = None,
        filesystem: FileSystem | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Self:
        """Open the partition in ``directory``. Defaults: Kafka's config, this machine's clock and file system.

        Raises CorruptRecordError where records below the recovery point are missing at the end, and StorageError where
        there is no such directory.
        """
        context = LogContext(
            directory, config or LogConfig(), clock or SystemClock(), filesystem or LocalFileSystem(), cls._WRITES
        )
        return cls(context, checkpoints or KeptInMemory(None))

    _WRITES = False

    def _loader(self) -> LogLoader:
        self._marks = self.checkpoints.read()
        return self._loader_of(self._marks)

    def _loader_of(self, marks: Marks) -> LogLoader:
        return LogLoader(
            self.context,
            recovery_point=marks.recovery_point,
            log_start_offset=marks.log_start_offset,
            was_closed_cleanly=marks.was_closed_cleanly,
        )

    def _load(self) -> LoadedLog:
        for _ in range(REOPEN_ATTEMPTS):
            with suppress(FileNotFoundError):  # by retention or the end of a compaction, between listing and opening
                return self._look()
        raise self._gone()

    def _look(self) -> LoadedLog:
        return self._loader().view()

    def _gone(self) -> StorageError:
        if self.context.filesystem.status(self.context.directory) is None:
            return StorageError(f"{self.context.directory}: no such directory: the partition, or its disk, is gone")
        return StorageError(
            f"{self.context.directory}: files disappear while they are being read; is the topic being deleted?"
        )

    def looking_again(self, look: Callable[[], T]) -> T:
        """The result of ``look``. If a file is gone, replaced or deleted, refreshes the log and calls ``look`` again.

        Raises StorageError if files keep disappearing.
        """
        for _ in range(REOPEN_ATTEMPTS):
            try:
                return look()
            except FileNotFoundError:
                self.refresh()
        raise self._gone()

    def _take(self, loaded: LoadedLog) -> None:
        self.segments = loaded.segments
        self._producers, self.epochs = loaded.producers, loaded.epochs
        self._forget_outcomes()
        self._end_damage = loaded.damage
        self._log_start_offset = loaded.log_start_offset
        self._log_end_offset = loaded.log_end_offset
        self.truncated_bytes = loaded.truncated_bytes

    def _forget_outcomes(self) -> None:
        """For use after segments or producer state were replaced."""
        self._outcomes = Outcomes(self)

    def _expire_producers(self) -> None:
        """Forget idle producers, every ten minutes while a log stays open, as a broker does."""
        now_ms = self.context.clock.now_ms()
        if now_ms - self._expiry_checked_ms >= EXPIRATION_CHECK_INTERVAL_MS:
            self._expiry_checked_ms = now_ms
            self.producers.remove_expired(now_ms)

    def active_producers(self, now_ms: int) -> dict[int, ProducerState]:
        """The producers that have not expired by ``now_ms``, by producer id; a copy.

        For a time in the past, those that expired since are searched for in the log, from its oldest snapshot on.
        """
        if now_ms > self.context.clock.now_ms() - EXPIRATION_CHECK_INTERVAL_MS:
            return self.producers.active(now_ms)
        return self._loader().producers_as_of(now_ms, self._log_end_offset, self.segments).active(now_ms)

    def refresh(self) -> None:
        """See what was appended, deleted or replaced since."""
        self.close()
        self._take(self._load())

    def close(self) -> None:
        """Close all files."""
        self.segments.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Where the log begins and ends

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset the next record will get."""
        return self._log_end_offset

    @property
    def high_watermark(self) -> int:
        """The log end: there are no replicas to wait for."""
        return self._log_end_offset

    @property
    def producers(self) -> ProducerStateManager:
        """The state of the producers at the log end. Raises CorruptionError where damage hides what they did."""
        if self._producers is None:
            self._producers = self.looking_again(self._find_producers)
        return self._producers

    @producers.setter
    def producers(self, producers: ProducerStateManager) -> None:
        self._producers = producers

    def _find_producers(self) -> ProducerStateManager:
        loader = self._loader_of(self._marks)
        return loader.producers_at(self._log_end_offset, self.segments, despite_damage=self.passes_damage)

    @contextmanager
    def despite_damage(self) -> Iterator[None]:
        """Within this context, damaged batches are ignored in deciding how transactions ended.

        Without damage, it has no effect.
        """
        was, self.passes_damage = self.passes_damage, True
        try:
            yield
        finally:
            self.passes_damage = was
            if self._producers is not None and self._producers.is_partial and not was:
                self._producers = None
                self._forget_outcomes()

    @property
    def last_stable_offset(self) -> int:
        """Everything below is decided: the first offset of the earliest open transaction, else the log end."""
        unstable = self.producers.first_unstable_offset
        return self._log_end_offset if unstable is None else max(unstable, self._log_start_offset)

    def end_offset(self, isolation: Isolation) -> int:
        """The offset up to which a reader sees records."""
        return self.last_stable_offset if isolation is Isolation.READ_COMMITTED else self.high_watermark

    def start_without_records(self, before_offset: int) -> int:
        """The log start after deleting all records before ``before_offset``, or, for -1, before the high watermark.

        Raises PolicyViolationError for a topic that is only compacted, OffsetOutOfRangeError above the high watermark.
        """
        if not self.context.config.delete:
            raise PolicyViolationError(f"{self.context.directory}: cleanup.policy has no delete")
        offset = self.high_watermark if before_offset == -1 else before_offset
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.context.directory}: cannot delete before {before_offset}, the log ends at {self.high_watermark}"
            )
        return max(self._log_start_offset, offset)

    def describe_segments(self) -> list[SegmentDescription]:
        """All segments, ascending."""
        return self.looking_again(self._describe_segments)

    def _describe_segments(self) -> list[SegmentDescription]:
        return [
            SegmentDescription(segment.base_offset, next_offset, segment.size, segment.largest.timestamp)
            for segment, next_offset in self.segments.with_next_offsets(self._log_end_offset)
        ]

    def file_bytes(self) -> int:
        """The total length of all ``.log`` files."""
        return self.looking_again(lambda: sum(segment.status().size for segment in self.segments))

    def is_rolled(self) -> bool:
        """Whether the segment seen as active is closed by now: a roll creates a segment named by the log end."""
        if self._log_end_offset == self.segments.active.base_offset:
            return False
        following = file_names.segment_file(self._log_end_offset, file_names.LOG)
        return self.context.filesystem.status(file_names.join(self.context.directory, following)) is not None

    # Reading

    def read(
        self,
        start_offset: int,
        *,
        max_bytes: int = FETCH_BYTES,
        isolation: Isolation = Isolation.READ_COMMITTED,
        min_one_message: bool = True,
    ) -> FetchData | None:
        """Batches of one segment, from the one that contains ``start_offset``, or the next one if there is a gap.

        At most ``max_bytes``, but one complete batch if ``min_one_message``. None if there is nothing to see there yet.

        Raises OffsetOutOfRangeError below the log start and above the log end, MissingSegmentError where offsets are
        missing in a log that was never compacted, and CorruptRecordError with path and position.
        """
        return self.looking_again(
            lambda: self._read(start_offset, self.end_offset(isolation), isolation, max_bytes, min_one_message)
        )

    def _read(
        self,
        start_offset: int,
        bound: int,
        isolation: Isolation,
        max_bytes: int,
        min_one_message: bool = True,
        until: int = INT64_MAX,
    ) -> FetchData | None:
        if not self._log_start_offset <= start_offset <= self._log_end_offset:
            raise OffsetOutOfRangeError(
                f"{self.context.directory}: offset {start_offset} is outside the log, which holds "
                f"{self._log_start_offset} to {self._log_end_offset}"
            )
        if start_offset >= bound:
            self.check_readable_to(start_offset, isolation)
            return None
        found = self._find(start_offset, until)
        if found is None:
            self._check_nothing_missing(start_offset)
            self.check_readable_to(self._log_end_offset, isolation)
            return None
        segment, place = found
        window = place.window
        if window is None or not until < window.headers.next_offset <= bound or len(window.buffer) > max_bytes:
            end = self._position_of_bound(segment, bound)
            window = next(segment.batches(place.position, end, max_bytes, until=until), None)
        if window is None:  # nothing remains below the bound: compaction removed it
            self.check_readable_to(min(bound, until + 1), isolation)
            return None
        if len(window.buffer) > max_bytes and not min_one_message:
            return None
        self._check_below_next(segment, window)
        segment.remember_end(window)
        return replace(self.fetch_data(segment, window, isolation), asked=start_offset)

    def _find(self, offset: int, until: int) -> tuple[LogSegment, Place] | None:
        """Where the first batch is that reaches ``offset``, with those up to ``until`` if they are near.

        Without compaction, each segment begins where the previous one ends, unless its offsets are too far away.
        """
        before = self.segments.floor(offset)
        for segment in self.segments.reaching(offset):
            if segment.base_offset > offset:
                segment.check_follows(before or segment, offset)
            place = segment.find(offset, until)
            if place is not None:
                return segment, place
        return None

    def check_readable_to(self, offset: int, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> None:
        """Raise for damage at the apparent end of the log, if a read reaches everything visible.

        Where transactions are open, the damage may be in the markers that ended them.
        """
        if self._end_damage is not None and offset >= self.end_offset(isolation):
            raise self._end_damage

    def _check_nothing_missing(self, offset: int) -> None:
        """Raise MissingSegmentError where a batch should exist that reaches ``offset``, below the log end."""
        if self.context.holes() is Holes.NOWHERE:
            raise MissingSegmentError(
                f"offsets {offset} to {self._log_end_offset - 1} are in no batch, {NEVER_COMPACTED}",
                path=self.context.directory,
            )

    def _check_below_next(self, segment: LogSegment, window: Window) -> None:
        """Raise CorruptRecordError where a window reaches into the next segment, or beyond the log end."""
        following, headers = self.segments.higher(segment.base_offset), window.headers
        end = self._log_end_offset if following is None else following.base_offset
        if headers.next_offset > end:
            table = headers.table[np.argmax(headers.table["last_offset"] >= end)]
            beyond = "beyond the log's end" if following is None else "into the next segment, which begins"
            raise CorruptRecordError(
                f"offsets {table['base_offset']} to {table['last_offset']} reach {beyond} at {end}",
                path=segment.path(file_names.LOG),
                position=window.position + int(table["position"]),
            )

    def _position_of_bound(self, segment: LogSegment, bound: int) -> int:
        """The position up to which ``segment`` may be read: no batch that reaches ``bound``."""
        following = self.segments.higher(segment.base_offset)
        if bound == self._log_end_offset or (following is not None and following.base_offset <= bound):
            return segment.size
        position = segment.position_reaching(bound)
        return segment.size if position is None else position

    def fetch_data(self, segment: LogSegment, window: Window, isolation: Isolation) -> FetchData:
        """The batches of a window, and which of them ``isolation`` shows."""
        visible = ~window.headers.is_control
        if isolation is Isolation.READ_UNCOMMITTED or not window.headers.is_transactional.any():
            return FetchData(segment, window, visible, ())
        markers, _ = read_markers(window)
        hidden = self.hidden_rows(segment, window, markers)
        aborted = tuple(aborted_runs(window.headers, hidden, markers))
        return FetchData(segment, window, visible & ~hidden, aborted)

    def records(
        self,
        start: int,
        end: int,
        *,
        isolation: Isolation = Isolation.READ_COMMITTED,
        columns: Collection[str] = ALL_COLUMNS,
        timespan: Timespan = ALL_TIMES,
        fetch_bytes: int = FETCH_BYTES,
    ) -> Iterator[Records]:
        """Exactly the records with ``start <= offset < end`` that ``isolation`` shows, in chunks, in order.

        With a ``timespan``, segments and batches without any record in it are skipped; all records of the others are
        included. Ends early at :meth:`end_offset`. Raises like :meth:`read` and :meth:`FetchData.records`.
        """
        bound = self.end_offset(isolation)
        start = self._passing_over(start, timespan)
        fetch_bytes = min(fetch_bytes, PROBE_BYTES + max(end - start, 0) * FETCH_BYTES_A_RECORD)
        for data in self._fetches(start, end, bound, isolation, fetch_bytes, timespan):
            records = data.records(start, end, columns, timespan)
            del data  # so that the next fetch reuses its memory, which is in the cache
            if len(records):
                yield records

    def _fetches(
        self,
        start: int,
        end: int,
        bound: int,
        isolation: Isolation,
        max_bytes: int,
        timespan: Timespan = ALL_TIMES,
    ) -> Iterator[FetchData]:
        """Everything from ``start`` up to the batch that reaches ``end``, but no batch that reaches ``bound``.

        The files of segments that were read to their end are closed: a log has more files than a process may have open.
        Fetched data is not kept here: once the caller releases it, the next fetch reuses its memory.
        """
        offset, before = start, None

        def fetch() -> FetchData | None:
            nonlocal offset, before
            if before is not None:
                offset = self._passing_over(offset, timespan)
            if offset >= min(end, bound):
                self.check_readable_to(offset, isolation)
                return None
            data = self.looking_again(partial(self._read, offset, bound, isolation, max_bytes, until=end - 1))
            if data is not None:
                if before is not None and before is not data.segment:
                    before.give_back()
                offset, before = data.next_offset, data.segment
            return data

        return iter(fetch, None)

    def _passing_over(self, offset: int, timespan: Timespan) -> int:
        """Where to continue: after the segments from ``offset`` on whose records are all older than ``timespan``."""
        if timespan.first == INT64_MIN:
            return offset
        return self.looking_again(lambda: self._behind_older(offset, timespan.first))

    def _behind_older(self, offset: int, timestamp_ms: int) -> int:
        segments = self.segments.reaching(offset)
        if not segments:  # nothing was written to the partition yet
            return offset
        found = next(segments_reaching_time(segments, timestamp_ms, self._check_ends_before_next), segments[-1])
        return max(offset, found.base_offset)

    def hidden_rows(self, segment: LogSegment, window: Window, markers: Mapping[int, Marker]) -> Bools:
        """Which batches of a window belong to an aborted transaction, or to an open one."""
        return self._outcomes.hidden_rows(segment, window, markers, self._log_end_offset)

    # Time

    def offset_for_timestamp(
        self, timestamp_ms: int, isolation: Isolation = Isolation.READ_COMMITTED
    ) -> OffsetAndTimestamp | None:
        """The first record, by offset, that ``isolation`` shows and that is not older than ``timestamp_ms``.

        Never a control batch, whose time is when a transaction ended: Kafka's lookup finds those too. None if there is
        no such record. Raises CorruptRecordError where a skipped batch is damaged.
        """
        return self.looking_again(lambda: self._offset_for_timestamp(timestamp_ms, isolation))

    def _offset_for_timestamp(self, timestamp_ms: int, isolation: Isolation) -> OffsetAndTimestamp | None:
        bound = self.end_offset(isolation)
        segments = self.segments.below(bound)
        for segment in segments_reaching_time(segments, timestamp_ms, self._check_ends_before_next):
            self._check_follows_what_was_read(segment)
            found = self._first_not_older(segment, timestamp_ms, isolation)
            if found is not None and found.offset < bound:
                return found
            if found is not None:
                break
            self._check_ends_before_next(segment)
            self._close_inactive(segment)
        self.check_readable_to(bound, isolation)
        return None

    def _check_follows_what_was_read(self, segment: LogSegment) -> None:
        before = self.segments.floor(segment.base_offset - 1)
        if before is not None:
            self._check_ends_before_next(before)

    def _check_ends_before_next(self, segment: LogSegment) -> None:
        """If its log was read to the end, raise as :meth:`SegmentReader.check_follows` of the next segment."""
        following, end = self.segments.higher(segment.base_offset), end_if_read(segment)
        if following is not None and end is not None:
            following.check_follows(segment, end)

    def _first_not_older(
        self, segment: LogSegment, timestamp_ms: int, isolation: Isolation
    ) -> OffsetAndTimestamp | None:
        start = self._log_start_offset
        for window, rows in batches_reaching_time(segment, timestamp_ms, start):
            self._check_below_next(segment, window)
            for row in rows.tolist():
                if self._shows(segment, window, row, isolation):
                    found = first_record_not_older(segment, window, row, timestamp_ms, start)
                    if found is not None:
                        return found
        return None

    def _shows(self, segment: LogSegment, window: Window, row: int, isolation: Isolation) -> bool:
        """Whether ``isolation`` shows a data batch."""
        batch = window._replace(headers=window.headers[row : row + 1])
        if isolation is Isolation.READ_UNCOMMITTED or not batch.headers.is_transactional[0]:
            return True
        return not self.hidden_rows(segment, batch, {})[0]

    def _close_inactive(self, segment: LogSegment) -> None:
        """Close a segment once its log was read: ten thousand segments have more files than a process may have open."""
        if segment is not self.segments.active:
            segment.close()

    def offset_of_max_timestamp(self) -> OffsetAndTimestamp | None:
        """The first record with the largest timestamp of all, shown or not; None if no record has a timestamp."""
        return self.looking_again(self._offset_of_max_timestamp)

    def _offset_of_max_timestamp(self) -> OffsetAndTimestamp | None:
        found: tuple[int, LogSegment] | None = None
        self.check_readable_to(self._log_end_offset, Isolation.READ_UNCOMMITTED)
        self._behind_older(0, INT64_MAX)  # confirms segments that may be younger than their index says
        for segment in sorted(self.segments, key=lambda each: each.largest.timestamp, reverse=True):  # keeps the order
            if segment.largest.timestamp < (0 if found is None else found[0]):
                break
            largest = largest_record_time(segment, self._log_start_offset)
            if found is None or (largest, -segment.base_offset) > (found[0], -found[1].base_offset):
                found = largest, segment
            self._close_inactive(segment)
        if found is None or found[0] < 0:
            return None
        return self._first_not_older(found[1], found[0], Isolation.READ_UNCOMMITTED)
