"""Streams written by others, byte by byte: which framing of a codec Kafka's readers accept, and which not."""

from __future__ import annotations

import struct

import cramjam
import lz4.frame
import numpy as np
import pytest
import zstandard
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.errors import InvalidRecordError
from pyspark_commitlog.storage.format.codecs import lz4_stream
from pyspark_commitlog.storage.format.compression import compress, decompress
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.tables import Bytes

COMPRESSED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
LZ4_HEADER = bytes.fromhex("04224d18604082")  # independent blocks of 64 KiB, no checksums, no size
LZ4_END = bytes(4)
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
LIMIT = 2**20
SEVERAL_BLOCKS = b"some text, " * 40_000


def array(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def noise(size: int) -> bytes:
    return np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()


class TestGzip:
    def test_a_stream_is_one_member_without_name_or_time(self) -> None:
        stream = compress(Codec.GZIP, array(b"text")).tobytes()
        assert stream[:4] == bytes.fromhex("1f8b0800")
        assert stream[4:8] == bytes(4)

    def test_further_members_are_read_and_other_trailing_bytes_ignored(self) -> None:
        one, two = (compress(Codec.GZIP, array(text)).tobytes() for text in (b"one", b"two"))
        assert decompress(Codec.GZIP, array(one + two + b"\0\0junk")).tobytes() == b"onetwo"

    @pytest.mark.parametrize("spoilt", [-1, -5], ids=["size", "checksum"])
    def test_its_own_checksum_and_size_count(self, spoilt: int) -> None:
        stream = bytearray(compress(Codec.GZIP, array(b"text" * 100)).tobytes())
        stream[spoilt] ^= 1
        with pytest.raises(InvalidRecordError, match="gzip"):
            decompress(Codec.GZIP, array(bytes(stream)))


class TestSnappy:
    def test_the_framing_is_xerials_with_a_block_of_32_kib_after_the_other(self) -> None:
        payload = SEVERAL_BLOCKS
        stream = compress(Codec.SNAPPY, array(payload)).tobytes()
        assert stream[:16] == XERIAL
        at, blocks = 16, []
        while at < len(stream):
            (size,) = struct.unpack_from(">i", stream, at)
            blocks.append(bytes(cramjam.snappy.decompress_raw(stream[at + 4 : at + 4 + size])))
            at += 4 + size
        assert b"".join(blocks) == payload
        assert {len(block) for block in blocks[:-1]} == {32768}

    def test_a_bare_block_is_read_as_librdkafka_writes_it(self) -> None:
        bare = bytes(cramjam.snappy.compress_raw(b"text" * 1000))
        assert decompress(Codec.SNAPPY, array(bare)).tobytes() == b"text" * 1000

    def test_concatenated_streams_are_read(self) -> None:
        one, two = (compress(Codec.SNAPPY, array(text)).tobytes() for text in (b"one", b"two"))
        assert decompress(Codec.SNAPPY, array(one + two)).tobytes() == b"onetwo"

    def test_the_versions_in_the_header_are_not_looked_at(self) -> None:
        stream = compress(Codec.SNAPPY, array(b"text")).tobytes()
        assert decompress(Codec.SNAPPY, array(stream[:8] + b"\xff" * 8 + stream[16:])).tobytes() == b"text"

    @pytest.mark.parametrize(
        "blocks",
        [b"\0\0", struct.pack(">i", 5) + b"abcd", struct.pack(">i", -1), struct.pack(">i", 2**31 - 1), bytes(4)],
        ids=["half a size", "cut", "negative", "largest", "no bytes"],
    )
    def test_a_block_size_that_cannot_be_is_refused(self, blocks: bytes) -> None:
        with pytest.raises(InvalidRecordError, match="snappy"):
            decompress(Codec.SNAPPY, array(XERIAL + blocks))


class TestLz4:
    def test_the_header_is_kafkas_to_the_byte(self) -> None:
        stream = compress(Codec.LZ4, array(b"text" * 50_000)).tobytes()
        assert stream[:7] == LZ4_HEADER
        assert stream[-4:] == LZ4_END

    def test_bytes_that_do_not_compress_are_stored(self) -> None:
        stream = compress(Codec.LZ4, array(noise(1000))).tobytes()
        assert stream == LZ4_HEADER + struct.pack("<I", 0x80000000 | 1000) + noise(1000) + LZ4_END

    def test_magic_0_has_the_checksum_that_old_producers_wrote(self) -> None:
        stream = compress(Codec.LZ4, array(b"text"), magic=0).tobytes()
        assert stream[:7] == LZ4_HEADER[:6] + b"\x1a"
        assert compress(Codec.LZ4, array(b"text"), magic=1)[:7].tobytes() == LZ4_HEADER

    @pytest.mark.parametrize("checksum", [0x82, 0x1A, 0x00])
    def test_magic_0_is_read_with_any_header_checksum(self, checksum: int) -> None:
        stream = compress(Codec.LZ4, array(b"text")).tobytes()
        assert decompress(Codec.LZ4, array(stream[:6] + bytes([checksum]) + stream[7:]), magic=0).tobytes() == b"text"

    @pytest.mark.parametrize("magic", [1, 2])
    def test_the_others_need_the_correct_one(self, magic: int) -> None:
        stream = compress(Codec.LZ4, array(b"text"), magic=0)
        with pytest.raises(InvalidRecordError, match="lz4"):
            decompress(Codec.LZ4, stream, magic=magic)

    @pytest.mark.parametrize("size", range(2, 15))
    def test_the_hash_of_a_header_is_the_librarys(self, size: int) -> None:
        """The checksum byte that lz4 itself writes, for the descriptors it can make, and no crash for any length."""
        assert 0 <= lz4_stream.header_checksum(bytes(range(size))) <= 255
        for options in ({}, {"store_size": False}, {"block_checksum": True}, {"content_checksum": True}):
            frame = lz4.frame.compress(b"x" * size, **options)
            end = 14 if frame[4] & 0x08 else 6
            assert lz4_stream.header_checksum(frame[4:end]) == frame[end]

    def test_a_second_frame_is_not_looked_at(self) -> None:
        one, two = (compress(Codec.LZ4, array(text)).tobytes() for text in (b"one", b"two"))
        assert decompress(Codec.LZ4, array(one + two)).tobytes() == b"one"

    def test_blocks_that_depend_on_each_other_are_refused(self) -> None:
        stream = lz4.frame.compress(b"text" * 100_000, block_linked=True, block_size=4)
        with pytest.raises(InvalidRecordError, match="depend on each other"):
            decompress(Codec.LZ4, array(stream))

    @pytest.mark.parametrize("flag", [0x01, 0x02], ids=["dictionary", "reserved"])
    def test_flags_that_kafkas_readers_do_not_take_are_refused(self, flag: int) -> None:
        descriptor = bytes([0x60 | flag, 0x40])
        stream = LZ4_HEADER[:4] + descriptor + bytes([lz4_stream.header_checksum(descriptor)]) + LZ4_END
        with pytest.raises(InvalidRecordError, match="dictionary or a reserved bit"):
            decompress(Codec.LZ4, array(stream))

    def test_a_block_larger_than_its_frame_allows_is_refused(self) -> None:
        stream = LZ4_HEADER + struct.pack("<I", 0x80000000 | 65537) + bytes(65537) + LZ4_END
        with pytest.raises(InvalidRecordError, match="lz4"):
            decompress(Codec.LZ4, array(stream))

    def test_checksums_of_blocks_count(self) -> None:
        stream = bytearray(lz4.frame.compress(noise(1000), block_checksum=True, block_linked=False))
        stream[-5] ^= 1  # of the block's checksum, before the end mark
        with pytest.raises(InvalidRecordError, match="lz4"):
            decompress(Codec.LZ4, array(bytes(stream)))


class TestZstd:
    def test_further_frames_are_read_and_skippable_ones_skipped(self) -> None:
        one, two = (compress(Codec.ZSTD, array(text)).tobytes() for text in (b"one", b"two"))
        skipped = struct.pack("<II", 0x184D2A53, 5) + b"12345"
        assert decompress(Codec.ZSTD, array(skipped + one + skipped + two + skipped)).tobytes() == b"onetwo"

    def test_a_stream_without_a_size_and_one_with_a_checksum_are_read(self) -> None:
        payload = SEVERAL_BLOCKS
        for options in ({"write_content_size": False}, {"write_checksum": True}):
            stream = zstandard.ZstdCompressor(**options).compress(payload)
            assert decompress(Codec.ZSTD, array(stream)).tobytes() == payload

    @pytest.mark.parametrize("junk", [b"\0", b"junk", struct.pack("<II", 0x184D2A50, 9) + b"8 of nine"[:8]])
    def test_other_bytes_after_a_frame_are_refused(self, junk: bytes) -> None:
        with pytest.raises(InvalidRecordError, match="zstd"):
            decompress(Codec.ZSTD, array(compress(Codec.ZSTD, array(b"text")).tobytes() + junk))


STARTS = {
    Codec.GZIP: b"\x1f\x8b\x08",
    Codec.SNAPPY: XERIAL,
    Codec.LZ4: LZ4_HEADER[:4],
    Codec.ZSTD: b"\x28\xb5\x2f\xfd",
}


def read_or_refuse(codec: Codec, stream: Bytes, magic: int = 2) -> bytes:
    """Its content, nothing if it is refused; any other error fails the test."""
    try:
        return decompress(codec, stream, magic=magic, limit=LIMIT).tobytes()
    except InvalidRecordError:
        return b""


class TestDamage:
    @pytest.mark.parametrize("codec", COMPRESSED)
    def test_an_empty_stream_is_refused(self, codec: Codec) -> None:
        with pytest.raises(InvalidRecordError, match=codec.name.lower()):
            decompress(codec, array(b""))

    @pytest.mark.parametrize("codec", COMPRESSED)
    def test_a_stream_cut_anywhere_is_refused(self, codec: Codec) -> None:
        """Except xerial's between two blocks, which has no end mark; there the record count reveals it."""
        payload = noise(40_000)
        stream = compress(codec, array(payload))
        for size in [*range(40), *range(len(stream) - 40, len(stream)), *range(40, len(stream), 997)]:
            try:
                found = decompress(codec, stream[:size]).tobytes()
            except InvalidRecordError:
                continue
            assert codec is Codec.SNAPPY
            assert found == payload[: len(found)]
            assert len(found) in (0, 32768)

    @given(data=st.data(), codec=st.sampled_from(COMPRESSED))
    def test_a_damaged_one_is_refused_or_gives_bytes_but_nothing_else(self, data: st.DataObject, codec: Codec) -> None:
        stream = compress(codec, array(b"some text, " * 30 + noise(50))).copy()
        for _ in range(data.draw(st.integers(1, 3))):
            stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
        assert len(read_or_refuse(codec, stream)) <= LIMIT

    @given(data=st.binary(max_size=300), codec=st.sampled_from(COMPRESSED), magic=st.sampled_from((0, 1, 2)))
    def test_no_stream_at_all(self, data: bytes, codec: Codec, magic: int) -> None:
        for stream in (data, STARTS[codec] + data):
            assert len(read_or_refuse(codec, array(stream), magic)) <= LIMIT
