"""Zig-zag varints: 7 bits per byte, the lowest first; the high bit marks that another byte follows.

Reads like Kafka's ``ByteUtils``: accepts padded forms, drops bits beyond 32 (64), and rejects a continuation bit on the
5th (10th) byte. A reader returns the value and the position after it, or a negative position.

Where it affects speed, an array index is made unsigned: for an index that might be negative, numba tests the sign on
each access, which took a seventh of the time of writing a record.
"""

from __future__ import annotations

import numpy as np

from .arrays import Bytes
from .compiling import jit

CUT = -1  # the bytes end inside the number
TOO_LONG = -2  # a continuation bit on the last byte allowed

_LOW_32 = 0xFFFFFFFF
_LOW_63 = 0x7FFFFFFFFFFFFFFF


@jit
def read_varint(source: Bytes, at: int, end: int) -> tuple[int, int]:
    """Reads a 32-bit number from ``source[at:end]``; returns a negative ``at`` unchanged."""
    if 0 <= at < end:
        byte = np.int64(source[at])
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        if at + 1 < end and source[at + 1] < 0x80:  # sizes of common records: worth a fast path
            raw = (byte & 0x7F) | (np.int64(source[at + 1]) << 7)
            return (raw >> 1) ^ -(raw & 1), at + 2
    return _read_long_varint(source, at, end)


@jit
def read_varlong(source: Bytes, at: int, end: int) -> tuple[int, int]:
    """Reads a 64-bit number from ``source[at:end]``; returns a negative ``at`` unchanged."""
    if 0 <= at < end:
        byte = np.int64(source[at])
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        if at + 1 < end and source[at + 1] < 0x80:  # sizes of common records: worth a fast path
            raw = (byte & 0x7F) | (np.int64(source[at + 1]) << 7)
            return (raw >> 1) ^ -(raw & 1), at + 2
    return _read_long_varlong(source, at, end)


@jit
def _read_long_varint(source: Bytes, at: int, end: int) -> tuple[int, int]:
    raw = np.int64(0)
    for i in range(5):
        if at < 0 or at + i >= end:
            return np.int64(0), min(at, CUT)
        byte = np.int64(source[at + i])
        raw |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            raw &= _LOW_32
            return (raw >> 1) ^ -(raw & 1), at + i + 1
    return np.int64(0), np.int64(TOO_LONG)


@jit
def _read_long_varlong(source: Bytes, at: int, end: int) -> tuple[int, int]:
    raw = np.int64(0)
    for i in range(10):
        if at < 0 or at + i >= end:
            return np.int64(0), min(at, CUT)
        byte = np.int64(source[at + i])
        raw |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return ((raw >> 1) & _LOW_63) ^ -(raw & 1), at + i + 1
    return np.int64(0), np.int64(TOO_LONG)


@jit
def size_of(value: int) -> int:
    """Bytes that :func:`write` uses for a 64-bit number; a 32-bit one takes the same as varint and as varlong."""
    if -64 <= value < 64:
        return 1
    raw = (np.int64(value) << 1) ^ (np.int64(value) >> 63)
    size = 1
    while raw < 0 or raw >= 0x80:
        raw = (raw >> 7) & (_LOW_63 >> 6)
        size += 1
    return size


@jit
def write(target: Bytes, at: int, value: int) -> int:
    """Write a 64-bit number, or a 32-bit one, which takes the same bytes; returns the position after it."""
    raw = (np.int64(value) << 1) ^ (np.int64(value) >> 63)
    while raw < 0 or raw >= 0x80:
        target[np.uint64(at)] = (raw & 0x7F) | 0x80
        raw = (raw >> 7) & (_LOW_63 >> 6)
        at += 1
    target[np.uint64(at)] = raw
    return at + 1


@jit
def bytes_after(size: int) -> int:
    """The number of bytes that follow the length ``size`` of a string: none if it is negative, which means null."""
    return max(size, 0)
