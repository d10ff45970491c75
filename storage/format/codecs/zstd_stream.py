"""zstd: writes one frame; reads several, and skips skippable ones."""

from __future__ import annotations

import threading

import numpy as np
import zstandard

from ..tables import Bytes
from .refusals import refuse, too_large

DEFAULT_LEVEL = 3
BLOCK_BYTES = 2**17  # of a block's content, at most
_SKIPPABLE = 0x184D2A50  # to ...5F
_RAW, _RLE = 0, 1
_SHORT_MATCHES_LOG = 12  # entries of 4 bytes

_libraries = threading.local()  # (de)compressor objects: expensive to create, and not shareable between threads


def compress(data: memoryview, level: int, magic: int) -> bytes:
    """Returns ``data`` as a stream, of batches of format ``magic``."""
    compressors: dict[int, zstandard.ZstdCompressor] = _libraries.__dict__.setdefault("compressors", {})
    if level not in compressors:
        compressors[level] = _compressor(level)
    return compressors[level].compress(data)


def _compressor(level: int) -> zstandard.ZstdCompressor:
    """Returns a compressor for a level; for the default level with Kafka's parameters, except for one smaller table.

    Kafka does not tell the library the size of a batch. At level 3, the default, the library therefore uses its
    parameters for large inputs, whose table of short matches takes 256 KiB and misses the cache at every byte. With a
    table of 16 KiB, compression takes 80 to 95 % of the time, and the output has 99 to 101 % of the size (words, source
    code, JSON and CSV, in batches of 16 and 256 KiB).
    """
    if level != DEFAULT_LEVEL:
        return zstandard.ZstdCompressor(level=level)
    parameters = zstandard.ZstdCompressionParameters.from_level(level, chain_log=_SHORT_MATCHES_LOG)
    return zstandard.ZstdCompressor(compression_params=parameters)


def decompress(data: Bytes, limit: int, _magic: int) -> Bytes:
    """Returns the content of a stream, at most ``limit`` bytes. Raises InvalidRecordError."""
    raw, at, remaining = memoryview(data), 0, limit
    pieces: list[bytes] = []
    try:
        while at < len(raw) or not pieces:
            stop, capacity = measure(raw, at, remaining)
            if capacity >= 0:
                pieces.append(decompressor().decompress(raw[at:stop], max_output_size=min(capacity, remaining) or 1))
                remaining -= len(pieces[-1])
            at = stop
    except zstandard.ZstdError as error:
        refuse("zstd", f"{error} (at most {limit} bytes are allowed)")
    if remaining < 0:
        too_large("zstd", limit)
    return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), dtype=np.uint8)


def decompressor() -> zstandard.ZstdDecompressor:
    """Returns the decompressor of this thread."""
    if not hasattr(_libraries, "zstd"):
        _libraries.zstd = zstandard.ZstdDecompressor()
    found: zstandard.ZstdDecompressor = _libraries.zstd
    return found


def measure(raw: memoryview, at: int, limit: int) -> tuple[int, int]:
    """Returns the position after the zstd frame at ``at``, and the most bytes that it can hold.

    -1 for a skippable frame.
    """
    if int.from_bytes(raw[at : at + 4], "little") & ~0xF == _SKIPPABLE and at + 8 <= len(raw):
        return _whole(raw, at + 8 + int.from_bytes(raw[at + 4 : at + 8], "little")), -1
    frame = zstandard.get_frame_parameters(raw[at:])
    stop, capacity, last = at + zstandard.frame_header_size(raw[at:]), 0, 0
    while not last:
        head = int.from_bytes(raw[stop : _whole(raw, stop + 3)], "little")
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        stop += 3 + (1 if kind == _RLE else size)
        capacity += min(size, BLOCK_BYTES) if kind in (_RAW, _RLE) else min(BLOCK_BYTES, frame.window_size)
    stop = _whole(raw, stop + (4 if frame.has_checksum else 0))
    if frame.content_size in (zstandard.CONTENTSIZE_UNKNOWN, -1):
        return stop, capacity
    if frame.content_size > capacity:
        refuse("zstd", f"its header states {frame.content_size} bytes, its blocks hold at most {capacity}")
    if frame.content_size > limit:  # the library allocates what the header states, whatever its output limit
        too_large("zstd", limit)
    return stop, frame.content_size


def _whole(raw: memoryview, stop: int) -> int:
    """Returns ``stop``; raises an error if it is after the end of the stream."""
    if stop > len(raw):
        refuse("zstd", f"it ends inside a frame, after {len(raw)} bytes")
    return stop
