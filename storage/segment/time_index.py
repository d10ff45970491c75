"""The ``.timeindex`` of a segment: its largest timestamp up to certain offsets (Kafka's TimeIndex)."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import InvalidOffsetError
from ..format.constants import NO_TIMESTAMP
from ..format.files.index_entries import TIME_ENTRY, decode_time_entries, encode_time_entries
from ..format.tables import Int64s
from .index_file import PairFormat, PairIndex, one, shifted


class TimestampOffset(NamedTuple):
    """No record up to ``offset`` has a timestamp above ``timestamp`` (ms)."""

    timestamp: int
    offset: int


class TimeIndex(PairIndex):
    """The largest timestamp up to certain offsets of the segment (``.timeindex``).

    Keeps the last slot free for the entry that closes a segment (``skip_full_check``).
    """

    FORMAT = PairFormat(("timestamp", "offset"), TIME_ENTRY.itemsize, encode_time_entries, decode_time_entries)
    RESERVED_ENTRIES = 1

    @property
    def timestamps(self) -> Int64s:
        """ms, shape (len,), increasing; valid until the next change."""
        return self._columns.first

    @property
    def offsets(self) -> Int64s:
        """Shape (len,), not decreasing; valid until the next change."""
        return self._columns.second

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry; (-1, base offset) if there are no entries."""
        return TimestampOffset(*self._columns.last()) if len(self) else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Record ``timestamp`` as the segment's largest up to ``offset``; see :meth:`append_many`."""
        self.append_many(one(timestamp), one(offset), skip_full_check=skip_full_check)

    def append_many(self, timestamps: Int64s, offsets: Int64s, *, skip_full_check: bool = False) -> None:
        """Add entries in one write; both arrays have shape (n,). Skips a timestamp equal to the one before it.

        Raises InvalidOffsetError for an offset or a timestamp below the one before it, SegmentOffsetOverflowError for
        an offset that the segment cannot hold, and ValueError if the index has no room, with nothing appended.
        """
        if not len(offsets):
            return
        self._check_offsets_fit(int(offsets[0]), int(offsets[-1]))
        before = self.last_entry
        times_before = shifted(before.timestamp, timestamps)
        if (timestamps < times_before).any() or (offsets < shifted(before.offset, offsets)).any():
            found = TimestampOffset(int(timestamps[0]), int(offsets[0]))
            raise InvalidOffsetError(f"{self.path}: entries from {found} on fall below {before} or each other")
        rises = timestamps > times_before
        if rises.any():
            self._write(timestamps[rises], offsets[rises], skip_full_check)

    def lookup(self, target_timestamp: int) -> TimestampOffset:
        """The last entry at or below ``target_timestamp``; (-1, base offset) if there is none."""
        n = self._last_up_to(target_timestamp)
        return self._entry(n) if n >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def _entry(self, n: int) -> TimestampOffset:
        return TimestampOffset(int(self.timestamps[n]), int(self.offsets[n]))
