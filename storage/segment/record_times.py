"""Record times from batch headers, and a memory of them."""

from __future__ import annotations

import numpy as np

from ..config import INT64_MAX
from ..format.tables import BatchHeaders, Int64s

NO_RECORD = -INT64_MAX - 1  # ms: earlier than any record


def times_of_records(headers: BatchHeaders) -> Int64s:
    """The largest record time in each header, and NO_RECORD for markers and emptied batches."""
    is_data = ~headers.is_control & (headers.table["count"] != 0)
    return np.where(is_data, headers.table["max_timestamp"], NO_RECORD)


class RecordTimes:
    """The largest record time, in ms, of each stretch of a segment, as far as the segment was read."""

    def __init__(self, start: int, older: int, inode: int) -> None:
        """``older``: no record before position ``start`` is later. ``inode``: of the file being read."""
        self.start = self.end = start
        self.older = older
        self.inode = inode
        self.next_offset: int | None = None  # after what was read; None: nothing was
        self.largest = NO_RECORD  # of all stretches
        self._stretches: list[tuple[int, int, int]] = []  # position, end position, largest time

    def note(self, times: Int64s, end: int, next_offset: int) -> None:
        """Add the next stretch, up to a position and an offset, with the :func:`record_times` of its batches."""
        largest = int(times.max())
        self._stretches.append((self.end, end, largest))
        self.end, self.next_offset, self.largest = end, next_offset, max(self.largest, largest)

    def reaching(self, timestamp_ms: int) -> list[tuple[int, int]]:
        """The stretches with a record of this time or a later one."""
        if self.largest < timestamp_ms:
            return []
        return [(start, end) for start, end, largest in self._stretches if largest >= timestamp_ms]
