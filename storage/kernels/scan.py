"""The walk over batches: one loop for all magics, since offset, length and magic have the same positions in each.

Like Kafka's ``FileLogInputStream``, it checks only length and magic; the checksum is verified later. The
entries of Kafka 0.7 have another form, and a walk of their own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .arrays import Bytes
from .compiling import jit
from .stop_reasons import BAD_MAGIC, BAD_SIZE, END, FULL, NO_CHECKSUM, TRUNCATED, UNKNOWN_MAGIC

_OVERHEAD = 12  # offset and length
_HEADER_UP_TO_MAGIC = 17

# Kafka 0.7
_SIZE_BYTES = 4
_MESSAGE_BYTES_MIN = 5  # magic and checksum, for magic 0; magic 1 has attributes between them


@jit
def read_i32(source: Bytes, at: int) -> int:
    """The signed 32-bit big-endian number at ``at``."""
    raw = (
        (np.int64(source[at]) << 24)
        | (np.int64(source[at + 1]) << 16)
        | (np.int64(source[at + 2]) << 8)
        | np.int64(source[at + 3])
    )
    return raw - ((raw & 0x80000000) << 1)


@jit
def read_i64(source: Bytes, at: int) -> int:
    """The signed 64-bit big-endian number at ``at``."""
    return (read_i32(source, at) << 32) | (read_i32(source, at + 4) & 0xFFFFFFFF)


@jit
def walk(
    source: Bytes,
    start: int,
    positions: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    magics: npt.NDArray[np.int8],
) -> tuple[int, int, int]:
    """Fill position, size and magic of each whole batch from ``start`` on.

    The length of the three arrays is the largest number of batches to find. Returns the number of batches found, the
    position after the last one, and why the walk stopped there.
    """
    at = start
    end = len(source)
    for found in range(len(positions) + 1):
        if at == end:
            return found, at, END
        if end - at <= _HEADER_UP_TO_MAGIC:
            return found, at, TRUNCATED
        length = read_i32(source, at + 8)
        if length < 14:
            return found, at, BAD_SIZE
        if length > end - at - _OVERHEAD:
            return found, at, TRUNCATED
        magic = np.int64(source[at + 16])
        if magic >= 0x80:
            return found, at, BAD_MAGIC
        if magic > 2:
            return found, at, UNKNOWN_MAGIC
        if (magic == 1 and length < 22) or (magic == 2 and length < 49):
            return found, at, BAD_SIZE
        if found == len(positions):
            return found, at, FULL
        positions[found] = at
        sizes[found] = length + _OVERHEAD
        magics[found] = magic
        at += length + _OVERHEAD
    return len(positions), at, FULL  # unreachable: the last round above always returns


@jit
def walk_positions(
    source: Bytes, start: int, positions: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> tuple[int, int, int]:
    """Fill position and size (with the 4 bytes before the message) of each whole entry of 0.7 from ``start`` on.

    The length of the two arrays is the largest number of entries to find. Returns the number of entries found, the
    position after the last one, and why the walk stopped there. Checks no checksum.
    """
    at = start
    end = len(source)
    for found in range(len(positions) + 1):
        if at == end:
            return found, at, END
        if end - at < _SIZE_BYTES:
            return found, at, TRUNCATED
        size = read_i32(source, at)
        if size < _MESSAGE_BYTES_MIN:
            return found, at, BAD_SIZE
        if size > end - at - _SIZE_BYTES:
            return found, at, TRUNCATED
        magic = np.int64(source[at + _SIZE_BYTES])
        if magic >= 0x80:
            return found, at, BAD_MAGIC
        if magic > 1:
            return found, at, UNKNOWN_MAGIC
        if magic == 1 and size == _MESSAGE_BYTES_MIN:
            return found, at, NO_CHECKSUM
        if found == len(positions):
            return found, at, FULL
        positions[found] = at
        sizes[found] = size + _SIZE_BYTES
        at += size + _SIZE_BYTES
    return len(positions), at, FULL  # unreachable: the last round above always returns


@jit
def spaced(starts: npt.NDArray[np.int64], after: int, interval: int, rows: npt.NDArray[np.int64]) -> int:
    """Choose numbers from ``starts``, which ascend, with gaps above ``interval``; returns how many were chosen.

    The first one chosen is the first above ``after``; each further one is more than ``interval`` above the one before.
    Their indices are written to ``rows``, which is as long as ``starts``.
    """
    found = 0
    for i in range(len(starts)):
        if starts[i] > after:
            rows[found] = i
            found += 1
            after = starts[i] + interval
    return found


@jit
def running_largest(
    timestamps: npt.NDArray[np.int64],
    last_offsets: npt.NDArray[np.int64],
    largest: int,
    offset: int,
    running: npt.NDArray[np.int64],
    reached: npt.NDArray[np.int64],
) -> None:
    """Fill in, for each batch, the largest timestamp so far and the last offset of the first batch with it.

    Before the first batch these are ``largest`` and ``offset``. All arrays have the same length.
    """
    for i in range(len(timestamps)):
        if timestamps[i] > largest:
            largest, offset = timestamps[i], last_offsets[i]
        running[i], reached[i] = largest, offset
