"""The frame around commits and checkpoints: a magic text, the length, CRC-32C, and zstd.

::

    8 bytes magic | u32 length | u32 crc32c | zstd frame of that length, whose header has the size of its content

Numbers are big-endian, like Kafka's. A reader allocates memory only after it has checked the checksum and the size.
"""

from __future__ import annotations

import struct

import zstandard

from ...errors import CorruptionError
from ...format.checksums import crc32c

_HEAD = struct.Struct(">8sII")
LEVEL = 3


def encode_frame(magic: bytes, payload: bytes) -> bytes:
    """Returns the frame; ``magic`` has 8 bytes."""
    compressed = zstandard.ZstdCompressor(level=LEVEL).compress(payload)
    return _HEAD.pack(magic, len(compressed), crc32c(compressed)) + compressed


def decode_frame(magic: bytes, data: bytes, limit: int) -> bytes:
    """Returns the payload, of at most ``limit`` bytes. Raises CorruptionError."""
    if len(data) < _HEAD.size or data[:8] != magic:
        raise CorruptionError(f"not framed as {magic.strip().decode()}", position=0)
    _, length, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if len(body) != length:
        raise CorruptionError(f"{len(body)} bytes follow the head, which names {length}", position=8)
    if crc32c(body) != crc:
        raise CorruptionError("the checksum does not match", position=12)
    return _decompressed(body, limit)


def _decompressed(body: memoryview, limit: int) -> bytes:
    try:
        size = zstandard.frame_content_size(body)
        if not 0 <= size <= limit:
            raise CorruptionError(f"holds {size} bytes, where at most {limit} are expected", position=_HEAD.size)
        payload = zstandard.ZstdDecompressor().decompress(body, max_output_size=limit, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptionError(f"does not decompress: {error}", position=_HEAD.size) from error
    if len(payload) != size:
        raise CorruptionError(f"holds {len(payload)} bytes, where its head names {size}", position=_HEAD.size)
    return payload
