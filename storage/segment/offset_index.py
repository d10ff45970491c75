"""The ``.index`` of a segment: where in the ``.log`` to start reading for an offset (Kafka's OffsetIndex)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import InvalidOffsetError
from ..format.files.index_entries import (
    OFFSET_ENTRY,
    decode_offset_entries,
    encode_offset_entries,
    encode_offset_entry,
)
from ..format.tables import Int64s
from .index_file import PairFormat, PairIndex


class OffsetPosition(NamedTuple):
    """A batch: its last offset and its first byte in the ``.log``."""

    offset: int
    position: int


class OffsetIndex(PairIndex):
    """The last offset and the position of some batches of the segment (``.index``): where to start reading."""

    FORMAT = PairFormat(
        ("offset", "position"),
        OFFSET_ENTRY.itemsize,
        encode_offset_entries,
        encode_offset_entry,
        decode_offset_entries,
    )

    @property
    def offsets(self) -> Int64s:
        """The last offsets of the indexed batches, shape (number of entries,); valid until the index changes."""
        return self._columns.first

    @property
    def positions(self) -> Int64s:
        """The positions of the indexed batches, shape (number of entries,); valid until the index changes."""
        return self._columns.second

    @property
    def last_offset(self) -> int:
        """The offset in the last entry; the segment's base offset if there are no entries."""
        return self._columns.last()[0] if len(self) else self.base_offset

    def append(self, offset: int, position: int, *, skip_full_check: bool = False) -> None:
        """Add an entry for the batch that ends with ``offset`` and begins at ``position``; see :meth:`append_many`."""
        self._check_offsets_fit(offset, offset)
        columns = self._columns
        if columns.count and offset <= columns.last()[0]:
            raise self._not_increasing(str(offset))
        self._write_one(offset, position, skip_full_check)

    def append_many(self, offsets: Int64s, positions: Int64s, *, skip_full_check: bool = False) -> None:
        """Add entries in one write; both arrays have shape (n,).

        Raises InvalidOffsetError unless offsets increase, SegmentOffsetOverflowError for an offset that the segment
        cannot hold, and ValueError if the index is full; then nothing is appended. ``skip_full_check`` appends even to
        a full index, for a rebuild after ``segment.index.bytes`` was made smaller.
        """
        if not len(offsets):
            return
        self._check_offsets_fit(int(offsets[0]), int(offsets[-1]))
        before = self.last_offset if len(self) else self.base_offset - 1
        if offsets[0] <= before or np.count_nonzero(offsets[1:] <= offsets[:-1]):
            found = ", ".join(map(str, offsets[:3].tolist()))
            raise self._not_increasing(f"{found} ...")
        self._write(offsets, positions, skip_full_check)

    def _not_increasing(self, found: str) -> InvalidOffsetError:
        return InvalidOffsetError(
            f"{self.path}: cannot append offsets {found}: they must increase, and the last entry has {self.last_offset}"
        )

    def lookup(self, target_offset: int) -> OffsetPosition:
        """The last entry with an offset at or below ``target_offset``; (base offset, 0) if there is none."""
        n = self._last_up_to(target_offset)
        return self._entry(n) if n >= 0 else OffsetPosition(self.base_offset, 0)

    def last_below(self, position: int) -> OffsetPosition | None:
        """The last entry whose position is below ``position``; None if there is none."""
        n = int(np.searchsorted(self.positions, position, side="left")) - 1
        return self._entry(n) if n >= 0 else None

    def fetch_upper_bound_offset(self, start: OffsetPosition, fetch_bytes: int) -> OffsetPosition | None:
        """The first entry whose position is at least ``fetch_bytes`` after ``start``; None if there is none."""
        n = int(np.searchsorted(self.positions, start.position + fetch_bytes, side="left"))
        return self._entry(n) if n < len(self) else None

    def _entry(self, n: int) -> OffsetPosition:
        return OffsetPosition(int(self.offsets[n]), int(self.positions[n]))
