"""Tests whether records are encoded as every writer encodes them: one pass that replaces decoding and further checks.

Most records are, and then the full checks (:func:`records.fill`, :mod:`.oddities`, the order of offsets, the largest
timestamp) would find nothing. Records that are not plain need not be damaged: the full checks decide.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyspark_commitlog.storage.kernels import Bytes
from pyspark_commitlog.storage.kernels.compiling import jit
from pyspark_commitlog.storage.kernels.records import (
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    FIXED_TIMESTAMP,
    START,
    STOP,
    TIMESTAMP_TYPE,
)
from pyspark_commitlog.storage.kernels.varint import bytes_behind, read_varlong

Int64s = npt.NDArray[np.int64]

_ODD = -3  # in place of a position


@jit
def are_plain(source: Bytes, batches: Int64s, last_offsets: Int64s) -> bool:
    """Whether all records of ``batches``, shape (n, BATCH_FIELDS) as for :func:`records.fill`, are plain.

    Records are complete, without extra bytes, attribute bits or padded numbers; offsets increase from record to record,
    at most up to the batch's in ``last_offsets``; and the largest timestamp equals the batch's.
    """
    for b in range(len(batches)):
        at, stop = batches[b, START], batches[b, STOP]
        above, largest = np.int64(-1), np.int64(-(2**63))
        for _ in range(batches[b, COUNT]):
            size, at = _read(source, at, stop)
            end = at + size
            if at < 0 or size < 1 or end > stop or source[at] != 0:
                return False
            timestamp_delta, at = _read(source, at + 1, end)
            delta, at = _read(source, at, end)
            at = _behind_string(source, at, end, -1)
            at = _behind_string(source, at, end, -1)
            header_count, at = _read(source, at, end)
            if at < 0 or delta <= above or header_count < 0 or header_count > end - at:
                return False
            for _ in range(header_count):
                at = _behind_string(source, at, end, 0)
                at = _behind_string(source, at, end, -1)
            if at != end:
                return False
            above, largest = delta, max(largest, timestamp_delta)
        if at != stop or batches[b, BASE_OFFSET] + above > last_offsets[b]:
            return False
        is_told = batches[b, COUNT] > 0 and batches[b, TIMESTAMP_TYPE] == 0
        if is_told and batches[b, BASE_TIMESTAMP] + largest != batches[b, FIXED_TIMESTAMP]:
            return False
    return True


@jit
def _read(source: Bytes, at: int, end: int) -> tuple[int, int]:
    """A number without padding bytes; passes a negative position through."""
    value, behind = read_varlong(source, at, end)
    if behind > at + 1 and source[behind - 1] == 0:
        return value, np.int64(_ODD)
    return value, behind


@jit
def _behind_string(source: Bytes, at: int, end: int, size_min: int) -> int:
    size, at = _read(source, at, end)
    if at < 0 or size < size_min or size > end - at:
        return np.int64(_ODD)
    return at + bytes_behind(size)
