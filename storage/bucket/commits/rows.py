"""Rows of int64 that grow at the end, and their coded form."""

from __future__ import annotations

import numpy as np

from ...errors import CorruptionError
from ...format.tables import Int64s

_CAPACITY_MIN = 8


class Rows:
    """A growing table, shape (rows, columns). Appending costs as much as what is appended, averaged over many calls."""

    def __init__(self, columns: int, rows: Int64s | None = None) -> None:
        self._rows = np.empty((0, columns), np.int64) if rows is None else rows
        self._count = len(self._rows)

    def __len__(self) -> int:
        return self._count

    @property
    def table(self) -> Int64s:
        """All rows, without a copy: valid until the next change."""
        return self._rows[: self._count]

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
    """Returns rows as differences from the row before, in planes of bytes, which compress well; 8 bytes a number."""
    steps = np.diff(rows, axis=0, prepend=np.zeros((1, rows.shape[1]), np.int64))  # wraps around, as the sum does
    zigzag = (steps << 1) ^ (steps >> 63)
    planes = np.ascontiguousarray(zigzag.T, dtype="<i8").view(np.uint8).reshape(rows.shape[1], len(rows), 8)
    return planes.transpose(0, 2, 1).tobytes()


def decode_rows(data: memoryview, count: int, columns: int) -> Int64s:
    """Returns what :func:`encode_rows` was given. Raises CorruptionError if ``data`` has another size."""
    if len(data) != count * columns * 8:
        raise CorruptionError(f"{len(data)} bytes cannot be {count} rows of {columns} numbers")
    planes = np.frombuffer(data, np.uint8).reshape(columns, 8, count).transpose(0, 2, 1)
    zigzag = np.ascontiguousarray(planes).view("<i8").reshape(columns, count).astype(np.int64)
    steps = ((zigzag >> 1) & np.int64(2**63 - 1)) ^ -(zigzag & 1)
    return np.ascontiguousarray(np.cumsum(steps, axis=1).T)
