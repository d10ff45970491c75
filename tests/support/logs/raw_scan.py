"""A plain reader of Kafka's record batches and message sets, for searches: shares no code with the product.

Decompresses with the libraries of the codecs themselves, block by block where frames of old Kafkas are wrong.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import cramjam
import lz4.block
import zstandard

_XERIAL = b"\x82SNAPPY\x00"
_LZ4_MAGIC = b"\x04\x22\x4d\x18"


def contents(directory: Path) -> Iterator[tuple[Path, bytes]]:
    """Yields each file below a directory as it is, and each batch or message of a log without its compression."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            yield path, data
            if ".log" in path.name or path.suffix == ".data":
                yield from ((path, plain) for plain in batches(data))


def has(directory: Path, text: bytes) -> list[Path]:
    """The files that have some bytes, compressed or not."""
    return sorted({path for path, data in contents(directory) if text in data})


def batches(data: bytes) -> Iterator[bytes]:
    """Yields the records of each batch, decompressed; of a message the whole message, or the set in a wrapper.

    Ends where no batch begins, as at the end of an object that was staged.
    """
    at = 0
    while at + 17 <= len(data):
        (length,) = struct.unpack_from(">i", data, at + 8)
        if length < 14 or at + 12 + length > len(data) or data[at + 16] > 2:
            return
        whole = data[at : at + 12 + length]
        yield _records(whole) if whole[16] == 2 else _message(whole)
        at += 12 + length


def _records(batch: bytes) -> bytes:
    (attributes,) = struct.unpack_from(">h", batch, 21)
    return decompressed(attributes & 7, batch[61:])


def _message(message: bytes) -> bytes:
    magic, attributes = message[16], message[17]
    at = 18 if magic == 0 else 26
    (key_size,) = struct.unpack_from(">i", message, at)
    at += 4 + max(key_size, 0)
    if not attributes & 7:
        return message
    return decompressed(attributes & 7, message[at + 4 :])


def decompressed(codec: int, data: bytes) -> bytes:
    if codec == 1:
        return zlib.decompress(data, 31)
    if codec == 2:
        return _snappy(data)
    if codec == 3:
        return _lz4(data)
    if codec == 4:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def _snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL):
        return bytes(cramjam.snappy.decompress_raw(data))
    at, found = 16, b""
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        found += bytes(cramjam.snappy.decompress_raw(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return found


def _lz4(data: bytes) -> bytes:
    """The blocks of a frame; ignores its checksums, which are wrong in messages of magic 0."""
    assert data.startswith(_LZ4_MAGIC)
    flags, most = data[4], 1 << (8 + 2 * (data[5] >> 4 & 7))
    at, found = 7 + (8 if flags & 8 else 0), b""
    while True:
        (size,) = struct.unpack_from("<I", data, at)
        at += 4
        if not size:
            return found
        block = data[at : at + (size & 0x7FFFFFFF)]
        before = b"" if flags & 0x20 else found[-65536:]
        found += block if size >> 31 else lz4.block.decompress(block, uncompressed_size=most, dict=before)
        at += len(block) + (4 if flags & 0x10 else 0)
