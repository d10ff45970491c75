"""Finds what readers of magic 2 ignore in records: attribute bits without a meaning, and numbers with padding bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyspark_commitlog.storage.kernels import Bytes
from pyspark_commitlog.storage.kernels.compiling import jit
from pyspark_commitlog.storage.kernels.records import COUNT, START, STOP
from pyspark_commitlog.storage.kernels.varint import bytes_behind, read_varint

Int64s = npt.NDArray[np.int64]

HAS_ATTRIBUTES = 1
IS_PADDED = 2


@jit
def find_oddities(source: Bytes, batches: Int64s, found: npt.NDArray[np.uint8]) -> None:
    """Set the bits above in ``found``, shape (n,), for ``batches`` that :func:`records.fill` accepts."""
    for b in range(len(batches)):
        at = batches[b, START]
        stop = batches[b, STOP]
        bits = 0
        for _ in range(batches[b, COUNT]):
            start = at
            while source[at] >= 0x80:  # the length, not needed: a valid record ends with its last field
                at += 1
            bits |= _padding(source, start, at + 1)
            if source[at + 1] != 0:
                bits |= HAS_ATTRIBUTES
            at += 2
            for _ in range(2):  # timestamp delta and offset delta
                start = at
                while source[at] >= 0x80:
                    at += 1
                at += 1
                bits |= _padding(source, start, at)
            for _ in range(2):  # key and value
                start = at
                size, at = read_varint(source, start, stop)
                bits |= _padding(source, start, at)
                at += bytes_behind(size)
            start = at
            count, at = read_varint(source, start, stop)
            bits |= _padding(source, start, at)
            for _ in range(2 * count):  # names and values
                start = at
                size, at = read_varint(source, start, stop)
                bits |= _padding(source, start, at)
                at += bytes_behind(size)
        found[b] = bits


@jit
def _padding(source: Bytes, start: int, stop: int) -> int:
    """IS_PADDED if the last byte of the number in ``[start, stop)`` adds nothing to it."""
    return IS_PADDED if stop - start > 1 and source[stop - 1] == 0 else 0
