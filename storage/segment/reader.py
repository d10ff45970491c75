"""Reading a segment: a ``.log`` and its indexes (Kafka's LogSegment): its end, and lookups by offset and by time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from .. import format as formats, kernels
from ..errors import CorruptIndexError, CorruptionError, CorruptRecordError, MissingSegmentError
from ..format import v2
from ..format.constants import INT32_MAX, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, NO_TIMESTAMP
from ..format.files import file_names
from ..format.tables import BatchHeaders, Int64s, Records
from .joining import NEVER_COMPACTED, Holes
from .time_index import RecordTimes, TimestampOffset, times_of_records
from .walk import PROBE_BYTES, LastSeen, SegmentWalk, Window, size_at_start

logger = logging.getLogger(__name__)

TIMED_BYTES = 1024 * 1024  # after the batch with the largest time, to see that none is younger


class OffsetAndTimestamp(NamedTuple):
    """The result of a lookup by time."""

    offset: int
    timestamp: int  # ms
    leader_epoch: int  # -1: unknown


class FoundBatch(NamedTuple):
    """The position of a batch in a segment, and, if they were read, that batch and some that follow it."""

    position: int
    window: Window | None = None


class SegmentReader(SegmentWalk):
    """A segment to read. Files are opened when first needed, so that ten thousand segments open quickly."""

    # Class attributes, so that segments that are never asked about need no attributes of their own.
    known_largest: TimestampOffset | None = None
    _appended_largest: TimestampOffset | None = None  # of batches that may be missing from the time index
    _known_first_timestamp: int | None = None
    walked_end: int | None = None  # the offset after its batches, as a search for its largest time found it
    walked_size = 0  # of the file then: an active segment grows
    record_times: RecordTimes | None = None  # as far as lookups by time have read it
    _is_time_index_checked = False
    _is_time_index_distrusted = False
    is_largest_confirmed = False

    def check_follows(self, before: SegmentReader, next_offset: int) -> None:
        """Raise if this segment does not begin with ``next_offset``, at which the one ``before`` it ends.

        CorruptRecordError if that one reaches into this one, MissingSegmentError if offsets are missing between them,
        unless the log may have holes, or they are too far apart for one segment.
        """
        if next_offset > self.base_offset:
            reason = f"it reaches up to offset {next_offset - 1}, but the next segment begins at {self.base_offset}"
            raise CorruptRecordError(reason, path=before.path(file_names.LOG))
        is_near = self.base_offset - before.base_offset <= INT32_MAX
        if next_offset < self.base_offset and is_near and self.context.holes() is not Holes.ANYWHERE:
            reason = f"offsets {next_offset} to {self.base_offset - 1} are in no segment, {NEVER_COMPACTED}"
            raise MissingSegmentError(reason, path=self.context.directory)

    def extend(self, size: int) -> None:
        """Complete batches were seen up to ``size``; what the indexes say about them is looked up again."""
        for name in ("offset_index", "time_index", "txn_index"):
            opened = self.__dict__.pop(name, None)
            if opened is not None:
                opened.close()
        self._known_size, self.known_largest, self._known_first_timestamp = size, None, None
        self._is_time_index_checked = False

    def close(self) -> None:
        """Close the files; changes nothing on disk. The next use opens them again."""
        for name in ("_file", "offset_index", "time_index", "txn_index"):
            opened = self.__dict__.pop(name, None)
            if opened is not None:
                opened.close()
        self._is_time_index_checked, self._last_seen = False, LastSeen()

    def release(self) -> None:
        """Close a segment to which nobody appends, and forget what was seen: at the next use it may be another file.

        Compaction replaces segments by others of the same name.
        """
        self.close()
        self._known_size = self.known_largest = self._appended_largest = self._known_first_timestamp = None
        self.record_times = self.walked_end = None
        self._is_index_distrusted = self._is_time_index_distrusted = self.is_largest_confirmed = False

    # The end

    def lost_end(self, next_offset: int) -> str | None:
        """What the index knows behind the log, which ends before ``next_offset``; None if it leads to nothing there.

        Where offsets may be missing, nothing else shows that a closed segment lost its end. The last entry must be
        beyond the end by its offset and by its position: a single wrong bit changes only one of them.
        """
        try:
            index = self.offset_index
            if not len(index) or index.last_offset < next_offset or not 0 < self.size <= int(index.positions[-1]):
                return None
        except CorruptIndexError:
            return None
        return (
            f"the log ends with offset {next_offset - 1} after {self.size} bytes, but its index leads to offset "
            f"{index.last_offset} at position {index.positions[-1]}: the end of the log is missing, or the index wrong"
        )

    def is_whole_in_newer_format(self, position: int) -> bool:
        """Whether there is a batch whose only fault is an unknown magic: its checksum, which excludes that, is correct.

        What a crash leaves of a write has a wrong checksum; this is what a newer Kafka may have written.
        """
        wanted = size_at_start(np.frombuffer(self._file.read(position, LOG_OVERHEAD), dtype=np.uint8))
        if not MAGIC_AT < wanted <= self.file_size - position:
            return False
        buffer = np.frombuffer(self._file.read(position, wanted), dtype=np.uint8).copy()
        buffer[MAGIC_AT] = v2.MAGIC
        headers = formats.scan(buffer).headers
        return len(headers) == 1 and bool(formats.checksums_match(buffer, headers)[0])

    def skip_damage(self) -> bool:
        """Move :attr:`size` to the next sound batch after the damage that begins there; False if there is none."""
        found = self.search(self.file_size).next_sound(self.size + 1)
        self._known_size = self._known_size if found is None else found
        return found is not None

    def end_at(self, size: int) -> None:
        """Set :attr:`size` to ``size``, whatever is there."""
        self._known_size = size

    def next_offset(self) -> int:
        """The offset after the last correct batch: read from the last index entry on.

        Also finds what is not in the indexes: where that batch ends (:attr:`size`), and late timestamps.
        """
        windows = self.from_index(self.offset_index.last_offset, self.file_size)
        self._known_size, next_offset = 0, self.base_offset
        for window in self._appended(windows):
            next_offset = window.headers.next_offset
        return next_offset

    def read_appended(self, expected: int | None = None) -> Iterator[Window]:
        """The batches after :attr:`size`, which advances past each window before that is yielded.

        ``expected`` is the offset after the batches before, if known. Anything after the last correct batch is not part
        of the log.
        """
        return self._appended(self.batches(self.size, self.file_size, expected=expected))

    def _appended(self, windows: Iterator[Window]) -> Iterator[Window]:
        with suppress(CorruptionError):
            for window in windows:
                self._update_largest(window.headers)
                self._known_size = window.position + window.headers.end
                yield window

    def _update_largest(self, headers: BatchHeaders) -> None:
        """For batches after those known. A time index that was not read yet is read when :attr:`largest` is needed."""
        found = _largest_of(headers)
        if self.known_largest is not None:
            self.known_largest = _later(self.known_largest, found)
        else:
            self._appended_largest = found if self._appended_largest is None else _later(self._appended_largest, found)

    def remember_end(self, window: Window) -> None:
        """Remember that the batch after this window will be asked for next."""
        self._last_seen.following = (window.headers.next_offset, window.position + window.headers.end)

    def _follows_last_read(self, offset: int) -> bool:
        """Whether the batch after what was read begins with ``offset`` and is complete; if not, the index is used."""
        following, position = self._last_seen.following
        if following != offset or position >= self.size:
            return False
        start = np.frombuffer(self._file.read(position, LOG_OVERHEAD), dtype=np.uint8)
        is_next = start[:LENGTH_AT].tobytes() == offset.to_bytes(LENGTH_AT, "big")
        return is_next and size_at_start(start) <= self.size - position

    def position_reaching(self, offset: int) -> int | None:
        """The position of the first batch whose last offset is not below ``offset``; None if there is none."""
        found = self.find(offset, offset)
        return None if found is None else found.position

    def find(self, offset: int, until: int) -> FoundBatch | None:
        """The first batch whose last offset is not below ``offset``; None if there is none.

        The result includes what was read to find it: that batch and some that follow, up to the one that reaches
        ``until`` if it is among them.
        """
        if self._follows_last_read(offset):
            return FoundBatch(self._last_seen.following[1])
        for window in self.from_index(offset, window_bytes=PROBE_BYTES, until=max(offset, until)):
            if window.headers.next_offset > offset:
                found = _from(window, offset)
                return FoundBatch(found.position, found)
        return None

    # Time

    @property
    def largest(self) -> TimestampOffset:
        """The largest timestamp, and the last offset of the first batch that has it, according to the time index."""
        if self.known_largest is None:
            self.known_largest = self._find_largest()
        return self.known_largest

    def _find_largest(self) -> TimestampOffset:
        found = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        if self.has_sound_time_index() and not self._lacks_time_entries():
            found = self.time_index.last_entry
        else:
            end = self.base_offset
            for window in self.batches():
                found, end = _later(found, _largest_of(window.headers)), window.headers.next_offset
            self.walked_end, self.walked_size = end, self.size
        return found if self._appended_largest is None else _later(found, self._appended_largest)

    def confirm_largest(self) -> TimestampOffset:
        """Like :attr:`largest`, but checked in the log, since no checksum covers the time index.

        This takes several times as long as reading the index.
        """
        if not self.is_largest_confirmed:
            self.is_largest_confirmed = True
            if self.has_sound_time_index() and not self._is_right_about_largest():
                self._is_time_index_checked, self._is_time_index_distrusted, self.known_largest = False, True, None
        return self.largest

    def _lacks_time_entries(self) -> bool:
        """Whether the time index is empty but must not be: a broker creates an empty one if the file is missing.

        That of an active segment is empty before the first entry of the offset index; then all of it was taken in.
        """
        if len(self.time_index) or not self.size:
            return False
        return self._appended_largest is None or len(self.offset_index) > 0

    def _is_right_about_largest(self) -> bool:
        """Whether the batch in the last entry of the time index has its time, and none at the end is younger.

        If the largest time is long before the end of the segment, the batches in between are not checked.
        """
        entry = self.time_index.last_entry
        if not len(self.time_index) or not self.size:
            return True
        window = self._batches_from(entry, TIMED_BYTES)
        if window is not None:
            window_end = window.position + window.headers.end
            tail = max(window_end, self.position_before(self.offset_index.last_offset))
            windows = [window.headers, *(each.headers for each in self.batches(tail, window_bytes=PROBE_BYTES))]
            self.walked_end, self.walked_size = windows[-1].next_offset, self.size
            if all(headers.table["max_timestamp"].max() <= entry.timestamp for headers in windows):
                return True
        logger.warning("%s: contradicts the log; the index is not used", self.time_index.path)
        return False

    def is_right_about(self, entry: TimestampOffset) -> bool:
        """Whether the batch in an entry of the time index has the time of the entry; if so, the entry is genuine."""
        return self._batches_from(entry, PROBE_BYTES) is not None

    def _batches_from(self, entry: TimestampOffset, window_bytes: int) -> Window | None:
        """The batch in an entry of the time index, and some after it; None if it does not have that time."""
        position = self.position_reaching(entry.offset)
        window = None if position is None else next(self.batches(position, window_bytes=window_bytes))
        is_right = window is not None and window.headers.table["max_timestamp"][0] == entry.timestamp
        return window if is_right else None

    def has_sound_time_index(self) -> bool:
        """Whether there is a usable one; only a writer can rebuild it. Checked once."""
        if self._is_time_index_checked:
            return True
        if self._is_time_index_distrusted or self.context.filesystem.status(self.path(file_names.TIME_INDEX)) is None:
            return False
        try:
            self.time_index.sanity_check()
        except CorruptIndexError as error:
            logger.warning("%s; the index is not used", error)
            return False
        self._is_time_index_checked = True
        return True

    @property
    def largest_timestamp_ms(self) -> int:
        """The largest timestamp, confirmed by the log, or the file's time if no record has one."""
        confirmed = self.confirm_largest().timestamp
        return confirmed if confirmed >= 0 else self.status().modified_ms

    def time_hint(self, timestamp_ms: int) -> TimestampOffset:
        """An offset up to which no batch is younger than its time, at most ``timestamp_ms``: according to the index."""
        nothing = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        entry = self.time_index.lookup(timestamp_ms) if self.has_sound_time_index() else nothing
        return entry if entry == nothing or self.is_right_about(entry) else nothing

    def timed_batches(
        self, position: int, end: int, window_bytes: int, *, expected: int | None = None
    ) -> tuple[Window, Int64s] | None:
        """The first batches at a position, as :meth:`batches` yields them, and the largest times of their records.

        The batches of the last call are not read again; their window has no bytes.
        """
        seen = self._last_seen.timed
        if seen is not None and seen[0].position == position and position + seen[0].headers.end <= end:
            return seen
        window = next(self.batches(position, end, window_bytes, expected=expected), None)
        if window is None:
            return None
        times = times_of_records(window.headers)
        self._last_seen.timed = window._replace(buffer=np.empty(0, dtype=np.uint8)), times
        return window, times

    def records_at(self, window: Window, row: int) -> Records:
        """The records of one batch, without their columns."""
        batch = window.headers.table[row]
        position = window.position + int(batch["position"])
        known_position, records = self._last_seen.decoded
        if records is None or known_position != position:
            if not len(window.buffer):
                window, row = next(self.batches(position, position + int(batch["size"]))), 0
            records = self.decode(window, slice(row, row + 1)).records
            self._last_seen.decoded = (position, records)
        return records

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, ms; -1 if there is none."""
        if self._known_first_timestamp is None and self.size:
            window = next(self.batches(window_bytes=PROBE_BYTES), None)
            self._known_first_timestamp = None if window is None else int(window.headers.table["max_timestamp"][0])
        return NO_TIMESTAMP if self._known_first_timestamp is None else self._known_first_timestamp


def _from(window: Window, offset: int) -> Window:
    """A window without the batches before the one that reaches ``offset``, and without bytes after the last one."""
    table = window.headers.table[np.flatnonzero(window.headers.table["last_offset"] >= offset)[0] :].copy()
    start, end = int(table["position"][0]), window.headers.end
    table["position"] -= start
    return Window(window.position + start, window.buffer[start:end], BatchHeaders(table))


def running_largest(before: TimestampOffset, headers: BatchHeaders) -> tuple[Int64s, Int64s]:
    """For each batch, the largest timestamp up to it and the last offset of the first batch that has it."""
    timestamps, last_offsets = headers.table["max_timestamp"], headers.table["last_offset"]
    running, reached = np.empty(len(headers), dtype=np.int64), np.empty(len(headers), dtype=np.int64)
    kernels.scan.running_largest(kernels.frozen(timestamps), kernels.frozen(last_offsets), *before, running, reached)
    return running, reached


def _largest_of(headers: BatchHeaders) -> TimestampOffset:
    """The largest timestamp of batches, and the last offset of the first one that has it."""
    row = int(headers.table["max_timestamp"].argmax())
    return TimestampOffset(int(headers.table["max_timestamp"][row]), int(headers.table["last_offset"][row]))


def _later(known: TimestampOffset, found: TimestampOffset) -> TimestampOffset:
    """The larger timestamp; if equal, that of the earlier batch."""
    return found if found.timestamp > known.timestamp else known
