"""Hashes of keys: murmur2 as Kafka's producers compute it (``Utils.murmur2``)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from .arrays import Bytes, frozen
from .compiling import jit

_SEED = 0x9747B28C
_M = 0x5BD1E995
_LOW_32 = 0xFFFFFFFF
_ONE, _TWO, _THREE, _FOUR = (np.uint64(places) for places in (1, 2, 3, 4))
_EIGHT, _13, _15, _SIXTEEN, _24 = (np.uint64(bits) for bits in (8, 13, 15, 16, 24))

_NO_BOOLS = np.empty(0, dtype=np.bool_)


class BinaryStrings(Protocol):
    """Byte strings in Arrow's binary layout, like ``tables.BinaryColumn``."""

    @property
    def data(self) -> Bytes: ...
    @property
    def offsets(self) -> npt.NDArray[np.int32]: ...
    @property
    def valid(self) -> npt.NDArray[np.bool_] | None: ...


def murmur2(key: bytes) -> int:
    """The signed 32-bit hash of one key."""
    hashed = int(_hash(frozen(np.frombuffer(key, dtype=np.uint8)), 0, len(key)))
    return hashed - 2**32 if hashed >= 2**31 else hashed


def partitions_of(keys: BinaryStrings, count: int) -> npt.NDArray[np.int32]:
    """The partition of each key among ``count``, shape (n,); -1 for a null key, which any partition may take."""
    chosen = np.empty(len(keys.offsets) - 1, dtype=np.int32)
    valid = _NO_BOOLS if keys.valid is None else keys.valid
    _choose(frozen(keys.data), frozen(keys.offsets), frozen(valid), count, chosen)
    return chosen


@jit
def _choose(
    data: Bytes,
    offsets: npt.NDArray[np.int32],
    valid: npt.NDArray[np.bool_],
    count: int,
    chosen: npt.NDArray[np.int32],
) -> None:
    for i in range(len(chosen)):
        if len(valid) > 0 and not valid[i]:
            chosen[i] = -1
        else:
            start = np.int64(offsets[i])
            positive = _hash(data, start, offsets[i + 1] - start) & np.uint64(0x7FFFFFFF)
            chosen[i] = positive % np.uint64(count)


@jit
def _hash(data: Bytes, start: int, size: int) -> int:
    """Returns the hash as a number from 0 to 2^32 - 1. Products stay below 2^64 and are cut to 32 bits at once.

    All numbers are unsigned: an index that might be negative costs a test per byte, half of the time.
    """
    m, low_32 = np.uint64(_M), np.uint64(_LOW_32)
    h = np.uint64(_SEED ^ size)
    at = np.uint64(start)
    tail = np.uint64(start + (size & ~3))
    while at < tail:
        k = (
            np.uint64(data[at])
            | (np.uint64(data[at + _ONE]) << _EIGHT)
            | (np.uint64(data[at + _TWO]) << _SIXTEEN)
            | (np.uint64(data[at + _THREE]) << _24)
        )
        k = (k * m) & low_32
        k ^= k >> _24
        k = (k * m) & low_32
        h = ((h * m) & low_32) ^ k
        at += _FOUR
    remainder = size & 3
    if remainder == 3:
        h ^= np.uint64(data[tail + _TWO]) << _SIXTEEN
    if remainder >= 2:
        h ^= np.uint64(data[tail + _ONE]) << _EIGHT
    if remainder >= 1:
        h = ((h ^ np.uint64(data[tail])) * m) & low_32
    h ^= h >> _13
    h = (h * m) & low_32
    return h ^ (h >> _15)
