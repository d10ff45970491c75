"""Finds which records of the dirty part are the latest of their keys, while the map is built.

To bound memory, the offsets of the dirty part are divided into cells, of one offset each or of more if there are too
many. A cell is marked if a record in it may stay: the latest of its key, one without a key, or one that was not put
into the map. A batch without a marked cell is superseded: its header is enough to drop it, without decompressing or
decoding it again. If cells are single offsets, the marks also decide every other record, without another lookup of its
key.
"""

from __future__ import annotations

import numpy as np

from ..format import v2
from ..format.compaction_view import Keyed
from ..format.tables import BatchHeaders, Bools, Int64s
from ..kernels.compaction import offset_map as maps

_CELLS_MAX = 2**21


class Superseded:
    """Marks which records may stay in the dirty part of a log, from offset ``start`` to ``end`` - 1.

    First pass all batches, in the order of the log, to :meth:`see_put` and :meth:`see_unput`; then pass the map made
    from them to :meth:`close`. If the offsets of a
    log do not ascend from record to record, no batch counts as superseded, because the map need not hold the highest
    offsets. Offsets from ``end`` on, in the rest of its segment, share the last cell.
    """

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._shift = max(0, (max(end - start, 1) - 1).bit_length() - (_CELLS_MAX - 1).bit_length())
        self._marked = np.zeros((max(end - start, 0) >> self._shift) + 1, dtype=np.bool_)
        self._marked_before = np.zeros(len(self._marked) + 1, dtype=np.int32)
        self._end = end
        self._latest_offset = start - 1  # the highest that the map covers; below start until it is closed
        self._above = -1  # the offset of the last record seen
        self._is_ordered = True

    def see_unput(self, headers: BatchHeaders) -> None:
        """Marks all offsets of batches whose records were not put into the map: these may stay."""
        table = headers.table[headers.table["last_offset"] >= self._start]
        for first, last in zip(self._cells(table["base_offset"]), self._cells(table["last_offset"]), strict=True):
            self._marked[first : last + 1] = True

    def see_put(self, headers: BatchHeaders, records: Keyed) -> None:
        """Marks the keyless records of some batches; the keyed records of these batches were put into the map."""
        keyless = records.offsets[~records.has_key & (records.offsets >= self._start)]
        self._marked[self._cells(keyless)] = True
        self._is_ordered = self._is_ordered and self._are_ordered(headers[records.counts > 0], records)

    def _are_ordered(self, headers: BatchHeaders, records: Keyed) -> bool:
        offsets, counts = records.offsets, records.counts[records.counts > 0]
        if not len(offsets):
            return True
        above, self._above = self._above, int(offsets[-1])
        stops, table = np.cumsum(counts), headers.table
        are_within = (offsets[stops - counts] >= table["base_offset"]) & (offsets[stops - 1] <= table["last_offset"])
        are_within |= table["magic"] < v2.MAGIC  # older headers contain only the last offset
        return bool(offsets[0] > above and (offsets[1:] > offsets[:-1]).all() and are_within.all())

    def close(self, offset_map: maps.OffsetMap) -> None:
        """Marks the latest record of each key. The map must contain all records seen before."""
        offset_map.mark_latest(self._start, self._shift, self._marked)
        np.cumsum(self._marked, out=self._marked_before[1:])
        self._latest_offset = offset_map.latest_offset if self._is_ordered else self._start - 1

    def of(self, headers: BatchHeaders) -> Bools:
        """Returns which batches are superseded, shape (batches,): none of their records may stay."""
        table = headers.table
        first, last = self._cells(table["base_offset"]), self._cells(table["last_offset"])
        unmarked = self._marked_before[last + 1] == self._marked_before[first]
        found: Bools = self._known(headers) & unmarked & ~headers.is_control
        return found

    def knows_each_record(self, headers: BatchHeaders) -> bool:
        """Whether :meth:`are_latest` can decide the records of these batches. Ignores control records."""
        is_known = self._known(headers) & (headers.table["last_offset"] < self._end)
        return not self._shift and bool((is_known | headers.is_control).all())

    def are_latest(self, records: Keyed) -> Bools:
        """Returns which records are the latest of their keys, shape (records,); False for records without a key."""
        found: Bools = self._marked[self._cells(records.offsets)] & records.has_key
        return found

    def _known(self, headers: BatchHeaders) -> Bools:
        """Returns which batches lie in the part of the log for which the marks are complete, shape (batches,)."""
        table = headers.table
        found: Bools = (table["base_offset"] >= self._start) & (table["last_offset"] <= self._latest_offset)
        found &= table["magic"] >= v2.MAGIC
        return found

    def _cells(self, offsets: Int64s) -> Int64s:
        cells: Int64s = (np.clip(offsets, self._start, self._end) - self._start) >> self._shift
        return cells
