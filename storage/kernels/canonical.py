"""Checks in one pass whether records are encoded as every usual writer encodes them ("canonical").

:func:`are_canonical` answers for all in one pass that replaces decoding and further checks. Most records are canonical,
and then the full checks (:func:`records.fill`, :func:`find_oddities`, the order of offsets, the largest timestamp)
would find nothing. Other records need not be damaged: the full checks decide. :func:`survey` does the same for the
records of one batch that a client sent. :func:`find_oddities` finds what readers of magic 2 ignore: attribute bits
without a meaning, and numbers with padding bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .arrays import Bytes
from .compiling import inlined, jit
from .records import BASE_OFFSET, BASE_TIMESTAMP, COUNT, FIXED_TIMESTAMP, START, STOP, TIMESTAMP_TYPE
from .varint import bytes_after, read_varint, read_varlong

Int64s = npt.NDArray[np.int64]

HAS_ATTRIBUTES = 1
IS_PADDED = 2
_ODD = -3  # in place of a position
_NO_TIMESTAMP = -1
LATEST = 2**63 - 1
EARLIEST = -(2**63)


@jit
def are_canonical(source: Bytes, batches: Int64s, last_offsets: Int64s) -> bool:
    """Whether all records of ``batches``, shape (n, BATCH_FIELDS) as for :func:`records.fill`, are canonical.

    Records are complete, without extra bytes, attribute bits or padded numbers; offsets increase from record to record,
    at most up to the batch's in ``last_offsets``; and the largest timestamp equals the batch's.
    """
    for b in range(len(batches)):
        at, stop = batches[b, START], batches[b, STOP]
        above, largest = np.int64(-1), np.int64(-(2**63))
        for _ in range(batches[b, COUNT]):
            at, timestamp_delta, delta, _key = _read_record(source, at, stop)
            if at < 0 or delta <= above:
                return False
            above, largest = delta, max(largest, timestamp_delta)
        if at != stop or batches[b, BASE_OFFSET] + above > last_offsets[b]:
            return False
        is_told = batches[b, COUNT] > 0 and batches[b, TIMESTAMP_TYPE] == 0
        if is_told and batches[b, BASE_TIMESTAMP] + largest != batches[b, FIXED_TIMESTAMP]:
            return False
    return True


@jit
def survey(
    source: Bytes, start: int, stop: int, first: int, count: int, base_timestamp: int
) -> tuple[int, int, int, int, int]:
    """Reads canonical records with the offset deltas ``first``, ``first + 1``, … up to ``count - 1``.

    Returns the position and the index of the first record in ``source[start:stop]`` that is not canonical or not whole:
    ``stop`` and ``count`` if all are fine and nothing follows. For the records before, also returns the largest
    timestamp, the smallest one other than -1 (``LATEST`` if there is none), and the number of records without a key.
    """
    at, largest, smallest, keyless = start, np.int64(EARLIEST), np.int64(LATEST), np.int64(0)
    for i in range(first, count):
        after, timestamp_delta, delta, key_size = _read_record(source, at, stop)
        if after < 0 or delta != i:
            return at, i, largest, smallest, keyless
        at = after
        timestamp = np.int64(base_timestamp) + timestamp_delta
        largest = max(largest, timestamp)
        if timestamp != _NO_TIMESTAMP:
            smallest = min(smallest, timestamp)
        if key_size < 0:
            keyless += 1
    return at, count, largest, smallest, keyless


@inlined
def _read_record(source: Bytes, at: int, stop: int) -> tuple[int, int, int, int]:
    """Reads the canonical record at ``at``: its end, the deltas of its timestamp and offset, and the size of its key.

    The end is negative if the record is not canonical or does not end by ``stop``.
    """
    size, at = _read(source, at, stop)
    end = at + size
    if at < 0 or size < 1 or size > stop - at or source[at] != 0:
        return np.int64(_ODD), np.int64(0), np.int64(0), np.int64(0)
    timestamp_delta, at = _read(source, at + 1, end)
    delta, at = _read(source, at, end)
    key_size, at = _read(source, at, end)
    if at < 0 or key_size < -1 or key_size > end - at:
        return np.int64(_ODD), timestamp_delta, delta, key_size
    at = _after_string(source, at + bytes_after(key_size), end, -1)
    header_count, at = _read(source, at, end)
    if at < 0 or header_count < 0 or header_count > end - at:
        return np.int64(_ODD), timestamp_delta, delta, key_size
    for _ in range(header_count):
        at = _after_string(source, at, end, 0)
        at = _after_string(source, at, end, -1)
    return end if at == end else np.int64(_ODD), timestamp_delta, delta, key_size


@jit
def _read(source: Bytes, at: int, end: int) -> tuple[int, int]:
    """Reads a number: returns it and the position after it, which is negative if the number has padding bytes.

    Returns a negative ``at`` unchanged.
    """
    value, after = read_varlong(source, at, end)
    if after > at + 1 and source[after - 1] == 0:
        return value, np.int64(_ODD)
    return value, after


@jit
def _after_string(source: Bytes, at: int, end: int, size_min: int) -> int:
    size, at = _read(source, at, end)
    if at < 0 or size < size_min or size > end - at:
        return np.int64(_ODD)
    return at + bytes_after(size)


@jit
def find_oddities(source: Bytes, batches: Int64s, found: npt.NDArray[np.uint8]) -> None:
    """Set in ``found``, shape (n,), the bits that name each batch's oddities.

    :func:`records.fill` accepts ``batches``.
    """
    for b in range(len(batches)):
        at = batches[b, START]
        stop = batches[b, STOP]
        bits = 0
        for _ in range(batches[b, COUNT]):
            start = at
            while source[at] >= 0x80:  # the length, not needed: a valid record ends with its last field
                at += 1
            bits |= _padding(source, start, at + 1)
            if source[at + 1] != 0:
                bits |= HAS_ATTRIBUTES
            at += 2
            for _ in range(2):  # timestamp delta and offset delta
                start = at
                while source[at] >= 0x80:
                    at += 1
                at += 1
                bits |= _padding(source, start, at)
            for _ in range(2):  # key and value
                start = at
                size, at = read_varint(source, start, stop)
                bits |= _padding(source, start, at)
                at += bytes_after(size)
            start = at
            count, at = read_varint(source, start, stop)
            bits |= _padding(source, start, at)
            for _ in range(2 * count):  # names and values
                start = at
                size, at = read_varint(source, start, stop)
                bits |= _padding(source, start, at)
                at += bytes_after(size)
        found[b] = bits


@jit
def _padding(source: Bytes, start: int, stop: int) -> int:
    """Returns IS_PADDED if the last byte of the number in ``[start, stop)`` is padding, else 0."""
    return IS_PADDED if stop - start > 1 and source[stop - 1] == 0 else 0
