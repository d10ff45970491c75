"""SegmentReader: finds the end of a segment, and looks up batches by offset and by time (Kafka's LogSegment)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..config import INT64_MAX
from ..errors import CorruptIndexError, CorruptionError, CorruptRecordError, MissingSegmentError
from ..filesystem.operations import is_made
from ..format import v2
from ..format.constants import INT32_MAX, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, NO_TIMESTAMP
from ..format.files import file_names
from ..format.tables import BatchHeaders, Int64s, Records
from .joining import NEVER_COMPACTED, Holes, size_at_start
from .time_index import RecordTimes, TimestampOffset, largest_of, later, times_of_records
from .walk import PROBE_BYTES, SegmentWalk, Window

logger = logging.getLogger(__name__)

FOLLOWING_MAX = 16  # batches whose places are remembered
TIMED_BYTES = 1024 * 1024  # bytes read after the batch with the largest time, to check that no batch is later
_OPENED = frozenset({"_file", "offset_index", "time_index", "txn_index"})  # attributes of a segment


class OffsetAndTimestamp(NamedTuple):
    """The result of a lookup by time."""

    offset: int
    timestamp: int  # ms
    leader_epoch: int  # -1: unknown


class FoundBatch(NamedTuple):
    """The position of a batch in a segment; and that batch with some that follow it, if the search has read them."""

    position: int
    window: Window | None = None


class SegmentReader(SegmentWalk):
    """Reads one segment. Opens a file only when it is needed, so that ten thousand segments open quickly."""

    # Class attributes, so that segments that are never asked about need no attributes of their own.
    known_largest: TimestampOffset | None = None
    _appended_largest: TimestampOffset | None = None  # of batches that may be missing in the time index
    _appended_end: tuple[int, int] | None = None  # offset and position after them; None: no one appends
    _known_first_timestamp: int | None = None
    walked_end: int | None = None  # the offset after the last batch, if a search for the largest timestamp read it
    walked_size = 0  # the size at that search: an active segment grows
    record_times: RecordTimes | None = None  # times of the parts that lookups by time have read
    _is_time_index_checked = False
    _is_time_index_distrusted = False
    is_largest_confirmed = False
    read_to = 0  # the end of the last batch that :meth:`remember_end` was given
    known_tail: tuple[CorruptionError | None] | None = None  # the damage at the end of the file, once it was checked

    def check_follows(self, before: SegmentReader, next_offset: int) -> None:
        """Raises an error unless this segment begins where the segment ``before`` it ends, at ``next_offset``.

        Raises CorruptRecordError if the two segments overlap, but SegmentRemovedError if this one does not exist any
        more: compaction has joined it to the one before. Raises MissingSegmentError if offsets are missing between
        them, unless the log may have holes anywhere, or this segment's base offset is more than 2^31 - 1 above the
        other.
        """
        if next_offset > self.base_offset:
            self.status()
            reason = (
                f"the segment reaches up to offset {next_offset - 1}, but the next one begins at {self.base_offset}; "
                "restore both files"
            )
            raise CorruptRecordError(reason, path=before.shown_path)
        is_near = self.base_offset - before.base_offset <= INT32_MAX
        if next_offset < self.base_offset and is_near and self.context.holes() is not Holes.ANYWHERE:
            reason = f"offsets {next_offset} to {self.base_offset - 1} are in no segment, {NEVER_COMPACTED}"
            raise MissingSegmentError(reason, path=self.context.directory)

    def extend(self, size: int) -> None:
        """Set :attr:`size` after another process appended batches; the indexes are read again when used."""
        for name in ("offset_index", "time_index", "txn_index"):
            opened = self.__dict__.pop(name, None)
            if opened is not None:
                opened.close()
        self._known_size, self._appended_end = size, None
        self.known_largest = self._known_first_timestamp = None
        self._is_time_index_checked = False

    def close(self) -> None:
        """Close the files; changes nothing on disk. The next use opens them again."""
        for name in _OPENED & self.__dict__.keys():  # of ten thousand segments, few are
            self.__dict__.pop(name).close()
        self.__dict__.pop("_last_seen", None)
        self._is_time_index_checked = False

    def release(self) -> None:
        """Close a segment to which nobody appends, and forget everything that was read from it.

        At the next use the files may be others, since compaction replaces segments by others of the same name.
        """
        self.close()
        self._known_size = self.known_largest = self._appended_largest = self._known_first_timestamp = None
        self.record_times = self.walked_end = self.known_tail = self._appended_end = None
        self.read_to = 0
        self._is_index_distrusted = self._is_time_index_distrusted = self.is_largest_confirmed = False

    # The end

    def lost_end(self, next_offset: int) -> str | None:
        """Returns why the segment, which ends before ``next_offset``, seems to have lost its end; None if it does not.

        In a log in which offsets may be missing, only the offset index can show that. Its last entry must be above the
        end both by offset and by position, since a single wrong bit changes only one of them.
        """
        try:
            index = self.offset_index
            if not len(index) or index.last_offset < next_offset or not 0 < self.size <= int(index.positions[-1]):
                return None
        except CorruptIndexError:
            return None
        return (
            f"the log ends with offset {next_offset - 1} after {self.size} bytes, but its index leads to "
            f"offset {index.last_offset} at position {index.positions[-1]}: the end of the log is missing, or the "
            "index is wrong; restore the file, or rebuild the index"
        )

    def is_whole_in_newer_format(self, position: int) -> bool:
        """Whether the batch at ``position`` is complete, with a correct checksum, but has an unknown magic.

        A newer Kafka may have written such a batch. An unfinished write would have a wrong checksum, which does not
        cover the magic.
        """
        wanted = size_at_start(np.frombuffer(self._file.read(position, LOG_OVERHEAD), dtype=np.uint8))
        if not MAGIC_AT < wanted <= self.file_size - position:
            return False
        buffer = np.frombuffer(self._file.read(position, wanted), dtype=np.uint8).copy()
        buffer[MAGIC_AT] = v2.MAGIC
        headers = formats.scan(buffer).headers
        return len(headers) == 1 and bool(formats.checksums_match(buffer, headers)[0])

    def skip_damage(self) -> bool:
        """Skip the damage that begins at :attr:`size`: set it to the position of the next sound batch.

        Returns False, and changes nothing, if no sound batch follows.
        """
        found = self.search(self.file_size).next_sound(self.size + 1)
        self._known_size = self._known_size if found is None else found
        return found is not None

    def end_at(self, size: int) -> None:
        """Set :attr:`size` to ``size``; checks nothing."""
        self._known_size = size

    def next_offset(self) -> int:
        """Returns the offset after the last correct batch, which it finds by reading from the last index entry on.

        Also sets :attr:`size` to the end of that batch, and remembers timestamps that are not yet in the time index.
        """
        windows = self.from_index(self.offset_index.last_offset, self.file_size)
        self._known_size, next_offset = 0, self.base_offset
        for window in self._appended(windows):
            next_offset = window.headers.next_offset
        return next_offset

    def read_appended(self, expected: int | None = None) -> Iterator[Window]:
        """Yields the batches after :attr:`size`; sets :attr:`size` to the end of each window before yielding it.

        Ends silently at the first damaged or incomplete batch. ``expected``: the offset at which the first batch should
        begin; None if unknown.
        """
        return self._appended(self.batches(self.size, self.file_size, expected=expected))

    def _appended(self, windows: Iterator[Window]) -> Iterator[Window]:
        with suppress(CorruptionError):
            for window in windows:
                self._update_largest(window.headers)
                self._known_size = window.position + window.headers.end
                self._appended_end = window.headers.next_offset, self._known_size
                yield window

    def _update_largest(self, headers: BatchHeaders) -> None:
        """Remember the largest timestamp of appended batches, without reading the time index if it was not read yet."""
        found = largest_of(headers)
        if self.known_largest is not None:
            self.known_largest = later(self.known_largest, found)
        else:
            self._appended_largest = found if self._appended_largest is None else later(self._appended_largest, found)

    def remember_end(self, window: Window) -> None:
        """Remember where this window ends, because the caller will read the batch after it next."""
        self.read_to = window.position + window.headers.end
        self.remember_following(window.headers.next_offset, self.read_to)

    def remember_following(self, offset: int, position: int) -> None:
        """Remember where the batch that begins with ``offset`` should be, because a reader will ask for it next.

        Several are kept: of readers at different offsets, and of those that follow each other.
        """
        following = self._last_seen.following
        following.pop(offset, None)  # it is the newest again
        following[offset] = position
        if len(following) > FOLLOWING_MAX:
            del following[next(iter(following))]

    @property
    def plain_part(self) -> tuple[int, int]:
        """Two positions between which no transactional batch was found; forgotten with the file."""
        return self._last_seen.plain

    @plain_part.setter
    def plain_part(self, part: tuple[int, int]) -> None:
        self._last_seen.plain = part

    def _remembered(self, offset: int) -> int | None:
        """The position of a complete batch that begins with ``offset``, if :meth:`remember_following` was given it."""
        position = self._last_seen.following.get(offset)
        if position is None or position >= self.size:
            return None
        start = np.frombuffer(self._file.read(position, LOG_OVERHEAD), dtype=np.uint8)
        is_there = start[:LENGTH_AT].tobytes() == offset.to_bytes(LENGTH_AT, "big")
        return position if is_there and size_at_start(start) <= self.size - position else None

    def position_reaching(self, offset: int) -> int | None:
        """The position of the first batch with a last offset at or above ``offset``; None if there is no such batch."""
        found = self.find(offset, offset)
        return None if found is None else found.position

    def end_below(self, offset: int) -> int:
        """The position at which the batches that end below ``offset`` end; the size if no batch reaches it."""
        if offset <= self.base_offset:
            return 0
        found = self.position_reaching(offset)
        return self.size if found is None else found

    def find(self, offset: int, until: int) -> FoundBatch | None:
        """Finds the first batch with a last offset at or above ``offset``; None if there is no such batch.

        The result includes the batches that the search has read, from the found one on, but none after the first one
        that reaches offset ``until``.
        """
        remembered = self._remembered(offset)
        if remembered is not None:
            return FoundBatch(remembered)
        for window in self.from_index(offset, window_bytes=PROBE_BYTES, until=max(offset, until)):
            if window.headers.next_offset > offset:
                found = _from(window, offset)
                return FoundBatch(found.position, found)
        return None

    # Time

    @property
    def largest(self) -> TimestampOffset:
        """The largest timestamp (ms), and the last offset of the first batch with it, according to the time index."""
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
                found, end = later(found, largest_of(window.headers)), window.headers.next_offset
            self.walked_end, self.walked_size = end, self.size
        return found if self._appended_largest is None else later(found, self._appended_largest)

    def confirm_largest(self) -> TimestampOffset:
        """Returns :attr:`largest` after checking it against the log, because no checksum covers the time index.

        Takes several times as long as reading the index.
        """
        if not self.is_largest_confirmed:
            self.is_largest_confirmed = True
            if self.has_sound_time_index() and not self._is_right_about_largest():
                self._is_time_index_checked, self._is_time_index_distrusted, self.known_largest = False, True, None
        return self.largest

    def _lacks_time_entries(self) -> bool:
        """Whether the time index is empty although the segment has batches whose times it should have.

        A broker creates an empty time index if the file is missing. An active segment may have an empty time index
        until the offset index has its first entry; then all of its batches were read as they were appended.
        """
        if len(self.time_index) or not self.size:
            return False
        return self._appended_largest is None or len(self.offset_index) > 0

    def _is_right_about_largest(self) -> bool:
        """Whether the log agrees with the last time index entry: its batch has that time, and no later batch is newer.

        An active segment may have batches after its last entry, which were read as they were appended; its indexes may
        have entries for batches that were appended since. If the entry's batch is far from the end of the segment, the
        batches in between are not checked.
        """
        end = INT64_MAX if self._appended_end is None else self._appended_end[0]
        entry = self.time_index.last_below(end)
        if not len(self.time_index) or not self.size or self._has_made_time_index():
            self._check_unread()
            return True
        window = self._batches_from(entry, TIMED_BYTES)
        if window is not None:
            window_end = window.position + window.headers.end
            tail = max(window_end, self.position_before(min(self.offset_index.last_offset, end - 1)))
            windows = [window.headers, *(each.headers for each in self.batches(tail, window_bytes=PROBE_BYTES))]
            self.walked_end, self.walked_size = windows[-1].next_offset, self.size
            if all(headers.table["max_timestamp"].max() <= self.largest.timestamp for headers in windows):
                return True
        logger.warning("%s: the time index contradicts the log and is not used; rebuild it", self.time_index.path)
        return False

    def _check_unread(self) -> None:
        """Raises CorruptRecordError for damage after the batches that were read as they were appended."""
        if self._appended_end is not None:
            next_offset, position = self._appended_end
            for _ in self.batches(position, expected=next_offset):
                pass

    def is_right_about(self, entry: TimestampOffset) -> bool:
        """Whether the batch that a time index entry names has the timestamp of the entry, or needs no check."""
        return self._has_made_time_index() or self._batches_from(entry, PROBE_BYTES) is not None

    def _has_made_time_index(self) -> bool:
        """Whether the time index was computed from checked batches; entries may then name any batch of an append."""
        return is_made(self.context.filesystem, self.time_index.path)

    def _batches_from(self, entry: TimestampOffset, window_bytes: int) -> Window | None:
        """Reads the batch that a time index entry names, and some after it; None if the batch has another timestamp."""
        position = self.position_reaching(entry.offset)
        window = None if position is None else next(self.batches(position, window_bytes=window_bytes))
        is_right = window is not None and window.headers.table["max_timestamp"][0] == entry.timestamp
        return window if is_right else None

    def has_sound_time_index(self) -> bool:
        """Whether the time index exists and passes its check, which is made once. A reader cannot rebuild the index."""
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
        """The largest timestamp, ms, checked against the log; the file's modification time if no record has one."""
        confirmed = self.confirm_largest().timestamp
        return confirmed if confirmed >= 0 else self.status().modified_ms

    def time_hint(self, timestamp_ms: int) -> TimestampOffset:
        """Returns the last time index entry at or below ``timestamp_ms``, if the log has the batch that it names.

        No record up to the entry's offset is later than its timestamp. Returns (-1, base offset) if there is no such
        entry, or if the log contradicts it.
        """
        nothing = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        entry = self.time_index.lookup(timestamp_ms) if self.has_sound_time_index() else nothing
        return entry if entry == nothing or self.is_right_about(entry) else nothing

    def timed_batches(
        self, position: int, end: int, window_bytes: int, *, expected: int | None = None
    ) -> tuple[Window, Int64s] | None:
        """Returns the first window of batches at ``position``, and the largest record time (ms) of each, shape (n,).

        Returns None if there is no batch before position ``end``. A repeated call for the same position returns the
        same batches without reading them again; their window then has an empty buffer.
        """
        seen = self._last_seen.timed
        if seen is not None and seen[0].position == position and position + seen[0].headers.end <= end:
            return seen
        window = next(self.batches(position, end, window_bytes, expected=expected), None)
        if window is None:
            return None
        self.check_wrapper_starts(window, expected)
        times = times_of_records(window.headers)
        self._last_seen.timed = window._replace(buffer=np.empty(0, dtype=np.uint8)), times
        return window, times

    def records_at(self, window: Window, row: int) -> Records:
        """The records of the batch in ``row`` of a window; keys, values and headers are not decoded."""
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
    """Returns the window from the batch that reaches ``offset`` on, without the bytes after its last batch."""
    table = window.headers.table[np.flatnonzero(window.headers.table["last_offset"] >= offset)[0] :].copy()
    start, end = int(table["position"][0]), window.headers.end
    table["position"] -= start
    return Window(window.position + start, window.buffer[start:end], BatchHeaders(table))
