"""Columns to the records of magic 2: one loop cuts rows into batches and leaves room for a header before each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pyspark_commitlog.storage.kernels import Bytes, jit
from pyspark_commitlog.storage.kernels.memory import copy_bytes
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

# In place of a base.
CONSECUTIVE = -(2**63)
OF_FIRST = -(2**63)


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
def write_batches(
    source: Source,
    rows: Int64s,
    base_offset: int,
    base_timestamp: int,
    header_bytes: int,
    batch_bytes_max: int,
    target: Bytes,
    batches: Int64s,
) -> int:
    """Write the rows in their order; a batch ends before the record that would take it above ``batch_bytes_max``.

    ``base_offset``: what offset deltas count from; CONSECUTIVE: 0, 1, 2 … in each batch, whatever the offsets are.
    ``base_timestamp``: what timestamp deltas count from; OF_FIRST: the first record's, batch by batch. ``target`` has
    room for everything, ``batches``, shape (at least rows, BATCH_FIELDS), for a batch a row, and is zero at START.
    Returns the batches written.
    """
    found = 0
    at = np.int64(header_bytes)
    first = 0
    for i in range(len(rows)):
        row = rows[i]
        base = source.timestamps[rows[first]] if base_timestamp == OF_FIRST else base_timestamp
        delta = i - first if base_offset == CONSECUTIVE else source.offsets[row] - base_offset
        body = _body_size(source, row, source.timestamps[row] - base, delta)
        if i > first and at + body + size_of(body) - batches[found, START] - header_bytes > batch_bytes_max:
            _end_batch(batches, found, at, i - first)
            found += 1
            batches[found, START] = at
            at += header_bytes
            first = i
            base = source.timestamps[row] if base_timestamp == OF_FIRST else base_timestamp
            delta = 0 if base_offset == CONSECUTIVE else source.offsets[row] - base_offset
            body = _body_size(source, row, source.timestamps[row] - base, delta)
        if i == first:
            batches[found, FIRST_ROW] = i
            batches[found, BASE_TIMESTAMP] = base
            batches[found, MAX_TIMESTAMP] = source.timestamps[row]
        batches[found, MAX_TIMESTAMP] = max(batches[found, MAX_TIMESTAMP], source.timestamps[row])
        at = _write_record(source, row, source.timestamps[row] - base, delta, body, target, at)
    if len(rows) == 0:
        return 0
    _end_batch(batches, found, at, len(rows) - first)
    return found + 1


@jit
def _end_batch(batches: Int64s, found: int, at: int, count: int) -> None:
    batches[found, END] = at
    batches[found, COUNT] = count


@jit
def _is_null(valid: Bools, row: int) -> bool:
    return len(valid) > 0 and not valid[row]


@jit
def _string_size(offsets: Int32s, valid: Bools, row: int) -> int:
    """Bytes that a string takes with the length before it."""
    if _is_null(valid, row):
        return 1
    size = np.int64(offsets[row + 1]) - offsets[row]
    return size_of(size) + size


@jit
def _body_size(source: Source, row: int, timestamp_delta: int, offset_delta: int) -> int:
    size = 1 + size_of(timestamp_delta) + size_of(offset_delta)
    size += _string_size(source.key_offsets, source.key_valid, row)
    size += _string_size(source.value_offsets, source.value_valid, row)
    if len(source.header_offsets) == 0:
        return size + 1
    first = source.header_offsets[row]
    last = source.header_offsets[row + 1]
    size += size_of(last - first)
    for i in range(first, last):
        size += np.int64(_string_size(source.header_key_offsets, source.header_value_valid[:0], i))
        size += _string_size(source.header_value_offsets, source.header_value_valid, i)
    return size


@jit
def _write_string(data: Bytes, offsets: Int32s, valid: Bools, row: int, target: Bytes, at: int) -> int:
    if _is_null(valid, row):
        return write(target, at, -1)
    start = np.int64(offsets[row])
    size = np.int64(offsets[row + 1]) - start
    at = write(target, at, size)
    copy_bytes(target, at, data, start, size)
    return at + size


@jit
def _write_record(
    source: Source, row: int, timestamp_delta: int, offset_delta: int, body: int, target: Bytes, at: int
) -> int:
    at = write(target, at, body)
    target[at] = 0  # attributes
    at = write(target, at + 1, timestamp_delta)
    at = write(target, at, offset_delta)
    at = _write_string(source.key_data, source.key_offsets, source.key_valid, row, target, at)
    at = _write_string(source.value_data, source.value_offsets, source.value_valid, row, target, at)
    if len(source.header_offsets) == 0:
        target[at] = 0
        return at + 1
    first = source.header_offsets[row]
    last = source.header_offsets[row + 1]
    at = write(target, at, last - first)
    for i in range(first, last):
        at = _write_string(
            source.header_key_data, source.header_key_offsets, source.header_value_valid[:0], i, target, at
        )
        at = _write_string(
            source.header_value_data, source.header_value_offsets, source.header_value_valid, i, target, at
        )
    return at
