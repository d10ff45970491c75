"""Measures how many bytes the compressed streams of small batches need when they are decompressed.

In lz4 that is a frame with one compressed block below 64 KiB, in zstd one frame without a dictionary. For other or
invalid streams the caller uses the general decompression, which also reports the fault.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .arrays import Bytes
from .compiling import jit

Int64s = npt.NDArray[np.int64]

OTHER = -1  # stands in place of a size: another form of stream, or damage

LZ4 = 3  # the numbers of codecs in a batch's attributes
ZSTD = 4

LZ4_HEADER = 11  # bytes before the block: magic, descriptor, its checksum, size of the block
LZ4_END = 4  # bytes after it
LZ4_BLOCK = 2**16
_LZ4_GROWTH = 255
_ZSTD_BLOCK = 2**17
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED = 0, 1, 2


@jit
def measure(source: Bytes, starts: Int64s, stops: Int64s, codecs: npt.NDArray[np.int16], rooms: Int64s) -> None:
    """Fill ``rooms`` with the most bytes, at least 1, that each stream ``source[start:stop]`` can decompress to.

    The entry is OTHER for a stream that is not measured: of another codec than lz4 and zstd, or with a frame that is
    damaged or has features that Kafka's clients do not use.
    """
    for i in range(len(starts)):
        rooms[i] = OTHER
        if codecs[i] == LZ4:
            rooms[i] = _lz4_room(source, starts[i], stops[i])
        elif codecs[i] == ZSTD:
            rooms[i] = _zstd_room(source, starts[i], stops[i])


@jit
def _number(source: Bytes, at: int, size: int) -> int:
    """A little-endian number of ``size`` bytes."""
    found = np.int64(0)
    for i in range(size):
        found |= np.int64(source[at + i]) << (8 * i)
    return found


@jit
def _lz4_room(source: Bytes, start: int, stop: int) -> int:
    """Returns the most bytes that an lz4 frame can decompress to, or OTHER.

    Accepts what Kafka's writers produce: independent blocks of at most 64 KiB, no checksums, no content size.
    """
    if stop - start <= LZ4_HEADER + LZ4_END:
        return OTHER
    if _number(source, start, 4) != 0x184D2204 or _number(source, start + 4, 3) != 0x824060:
        return OTHER
    size = _number(source, start + 7, 4)
    if start + LZ4_HEADER + size + LZ4_END != stop or _number(source, stop - LZ4_END, 4) != 0:
        return OTHER
    return min(LZ4_BLOCK, _LZ4_GROWTH * size)


@jit
def _zstd_room(source: Bytes, start: int, stop: int) -> int:
    """Returns the size in a zstd frame's header if its blocks can hold that much.

    Otherwise the most that they can hold.
    """
    if stop - start < 14 or _number(source, start, 4) != 0xFD2FB528:  # the longest header that is read here
        return OTHER
    flags = np.int64(source[start + 4])
    is_single, size_kind = flags & 0x20, flags >> 6
    if flags & 0x0B or size_kind == 3:
        return OTHER
    at, window = start + 5, np.int64(0)
    if not is_single:
        base = np.int64(1) << (10 + (np.int64(source[at]) >> 3))
        window = base + (base >> 3) * (np.int64(source[at]) & 7)
        at += 1
    size_bytes = 1 << size_kind if size_kind or is_single else 0
    content = _number(source, at, size_bytes) + (256 if size_kind == 1 else 0)
    at += size_bytes
    capacity, after = _zstd_blocks(source, at, stop, min(_ZSTD_BLOCK, content if is_single else window))
    if after + (flags & 0x04) != stop or content > capacity:
        return OTHER
    room = content if size_bytes else capacity
    return room if room > 0 else OTHER


@jit
def _zstd_blocks(source: Bytes, at: int, stop: int, block_bytes_max: int) -> tuple[int, int]:
    """Returns the most bytes that the blocks can hold, and their end.

    The end is after ``stop`` if a block is cut or of unknown type.
    """
    capacity, last = 0, 0
    while not last:
        if at + 3 > stop:
            return capacity, stop + 1 + 4
        head = _number(source, at, 3)
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        if kind > _ZSTD_COMPRESSED:
            return capacity, stop + 1 + 4
        at += 3 + (1 if kind == _ZSTD_RLE else size)
        capacity += block_bytes_max if kind == _ZSTD_COMPRESSED else min(size, _ZSTD_BLOCK)
    return capacity, at
