"""Bloom filters of keys: hashes of keys, and bits that are set for them.

A key has one hash of 64 bits; the positions of its bits follow from it (double hashing). Arithmetic is modulo 2^64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Bytes
from ..compaction.offset_map import hash_all, siphash
from ..compiling import jit
from ..murmur2 import BinaryStrings
from ..records import (
    BAD_STRUCTURE,
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
)
from ..varint import bytes_after, read_varint, read_varlong

Uint64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Part of the file format: must not change.
SECRET = np.array([0x636F6D6D69746C6F, 0x67206B6579666C74], dtype=np.uint64)
ROUNDS = 8  # bits that are set for a key; the best number for 12 bits a key: 3 of 1,000 absent keys seem to be there


def hashes_of(keys: BinaryStrings) -> Uint64s:
    """Returns the hash of each key that is not null, in order; shape (keys,)."""
    hashes: Uint64s = hash_all(keys, SECRET)[:, 0]
    return hashes if keys.valid is None else hashes[keys.valid]


@jit
def read_hashes(source: Bytes, batches: Int64s, secret: Uint64s, hashes: Uint64s, state: Int64s) -> tuple[int, int]:
    """Hash the keys of ``batches``, shape (n, BATCH_FIELDS), of magic 2; null keys have no hash.

    ``state[ROWS]`` counts the hashes. Checks, their order, ``state`` and the results are those of :func:`records.fill`.
    """
    row = state[ROWS]
    for b in range(len(batches)):
        at = batches[b, START]
        for i in range(batches[b, COUNT]):
            state[FAILED_RECORD] = i
            reason, at, end = open_record(source, at, batches[b, STOP])
            if reason != FINE:
                return b, reason
            _, at = read_varlong(source, at, end)
            _, at = read_varint(source, at, end)
            size, at = read_size(source, at, end)
            if at < 0:
                return b, BAD_STRUCTURE
            if size >= 0:
                hashes[row] = siphash(source, at, size, secret[0], secret[1])[0]
                row += 1
            size, at = read_size(source, at + bytes_after(size), end)
            if at < 0:
                return b, BAD_STRUCTURE
            header_count, at = read_varint(source, at + bytes_after(size), end)
            reason = close_record(source, at, end, header_count, state)
            if reason != FINE:
                return b, reason
            at = end
        if at != batches[b, STOP]:
            state[FAILED_RECORD] = batches[b, COUNT]
            return b, TRAILING_BYTES
    state[ROWS] = row
    return len(batches), FINE


@jit
def add_all(bits: Bytes, hashes: Uint64s) -> None:
    """Set the bits of each hash, of the ``8 * len(bits)`` that there are, at most 2^32."""
    count = np.uint64(8 * len(bits))
    for i in range(len(hashes)):
        at, step = hashes[i], _step(hashes[i])
        for _ in range(ROUNDS):
            position = np.int64(_position(at, count))
            bits[position >> 3] |= np.uint8(1 << (position & 7))
            at += step


@jit
def find_lacking(bits: Bytes, bounds: Int64s, hashes: Uint64s, lacking: Bools) -> None:
    """Find out which filters have none of the hashes; shape (filters,).

    ``bits`` has one filter after the other; number ``i`` is ``bits[bounds[i]:bounds[i + 1]]``.
    """
    for i in range(len(lacking)):
        start, count = bounds[i], np.uint64(8 * (bounds[i + 1] - bounds[i]))
        lacking[i] = True
        for k in range(len(hashes)):
            if lacking[i]:
                lacking[i] = not _holds(bits, start, count, hashes[k])


@jit
def holds_all(bits: Bytes, hashes: Uint64s) -> bool:
    """Whether a filter has all of the hashes."""
    found, count = True, np.uint64(8 * len(bits))
    for i in range(len(hashes)):
        found = found and _holds(bits, np.int64(0), count, hashes[i])
    return found


@jit
def _holds(bits: Bytes, start: int, count: int, first: int) -> bool:
    at, step = first, _step(first)
    for _ in range(ROUNDS):
        position = np.int64(_position(at, count))
        if (bits[start + (position >> 3)] >> (position & 7)) & 1 == 0:
            return False
        at += step
    return True


@jit
def _position(at: int, count: int) -> int:
    """Returns ``at``, of 64 bits, as a position below ``count``; a division would take ten times as long."""
    return ((at >> np.uint64(32)) * count) >> np.uint64(32)


@jit
def _step(first: int) -> int:
    """Returns a second hash, which is odd (the finalizer of MurmurHash3)."""
    mixed = first
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    return mixed ^ (mixed >> np.uint64(33)) | np.uint64(1)
