"""Codecs: what is written can be read, invalid streams are refused, and no header makes us reserve memory."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from contextlib import suppress

import lz4.frame
import numpy as np
import pytest
import zstandard

from pyspark_commitlog.storage.errors import InvalidRecordError, UnsupportedCompressionTypeError
from pyspark_commitlog.storage.format.codecs.lz4_stream import header_checksum
from pyspark_commitlog.storage.format.compression import (
    LEVELS,
    compress,
    decompress,
    likely_bytes_min,
)
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.tables import Bytes

CODECS = [codec for codec in Codec if codec != Codec.NONE]
SIZES = (0, 1, 17, 32768, 32769, 65536, 65537, 300_000)
PAYLOADS = {
    "zeros": bytes,
    "random": random.Random(1).randbytes,
    "words": lambda size: (b"the quick brown fox %d " % size * size)[:size],
}


def as_array(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


@pytest.mark.parametrize("kind", PAYLOADS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("codec", Codec)
def test_compressed_data_is_decompressed_completely_or_not_at_all(codec: Codec, size: int, kind: str) -> None:
    data = PAYLOADS[kind](size)
    for magic in (0, 1, 2) if codec != Codec.ZSTD else (2,):
        stream = compress(codec, as_array(data), magic=magic)
        assert decompress(codec, stream, magic=magic, limit=size).tobytes() == data
        if codec == Codec.NONE:
            continue
        for cut in (len(stream) - 1, len(stream) // 2, 0):
            if cut > 16 or codec != Codec.SNAPPY:  # snappy's 16 bytes of header alone are a stream of nothing
                with pytest.raises(InvalidRecordError):
                    decompress(codec, stream[:cut], magic=magic)
        if size > 1:
            with pytest.raises(InvalidRecordError):
                decompress(codec, stream, magic=magic, limit=size - 1)


@pytest.mark.parametrize("kind", PAYLOADS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_is_never_expected_to_hold_more_than_it_does(codec: Codec, size: int, kind: str) -> None:
    stream = compress(codec, as_array(PAYLOADS[kind](size)))
    assert likely_bytes_min(codec, stream) <= size
    with suppress(InvalidRecordError):
        likely_bytes_min(codec, stream[: len(stream) // 2])


@pytest.mark.parametrize("codec", LEVELS)
def test_every_level_of_kafka_is_accepted_and_no_other(codec: Codec) -> None:
    levels, data = LEVELS[codec], as_array(b"ab" * 5000)
    for level in {max(levels.lowest, -5), levels.lowest, levels.default, levels.highest}:
        assert np.array_equal(decompress(codec, compress(codec, data, level)), data)
    for level in (0 if codec == Codec.GZIP else levels.lowest - 1, levels.highest + 1):
        with pytest.raises(UnsupportedCompressionTypeError, match=str(level)):
            compress(codec, data, level)


def test_zstd_is_refused_where_the_format_has_no_room_for_it() -> None:
    with pytest.raises(UnsupportedCompressionTypeError):
        compress(Codec.ZSTD, as_array(b"a"), magic=1)
    with pytest.raises(InvalidRecordError):
        decompress(Codec.ZSTD, compress(Codec.ZSTD, as_array(b"a")), magic=1)


def test_lz4_is_written_as_kafka_writes_it() -> None:
    """Independent 64 KiB blocks, no checksums; in magic 0 the header checksum covers the frame's magic too."""
    assert compress(Codec.LZ4, as_array(b"a")).tobytes()[:7].hex() == "04224d18604082"
    assert compress(Codec.LZ4, as_array(b"a"), magic=0).tobytes()[:7].hex() == "04224d1860401a"
    assert header_checksum(b"\x60\x40") == 0x82


def test_lz4_whose_blocks_depend_on_each_other_is_refused_as_kafkas_readers_refuse_it() -> None:
    frame = lz4.frame.compress(b"word " * 40_000, block_linked=True)
    with pytest.raises(InvalidRecordError, match="its blocks depend on each other"):
        decompress(Codec.LZ4, as_array(frame), magic=2)


def _lying_snappy() -> bytes:
    return b"\xff\xff\xff\xff\x07" + bytes(40)  # a block that claims to hold 2 GiB


def _lying_zstd() -> bytes:
    frame = bytearray(zstandard.ZstdCompressor().compress(bytes(100)))
    return bytes([*frame[:4], 0xE0, *(2**40).to_bytes(8, "little"), *frame[6:]])  # content size: 1 TiB


def _lying_lz4() -> bytes:
    descriptor = b"\x68\x40" + (2**40).to_bytes(8, "little")
    return b"\x04\x22\x4d\x18" + descriptor + bytes([header_checksum(descriptor)]) + b"\x05\0\0\x80hello\0\0\0\0"


BOMB_BYTES = 2**28
BOMBS = {
    "gzip, zeros": (Codec.GZIP, lambda: zlib.compress(bytes(BOMB_BYTES), 1, wbits=31)),
    "lz4, zeros": (Codec.LZ4, lambda: lz4.frame.compress(bytes(BOMB_BYTES), block_linked=False)),
    "zstd, zeros": (Codec.ZSTD, lambda: zstandard.ZstdCompressor(level=1).compress(bytes(BOMB_BYTES))),
    "snappy, a size nothing can have": (Codec.SNAPPY, _lying_snappy),
    "zstd, a size nothing can have": (Codec.ZSTD, _lying_zstd),
    "lz4, a size nothing can have": (Codec.LZ4, _lying_lz4),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_without_the_memory_it_asks_for(bomb: str) -> None:
    codec, make = BOMBS[bomb]
    stream = as_array(make())
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRecordError):
            decompress(codec, stream, limit=2**20)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_any_one_damaged_byte_gives_an_error_or_bytes_but_nothing_else(codec: Codec) -> None:
    chance = random.Random(2)
    stream = compress(codec, as_array(b"some words, some more words " * 40)).copy()
    for at in range(len(stream)):
        spoiled = stream.copy()
        spoiled[at] ^= chance.randrange(1, 256)
        with suppress(InvalidRecordError):
            assert len(decompress(codec, spoiled, limit=2**16)) <= 2**16
