"""Compresses and decompresses the records of a batch, with any codec of Kafka.

One stream per batch holds the compressed records, or the message set of a legacy wrapper. The bytes need not equal
Kafka's as long as Kafka can read them: libraries write the frames, with Kafka's options.

To bound memory, reading does not trust a header: it first walks the codec's framing and compares the most that the
blocks can hold with the limit. An invalid stream raises ``InvalidRecordError`` without a position; the format module
that knows the batch adds it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import cramjam
import numpy as np
import zstandard

from ..config import DECOMPRESSED_BYTES_MAX
from ..errors import InvalidRecordError, UnsupportedCompressionTypeError
from ..kernels import streams
from .codecs import gzip_stream, lz4_stream, snappy_stream, zstd_stream
from .constants import INT32_MAX, Codec
from .tables import Bytes


class Levels(NamedTuple):
    """The levels that a codec accepts, with the bounds of Kafka's ``compression.*.level``."""

    lowest: int
    highest: int
    default: int


LEVELS = {
    Codec.GZIP: Levels(1, 9, -1),
    Codec.LZ4: Levels(1, 17, lz4_stream.DEFAULT_LEVEL),
    Codec.ZSTD: Levels(-131072, 22, zstd_stream.DEFAULT_LEVEL),
}


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
        return lz4_stream.measure(data)[2] - lz4_stream.BLOCK_SIZES.get(data[5] & 0x70, 0)
    if codec == Codec.ZSTD:
        with suppress(zstandard.ZstdError):  # damage, which decompressing it reports
            return zstd_stream.measure(memoryview(data), 0, INT32_MAX)[1] - zstd_stream.BLOCK_BYTES
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
        whole = zstd_stream.decompressor().decompress(data, max_output_size=len(target))
    except (cramjam.DecompressionError, zstandard.ZstdError):
        return streams.OTHER
    target[: len(whole)] = whole
    return len(whole)


def _plain(data: Bytes, _limit: int, _magic: int) -> Bytes:
    return data


_COMPRESSORS: dict[Codec, Callable[..., bytes]] = {
    Codec.GZIP: gzip_stream.compress,
    Codec.SNAPPY: snappy_stream.compress,
    Codec.LZ4: lz4_stream.compress,
    Codec.ZSTD: zstd_stream.compress,
}
_DECOMPRESSORS: dict[Codec, Callable[[Bytes, int, int], Bytes]] = {
    Codec.NONE: _plain,
    Codec.GZIP: gzip_stream.decompress,
    Codec.SNAPPY: snappy_stream.decompress,
    Codec.LZ4: lz4_stream.decompress,
    Codec.ZSTD: zstd_stream.decompress,
}
assert DECOMPRESSED_BYTES_MAX <= INT32_MAX  # columns have 32-bit offsets
