"""Decompresses batches of magic 2 into parts. Small batches share a part, which costs as much time as 1,000 records."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidRecordError, TableSizeError
from ..kernels import records as reading, streams
from ..kernels.arrays import frozen
from .compression import decompress, decompress_into
from .constants import INT32_MAX
from .record_columns import Part
from .tables import Bytes

_JOINED_BYTES = 2**17  # of decompressed batches: half the size of a per-core cache


def decompressed(batches: Part, codecs: np.ndarray, limit: int) -> list[Part]:
    """Returns parts with the decompressed batches, each of at most ``limit`` bytes. Changes the table of ``batches``.

    Raises InvalidRecordError with the position of a batch that does not decompress, and TableSizeError with that of the
    batch from which on they are more than one table can have.
    """
    starts, stops = batches.table[:, reading.START].copy(), batches.table[:, reading.STOP].copy()
    rooms = np.empty(len(starts), dtype=np.int64)
    streams.measure(frozen(batches.source), starts, stops, codecs, rooms)
    rooms[rooms > limit] = streams.OTHER
    raw, joining = memoryview(frozen(batches.source)), _Joining(batches)
    rows = zip(starts.tolist(), stops.tolist(), codecs.tolist(), rooms.tolist(), strict=True)
    for row, (start, stop, codec, room) in enumerate(rows):
        if room != streams.OTHER and joining.add_stream(codec, raw[start:stop], room):
            continue
        try:
            joining.add(decompress(codec, batches.source[start:stop], limit=limit))
        except InvalidRecordError as error:
            raise type(error)(error.reason, position=int(batches.positions[row])) from error
    return joining.finish()


class _Joining:
    """Builds parts from batches, which are added in order."""

    def __init__(self, batches: Part) -> None:
        self._batches = batches
        self._found: list[Part] = []
        self._target = np.empty(0, dtype=np.uint8)
        self._view = memoryview(self._target)
        self._first = 0  # row of the part's first batch
        self._at = 0  # write position in the target
        self._stops: list[int] = []
        self._decompressed_bytes = 0

    def add_stream(self, codec: int, data: memoryview, room: int) -> bool:
        """Decompress a batch into the current part; returns False, and adds nothing, if that fails."""
        self._make_room(room)
        size = decompress_into(codec, data, self._view[self._at : self._at + room])
        if size == streams.OTHER:
            return False
        self._end_batch(size)
        return True

    def add(self, body: Bytes) -> None:
        if len(body) < _JOINED_BYTES:
            self._make_room(len(body))
            self._target[self._at : self._at + len(body)] = body
            self._end_batch(len(body))
        else:
            self._finish_part()
            self._target = body
            self._end_batch(len(body))
            self._finish_part()

    def finish(self) -> list[Part]:
        self._finish_part()
        return self._found

    def _make_room(self, room: int) -> None:
        if self._at + room > len(self._target):
            self._finish_part()
            self._target = np.empty(max(_JOINED_BYTES + streams.LZ4_BLOCK, room), dtype=np.uint8)
            self._view = memoryview(self._target)

    def _end_batch(self, size: int) -> None:
        self._at += size
        self._stops.append(self._at)

    def _finish_part(self) -> None:
        if self._stops:
            last = self._first + len(self._stops)
            self._check_total(last)
            table, positions = self._batches.table[self._first : last], self._batches.positions[self._first : last]
            table[:, reading.START], table[:, reading.STOP] = [0, *self._stops[:-1]], self._stops
            self._found.append(Part(self._target[: self._at], table, False, positions))
            self._first = last
        self._target, self._at, self._stops = np.empty(0, dtype=np.uint8), 0, []

    def _check_total(self, last: int) -> None:
        self._decompressed_bytes += self._at
        if self._decompressed_bytes > INT32_MAX:
            reason = f"more than {INT32_MAX} bytes of records up to this batch: decode fewer batches at once"
            raise TableSizeError(reason, position=int(self._batches.positions[last - 1]))
