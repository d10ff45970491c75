"""Decodes records of batches to columns: one loop for magic 2 and one for the legacy magics.

Both fill the same :class:`Columns`, batch after batch; ``state`` carries the write positions from call to call, so a
run of batches may be spread over many sources (each decompressed batch is one).

Row indices are unsigned for writing; varint.py has the reason.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import Bytes
from .compiling import inlined, jit
from .memory import BLOCK_BYTES, append_blocks, copy_bytes
from .scan import read_i32, read_i64
from .varint import TOO_LONG, bytes_after, read_varint, read_varlong

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Strings = tuple[Bytes, Int32s, npt.NDArray[np.bool_]]  # data, offsets, valid

# Columns of a table of batches, one row per batch.
START = 0  # where the records begin in the source
STOP = 1  # where the records end
BASE_OFFSET = 2
BASE_TIMESTAMP = 3
FIXED_TIMESTAMP = 4  # of every record, if TIMESTAMP_TYPE is 1
TIMESTAMP_TYPE = 5
COUNT = 6
BATCH_FIELDS = 7

# Cells of the state.
ROWS = 0  # records written
KEY_BYTES = 1
VALUE_BYTES = 2
HEADERS = 3  # record headers seen
HEADER_KEY_BYTES = 4
HEADER_VALUE_BYTES = 5
NULL_HEADER_VALUES = 6
WANTED = 7  # the bits below: which columns to fill
FAILED_RECORD = 8  # index in its batch of the record that failed to decode
STATE_CELLS = 9

WANT_KEYS = 1
WANT_VALUES = 2
WANT_HEADERS = 4

# Why a record does not decode; the text for each is in format/columns.py.
FINE = 0
RECORD_CUT = 1  # the records end before the count is reached, or inside a record
BAD_VARINT = 2
BAD_LENGTH = 3  # a record length below zero or beyond the records
BAD_STRUCTURE = 4  # a field reaches beyond its record
NOT_CONSUMED = 5  # a record is longer than its fields
BAD_HEADER_COUNT = 6
NULL_HEADER_KEY = 7
TRAILING_BYTES = 8  # bytes remain after the last record
NESTED = 9  # legacy: a compressed message inside a wrapper
NO_ROOM = 10  # not an error of the record: the array for keys or the one for values is too short


class Columns(NamedTuple):
    """Arrays that the loops fill. Arrays of a column that is not requested may have any length and are not touched.

    Validity arrays must be True initially. Key and value data have ``BLOCK_BYTES`` at the end that stay unused.
    """

    offsets: Int64s  # shape (records,)
    timestamps: Int64s  # shape (records,)
    timestamp_types: npt.NDArray[np.int8]  # shape (records,)
    key_data: Bytes
    key_offsets: Int32s  # shape (records + 1,)
    key_valid: npt.NDArray[np.bool_]  # shape (records,)
    value_data: Bytes
    value_offsets: Int32s
    value_valid: npt.NDArray[np.bool_]
    header_offsets: Int32s  # shape (records + 1,): headers before each record
    header_positions: Int64s  # shape (records,): position in the source of each record's first header


class Headers(NamedTuple):
    """Arrays for record headers, of the sizes that the state contains once all records have been read."""

    key_data: Bytes
    key_offsets: Int32s
    value_data: Bytes
    value_offsets: Int32s
    value_valid: npt.NDArray[np.bool_]


def fill(source: Bytes, batches: Int64s, columns: Columns, state: Int64s) -> tuple[int, int]:
    """Read the records of ``batches``, shape (n, BATCH_FIELDS), of magic 2.

    Every field must end inside its record, the last one exactly at the record's end. Like Kafka's readers, checks
    neither attributes nor the order of offsets. Returns n and FINE, or the index of the batch that does not decode and
    the reason. After NO_ROOM, read everything again into larger arrays.
    """
    done, reason = _fill(source, batches, state, *columns)
    return done, reason


# Arrays are passed one by one, since numba determines their types faster than the type of the tuple that holds them.
@jit
def _fill(source: Bytes, batches: Int64s, state: Int64s, *arrays: Any) -> tuple[int, int]:
    columns, wanted = Columns(*arrays), state[WANTED]
    keys, values = _keys_of(columns), _values_of(columns)
    row, key_bytes, value_bytes, headers = state[ROWS], state[KEY_BYTES], state[VALUE_BYTES], state[HEADERS]
    for b in range(len(batches)):
        at = batches[b, START]
        in_blocks = batches[b, STOP] + BLOCK_BYTES <= len(source)
        base_offset, timestamp_type = batches[b, BASE_OFFSET], batches[b, TIMESTAMP_TYPE]
        base_timestamp, delta_mask = timestamps_in(batches, b)
        for i in range(batches[b, COUNT]):
            state[FAILED_RECORD] = i
            reason, at, end = open_record(source, at, batches[b, STOP])
            if reason != FINE:
                return b, reason
            timestamp_delta, at = read_varlong(source, at, end)
            offset_delta, at = read_varint(source, at, end)
            key_size, at = read_size(source, at, end)
            if at < 0:
                return b, BAD_STRUCTURE
            if wanted & WANT_KEYS:
                if bytes_after(key_size) > len(columns.key_data) - BLOCK_BYTES - key_bytes:
                    return b, NO_ROOM
                key_bytes = _put(source, at, key_size, keys, key_bytes, row, in_blocks)
            value_size, at = read_size(source, at + bytes_after(key_size), end)
            if at < 0:
                return b, BAD_STRUCTURE
            if wanted & WANT_VALUES:
                if bytes_after(value_size) > len(columns.value_data) - BLOCK_BYTES - value_bytes:
                    return b, NO_ROOM
                value_bytes = _put(source, at, value_size, values, value_bytes, row, in_blocks)
            header_count, at = read_varint(source, at + bytes_after(value_size), end)
            reason = close_record(source, at, end, header_count, state)
            if reason != FINE:
                return b, reason
            if header_count != 0:
                columns.header_positions[np.uint64(row)] = at
                headers += header_count
            timestamp = base_timestamp + (timestamp_delta & delta_mask)
            _put_numbers(columns, row, base_offset + offset_delta, timestamp, timestamp_type, headers)
            row, at = row + 1, end
        if at != batches[b, STOP]:
            state[FAILED_RECORD] = batches[b, COUNT]
            return b, TRAILING_BYTES
    state[ROWS], state[KEY_BYTES], state[VALUE_BYTES], state[HEADERS] = row, key_bytes, value_bytes, headers
    return len(batches), FINE


@inlined
def open_record(source: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Read the length and attributes of a record in a batch that ends at ``stop``.

    Returns a reason (FINE if the record can be read), the position of its timestamp, and its end.
    """
    length, at = read_varint(source, at, stop)
    if at < 0:
        return BAD_VARINT if at == TOO_LONG else RECORD_CUT, at, at
    if length < 0 or length > stop - at:
        return BAD_LENGTH if length < 0 else RECORD_CUT, at, at
    return FINE, at + 1, at + length


@inlined
def read_size(source: Bytes, at: int, end: int) -> tuple[int, int]:
    """Returns the size of the string at ``at`` and the position of its bytes.

    The position is negative if the string ends after ``end``.
    """
    size, at = read_varint(source, at, end)
    return size, at if size <= end - at else np.int64(-1)


@inlined
def _keys_of(columns: Columns) -> Strings:
    return columns.key_data, columns.key_offsets, columns.key_valid


@inlined
def _values_of(columns: Columns) -> Strings:
    return columns.value_data, columns.value_offsets, columns.value_valid


@inlined
def _put(source: Bytes, at: int, size: int, strings: Strings, to: int, row: int, in_blocks: bool) -> int:
    """Write the string of a row at ``to``, where it and one more block must fit; returns the end of the string."""
    data, offsets, valid = strings
    if size < 0:
        valid[np.uint64(row)] = False
    if in_blocks:
        append_blocks(data, to, source, at, bytes_after(size))
    else:
        copy_bytes(data, to, source, at, bytes_after(size))
    offsets[np.uint64(row + 1)] = to + bytes_after(size)
    return to + bytes_after(size)


@inlined
def _put_numbers(columns: Columns, row: int, offset: int, timestamp: int, timestamp_type: int, headers: int) -> None:
    """Write the numbers of a row; ``headers`` is the number of headers in all rows up to this one."""
    columns.offsets[np.uint64(row)] = offset
    columns.timestamps[np.uint64(row)] = timestamp
    columns.timestamp_types[np.uint64(row)] = timestamp_type
    columns.header_offsets[np.uint64(row + 1)] = headers


@inlined
def close_record(source: Bytes, at: int, end: int, header_count: int, state: Int64s) -> int:
    """Returns a reason: FINE if ``header_count`` headers, from ``at`` on, end exactly at the record's end.

    A negative ``at`` means that the number of headers could not be read.
    """
    if at < 0:
        return BAD_STRUCTURE
    if header_count != 0:
        reason, at = _measure_headers(source, at, end, header_count, state)
        if reason != FINE:
            return reason
    return FINE if at == end else NOT_CONSUMED


@inlined
def timestamps_in(batches: Int64s, batch: int) -> tuple[int, int]:
    """(base, mask): the timestamp of each record is ``base + (delta & mask)``."""
    if batches[batch, TIMESTAMP_TYPE] == 1:
        return batches[batch, FIXED_TIMESTAMP], np.int64(0)
    return batches[batch, BASE_TIMESTAMP], np.int64(-1)


@jit
def string_bytes(source: Bytes, batches: Int64s) -> tuple[int, int]:
    """Returns the bytes of all keys and of all values; :func:`fill` copies no more, as it checks in the same order."""
    keys, values = np.int64(0), np.int64(0)
    for b in range(len(batches)):
        at = batches[b, START]
        stop = batches[b, STOP]
        for _ in range(batches[b, COUNT]):
            reason, at, end = open_record(source, at, stop)
            if reason != FINE:
                return keys, values
            _delta, at = read_varlong(source, at, end)
            _delta, at = read_varint(source, at, end)
            size, at = read_size(source, at, end)
            if at < 0:
                return keys, values
            keys += bytes_after(size)
            size, at = read_size(source, at + bytes_after(size), end)
            if at < 0:
                return keys, values
            values += bytes_after(size)
            at = end
    return keys, values


@jit
def _measure_headers(source: Bytes, at: int, end: int, count: int, state: Int64s) -> tuple[int, int]:
    """Check ``count`` headers and add their sizes to the state; returns a reason and the position after them."""
    if count < 0 or count > end - at:
        return BAD_HEADER_COUNT, at
    for _ in range(count):
        size, at = read_varint(source, at, end)
        if at < 0:
            return BAD_STRUCTURE, at
        if size < 0:
            return NULL_HEADER_KEY, at
        if size > end - at:
            return BAD_STRUCTURE, at
        state[HEADER_KEY_BYTES] += size
        at += size
        size, at = read_varint(source, at, end)
        if at < 0 or size > end - at:
            return BAD_STRUCTURE, at
        if size < 0:
            state[NULL_HEADER_VALUES] += 1
        else:
            state[HEADER_VALUE_BYTES] += size
            at += size
    return FINE, at


def fill_headers(source: Bytes, first: int, last: int, columns: Columns, headers: Headers, state: Int64s) -> None:
    """Copy the headers of records ``[first, last)``, which :func:`fill` has read from this source without error.

    ``state`` starts at zeros and counts HEADERS, HEADER_KEY_BYTES and HEADER_VALUE_BYTES again.
    """
    _fill_headers(source, first, last, columns.header_offsets, columns.header_positions, state, *headers)


@jit
def _fill_headers(
    source: Bytes, first: int, last: int, header_offsets: Int32s, header_positions: Int64s, state: Int64s, *arrays: Any
) -> None:
    headers, end = Headers(*arrays), len(source)
    for row in range(first, last):
        at = header_positions[row]
        for i in range(header_offsets[row], header_offsets[row + 1]):
            size, at = read_varint(source, at, end)
            copy_bytes(headers.key_data, state[HEADER_KEY_BYTES], source, at, size)
            state[HEADER_KEY_BYTES] += size
            headers.key_offsets[i + 1] = state[HEADER_KEY_BYTES]
            size, at = read_varint(source, at + size, end)
            headers.value_valid[i] = size >= 0
            if size > 0:
                copy_bytes(headers.value_data, state[HEADER_VALUE_BYTES], source, at, size)
                state[HEADER_VALUE_BYTES] += size
                at += size
            headers.value_offsets[i + 1] = state[HEADER_VALUE_BYTES]


# Columns of a table of legacy messages, one row per message, plain or from a wrapper.
MESSAGE_START = 0  # where the message begins (with its checksum field) in the source
MESSAGE_STOP = 1
MESSAGE_OFFSET = 2  # absolute, as readers see it
MESSAGE_FIXED_TIMESTAMP = 3  # used if MESSAGE_TYPE is 1
MESSAGE_TYPE = 4  # the timestamp type of the outer message; -1 for magic 0
MESSAGE_FIELDS = 5

MESSAGE_MAGIC_AT = 4
MESSAGE_ATTRIBUTES_AT = 5


def fill_messages(source: Bytes, messages: Int64s, columns: Columns, state: Int64s) -> tuple[int, int]:
    """Read legacy messages, shape (n, MESSAGE_FIELDS); returns n and FINE, or the index of the failed message and why.

    Uses the magic in each message, since a wrapper of one magic may hold messages of the other (KAFKA-4298).
    """
    done, reason = _fill_messages(source, messages, state, *columns)
    return done, reason


@jit
def _fill_messages(source: Bytes, messages: Int64s, state: Int64s, *arrays: Any) -> tuple[int, int]:
    columns = Columns(*arrays)
    for m in range(len(messages)):
        at = messages[m, MESSAGE_START]
        stop = messages[m, MESSAGE_STOP]
        timestamp = np.int64(-1)
        key_size_at = at + 6
        if source[at + MESSAGE_MAGIC_AT] == 1:
            if stop - at < 22:
                return m, BAD_STRUCTURE
            timestamp = read_i64(source, at + 6)
            key_size_at = at + 14
        key_at = key_size_at + 4
        key_size = read_i32(source, key_size_at)
        value_at = key_at + bytes_after(key_size) + 4
        if value_at > stop:
            return m, BAD_STRUCTURE
        value_size = read_i32(source, value_at - 4)
        if value_at + bytes_after(value_size) > stop:
            return m, BAD_STRUCTURE
        row = state[ROWS]
        if messages[m, MESSAGE_TYPE] == 1:
            timestamp = messages[m, MESSAGE_FIXED_TIMESTAMP]
        _put_numbers(columns, row, messages[m, MESSAGE_OFFSET], timestamp, messages[m, MESSAGE_TYPE], state[HEADERS])
        if state[WANTED] & WANT_KEYS:
            state[KEY_BYTES] = _put(source, key_at, key_size, _keys_of(columns), state[KEY_BYTES], row, False)
        if state[WANTED] & WANT_VALUES:
            state[VALUE_BYTES] = _put(source, value_at, value_size, _values_of(columns), state[VALUE_BYTES], row, False)
        state[ROWS] = row + 1
    return len(messages), FINE


@jit
def walk_messages(source: Bytes, starts: Int64s, sizes: Int64s, offsets: Int64s) -> tuple[int, int]:
    """Find the messages inside a wrapper: start and size of each, without its offset and size fields, and its offset.

    The arrays must be long enough for any source (a message takes 26 bytes with the fields before it). Returns the
    number of messages and a reason: FINE, RECORD_CUT for an incomplete message, BAD_LENGTH, NESTED.
    """
    at = np.int64(0)
    end = len(source)
    found = 0
    while at < end:
        if end - at < 12:
            return found, RECORD_CUT
        size = read_i32(source, at + 8)
        if size < 14:
            return found, BAD_LENGTH
        if size > end - at - 12:
            return found, RECORD_CUT
        if source[at + 12 + MESSAGE_ATTRIBUTES_AT] & 0x07:
            return found, NESTED
        starts[found] = at + 12
        sizes[found] = size
        offsets[found] = read_i64(source, at)
        found += 1
        at += size + 12
    return found, FINE
