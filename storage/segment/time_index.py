"""The ``.timeindex`` of a segment: its largest timestamp up to certain offsets (Kafka's TimeIndex).

:class:`RecordTimes` remembers the times that lookups by time have read from the ``.log`` itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..config import INT64_MAX
from ..errors import InvalidOffsetError
from ..format.constants import NO_TIMESTAMP
from ..format.files.index_entries import TIME_ENTRY, decode_time_entries, encode_time_entries, encode_time_entry
from ..format.tables import BatchHeaders, Int64s
from ..kernels import scan
from ..kernels.arrays import frozen
from .index_file import PairFormat, PairIndex, shifted

NO_RECORD = -INT64_MAX - 1  # ms: earlier than the time of any record


class TimestampOffset(NamedTuple):
    """No record up to ``offset`` has a timestamp above ``timestamp`` (ms)."""

    timestamp: int
    offset: int


class TimeIndex(PairIndex):
    """The largest timestamp up to certain offsets of the segment (``.timeindex``).

    One slot is reserved for the last entry, which is appended with ``skip_full_check`` when the segment is closed.
    """

    FORMAT = PairFormat(
        ("timestamp", "offset"), TIME_ENTRY.itemsize, encode_time_entries, encode_time_entry, decode_time_entries
    )
    RESERVED_ENTRIES = 1

    @property
    def timestamps(self) -> Int64s:
        """The timestamps of the entries, ms, increasing, shape (number of entries,); valid until the index changes."""
        return self._columns.first

    @property
    def offsets(self) -> Int64s:
        """The offsets of the entries, never decreasing, shape (number of entries,); valid until the index changes."""
        return self._columns.second

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry; (-1, base offset) if there are no entries."""
        return TimestampOffset(*self._columns.last()) if len(self) else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def last_below(self, offset: int) -> TimestampOffset:
        """The last entry with an offset below ``offset``; (-1, base offset) if there is none."""
        n = int(np.searchsorted(self.offsets, offset)) - 1 if len(self) else -1
        return self._entry(n) if n >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Add an entry: no record up to ``offset`` is later than ``timestamp`` (ms); see :meth:`append_many`."""
        self._check_offsets_fit(offset, offset)
        before = self.last_entry
        if timestamp < before.timestamp or offset < before.offset:
            raise self._falling(TimestampOffset(timestamp, offset), before)
        if timestamp > before.timestamp:
            self._write_one(timestamp, offset, skip_full_check)

    def append_many(self, timestamps: Int64s, offsets: Int64s, *, skip_full_check: bool = False) -> None:
        """Add entries in one write; both arrays have shape (n,). Skips entries with the timestamp of the previous one.

        Raises InvalidOffsetError for an offset or a timestamp below the one before it, SegmentOffsetOverflowError for
        an offset that the segment cannot hold, and ValueError if the index is full; then nothing is appended.
        """
        if not len(offsets):
            return
        self._check_offsets_fit(int(offsets[0]), int(offsets[-1]))
        before = self.last_entry
        times_before = shifted(before.timestamp, timestamps)
        is_falling = offsets[0] < before.offset or np.count_nonzero(offsets[1:] < offsets[:-1])
        if is_falling or np.count_nonzero(timestamps < times_before):
            raise self._falling(TimestampOffset(int(timestamps[0]), int(offsets[0])), before)
        rises = timestamps > times_before
        if np.count_nonzero(rises):
            self._write(timestamps[rises], offsets[rises], skip_full_check)

    def _falling(self, found: TimestampOffset, before: TimestampOffset) -> InvalidOffsetError:
        return InvalidOffsetError(
            f"{self.path}: cannot append entries from {found} on: a timestamp or an offset among them is below that of "
            f"the entry before it; the index ends with {before}"
        )

    def lookup(self, target_timestamp: int) -> TimestampOffset:
        """The last entry with a timestamp at or below ``target_timestamp`` (ms); (-1, base offset) if there is none."""
        n = self._last_up_to(target_timestamp)
        return self._entry(n) if n >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def _entry(self, n: int) -> TimestampOffset:
        return TimestampOffset(int(self.timestamps[n]), int(self.offsets[n]))


def times_of_records(headers: BatchHeaders) -> Int64s:
    """For each batch, the largest time of its records, ms, shape (n,); NO_RECORD for markers and emptied batches."""
    is_data = ~headers.is_control & (headers.table["count"] != 0)
    return np.where(is_data, headers.table["max_timestamp"], NO_RECORD)


def running_largest(before: TimestampOffset, headers: BatchHeaders) -> tuple[Int64s, Int64s]:
    """For each batch, the largest timestamp (ms) up to it, and the last offset of the first batch with that timestamp.

    ``before`` is the largest timestamp of the batches before these. Both arrays have shape (n,).
    """
    timestamps, last_offsets = headers.table["max_timestamp"], headers.table["last_offset"]
    running, reached = np.empty(len(headers), dtype=np.int64), np.empty(len(headers), dtype=np.int64)
    scan.running_largest(frozen(timestamps), frozen(last_offsets), *before, running, reached)
    return running, reached


def largest_of(headers: BatchHeaders) -> TimestampOffset:
    """The largest timestamp (ms) of these batches, and the last offset of the first batch with it."""
    row = int(headers.table["max_timestamp"].argmax())
    return TimestampOffset(int(headers.table["max_timestamp"][row]), int(headers.table["last_offset"][row]))


def later(known: TimestampOffset, found: TimestampOffset) -> TimestampOffset:
    """Returns the one with the larger timestamp; ``known`` if they are equal."""
    return found if found.timestamp > known.timestamp else known


class RecordTimes:
    """Remembers the largest record time (ms) of each part of a segment that lookups by time have read."""

    def __init__(self, start: int, older: int, inode: int) -> None:
        """Begins at position ``start``: no record before it is later than ``older`` (ms).

        ``inode`` identifies the file that is read.
        """
        self.start = self.end = start
        self.older = older
        self.inode = inode
        self.next_offset: int | None = None  # the offset after the parts read; None: nothing was read
        self.largest = NO_RECORD  # of all stretches
        self._stretches: list[tuple[int, int, int]] = []  # position, end position, largest time

    def add(self, times: Int64s, end: int, next_offset: int) -> None:
        """Add the next part, from the previous one to position ``end``; ``next_offset`` is the offset after it.

        ``times``: the result of :func:`times_of_records` for the batches of that part.
        """
        largest = int(times.max())
        self._stretches.append((self.end, end, largest))
        self.end, self.next_offset, self.largest = end, next_offset, max(self.largest, largest)

    def reaching(self, timestamp_ms: int) -> list[tuple[int, int]]:
        """The parts, as (position, end position), that contain a record at or after ``timestamp_ms``."""
        if self.largest < timestamp_ms:
            return []
        return [(start, end) for start, end, largest in self._stretches if largest >= timestamp_ms]
