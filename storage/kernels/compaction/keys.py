"""Records of magic 2 for compaction: the hash of each key, and the position of the rest of each record.

The bytes after a record's timestamp are the same in every batch with the same base offset, so compaction copies them
and parses only the key.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Bytes
from ..compiling import jit
from ..memory import copy_bytes
from ..records import (
    BAD_STRUCTURE,
    BASE_OFFSET,
    COUNT,
    FAILED_RECORD,
    FINE,
    ROWS,
    START,
    STOP,
    TRAILING_BYTES,
    close_record,
    open_record,
    read_size,
    timestamps_in,
)
from ..varint import bytes_after, read_varint, read_varlong, size_of, write
from .offset_map import siphash

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Uint64s = npt.NDArray[np.uint64]

# Columns of the table of records.
TIMESTAMP = 0  # as readers see it
REST = 1  # position in the source of the bytes after the timestamp
REST_STOP = 2  # end of the record
SPAN_FIELDS = 3

# Columns of the table of batches to copy.
FIRST_ROW = 0  # index in the rows of the batch's first record
STOP_ROW = 1  # index after its last record, above FIRST_ROW
NEW_BASE_TIMESTAMP = 2  # a timestamp, or OF_FIRST
PLAN_FIELDS = 3

OF_FIRST = -(2**63)

# Columns of the table of batches that were copied.
COPY_START = 0  # position in the target of the space for the header
COPY_STOP = 1  # end of the last record
COPY_BASE_TIMESTAMP = 2
COPY_MAX_TIMESTAMP = 3
COPY_FIELDS = 4


@jit
def read_keys(
    source: Bytes,
    batches: Int64s,
    secret: Uint64s,
    hashes: Uint64s,
    offsets: Int64s,
    has_key: Bools,
    has_value: Bools,
    spans: Int64s,
    state: Int64s,
) -> tuple[int, int]:
    """Read the records of ``batches``, shape (n, BATCH_FIELDS), into the other arrays, which have a row per record.

    Checks, their order, ``state`` and the results are those of :func:`records.fill`. Leaves the hash of a null key as
    it is; hashes no key if ``hashes`` is empty.
    """
    row = state[ROWS]
    is_hashing = len(hashes) > 0
    for b in range(len(batches)):
        at = batches[b, START]
        base_timestamp, delta_mask = timestamps_in(batches, b)
        for i in range(batches[b, COUNT]):
            state[FAILED_RECORD] = i
            reason, at, end = open_record(source, at, batches[b, STOP])
            if reason != FINE:
                return b, reason
            timestamp_delta, rest = read_varlong(source, at, end)
            offset_delta, at = read_varint(source, rest, end)
            key_size, at = read_size(source, at, end)
            if at < 0:
                return b, BAD_STRUCTURE
            if is_hashing and key_size >= 0:
                hashes[row, 0], hashes[row, 1] = siphash(source, at, key_size, secret[0], secret[1])
            value_size, at = read_size(source, at + bytes_after(key_size), end)
            if at < 0:
                return b, BAD_STRUCTURE
            header_count, at = read_varint(source, at + bytes_after(value_size), end)
            reason = close_record(source, at, end, header_count, state)
            if reason != FINE:
                return b, reason
            offsets[row] = batches[b, BASE_OFFSET] + offset_delta
            has_key[row], has_value[row] = key_size >= 0, value_size >= 0
            spans[row, TIMESTAMP] = base_timestamp + (timestamp_delta & delta_mask)
            spans[row, REST], spans[row, REST_STOP] = rest, end
            row, at = row + 1, end
        if at != batches[b, STOP]:
            state[FAILED_RECORD] = batches[b, COUNT]
            return b, TRAILING_BYTES
    state[ROWS] = row
    return len(batches), FINE


@jit
def copy_records(
    source: Bytes,
    spans: Int64s,
    rows: Int64s,
    plan: Int64s,
    header_bytes: int,
    target: Bytes,
    at: int,
    batches: Int64s,
) -> int:
    """Write the rows of each batch of ``plan``, shape (n, PLAN_FIELDS), to ``target`` from ``at`` on.

    Leaves space for a header before each batch. Returns the end position.

    ``target`` must have room for everything; fills ``batches``, shape (n, COPY_FIELDS).
    """
    for b in range(len(plan)):
        batches[b, COPY_START] = at
        at += header_bytes
        largest = spans[rows[plan[b, FIRST_ROW]], TIMESTAMP]
        base = largest if plan[b, NEW_BASE_TIMESTAMP] == OF_FIRST else plan[b, NEW_BASE_TIMESTAMP]
        for i in range(plan[b, FIRST_ROW], plan[b, STOP_ROW]):
            row = rows[i]
            timestamp, rest = spans[row, TIMESTAMP], spans[row, REST]
            size = spans[row, REST_STOP] - rest
            at = write(target, at, 1 + size_of(timestamp - base) + size)
            target[at] = 0  # attributes
            at = write(target, at + 1, timestamp - base)
            copy_bytes(target, at, source, rest, size)
            at += size
            largest = max(largest, timestamp)
        batches[b, COPY_STOP] = at
        batches[b, COPY_BASE_TIMESTAMP] = base
        batches[b, COPY_MAX_TIMESTAMP] = largest
    return at
