"""snappy: xerial's framing, blocks of 32 KiB; also reads one bare block, as librdkafka writes it."""

from __future__ import annotations

import struct

import cramjam
import numpy as np

from ..tables import Bytes
from .refusals import refuse, too_large

_XERIAL = struct.Struct(">8sii")
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_MAGIC_HEAD = struct.unpack(">i", _XERIAL_MAGIC[:4])[0]
_BLOCK = 32768
_GROWTH = 22  # a copy of 64 bytes takes 3, so no block grows more, whatever its preamble states


def compress(data: memoryview, level: int, magic: int) -> bytes:
    """Returns ``data`` as a stream, of batches of format ``magic``."""
    pieces = [_XERIAL.pack(_XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(data), _BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _BLOCK]))
        pieces += (len(block).to_bytes(4, "big"), block)
    return b"".join(pieces)


def decompress(data: Bytes, limit: int, _magic: int) -> Bytes:
    """Returns the content of a stream, at most ``limit`` bytes. Raises InvalidRecordError."""
    blocks = _blocks(data)
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
    except cramjam.DecompressionError as error:
        refuse("snappy", error)
    for block, size in zip(blocks, sizes, strict=True):
        if size > _GROWTH * len(block) + 64:
            refuse("snappy", f"a block of {len(block)} bytes states a content of {size} bytes")
    if sum(sizes) > limit:
        too_large("snappy", limit)
    whole = np.empty(sum(sizes), dtype=np.uint8)
    at = 0
    for block, size in zip(blocks, sizes, strict=True):
        try:
            written = cramjam.snappy.decompress_raw_into(block, whole[at : at + size])
        except cramjam.DecompressionError as error:
            refuse("snappy", error)
        if written != size:
            refuse("snappy", f"a block states a content of {size} bytes and holds {written}")
        at += size
    return whole


def _blocks(data: Bytes) -> list[Bytes]:
    if len(data) < _XERIAL.size or data[:8].tobytes() != _XERIAL_MAGIC:
        return [data]
    blocks = []
    at = _XERIAL.size
    while at < len(data):
        size = int.from_bytes(data[at : at + 4].tobytes(), "big", signed=True)
        if size == _XERIAL_MAGIC_HEAD and at + _XERIAL.size <= len(data):  # one more stream follows
            at += _XERIAL.size
            continue
        if size < 0 or at + 4 + size > len(data):
            refuse("snappy", f"at byte {at} a block of {size} bytes begins, but {len(data) - at - 4} remain")
        blocks.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return blocks
