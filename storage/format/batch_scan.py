"""Walks over the batches in a buffer, in plain Python or compiled; both find the same batches and stop alike.

The compiled walk is many times faster, but importing numba takes longer than walking ten thousand batches in plain
Python, and finding the end of a log needs only a few.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..kernels import scan
from ..kernels.loading import are_being_compiled, are_imported
from ..kernels.stop_reasons import BAD_MAGIC, BAD_SIZE, END, FULL, TRUNCATED, UNKNOWN_MAGIC
from .constants import HEADER_UP_TO_MAGIC, LOG_OVERHEAD
from .tables import Bytes, Int64s

PLAIN_BATCHES_MAX = 100_000  # per process: they take 50 ms, the import 300 ms
_WALKED_AT_ONCE = 4096  # batches; a walk that finds more doubles its arrays

_LENGTH_AND_MAGIC = struct.Struct(">8xi4xB")
assert _LENGTH_AND_MAGIC.size == HEADER_UP_TO_MAGIC
_LENGTHS_MIN = (14, 22, 49)  # by magic


class Walk(NamedTuple):
    """Consecutive batches found in a buffer."""

    positions: Int64s  # shape (batches,)
    sizes: Int64s  # shape (batches,)
    magics: npt.NDArray[np.int8]  # shape (batches,)
    end: int  # position after the last batch
    reason: int  # why the walk stopped there, from kernels.stops


class Walker:
    """Walks in plain Python until numba is imported, or until enough batches make importing it worthwhile.

    This also applies while kernels are being compiled: their plain stand-ins are slower, or wait for them.
    """

    def __init__(self) -> None:
        self._walked_plainly = 0  # batches

    def walk(self, source: Bytes, start: int, batches_max: int) -> Walk:
        """Returns the whole batches from ``start`` on; ``source`` must be a result of :func:`kernels.arrays.frozen`."""
        found = self._walk(source, start, min(batches_max, _WALKED_AT_ONCE))
        while found.reason == FULL and len(found.positions) < batches_max:
            room = min(len(found.positions), batches_max - len(found.positions))
            more = self._walk(source, found.end, room)
            found = Walk(
                np.concatenate((found.positions, more.positions)),
                np.concatenate((found.sizes, more.sizes)),
                np.concatenate((found.magics, more.magics)),
                more.end,
                more.reason,
            )
        return found

    def _walk(self, source: Bytes, start: int, batches_max: int) -> Walk:
        is_worthwhile = self._walked_plainly >= PLAIN_BATCHES_MAX and not are_being_compiled()
        if are_imported() or is_worthwhile:
            return walk_compiled(source, start, batches_max)
        found = walk_plainly(source, start, batches_max)
        self._walked_plainly += len(found.positions)
        return found


def walk_compiled(source: Bytes, start: int, batches_max: int) -> Walk:
    positions, sizes = np.empty(batches_max, np.int64), np.empty(batches_max, np.int64)
    magics = np.empty(batches_max, np.int8)
    found, end, reason = scan.walk(source, start, positions, sizes, magics)
    return Walk(positions[:found], sizes[:found], magics[:found], end, reason)


def walk_plainly(source: Bytes, start: int, batches_max: int) -> Walk:
    positions: list[int] = []
    magics: list[int] = []
    view = memoryview(source)  # created once: taking bytes from an array is slower
    at, end = start, len(source)
    while end - at > HEADER_UP_TO_MAGIC and len(positions) < batches_max:
        length, magic = _LENGTH_AND_MAGIC.unpack_from(view, at)
        if magic >= len(_LENGTHS_MIN) or not _LENGTHS_MIN[magic] <= length <= end - at - LOG_OVERHEAD:
            break
        positions.append(at)
        magics.append(magic)
        at += length + LOG_OVERHEAD
    starts = np.array(positions, np.int64)
    return Walk(starts, np.diff(starts, append=at), np.array(magics, np.int8), at, _reason(view, at))


def _reason(view: memoryview, at: int) -> int:
    """Returns why a walk stops at ``at``: the problem there, or FULL if the walk has found enough batches."""
    remaining = len(view) - at
    if remaining <= HEADER_UP_TO_MAGIC:
        return END if remaining == 0 else TRUNCATED
    length, magic = _LENGTH_AND_MAGIC.unpack_from(view, at)
    if length < _LENGTHS_MIN[0]:
        return BAD_SIZE
    if length > remaining - LOG_OVERHEAD:
        return TRUNCATED
    if magic >= len(_LENGTHS_MIN):
        return BAD_MAGIC if magic >= 0x80 else UNKNOWN_MAGIC
    return BAD_SIZE if length < _LENGTHS_MIN[magic] else FULL
