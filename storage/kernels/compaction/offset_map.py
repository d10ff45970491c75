"""The key-to-offset table of compaction (Kafka's SkimpyOffsetMap), over hashes of keys.

Like Kafka's, a slot holds 16 bytes of hash and an offset, so ``memory`` bytes hold as many keys as in Kafka. The hash
is 128-bit SipHash-1-3 with a secret per map instead of MD5: as safe against accidental collisions, safer against
deliberate ones, and thirty times as fast. The slot of a key is never visible outside.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from ..arrays import Bytes, frozen
from ..compiling import jit
from ..memory import prefetch
from ..murmur2 import BinaryStrings

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Uint64s = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

SLOT_BYTES = 24
NO_OFFSET = -1
_SLOTS_AT_FIRST = 4096
_GROWN_AT_ONCE = 8  # the last growth is by this factor, so old and new table together take little more than the new one
_LARGEST_SLOTS = 2**31  # a slot is chosen by 32 bits of the hash; Kafka's map is limited to 2 GiB, far below

_AHEAD = 16  # number of keys whose slots are being prefetched

# Cells of the state.
_SIZE = 0
_LATEST = 1


class Put(NamedTuple):
    """The result of :meth:`OffsetMap.put_all`."""

    rows: int  # rows processed; fewer than given: the map is full at the next row
    last_offset: int  # of the last key put; -1 if no key was put


class OffsetMap:
    """The newest offset of each key, for at most ``limit`` keys."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        """Has at most ``memory_bytes / 24`` slots, and uses at most the share ``load_factor`` of them.

        The table grows with the number of keys, so that a small log uses little memory.
        """
        self.slots = min(memory_bytes // SLOT_BYTES, _LARGEST_SLOTS)
        self.limit = int(self.slots * load_factor)  # in floating point, as in Kafka
        self._rows_max = self.slots + 1  # one slot always stays free: a search for a missing key ends at it
        self.secret = np.frombuffer(secrets.token_bytes(16), dtype=np.uint64)  # secret of the key hashes
        self.clear()

    def clear(self) -> None:
        """Forget all keys."""
        self._table = np.zeros((min(_SLOTS_AT_FIRST, self._rows_max), 3), dtype=np.uint64)
        self._state = np.array([0, NO_OFFSET], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._state[_SIZE])

    @property
    def latest_offset(self) -> int:
        """The last offset of the log that the map covers; -1 if it covers nothing."""
        return int(self._state[_LATEST])

    def update_latest_offset(self, offset: int) -> None:
        """Record that the map covers the log up to ``offset``: all keys up to it were put, or need not be."""
        self._state[_LATEST] = offset

    def put_all(self, hashes: Uint64s, valid: Bools, offsets: Int64s, start_offset: int) -> Put:
        """Put keys by their hashes, shape (n, 2), with their offsets, in order; the last of equal keys wins.

        Skips null keys and offsets below ``start_offset``. Once the map is full, stops before the next key, even if the
        map contains that key (as in Kafka).
        """
        done, last = 0, NO_OFFSET
        columns = (hashes, frozen(valid), frozen(offsets))
        while True:
            bound = min(self.limit, len(self._table) * 3 // 4) if len(self._table) < self._rows_max else self.limit
            done, put = _put(*columns, done, start_offset, bound, self._table, self._state)
            last = max(last, int(put))
            if done == len(offsets) or len(self) >= self.limit:
                break
            self._grow()
        if last != NO_OFFSET:
            self.update_latest_offset(last)
        return Put(int(done), last)

    def are_latest(self, hashes: Uint64s, valid: Bools, offsets: Int64s) -> Bools:
        """Whether each record is the latest of its key according to the map, shape (n,); False for a null key."""
        found = np.empty(len(offsets), dtype=np.bool_)
        _compare(hashes, frozen(valid), frozen(offsets), self._table, found)
        return found

    def mark_latest(self, start_offset: int, shift: int, marked: Bools) -> None:
        """Mark the cell of each offset in the map; a cell covers ``2**shift`` offsets.

        The first cell begins at ``start_offset`` and also covers those below; the last also covers those above its end.
        """
        _mark(self._table, start_offset, shift, marked)

    def _grow(self) -> None:
        doubled = 2 * len(self._table)
        slots = doubled if doubled * _GROWN_AT_ONCE <= self.slots else self._rows_max
        table = np.zeros((slots, 3), dtype=np.uint64)
        _move(self._table, table)
        self._table = table


def hash_all(keys: BinaryStrings, secret: Uint64s) -> Uint64s:
    """The hashes of keys, shape (n, 2).

    Computes all hashes before any slot is read, so that the reads can then wait for many cache misses at once.
    """
    hashes = np.empty((len(keys.offsets) - 1, 2), dtype=np.uint64)
    _hash_all(frozen(keys.data), frozen(keys.offsets), secret, hashes)
    return hashes


if numba.config.DISABLE_JIT:
    _ALL = 2**64 - 1

    def _u64(value: int) -> int:
        return int(value) & _ALL

    def _add(a: int, b: int) -> int:
        return (a + b) & _ALL

    def _left(a: int, bits: int) -> int:
        return (a << bits) & _ALL

else:

    @jit
    def _u64(value: int) -> int:
        return np.uint64(value)

    @jit
    def _add(a: int, b: int) -> int:
        return a + b

    @jit
    def _left(a: int, bits: int) -> int:
        return a << np.uint64(bits)


@jit
def _right(a: int, bits: int) -> int:
    return a >> _u64(bits)


@jit
def _turn(a: int, bits: int) -> int:
    return _left(a, bits) | _right(a, 64 - bits)


@jit
def _round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a = _add(a, b)
    b = _turn(b, 13) ^ a
    a = _turn(a, 32)
    c = _add(c, d)
    d = _turn(d, 16) ^ c
    a = _add(a, d)
    d = _turn(d, 21) ^ a
    c = _add(c, b)
    b = _turn(b, 17) ^ c
    c = _turn(c, 32)
    return a, b, c, d


@jit
def _word(data: Bytes, at: int) -> int:
    """Returns eight bytes as a little-endian number; without a loop, so that it compiles to one load."""
    return (
        _u64(data[at])
        | _left(_u64(data[at + 1]), 8)
        | _left(_u64(data[at + 2]), 16)
        | _left(_u64(data[at + 3]), 24)
        | _left(_u64(data[at + 4]), 32)
        | _left(_u64(data[at + 5]), 40)
        | _left(_u64(data[at + 6]), 48)
        | _left(_u64(data[at + 7]), 56)
    )


@jit
def siphash(data: Bytes, start: int, size: int, first_secret: int, second_secret: int) -> tuple[int, int]:
    """128-bit SipHash-1-3 of ``data[start:start + size]``, as two 64-bit numbers."""
    one, two = _u64(first_secret), _u64(second_secret)
    a, b = one ^ _u64(0x736F6D6570736575), two ^ _u64(0x646F72616E646F6D) ^ _u64(0xEE)
    c, d = one ^ _u64(0x6C7967656E657261), two ^ _u64(0x7465646279746573)
    whole = size >> 3
    for i in range(whole):
        word = _word(data, start + 8 * i)
        a, b, c, d = _round(a, b, c, d ^ word)
        a ^= word
    word = _left(_u64(size & 0xFF), 56)
    for i in range(size & 7):
        word |= _left(_u64(data[start + 8 * whole + i]), 8 * i)
    a, b, c, d = _round(a, b, c, d ^ word)
    a ^= word
    c ^= _u64(0xEE)
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    high = a ^ b ^ c ^ d
    b ^= _u64(0xDD)
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    return high, a ^ b ^ c ^ d


@jit
def _first_slot(first: int, table: Uint64s) -> int:
    """The slot at which a search for the hash begins."""
    return np.int64(_right(_right(first, 32) * _u64(len(table)), 32))


@jit
def _slot(first: int, second: int, table: Uint64s) -> int:
    """Returns the slot that has the hash, or the free slot for it. A slot stores the offset plus 1; 0 means free."""
    slots = len(table)
    at = _first_slot(first, table)
    while table[at, 2] != _u64(0) and (table[at, 0] != first or table[at, 1] != second):
        at += 1
        if at == slots:
            at = 0
    return at


@jit
def _hash_all(data: Bytes, key_offsets: Int32s, secret: Uint64s, hashes: Uint64s) -> None:
    one, two = secret[0], secret[1]
    for i in range(len(hashes)):
        start = np.int64(key_offsets[i])
        first, second = siphash(data, start, np.int64(key_offsets[i + 1]) - start, one, two)
        hashes[i, 0] = first
        hashes[i, 1] = second


@jit
def _put(
    hashes: Uint64s,
    valid: Bools,
    offsets: Int64s,
    row: int,
    start_offset: int,
    limit: int,
    table: Uint64s,
    state: Int64s,
) -> tuple[int, int]:
    last = np.int64(-1)
    flat = table.reshape(-1)
    for i in range(row, len(offsets)):
        if i + _AHEAD < len(offsets):
            prefetch(flat, 3 * _first_slot(hashes[i + _AHEAD, 0], table))
        if offsets[i] < start_offset or not valid[i]:
            continue
        if state[0] >= limit:
            return i, last
        at = _slot(hashes[i, 0], hashes[i, 1], table)
        if table[at, 2] == _u64(0):
            state[0] += 1
            table[at, 0] = hashes[i, 0]
            table[at, 1] = hashes[i, 1]
        table[at, 2] = _u64(offsets[i] + 1)
        last = offsets[i]
    return len(offsets), last


@jit
def _compare(hashes: Uint64s, valid: Bools, offsets: Int64s, table: Uint64s, found: Bools) -> None:
    flat = table.reshape(-1)
    for i in range(len(offsets)):
        if i + _AHEAD < len(offsets):
            prefetch(flat, 3 * _first_slot(hashes[i + _AHEAD, 0], table))
        if not valid[i]:
            found[i] = False
        else:
            at = _slot(hashes[i, 0], hashes[i, 1], table)
            found[i] = _u64(offsets[i] + 1) >= table[at, 2]


@jit
def _move(source: Uint64s, target: Uint64s) -> None:
    for i in range(len(source)):
        if source[i, 2] != _u64(0):
            at = _slot(source[i, 0], source[i, 1], target)
            target[at, 0] = source[i, 0]
            target[at, 1] = source[i, 1]
            target[at, 2] = source[i, 2]


@jit
def _mark(table: Uint64s, start_offset: int, shift: int, marked: Bools) -> None:
    for i in range(len(table)):
        if table[i, 2] != _u64(0):
            above = np.int64(table[i, 2]) - 1 - start_offset
            cell = above >> shift if above > 0 else 0
            marked[cell if cell < len(marked) else len(marked) - 1] = True
