"""Streams of the usual shape, measured and decompressed in place, compared with the reader of any shape."""

from __future__ import annotations

import lz4.frame
import numpy as np
import pytest
import zstandard
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.errors import InvalidRecordError
from pyspark_commitlog.storage.format import compression
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.kernels import streams
from pyspark_commitlog.storage.kernels.arrays import frozen

CODECS = st.sampled_from([Codec.LZ4, Codec.ZSTD])
BODIES = st.builds(
    lambda piece, times, rest: piece * times + rest, st.binary(max_size=40), st.integers(0, 300), st.binary(max_size=60)
)
TEXT = b"".join(b"record %d of some; " % number for number in range(500))


def measured(codec: int, stream: bytes) -> int:
    """The measured size of a stream between other bytes."""
    source = frozen(np.frombuffer(b"\x28\xb5" + stream, dtype=np.uint8))
    rooms = np.zeros(1, dtype=np.int64)
    starts, stops = np.array([2], dtype=np.int64), np.array([2 + len(stream)], dtype=np.int64)
    streams.measure(source, starts, stops, np.array([codec], dtype=np.int16), rooms)
    return int(rooms[0])


def read(codec: int, stream: bytes) -> bytes | None:
    """The content of the stream; None if it is left to the other reader."""
    room = measured(codec, stream)
    if room == streams.OTHER:
        return None
    target = bytearray(room)
    size = compression.decompress_into(codec, memoryview(stream), memoryview(target))
    return None if size == streams.OTHER else bytes(target[:size])


def plain(codec: int, stream: bytes) -> bytes | None:
    """What the reader of any shape finds; None for an error."""
    try:
        return compression.decompress(codec, np.frombuffer(stream, dtype=np.uint8)).tobytes()
    except InvalidRecordError:
        return None


def compressed(codec: Codec, body: bytes) -> bytes:
    return compression.compress(codec, np.frombuffer(body, dtype=np.uint8)).tobytes()


@given(CODECS, BODIES)
def test_a_stream_in_place_is_read_correctly_or_left_to_the_other_reader(codec: Codec, body: bytes) -> None:
    assert read(codec, compressed(codec, body)) in (body, None)


@given(CODECS, BODIES, st.data())
def test_damage_is_never_read_as_something_else_than_the_other_reader_finds(
    codec: Codec, body: bytes, data: st.DataObject
) -> None:
    stream = bytearray(compressed(codec, body))
    for _ in range(data.draw(st.integers(1, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(stream[: data.draw(st.integers(0, len(stream)) | st.just(len(stream)))])
    found = read(codec, cut)
    assert found is None or found == plain(codec, cut)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_what_our_writers_leave_is_read_in_place(codec: Codec) -> None:
    assert read(codec, compressed(codec, TEXT)) == TEXT


def test_frames_of_zstd_are_read_in_place_with_and_without_their_size_and_a_checksum() -> None:
    for with_size in (True, False):
        for with_checksum in (True, False):
            writer = zstandard.ZstdCompressor(write_content_size=with_size, write_checksum=with_checksum)
            stream = writer.compress(TEXT)
            assert (measured(Codec.ZSTD, stream) == len(TEXT)) == with_size
            assert read(Codec.ZSTD, stream) == TEXT


@pytest.mark.parametrize(
    "stream",
    [
        lz4.frame.compress(TEXT),
        lz4.frame.compress(TEXT, block_linked=False, store_size=False, content_checksum=True),
        lz4.frame.compress(TEXT * 20, block_linked=False, store_size=False),
        compressed(Codec.LZ4, TEXT) + b"\0",
        compressed(Codec.LZ4, TEXT)[:-1] + b"\1",
        b"",
    ],
)
def test_frames_of_lz4_of_other_shapes_are_left_to_the_other_reader(stream: bytes) -> None:
    assert measured(Codec.LZ4, stream) == streams.OTHER


def test_a_size_that_the_blocks_cannot_hold_reserves_no_memory() -> None:
    stream = bytearray(compressed(Codec.ZSTD, TEXT))
    assert stream[4] >> 6 == 1  # the size has two bytes
    stream[4] = stream[4] & 0x3F | 0x80
    stream[5:7] = (2**31 - 1).to_bytes(4, "little")
    assert measured(Codec.ZSTD, bytes(stream)) == streams.OTHER


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, 5, 7])
def test_other_codecs_are_left_to_the_other_reader(codec: int) -> None:
    assert measured(codec, compressed(Codec.LZ4, TEXT)) == streams.OTHER
