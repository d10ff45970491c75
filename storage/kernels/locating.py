"""Where the fields of a record of magic 2 are: what every loop over records begins with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pyspark_commitlog.storage.kernels import Bytes
from pyspark_commitlog.storage.kernels.compiling import inlined, jit
from pyspark_commitlog.storage.kernels.reasons import BAD_LENGTH, BAD_STRUCTURE, BAD_VARINT, FINE, RECORD_CUT
from pyspark_commitlog.storage.kernels.varint import TOO_LONG, bytes_behind, read_short, read_varint, read_varlong

COMMON_BYTES_MIN = 9  # a length, attributes and three numbers more, of two bytes each: read before any is looked at


class Located(NamedTuple):
    """Where the fields of a record are. A size below zero stands for null."""

    end: int  # behind the record
    timestamp_delta: int
    rest: int  # position of what follows the timestamp
    offset_delta: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    headers_at: int  # of the first one; below zero where the fields before it are not all there
    header_count: int


@inlined
def locate(source: Bytes, at: int, stop: int) -> tuple[int, Located]:
    """A reason, and the record at ``at`` of a batch that ends at ``stop``: every field before its headers is inside it.

    Whether the headers end it is still to be checked.
    """
    found = _locate_common(source, at, stop)
    return (FINE, found) if found.headers_at >= 0 else locate_any(source, at, stop)


@inlined
def _locate_common(source: Bytes, at: int, stop: int) -> Located:
    """As :func:`locate_any` where all is FINE and no number takes more than two bytes: with a third of the checks.

    Anything else is nowhere. A number is believed only once all before the headers is known to end before the record.
    """
    nowhere = Located(at, at, at, at, at, at, at, at, np.int64(-1), at)
    if stop - at < COMMON_BYTES_MIN:
        return nowhere
    length, at, is_common = read_short(source, at)
    end = at + length
    timestamp_delta, rest, is_short = read_short(source, at + 1)
    is_common &= is_short
    offset_delta, at, is_short = read_short(source, rest)
    is_common &= is_short
    key_size, key_at, is_short = read_short(source, at)
    at = key_at + bytes_behind(key_size)
    if not (is_common and is_short and at + 2 <= stop):
        return nowhere
    value_size, value_at, is_short = read_short(source, at)
    at = value_at + bytes_behind(value_size)
    if not (is_short and at < end <= stop) or source[at] >= 0x80:
        return nowhere
    header_count, headers_at, _ = read_short(source, at)
    return Located(
        end, timestamp_delta, rest, offset_delta, key_at, key_size, value_at, value_size, headers_at, header_count
    )


@jit
def locate_any(source: Bytes, at: int, stop: int) -> tuple[int, Located]:
    """The long way of :func:`locate`."""
    nowhere = Located(at, at, at, at, at, at, at, at, np.int64(-1), at)
    length, at = read_varint(source, at, stop)
    if at < 0:
        return BAD_VARINT if at == TOO_LONG else RECORD_CUT, nowhere
    if length < 0 or length > stop - at:
        return BAD_LENGTH if length < 0 else RECORD_CUT, nowhere
    end = at + length
    timestamp_delta, rest = read_varlong(source, at + 1, end)
    offset_delta, at = read_varint(source, rest, end)
    key_size, key_at = _read_size(source, at, end)
    value_size, value_at = _read_size(source, _behind(key_at, key_size), end)
    header_count, at = read_varint(source, _behind(value_at, value_size), end)
    found = Located(end, timestamp_delta, rest, offset_delta, key_at, key_size, value_at, value_size, at, header_count)
    return FINE if at >= 0 else BAD_STRUCTURE, found


@inlined
def _read_size(source: Bytes, at: int, end: int) -> tuple[int, int]:
    """The size of a string, and its position: below zero where it does not end by ``end``."""
    size, at = read_varint(source, at, end)
    return size, at if size <= end - at else np.int64(-1)


@inlined
def _behind(at: int, size: int) -> int:
    """Behind a string; a position below zero is handed through."""
    return at if at < 0 else at + bytes_behind(size)
