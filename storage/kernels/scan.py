"""The walk over batches: one loop for all magics, since offset, length and magic lie in the same place in each.

It looks at nothing but length and magic, as Kafka's ``FileLogInputStream`` does: whether a batch is sound is asked by
its checksum, later.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyspark_commitlog.storage.kernels import Bytes, jit

# Why a walk stopped.
END = 0  # exactly behind the last batch
TRUNCATED = 1  # the rest is shorter than a header, or than the batch it begins
BAD_SIZE = 2  # a length smaller than any entry of its magic
BAD_MAGIC = 3  # a magic below zero
UNKNOWN_MAGIC = 4  # a magic above 2: a format from the future
FULL = 5  # as many batches as were asked for

_OVERHEAD = 12  # offset and length
_HEADER_UP_TO_MAGIC = 17


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

    The three arrays have the length of the most batches wanted. Returns batches found, the position behind the last of
    them, and why the walk stopped there.
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
    return len(positions), at, FULL  # never reached: the last round above always returns
