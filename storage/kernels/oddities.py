"""What readers of magic 2 pass over in records: attribute bits that mean nothing, and numbers with needless bytes."""

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
    """Set the bits above in ``found``, shape (n,), for ``batches``, which :func:`records.fill` has found sound."""
    for b in range(len(batches)):
        at = batches[b, START]
        stop = batches[b, STOP]
        bits = 0
        for _ in range(batches[b, COUNT]):
            start = at
            while source[at] >= 0x80:  # the length: a sound record ends where its last field does
                at += 1
            bits |= _padding(source, start, at + 1)
            if source[at + 1] != 0:
                bits |= HAS_ATTRIBUTES
            at += 2
            for _ in range(2):  # what is added to timestamp and offset
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
    """Whether the last byte of the number there adds nothing."""
    return IS_PADDED if stop - start > 1 and source[stop - 1] == 0 else 0
