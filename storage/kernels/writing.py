"""Encodes columns to records of magic 2.

One loop sorts rows by share, cuts them into batches and leaves space for headers. Indices are unsigned; varint.py has
the reason.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import Bytes
from .compiling import inlined, jit
from .memory import BLOCK_BYTES, append_blocks, copy_bytes
from .varint import size_of, write

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

# Columns of the table of batches that are written.
START = 0  # position in the target of the space for the header
END = 1  # end of the last record
COUNT = 2
BASE_TIMESTAMP = 3
MAX_TIMESTAMP = 4
FULL_AT = 5  # the position at which it must end
BATCH_FIELDS = 6

DELTAS_BYTES_MAX = 5 + 10 + 5  # most bytes of a record's length and of its fields that depend on the batch
PLAIN_FIELDS_BYTES_MAX = DELTAS_BYTES_MAX + 1 + 5 + 5 + 1  # of a record without headers, except key and value bytes

BEHIND = BLOCK_BYTES  # bytes after the last record of a share that may be overwritten with anything

# In place of a base.
CONSECUTIVE = -(2**63)
OF_FIRST = -(2**63)


class Cut(NamedTuple):
    """How to divide rows into batches."""

    base_offset: int  # base of offset deltas; CONSECUTIVE: deltas 0, 1, 2 … in each batch, whatever the offsets
    base_timestamp: int  # base of timestamp deltas; OF_FIRST: the first record's timestamp, batch by batch
    header_bytes: int  # space before the records of each batch
    batch_bytes_max: int  # limit of records' bytes in a batch; a single record may exceed it


class Source(NamedTuple):
    """Columns to write. An empty ``valid`` means no nulls, empty ``header_offsets`` no headers."""

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


def add_sizes(source: Source, shares: Int32s, sizes: Int64s) -> int:
    """Add to ``sizes``, shape (shares, 2), the number of rows of each share and the most bytes that their records take.

    Returns the number of rows read: it stops at the first row of a share that does not exist.
    """
    return _add_sizes(shares, sizes, *source)


# Arrays are passed one by one; records.py has the reason.
@jit
def _add_sizes(shares: Int32s, sizes: Int64s, *columns: Any) -> int:
    source = Source(*columns)
    for row in range(len(shares)):
        share = shares[row]
        if share >= len(sizes):
            return row
        if share >= 0:
            sizes[np.uint64(share), 0] += 1
            sizes[np.uint64(share), 1] += _size_at_most(source, row)
    return len(shares)


def write_batches(source: Source, shares: Int32s, cut: Cut, target: Bytes, batches: Int64s, opened: Int64s) -> None:
    """Encode each row as a record, and write it to ``target`` after the earlier records of the row's share.

    ``shares``, shape (rows,), holds the share of each row; rows with a share below zero are skipped. Each share has its
    own space in ``target``. The ``BEHIND`` bytes after its last record may be overwritten: no other share may use them.

    A batch ends before the record that would take it above ``cut.batch_bytes_max``. ``batches``, shape (enough,
    BATCH_FIELDS), holds the batches of each share in adjacent rows, and ``opened``, shape (shares,), the row of each
    share's open batch. Before the first call, that row must be a full batch without records that ends where the
    share's space begins. Later calls continue where this one ends.
    """
    _write_batches(shares, target, batches, opened, Cut(*cut), *source)  # a Cut of plain/ would be compiled again


@jit
def _write_batches(shares: Int32s, target: Bytes, batches: Int64s, opened: Int64s, cut: Cut, *columns: Any) -> None:
    source = Source(*columns)
    for row in range(len(shares)):
        if shares[row] < 0:
            continue
        share = np.uint64(shares[row])
        open_ = np.uint64(opened[share])
        at, count, base = batches[open_, END], batches[open_, COUNT], batches[open_, BASE_TIMESTAMP]
        fixed, timestamp = _fixed_size(source, row), source.timestamps[np.uint64(row)]
        delta = count if cut.base_offset == CONSECUTIVE else source.offsets[row] - cut.base_offset
        body = fixed + size_of(timestamp - base) + size_of(delta)
        if at + size_of(body) + body > batches[open_, FULL_AT]:
            open_ = np.uint64(open_ + 1)
            opened[share] = open_
            batches[open_, START] = at
            at, count = at + cut.header_bytes, np.int64(0)
            base = timestamp if cut.base_timestamp == OF_FIRST else np.int64(cut.base_timestamp)
            batches[open_, FULL_AT] = at + cut.batch_bytes_max
            batches[open_, BASE_TIMESTAMP], batches[open_, MAX_TIMESTAMP] = base, timestamp
            delta = count if cut.base_offset == CONSECUTIVE else delta
            body = fixed + size_of(timestamp - base) + size_of(delta)
        at = write(target, at, body)
        target[np.uint64(at)] = 0  # attributes
        at = write(target, at + 1, timestamp - base)
        at = _write_content(source, row, target, write(target, at, delta))
        batches[open_, MAX_TIMESTAMP] = max(batches[open_, MAX_TIMESTAMP], timestamp)
        batches[open_, COUNT], batches[open_, END] = count + 1, at


@inlined
def _size_at_most(source: Source, row: int) -> int:
    """The most bytes that a record takes. Without headers, not computing the sizes of lengths saves half the time."""
    if len(source.header_offsets) > 0:
        return _fixed_size(source, row) + DELTAS_BYTES_MAX
    first, after = np.uint64(row), np.uint64(row + 1)
    strings = np.int64(source.key_offsets[after]) - source.key_offsets[first]
    return strings + source.value_offsets[after] - source.value_offsets[first] + PLAIN_FIELDS_BYTES_MAX


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
    size = np.int64(offsets[np.uint64(row + 1)]) - offsets[np.uint64(row)]
    return size_of(size) + size


@inlined
def _write_content(source: Source, row: int, target: Bytes, at: int) -> int:
    """Write key, value and headers of a row; returns the position after them."""
    at = _write_string(source.key_data, source.key_offsets, source.key_valid, row, target, at)
    at = _write_string(source.value_data, source.value_offsets, source.value_valid, row, target, at)
    if len(source.header_offsets) == 0:
        target[np.uint64(at)] = 0
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
    start = np.int64(offsets[np.uint64(row)])
    size = np.int64(offsets[np.uint64(row + 1)]) - start
    at = write(target, at, size)
    if start + size + BLOCK_BYTES <= len(data):
        append_blocks(target, at, data, start, size)
    else:
        copy_bytes(target, at, data, start, size)
    return at + size
