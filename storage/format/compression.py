"""Compresses and decompresses the records of a batch, with any codec of Kafka.

One stream per batch holds the compressed records, or the message set of a legacy wrapper. The bytes need not equal
Kafka's as long as Kafka can read them: libraries write the frames, with Kafka's options.

To bound memory, reading does not trust a header: it first walks the codec's framing and compares the most that the
blocks can hold with the limit. An invalid stream raises ``InvalidRecordError`` without a position; the format module
that knows the batch adds it.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, NoReturn

import cramjam
import lz4.frame
import numpy as np
import zstandard

from ..config import DECOMPRESSED_BYTES_MAX
from ..errors import DecompressedSizeError, InvalidRecordError, UnsupportedCompressionTypeError
from ..kernels import streams
from .constants import INT32_MAX, Codec
from .tables import Bytes

_libraries = threading.local()  # (de)compressor objects: expensive to create, and not shareable between threads


class Levels(NamedTuple):
    """The levels that a codec accepts, with the bounds of Kafka's ``compression.*.level``."""

    lowest: int
    highest: int
    default: int


LEVELS = {Codec.GZIP: Levels(1, 9, -1), Codec.LZ4: Levels(1, 17, 9), Codec.ZSTD: Levels(-131072, 22, 3)}


def compress(codec: Codec, data: Bytes, level: int | None = None, *, magic: int = 2) -> Bytes:
    """Returns ``data`` compressed to one stream of ``codec``; ``level`` None is Kafka's default level.

    Raises ``UnsupportedCompressionTypeError`` for a level outside :data:`LEVELS`, or zstd below magic 2.
    """
    if codec == Codec.NONE:
        return data
    compressed = compressor(codec, level, magic=magic)(memoryview(np.ascontiguousarray(data)))
    return np.frombuffer(compressed, dtype=np.uint8)


def compressor(codec: Codec, level: int | None = None, *, magic: int = 2) -> Callable[[memoryview], bytes]:
    """Returns a function that compresses bytes to a stream of ``codec``, which is not NONE.

    Raises like :func:`compress`.
    """
    if codec == Codec.ZSTD and magic < 2:
        raise UnsupportedCompressionTypeError(
            f"zstd needs message format 2, but the batch has format {magic}; use another codec"
        )
    return partial(_COMPRESSORS[codec], level=checked_level(codec, level), magic=magic)


def checked_level(codec: Codec, level: int | None) -> int:
    """Returns the level to use, which is Kafka's default for None.

    Raises UnsupportedCompressionTypeError for a level that the codec does not have.
    """
    known = LEVELS.get(codec)
    if level is None:
        return 0 if known is None else known.default
    if known is None:
        raise UnsupportedCompressionTypeError(f"{codec.name.lower()} has no levels, but level {level} was given")
    if level != known.default and not known.lowest <= level <= known.highest:
        bounds = f"{known.lowest} to {known.highest}"
        raise UnsupportedCompressionTypeError(f"{codec.name.lower()} level {level} is outside {bounds}")
    return level


def decompress(codec: int, data: Bytes, *, magic: int = 2, limit: int = DECOMPRESSED_BYTES_MAX) -> Bytes:
    """Returns the decompressed content of the stream ``data``, at most ``limit`` bytes.

    Raises ``InvalidRecordError`` for an unknown codec, and for a stream that is cut off, damaged or exceeds the limit.
    """
    if codec not in _DECOMPRESSORS or (codec == Codec.ZSTD and magic < 2):
        raise InvalidRecordError(f"unknown compression type {codec} in message format {magic}")
    return _DECOMPRESSORS[Codec(codec)](np.ascontiguousarray(data), limit, magic)


def likely_bytes_min(codec: int, data: Bytes) -> int:
    """Returns how many bytes the stream ``data`` of one of Kafka's clients decompresses to at least; 0 if unknown.

    Looks at the framing alone, where a stream may state anything: good for choosing a way to read it, not as a limit.
    Raises ``InvalidRecordError`` for damage to the framing.
    """
    if codec == Codec.GZIP:
        return int.from_bytes(data[-4:].tobytes(), "little")  # its size modulo 2^32 (RFC 1952)
    if codec == Codec.LZ4:  # all blocks but the last are full
        return measure_lz4(data)[2] - _LZ4_BLOCK_SIZES.get(data[5] & 0x70, 0)
    if codec == Codec.ZSTD:
        with suppress(zstandard.ZstdError):  # damage, which decompressing it reports
            return measure_zstd(memoryview(data), 0, INT32_MAX)[1] - _ZSTD_BLOCK
    return 0


def decompress_into(codec: int, data: memoryview, target: memoryview) -> int:
    """Decompress a stream of a kind that :func:`streams.measure` measures into ``target``. Returns the bytes written.

    ``target`` must have the measured size. Returns OTHER if the stream does not decompress: :func:`decompress` then
    raises the reason.
    """
    try:
        if codec == streams.LZ4:
            block = data[streams.LZ4_HEADER : -streams.LZ4_END]
            size: int = cramjam.lz4.decompress_block_into(block, target, output_len=len(target))
            return size
        whole = _zstd_decompressor().decompress(data, max_output_size=len(target))
    except (cramjam.DecompressionError, zstandard.ZstdError):
        return streams.OTHER
    target[: len(whole)] = whole
    return len(whole)


def _refuse(codec: str, why: object) -> NoReturn:
    raise InvalidRecordError(f"the {codec} stream does not decompress: {why}")


def _too_large(codec: str, limit: int) -> NoReturn:
    raise DecompressedSizeError(
        f"the {codec} stream holds more than the {limit} bytes allowed: raise max.decompressed.bytes if you trust the "
        "log "
        "(control batches have a limit of their own)"
    )


# gzip: one member, no name, no time. Reading accepts further members and ignores anything else after a member.

_GZIP = 31  # zlib's window bits for a gzip member
_GZIP_START = b"\x1f\x8b\x08"


def _gzip(data: memoryview, level: int, magic: int) -> bytes:
    member = zlib.compressobj(level, zlib.DEFLATED, _GZIP)
    return member.compress(data) + member.flush()


def _gunzip(data: Bytes, limit: int, _magic: int) -> Bytes:
    rest: Bytes | bytes = data
    pieces: list[bytes] = []
    remaining = limit
    while not pieces or rest[:3] == _GZIP_START:
        member = zlib.decompressobj(_GZIP)
        try:
            pieces.append(member.decompress(rest, remaining + 1))
        except zlib.error as error:
            _refuse("gzip", error)
        remaining -= len(pieces[-1])
        if remaining < 0:
            _too_large("gzip", limit)
        if not member.eof:
            _refuse("gzip", f"it ends inside a member, after {len(data)} bytes")
        rest = member.unused_data
    return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), dtype=np.uint8)


# snappy: xerial's framing, blocks of 32 KiB; also reads one bare block, as librdkafka writes it.

_XERIAL = struct.Struct(">8sii")
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_MAGIC_HEAD = struct.unpack(">i", _XERIAL_MAGIC[:4])[0]
_SNAPPY_BLOCK = 32768
_SNAPPY_GROWTH = 22  # a copy of 64 bytes takes 3, so no block grows more, whatever its preamble states


def _snap(data: memoryview, level: int, magic: int) -> bytes:
    pieces = [_XERIAL.pack(_XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(data), _SNAPPY_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _SNAPPY_BLOCK]))
        pieces += (len(block).to_bytes(4, "big"), block)
    return b"".join(pieces)


def _unsnap(data: Bytes, limit: int, _magic: int) -> Bytes:
    blocks = _snappy_blocks(data)
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
    except cramjam.DecompressionError as error:
        _refuse("snappy", error)
    for block, size in zip(blocks, sizes, strict=True):
        if size > _SNAPPY_GROWTH * len(block) + 64:
            _refuse("snappy", f"a block of {len(block)} bytes states a content of {size} bytes")
    if sum(sizes) > limit:
        _too_large("snappy", limit)
    whole = np.empty(sum(sizes), dtype=np.uint8)
    at = 0
    for block, size in zip(blocks, sizes, strict=True):
        try:
            written = cramjam.snappy.decompress_raw_into(block, whole[at : at + size])
        except cramjam.DecompressionError as error:
            _refuse("snappy", error)
        if written != size:
            _refuse("snappy", f"a block states a content of {size} bytes and holds {written}")
        at += size
    return whole


def _snappy_blocks(data: Bytes) -> list[Bytes]:
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
            _refuse("snappy", f"at byte {at} a block of {size} bytes begins, but {len(data) - at - 4} remain")
        blocks.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return blocks


# lz4: one frame of independent 64 KiB blocks without checksums.

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FAST = 9  # Kafka's default level means the fast compressor; the others are levels of the high compressor
_LZ4_RAW = 0x80000000  # flag in a block size: the block is not compressed
_LZ4_GROWTH = 255


def _lz4(data: memoryview, level: int, magic: int) -> bytes:
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level == _LZ4_FAST else min(max(level, 3), 12),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic > 0:
        return frame
    return frame[:6] + bytes([header_checksum(frame[:6])]) + frame[7:]


def _unlz4(data: Bytes, limit: int, magic: int) -> Bytes:
    header_size, stop, capacity = measure_lz4(data)
    head = data[:header_size].tobytes()
    if magic == 0:  # writers of magic 0 stored a wrong header checksum, so any is accepted
        right = np.frombuffer(bytes([header_checksum(head[4 : header_size - 1])]), dtype=np.uint8)
        data = np.concatenate((data[: header_size - 1], right, data[header_size:]))
    try:
        frame = lz4.frame.LZ4FrameDecompressor()
        whole: bytes = frame.decompress(memoryview(data)[:stop], max_length=min(capacity, limit) + 1)
    except RuntimeError as error:
        _refuse("lz4", error)
    if len(whole) > limit:
        _too_large("lz4", limit)
    if not frame.eof:
        _refuse("lz4", "it ends inside the frame")
    return np.frombuffer(whole, dtype=np.uint8)


_LZ4_BLOCK_SIZES = {0x40: 2**16, 0x50: 2**18, 0x60: 2**20, 0x70: 2**22}


def measure_lz4(data: Bytes) -> tuple[int, int, int]:
    """Returns the size of an lz4 frame's header, the position after the frame, and the most bytes in its blocks."""
    head, raw, capacity = data[:15].tobytes(), memoryview(data), 0
    if len(head) < 7 or head[:4] != _LZ4_MAGIC:
        _refuse("lz4", "it does not begin with a frame header")
    if not head[4] & 0x20:
        _refuse("lz4", "its blocks depend on each other, which Kafka's readers do not accept")
    if head[4] & 0x03:
        _refuse("lz4", "it has a dictionary or a reserved bit, which Kafka's readers do not accept")
    at = header_size = 15 if head[4] & 0x08 else 7
    block_checksums, block_size = bool(head[4] & 0x10), _LZ4_BLOCK_SIZES.get(head[5] & 0x70, 0)
    while at + 4 <= len(raw):
        size = int.from_bytes(raw[at : at + 4], "little")
        at += 4
        if size == 0:
            return header_size, min(at + (4 if data[4] & 0x04 else 0), len(raw)), capacity
        size &= ~_LZ4_RAW
        capacity += min(block_size, _LZ4_GROWTH * size)
        at += size + (4 if block_checksums else 0)
    _refuse("lz4", f"it ends before its end mark, after {len(raw)} bytes")


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


# zstd: writes one frame; reads several, and skips skippable ones.

_ZSTD_SKIPPABLE = 0x184D2A50  # to ...5F
_ZSTD_BLOCK = 2**17
_ZSTD_RAW, _ZSTD_RLE = 0, 1
_ZSTD_SHORT_MATCHES_LOG = 12  # entries of 4 bytes


def _zstd(data: memoryview, level: int, magic: int) -> bytes:
    compressors: dict[int, zstandard.ZstdCompressor] = _libraries.__dict__.setdefault("compressors", {})
    if level not in compressors:
        compressors[level] = _zstd_compressor(level)
    return compressors[level].compress(data)


def _zstd_compressor(level: int) -> zstandard.ZstdCompressor:
    """Returns a compressor for a level; for the default level with Kafka's parameters, except for one smaller table.

    Kafka does not tell the library the size of a batch. At level 3, the default, the library therefore uses its
    parameters for large inputs, whose table of short matches takes 256 KiB and misses the cache at every byte. With a
    table of 16 KiB, compression takes 80 to 95 % of the time, and the output has 99 to 101 % of the size (words, source
    code, JSON and CSV, in batches of 16 and 256 KiB).
    """
    if level != LEVELS[Codec.ZSTD].default:
        return zstandard.ZstdCompressor(level=level)
    parameters = zstandard.ZstdCompressionParameters.from_level(level, chain_log=_ZSTD_SHORT_MATCHES_LOG)
    return zstandard.ZstdCompressor(compression_params=parameters)


def _unzstd(data: Bytes, limit: int, _magic: int) -> Bytes:
    raw, at, remaining = memoryview(data), 0, limit
    pieces: list[bytes] = []
    try:
        while at < len(raw) or not pieces:
            stop, capacity = measure_zstd(raw, at, remaining)
            if capacity >= 0:
                pieces.append(
                    _zstd_decompressor().decompress(raw[at:stop], max_output_size=min(capacity, remaining) or 1)
                )
                remaining -= len(pieces[-1])
            at = stop
    except zstandard.ZstdError as error:
        _refuse("zstd", f"{error} (at most {limit} bytes are allowed)")
    if remaining < 0:
        _too_large("zstd", limit)
    return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), dtype=np.uint8)


def _zstd_decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_libraries, "zstd"):
        _libraries.zstd = zstandard.ZstdDecompressor()
    decompressor: zstandard.ZstdDecompressor = _libraries.zstd
    return decompressor


def measure_zstd(raw: memoryview, at: int, limit: int) -> tuple[int, int]:
    """Returns the position after the zstd frame at ``at``, and the most bytes that it can hold.

    -1 for a skippable frame.
    """
    if int.from_bytes(raw[at : at + 4], "little") & ~0xF == _ZSTD_SKIPPABLE and at + 8 <= len(raw):
        return _whole(raw, at + 8 + int.from_bytes(raw[at + 4 : at + 8], "little")), -1
    frame = zstandard.get_frame_parameters(raw[at:])
    stop, capacity, last = at + zstandard.frame_header_size(raw[at:]), 0, 0
    while not last:
        head = int.from_bytes(raw[stop : _whole(raw, stop + 3)], "little")
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        stop += 3 + (1 if kind == _ZSTD_RLE else size)
        capacity += min(size, _ZSTD_BLOCK) if kind in (_ZSTD_RAW, _ZSTD_RLE) else min(_ZSTD_BLOCK, frame.window_size)
    stop = _whole(raw, stop + (4 if frame.has_checksum else 0))
    if frame.content_size in (zstandard.CONTENTSIZE_UNKNOWN, -1):
        return stop, capacity
    if frame.content_size > capacity:
        _refuse("zstd", f"its header states {frame.content_size} bytes, its blocks hold at most {capacity}")
    if frame.content_size > limit:  # the library allocates what the header states, whatever its output limit
        _too_large("zstd", limit)
    return stop, frame.content_size


def _whole(raw: memoryview, stop: int) -> int:
    """Returns ``stop``; raises an error if it is after the end of the stream."""
    if stop > len(raw):
        _refuse("zstd", f"it ends inside a frame, after {len(raw)} bytes")
    return stop


def _plain(data: Bytes, _limit: int, _magic: int) -> Bytes:
    return data


_COMPRESSORS: dict[Codec, Callable[..., bytes]] = {
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snap,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
_DECOMPRESSORS: dict[Codec, Callable[[Bytes, int, int], Bytes]] = {
    Codec.NONE: _plain,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnap,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
assert DECOMPRESSED_BYTES_MAX <= INT32_MAX  # columns have 32-bit offsets
