"""What building the map saw of the dirty part: which of its records are the latest of their keys.

In memory of a fixed size the offsets of the dirty part are cells, of one offset or of more where there are too many of
them. A cell is marked where a record may stay: the latest of its key, one without a key, one that was not put. A batch
without a marked cell is superseded: it is dropped as its header says, neither decompressed nor decoded again. Where a
cell is one offset, the marks tell of each other record too, so that no key needs to be looked for a second time.
"""

from __future__ import annotations

import numpy as np

from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.keyed import Keyed
from pyspark_commitlog.storage.format.tables import BatchHeaders, Bools, Int64s
from pyspark_commitlog.storage.kernels import offset_map as maps

_CELLS_MAX = 2**21


class Superseded:
    """Of the offsets from ``start`` up to, but not including, ``end``: the dirty part of a log.

    First all batches are seen in the order of the log, then :meth:`close` looks at the map that they made. In a log
    whose offsets do not ascend from record to record no batch is superseded: the map need not hold the highest ones.
    Offsets behind ``end``, where its segment goes on, share the last cell.
    """

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._shift = max(0, (max(end - start, 1) - 1).bit_length() - (_CELLS_MAX - 1).bit_length())
        self._marked = np.zeros((max(end - start, 0) >> self._shift) + 1, dtype=np.bool_)
        self._marked_before = np.zeros(len(self._marked) + 1, dtype=np.int32)
        self._end = end
        self._latest_offset = start - 1  # the highest that the map knows; none before it is closed
        self._above = -1  # the last offset of a record seen
        self._is_ordered = True

    def see_unput(self, headers: BatchHeaders) -> None:
        """Batches whose records were not put."""
        table = headers.table[headers.table["last_offset"] >= self._start]
        for first, last in zip(self._cells(table["base_offset"]), self._cells(table["last_offset"]), strict=True):
            self._marked[first : last + 1] = True

    def see_put(self, headers: BatchHeaders, records: Keyed) -> None:
        """Batches whose records were put, as far as they have keys."""
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
        are_within |= table["magic"] < v2.MAGIC  # headers of older ones tell the last offset only
        return bool(offsets[0] > above and (offsets[1:] > offsets[:-1]).all() and are_within.all())

    def close(self, offset_map: maps.OffsetMap) -> None:
        """All is seen that the map holds."""
        offset_map.mark_latest(self._start, self._shift, self._marked)
        np.cumsum(self._marked, out=self._marked_before[1:])
        self._latest_offset = offset_map.latest_offset if self._is_ordered else self._start - 1

    def of(self, headers: BatchHeaders) -> Bools:
        """Which batches are superseded, shape (batches,)."""
        table = headers.table
        first, last = self._cells(table["base_offset"]), self._cells(table["last_offset"])
        unmarked = self._marked_before[last + 1] == self._marked_before[first]
        found: Bools = self._known(headers) & unmarked & ~headers.is_control
        return found

    def knows_each_record(self, headers: BatchHeaders) -> bool:
        """Whether :meth:`are_latest` tells of the records of these batches. Control records are no concern of it."""
        is_known = self._known(headers) & (headers.table["last_offset"] < self._end)
        return not self._shift and bool((is_known | headers.is_control).all())

    def are_latest(self, records: Keyed) -> Bools:
        """Which records have a key and are the latest of it: what the map says, shape (records,)."""
        found: Bools = self._marked[self._cells(records.offsets)] & records.has_key
        return found

    def _known(self, headers: BatchHeaders) -> Bools:
        """Which batches lie where the marks are whole."""
        table = headers.table
        found: Bools = (table["base_offset"] >= self._start) & (table["last_offset"] <= self._latest_offset)
        found &= table["magic"] >= v2.MAGIC
        return found

    def _cells(self, offsets: Int64s) -> Int64s:
        cells: Int64s = (np.clip(offsets, self._start, self._end) - self._start) >> self._shift
        return cells
