"""Copies bytes as ``kernels/memory.py`` does, by slices of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Bytes

BLOCK_BYTES = 32


def copy_bytes(target: Bytes, to: int, source: Bytes, start: int, size: int) -> None:
    target[to : to + size] = source[start : start + size]


def append_blocks(target: Bytes, to: int, source: Bytes, start: int, size: int) -> None:
    blocks = max(-(-size // BLOCK_BYTES), 1) * BLOCK_BYTES
    target[to : to + blocks] = source[start : start + blocks]


def prefetch(array: npt.NDArray[Any], at: int) -> None:
    """Does nothing; the compiled version loads ``array[at]`` into the cache."""


def put_rows(target: Bytes, positions: npt.NDArray[np.int64], rows: npt.NDArray[np.uint8]) -> None:
    for position, row in zip(positions, rows, strict=True):
        target[position : position + len(row)] = row


def gather(source: Bytes, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], target: Bytes, to: int) -> int:
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        target[to : to + stop - start] = source[start:stop]
        to += stop - start
    return to
