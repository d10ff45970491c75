"""Columns to the records of magic 2: one loop cuts rows into batches and leaves room for a header before each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pyspark_commitlog.storage.kernels import Bytes
from pyspark_commitlog.storage.kernels.compiling import jit
from pyspark_commitlog.storage.kernels.memory import copy_bytes, prefetch
from pyspark_commitlog.storage.kernels.varint import bytes_behind, size_of, write

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

# Columns of the table of batches that were written.
START = 0  # of the room for the header, in the target
END = 1  # behind the last record
FIRST_ROW = 2  # place in ``rows`` of the first record
COUNT = 3
BASE_TIMESTAMP = 4
MAX_TIMESTAMP = 5
BATCH_FIELDS = 6

AHEAD = 8  # rows: theirs lie apart, where the processor does not look by itself; without it this takes twice as long
CACHE_LINE_BYTES = 64

# In place of a base.
CONSECUTIVE = -(2**63)
OF_FIRST = -(2**63)


class Cut(NamedTuple):
    """How rows become batches."""

    base_offset: int  # what offset deltas count from; CONSECUTIVE: 0, 1, 2 … in each batch, whatever the offsets are
    base_timestamp: int  # what timestamp deltas count from; OF_FIRST: the first record's, batch by batch
    header_bytes: int  # of room before the records of each batch
    batch_bytes_max: int  # of records in a batch; one record may exceed it


class Source(NamedTuple):
    """Columns to write. An empty ``valid`` says that nothing is null, empty ``header_offsets`` that there are none."""

    offsets: Int64s  # shape (n,)
    timestamps: Int64s  # shape (n,)
    key_data: Bytes
    key_offsets: Int32s  # shape (n + 1,)
    key_valid: Bools
    value_data: Bytes
    value_offsets: Int32s
    value_valid: Bools
    header_offsets: Int32s
    header_key_data: Bytes
    header_key_offsets: Int32s
    header_value_data: Bytes
    header_value_offsets: Int32s
    header_value_valid: Bools


@jit
def bytes_at(offsets: Int32s, rows: Int64s) -> int:
    """Bytes of the strings at ``rows``; one named twice is written twice."""
    size = np.int64(0)
    for i in range(len(rows)):
        size += np.int64(offsets[rows[i] + 1]) - offsets[rows[i]]
    return size


def write_batches(source: Source, rows: Int64s, ends: Int64s, cut: Cut, target: Bytes, batches: Int64s) -> int:
    """Write the rows in their order; a batch ends before the record that would take it above ``cut.batch_bytes_max``,
    and before each of ``ends``: places in ``rows`` that do not fall, the last behind all of them.

    ``target`` has room for everything, ``batches``, shape (at least rows, BATCH_FIELDS), for a batch a row, and is zero
    at START. Returns the batches written.
    """
    return _write_batches(*source, rows, ends, *cut, target, batches)


# The arrays are arguments of their own for the reason that records.py gives.
@jit
def _write_batches(  # noqa: PLR0915  one loop, see above
    offsets: Int64s,
    timestamps: Int64s,
    key_data: Bytes,
    key_offsets: Int32s,
    key_valid: Bools,
    value_data: Bytes,
    value_offsets: Int32s,
    value_valid: Bools,
    header_offsets: Int32s,
    header_key_data: Bytes,
    header_key_offsets: Int32s,
    header_value_data: Bytes,
    header_value_offsets: Int32s,
    header_value_valid: Bools,
    rows: Int64s,
    ends: Int64s,
    base_offset: int,
    base_timestamp: int,
    header_bytes: int,
    batch_bytes_max: int,
    target: Bytes,
    batches: Int64s,
) -> int:
    found = -1
    at = np.int64(0)
    full_at = np.int64(-1)  # where the open batch must end; below ``at``: there is none
    first = 0
    base = np.int64(0)
    has_headers = len(header_offsets) > 0
    share, share_end = 0, np.int64(0)
    for i in range(len(rows)):
        if i == share_end:
            while ends[share] == i:
                share += 1
            share_end = ends[share]
            full_at = np.int64(-1)
        row = rows[i]
        later = rows[min(i + AHEAD, len(rows) - 1)]
        prefetch(key_data, np.int64(key_offsets[later]))
        prefetch(value_data, np.int64(value_offsets[later]))
        prefetch(value_data, np.int64(value_offsets[later]) + CACHE_LINE_BYTES)
        key_size = np.int64(-1)
        if len(key_valid) == 0 or key_valid[row]:
            key_size = np.int64(key_offsets[row + 1]) - key_offsets[row]
        value_size = np.int64(-1)
        if len(value_valid) == 0 or value_valid[row]:
            value_size = np.int64(value_offsets[row + 1]) - value_offsets[row]
        fixed = 1 + size_of(key_size) + bytes_behind(key_size) + size_of(value_size) + bytes_behind(value_size)
        if has_headers:
            first_header, last_header = np.int64(header_offsets[row]), np.int64(header_offsets[row + 1])
            fixed += size_of(last_header - first_header) + _headers_size(
                header_key_offsets, header_value_offsets, header_value_valid, first_header, last_header
            )
        else:
            fixed += 1
        delta = i - first if base_offset == CONSECUTIVE else offsets[row] - base_offset
        body = fixed + size_of(timestamps[row] - base) + size_of(delta)
        if at + size_of(body) + body > full_at:
            found += 1
            first = i
            batches[found, START] = at
            at += header_bytes
            full_at = at + batch_bytes_max
            base = timestamps[row] if base_timestamp == OF_FIRST else np.int64(base_timestamp)
            delta = 0 if base_offset == CONSECUTIVE else offsets[row] - base_offset
            body = fixed + size_of(timestamps[row] - base) + size_of(delta)
            batches[found, FIRST_ROW] = i
            batches[found, BASE_TIMESTAMP] = base
            batches[found, MAX_TIMESTAMP] = timestamps[row]
        at = write(target, at, body)
        target[at] = 0  # attributes
        at = write(target, at + 1, timestamps[row] - base)
        at = write(target, at, delta)
        at = write(target, at, key_size)
        copy_bytes(target, at, key_data, np.int64(key_offsets[row]), bytes_behind(key_size))
        at = write(target, at + bytes_behind(key_size), value_size)
        copy_bytes(target, at, value_data, np.int64(value_offsets[row]), bytes_behind(value_size))
        at += bytes_behind(value_size)
        if has_headers:
            at = write(target, at, last_header - first_header)
            for h in range(first_header, last_header):
                at = _write_string(header_key_data, header_key_offsets, header_value_valid[:0], h, target, at)
                at = _write_string(header_value_data, header_value_offsets, header_value_valid, h, target, at)
        else:
            target[at] = 0
            at += 1
        batches[found, MAX_TIMESTAMP] = max(batches[found, MAX_TIMESTAMP], timestamps[row])
        batches[found, COUNT] = i - first + 1
        batches[found, END] = at
    return found + 1


@jit
def _headers_size(key_offsets: Int32s, value_offsets: Int32s, value_valid: Bools, first: int, last: int) -> int:
    size = 0
    for h in range(first, last):
        key_size = np.int64(key_offsets[h + 1]) - key_offsets[h]
        value_size = np.int64(-1)
        if len(value_valid) == 0 or value_valid[h]:
            value_size = np.int64(value_offsets[h + 1]) - value_offsets[h]
        size += size_of(key_size) + key_size + size_of(value_size) + bytes_behind(value_size)
    return size


@jit
def _write_string(data: Bytes, offsets: Int32s, valid: Bools, row: int, target: Bytes, at: int) -> int:
    if len(valid) > 0 and not valid[row]:
        return write(target, at, -1)
    start = np.int64(offsets[row])
    size = np.int64(offsets[row + 1]) - start
    at = write(target, at, size)
    copy_bytes(target, at, data, start, size)
    return at + size
