"""Growing tables of int64, and their encoding."""

from __future__ import annotations

import numpy as np

from ...errors import CorruptionError
from ...format.tables import Int64s

_CAPACITY_MIN = 8
_PLANES = 8  # bytes of a number


class Rows:
    """A growing table, shape (rows, columns). On average, the time of an append depends only on the appended rows."""

    def __init__(self, columns: int, rows: Int64s | None = None) -> None:
        self._rows = np.empty((0, columns), np.int64) if rows is None else rows
        self._count = len(self._rows)

    def __len__(self) -> int:
        return self._count

    @property
    def table(self) -> Int64s:
        """All rows, without a copy: valid until the next change."""
        return self._rows[: self._count]

    def copy(self) -> Rows:
        return Rows(self._rows.shape[1], self.table.copy())

    def extend(self, rows: Int64s) -> None:
        count = self._count + len(rows)
        if count > len(self._rows):
            grown = np.empty((max(count, 2 * len(self._rows), _CAPACITY_MIN), self._rows.shape[1]), np.int64)
            grown[: self._count] = self.table
            self._rows = grown
        self._rows[self._count : count] = rows
        self._count = count

    def cut(self, start: int, end: int) -> None:
        """Removes the rows from index ``start`` to below ``end``."""
        self._rows = np.delete(self.table, slice(start, end), axis=0)
        self._count = len(self._rows)


def encode_rows(rows: Int64s) -> bytes:
    """Encodes rows as differences from the row before, in planes of bytes, which compress well; 8 bytes per number.

    Each column has eight planes, one per byte. Only planes that are not all zero are computed, because nearly all
    differences are small.
    """
    planes = np.zeros((rows.shape[1], _PLANES, len(rows)), np.uint8)
    for column, own in zip(rows.T, planes, strict=True):
        steps = np.diff(column, prepend=np.int64(0))  # wraps around, as the sum does
        zigzag = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
        for number in range(-(-int(zigzag.max(initial=0)).bit_length() // 8)):
            own[number] = (zigzag >> np.uint64(8 * number)).astype(np.uint8)
    return planes.tobytes()


def decode_rows(data: memoryview, count: int, columns: int) -> Int64s:
    """Decodes the output of :func:`encode_rows`. Raises CorruptionError if ``data`` has another size."""
    if len(data) != count * columns * _PLANES:
        raise CorruptionError(f"{len(data)} bytes cannot be {count} rows of {columns} numbers")
    planes = np.frombuffer(data, np.uint8).reshape(columns, _PLANES, count)
    rows = np.empty((count, columns), np.int64)
    for column, own in enumerate(planes):
        zigzag = own[0].astype(np.uint64)
        for number in range(1, _PLANES):
            if own[number].any():
                zigzag |= own[number].astype(np.uint64) << np.uint64(8 * number)
        steps = (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)
        np.cumsum(steps, out=rows[:, column])
    return rows
