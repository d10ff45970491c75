"""Columns to the records of magic 2: one loop cuts rows into batches and leaves room for a header before each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyspark_commitlog.storage.kernels import Bytes
from pyspark_commitlog.storage.kernels.compiling import inlined, jit
from pyspark_commitlog.storage.kernels.memory import copy_bytes, prefetch
from pyspark_commitlog.storage.kernels.varint import size_of, write

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
    return _write_batches(rows, ends, target, batches, cut, *source)


# The arrays go in one by one for the reason that records.py gives.
@jit
def _write_batches(rows: Int64s, ends: Int64s, target: Bytes, batches: Int64s, cut: Cut, *columns: Any) -> int:
    source = Source(*columns)
    found, first, share = -1, 0, 0
    at, base, share_end = np.int64(0), np.int64(0), np.int64(0)
    full_at = np.int64(-1)  # where the open batch must end; below ``at``: there is none
    for i in range(len(rows)):
        if i == share_end:
            while ends[share] == i:
                share += 1
            share_end = ends[share]
            full_at = np.int64(-1)
        row = rows[i]
        _look_at(source, rows[min(i + AHEAD, len(rows) - 1)])
        fixed = _fixed_size(source, row)
        timestamp = source.timestamps[row]
        delta = i - first if cut.base_offset == CONSECUTIVE else source.offsets[row] - cut.base_offset
        body = fixed + size_of(timestamp - base) + size_of(delta)
        if at + size_of(body) + body > full_at:
            found += 1
            first = i
            batches[found, START] = at
            at += cut.header_bytes
            full_at = at + cut.batch_bytes_max
            base = timestamp if cut.base_timestamp == OF_FIRST else np.int64(cut.base_timestamp)
            delta = 0 if cut.base_offset == CONSECUTIVE else delta
            body = fixed + size_of(timestamp - base) + size_of(delta)
            batches[found, FIRST_ROW] = i
            batches[found, BASE_TIMESTAMP] = base
            batches[found, MAX_TIMESTAMP] = timestamp
        at = write(target, at, body)
        target[at] = 0  # attributes
        at = write(target, at + 1, timestamp - base)
        at = _write_content(source, row, target, write(target, at, delta))
        batches[found, MAX_TIMESTAMP] = max(batches[found, MAX_TIMESTAMP], timestamp)
        batches[found, COUNT] = i - first + 1
        batches[found, END] = at
    return found + 1


@inlined
def _look_at(source: Source, row: int) -> None:
    """Bring the content of a row into the cache."""
    prefetch(source.key_data, np.int64(source.key_offsets[row]))
    prefetch(source.value_data, np.int64(source.value_offsets[row]))
    prefetch(source.value_data, np.int64(source.value_offsets[row]) + CACHE_LINE_BYTES)


@inlined
def _fixed_size(source: Source, row: int) -> int:
    """Bytes of a record that do not depend on its batch: attributes, key, value, headers."""
    size = 1 + _string_size(source.key_offsets, source.key_valid, row)
    size += _string_size(source.value_offsets, source.value_valid, row)
    if len(source.header_offsets) == 0:
        return size + 1
    first, last = np.int64(source.header_offsets[row]), np.int64(source.header_offsets[row + 1])
    size += size_of(last - first)
    for h in range(first, last):
        size += _string_size(source.header_key_offsets, source.header_value_valid[:0], h)
        size += _string_size(source.header_value_offsets, source.header_value_valid, h)
    return size


@jit
def _string_size(offsets: Int32s, valid: Bools, row: int) -> int:
    if len(valid) > 0 and not valid[row]:
        return 1
    size = np.int64(offsets[row + 1]) - offsets[row]
    return size_of(size) + size


@inlined
def _write_content(source: Source, row: int, target: Bytes, at: int) -> int:
    """Key, value and headers of a row; the position behind them."""
    at = _write_string(source.key_data, source.key_offsets, source.key_valid, row, target, at)
    at = _write_string(source.value_data, source.value_offsets, source.value_valid, row, target, at)
    if len(source.header_offsets) == 0:
        target[at] = 0
        return at + 1
    first, last = np.int64(source.header_offsets[row]), np.int64(source.header_offsets[row + 1])
    at = write(target, at, last - first)
    valid = source.header_value_valid
    for h in range(first, last):
        at = _write_string(source.header_key_data, source.header_key_offsets, valid[:0], h, target, at)
        at = _write_string(source.header_value_data, source.header_value_offsets, valid, h, target, at)
    return at


@jit
def _write_string(data: Bytes, offsets: Int32s, valid: Bools, row: int, target: Bytes, at: int) -> int:
    if len(valid) > 0 and not valid[row]:
        return write(target, at, -1)
    start = np.int64(offsets[row])
    size = np.int64(offsets[row + 1]) - start
    at = write(target, at, size)
    copy_bytes(target, at, data, start, size)
    return at + size
