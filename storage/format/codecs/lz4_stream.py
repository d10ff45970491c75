"""lz4: one frame of independent 64 KiB blocks without checksums."""

from __future__ import annotations

import lz4.frame
import numpy as np

from ..tables import Bytes
from .refusals import refuse, too_large

_MAGIC = b"\x04\x22\x4d\x18"
DEFAULT_LEVEL = 9  # Kafka's default level means the fast compressor; the others are levels of the high compressor
_RAW = 0x80000000  # flag in a block size: the block is not compressed
_GROWTH = 255
BLOCK_SIZES = {0x40: 2**16, 0x50: 2**18, 0x60: 2**20, 0x70: 2**22}  # by three bits of the descriptor


def compress(data: memoryview, level: int, magic: int) -> bytes:
    """Returns ``data`` as a stream, of batches of format ``magic``."""
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level == DEFAULT_LEVEL else min(max(level, 3), 12),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic > 0:
        return frame
    return frame[:6] + bytes([header_checksum(frame[:6])]) + frame[7:]


def decompress(data: Bytes, limit: int, magic: int) -> Bytes:
    """Returns the content of a stream, at most ``limit`` bytes. Raises InvalidRecordError."""
    header_size, stop, capacity = measure(data)
    head = data[:header_size].tobytes()
    if magic == 0:  # writers of magic 0 stored a wrong header checksum, so any is accepted
        right = np.frombuffer(bytes([header_checksum(head[4 : header_size - 1])]), dtype=np.uint8)
        data = np.concatenate((data[: header_size - 1], right, data[header_size:]))
    try:
        frame = lz4.frame.LZ4FrameDecompressor()
        whole: bytes = frame.decompress(memoryview(data)[:stop], max_length=min(capacity, limit) + 1)
    except RuntimeError as error:
        refuse("lz4", error)
    if len(whole) > limit:
        too_large("lz4", limit)
    if not frame.eof:
        refuse("lz4", "it ends inside the frame")
    return np.frombuffer(whole, dtype=np.uint8)


def measure(data: Bytes) -> tuple[int, int, int]:
    """Returns the size of an lz4 frame's header, the position after the frame, and the most bytes in its blocks."""
    head, raw, capacity = data[:15].tobytes(), memoryview(data), 0
    if len(head) < 7 or head[:4] != _MAGIC:
        refuse("lz4", "it does not begin with a frame header")
    if not head[4] & 0x20:
        refuse("lz4", "its blocks depend on each other, which Kafka's readers do not accept")
    if head[4] & 0x03:
        refuse("lz4", "it has a dictionary or a reserved bit, which Kafka's readers do not accept")
    at = header_size = 15 if head[4] & 0x08 else 7
    block_checksums, block_size = bool(head[4] & 0x10), BLOCK_SIZES.get(head[5] & 0x70, 0)
    while True:
        if at + 4 > len(raw):
            refuse("lz4", f"it ends before its end mark, after {len(raw)} bytes")
        size = int.from_bytes(raw[at : at + 4], "little")
        at += 4
        if size == 0:
            return header_size, min(at + (4 if data[4] & 0x04 else 0), len(raw)), capacity
        size &= ~_RAW
        capacity += min(block_size, _GROWTH * size)
        at += size + (4 if block_checksums else 0)


def header_checksum(descriptor: bytes) -> int:
    """Returns the checksum of an lz4 frame descriptor: the second byte of xxHash32 with seed 0.

    A descriptor is shorter than the 16 bytes that xxHash32 handles at a time.
    """
    prime_1, prime_2, prime_3, prime_4, prime_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    hashed = (prime_5 + len(descriptor)) % 2**32
    words = len(descriptor) // 4 * 4
    for at in range(0, words, 4):
        hashed = (hashed + int.from_bytes(descriptor[at : at + 4], "little") * prime_3) % 2**32
        hashed = (hashed << 17 | hashed >> 15) * prime_4 % 2**32
    for byte in descriptor[words:]:
        hashed = (hashed + byte * prime_5) % 2**32
        hashed = (hashed << 11 | hashed >> 21) * prime_1 % 2**32
    hashed = (hashed ^ hashed >> 15) * prime_2 % 2**32
    hashed = (hashed ^ hashed >> 13) * prime_3 % 2**32
    return (hashed ^ hashed >> 16) >> 8 & 0xFF
