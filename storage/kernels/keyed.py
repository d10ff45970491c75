"""Records of magic 2 as compaction sees them: a hash of the key, and where the rest of the record lies.

What follows the timestamp of a record is the same bytes in whatever batch of the same base offset it is, so compaction
copies it and looks at nothing in it but the key.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyspark_commitlog.storage.kernels import Bytes
from pyspark_commitlog.storage.kernels.compiling import jit
from pyspark_commitlog.storage.kernels.memory import copy_bytes
from pyspark_commitlog.storage.kernels.offset_map import siphash
from pyspark_commitlog.storage.kernels.records import (
    BAD_HEADER_COUNT,
    BAD_LENGTH,
    BAD_STRUCTURE,
    BAD_VARINT,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    FAILED_RECORD,
    FINE,
    FIXED_TIMESTAMP,
    NOT_CONSUMED,
    RECORD_CUT,
    ROWS,
    START,
    STOP,
    TIMESTAMP_TYPE,
    TRAILING_BYTES,
    _measure_headers,
)
from pyspark_commitlog.storage.kernels.varint import TOO_LONG, bytes_behind, read_varint, read_varlong, size_of, write

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Uint64s = npt.NDArray[np.uint64]

# Columns of the table of records.
TIMESTAMP = 0  # as a reader sees it
REST = 1  # position in the source of what follows the timestamp
REST_STOP = 2  # behind the record
PLACE_FIELDS = 3

# Columns of the table of batches to copy.
FIRST_ROW = 0  # place in the rows of the batch's first record
STOP_ROW = 1  # behind its last one, which is above FIRST_ROW
NEW_BASE_TIMESTAMP = 2  # or OF_FIRST
PLAN_FIELDS = 3

OF_FIRST = -(2**63)

# Columns of the table of batches that were copied.
COPY_START = 0  # of the room for the header, in the target
COPY_STOP = 1  # behind the last record
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
    places: Int64s,
    state: Int64s,
) -> tuple[int, int]:
    """Read the records of ``batches``, shape (n, BATCH_FIELDS), into the arrays behind, which have a row for each.

    The checks and their order are those of :func:`records.fill`, and so are ``state`` and what is returned. The hash of
    a null key is left as it is; where ``hashes`` is empty no key is hashed.
    """
    row = state[ROWS]
    is_hashing = len(hashes) > 0
    one, two = secret[0], secret[1]
    for b in range(len(batches)):
        at = batches[b, START]
        stop = batches[b, STOP]
        is_append_time = batches[b, TIMESTAMP_TYPE] == 1
        for i in range(batches[b, COUNT]):
            state[FAILED_RECORD] = i
            length, at = read_varint(source, at, stop)
            if at < 0:
                return b, BAD_VARINT if at == TOO_LONG else RECORD_CUT
            if length < 0 or length > stop - at:
                return b, BAD_LENGTH if length < 0 else RECORD_CUT
            end = at + length
            timestamp_delta, at = read_varlong(source, at + 1, end)
            rest = at
            offset_delta, at = read_varint(source, at, end) if at >= 0 else (timestamp_delta, at)
            key_size, at = read_varint(source, at, end) if at >= 0 else (offset_delta, at)
            if at < 0 or key_size > end - at:
                return b, BAD_STRUCTURE
            has_key[row] = key_size >= 0
            if is_hashing and key_size >= 0:
                first, second = siphash(source, at, key_size, one, two)
                hashes[row, 0] = first
                hashes[row, 1] = second
            value_size, at = read_varint(source, at + bytes_behind(key_size), end)
            if at < 0 or value_size > end - at:
                return b, BAD_STRUCTURE
            has_value[row] = value_size >= 0
            header_count, at = read_varint(source, at + bytes_behind(value_size), end)
            if at < 0:
                return b, BAD_STRUCTURE
            if header_count != 0:
                if header_count < 0 or header_count > end - at:
                    return b, BAD_HEADER_COUNT
                reason, at = _measure_headers(source, at, end, header_count, state)
                if reason != FINE:
                    return b, reason
            if at != end:
                return b, NOT_CONSUMED
            offsets[row] = batches[b, BASE_OFFSET] + offset_delta
            places[row, TIMESTAMP] = (
                batches[b, FIXED_TIMESTAMP] if is_append_time else batches[b, BASE_TIMESTAMP] + timestamp_delta
            )
            places[row, REST] = rest
            places[row, REST_STOP] = end
            row += 1
        if at != stop:
            state[FAILED_RECORD] = batches[b, COUNT]
            return b, TRAILING_BYTES
    state[ROWS] = row
    return len(batches), FINE


@jit
def copy_records(
    source: Bytes,
    places: Int64s,
    rows: Int64s,
    plan: Int64s,
    header_bytes: int,
    target: Bytes,
    at: int,
    batches: Int64s,
) -> int:
    """Write the rows of each batch of ``plan``, shape (n, PLAN_FIELDS), to ``target`` from ``at`` on, behind room for a
    header; returns where they end.

    ``target`` has room for everything; ``batches``, shape (n, COPY_FIELDS), is filled.
    """
    for b in range(len(plan)):
        batches[b, COPY_START] = at
        at += header_bytes
        largest = places[rows[plan[b, FIRST_ROW]], TIMESTAMP]
        base = largest if plan[b, NEW_BASE_TIMESTAMP] == OF_FIRST else plan[b, NEW_BASE_TIMESTAMP]
        for i in range(plan[b, FIRST_ROW], plan[b, STOP_ROW]):
            row = rows[i]
            timestamp, rest = places[row, TIMESTAMP], places[row, REST]
            size = places[row, REST_STOP] - rest
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
