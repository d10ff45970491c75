"""Bloom filters of keys: hashes of keys, and bits that are set for them.

A key has one hash of 64 bits; the positions of its bits follow from it (double hashing). Arithmetic is modulo 2^64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .. import Bytes, frozen
from ..compiling import jit
from ..murmur2 import BinaryStrings
from ..offset_map import hash_all, siphash

Uint64s = npt.NDArray[np.uint64]

# Part of the file format: must not change.
_SECRET = np.array([0x636F6D6D69746C6F, 0x67206B6579666C74], dtype=np.uint64)


def hashes_of(keys: BinaryStrings) -> Uint64s:
    """Returns the hash of each key that is not null, in order; shape (keys,)."""
    hashes: Uint64s = hash_all(keys, _SECRET)[:, 0]
    return hashes if keys.valid is None else hashes[keys.valid]


def hash_of(key: bytes) -> int:
    """Returns the hash of one key."""
    return int(siphash(frozen(np.frombuffer(key, dtype=np.uint8)), 0, len(key), *_SECRET)[0])


def step_of(first: int) -> int:
    """Returns the second hash of a key with this first one."""
    with np.errstate(over="ignore"):
        return int(_step(np.uint64(first)))


@jit
def add_all(bits: Bytes, hashes: Uint64s, rounds: int) -> None:
    """Set the bits of each hash: ``rounds`` bits each, of the ``8 * len(bits)`` that there are."""
    for i in range(len(hashes)):
        at, step = hashes[i], _step(hashes[i])
        for _ in range(rounds):
            position = np.int64(at % np.uint64(8 * len(bits)))
            bits[position >> 3] |= np.uint8(1 << (position & 7))
            at += step


@jit
def holds(bits: Bytes, hashes: Uint64s, rounds: int, found: npt.NDArray[np.bool_]) -> None:
    """Find out for each hash whether all of its bits are set."""
    for i in range(len(hashes)):
        at, step, is_set = hashes[i], _step(hashes[i]), True
        for _ in range(rounds):
            position = np.int64(at % np.uint64(8 * len(bits)))
            is_set = is_set and (bits[position >> 3] >> (position & 7)) & 1 == 1
            at += step
        found[i] = is_set


@jit
def _step(first: int) -> int:
    """Returns a second hash, which is odd (the finalizer of MurmurHash3)."""
    mixed = first
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    return mixed ^ (mixed >> np.uint64(33)) | np.uint64(1)
