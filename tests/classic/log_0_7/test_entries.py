"""The message format of 0.7: vectors, what is accepted and refused, and sets in sets."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.classic.log_0_7.entries import NESTING_MAX, Message, checked_set, encode, encode_set, messages_in
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedMagicError,
)
from pyspark_commitlog.storage.format.constants import Codec

CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY]
PAYLOADS = st.lists(st.binary(max_size=100), max_size=8)
HELLO_0, HELLO_1 = "0000000a003610a68668656c6c6f", "0000000b01003610a68668656c6c6f"


def payloads(data: bytes) -> list[bytes]:
    return [one.payload for one in messages_in(data)]


def compressed(inner: bytes, codec: Codec = Codec.GZIP) -> bytes:
    return encode(gzip.compress(inner), attributes=codec)


def test_messages_of_both_magics_have_the_bytes_of_kafka() -> None:
    assert encode(b"hello", magic=0).hex() == HELLO_0
    assert encode(b"hello").hex() == HELLO_1


@given(PAYLOADS, st.sampled_from(CODECS), st.integers(0, 2**40))
def test_what_is_encoded_is_read_again(texts: list[bytes], codec: Codec, position: int) -> None:
    data = encode_set(texts, codec)
    found = list(messages_in(data, position))
    assert [one.payload for one in found] == texts
    assert checked_set(data, len(data)).messages == len(texts)
    if texts:
        assert found[-1].next_position == position + len(data)
    if codec != Codec.NONE:
        assert {one.position for one in found} <= {position}
        assert {one.next_position for one in found[:-1]} <= {position}


def test_messages_in_a_compressed_one_carry_its_start_and_the_last_one_its_end() -> None:
    data = encode(b"a") + encode_set([b"b", b"c"], Codec.SNAPPY) + encode(b"d", magic=0)
    first, third = len(encode(b"a")), len(data) - len(encode(b"d", magic=0))
    assert list(messages_in(data, 100)) == [
        Message(100, 100 + first, 1, b"a"),
        Message(100 + first, 100 + first, 1, b"b"),
        Message(100 + first, 100 + third, 1, b"c"),
        Message(100 + third, 100 + len(data), 0, b"d"),
    ]


def test_sets_in_sets_are_read_to_the_innermost() -> None:
    inner = encode(b"x") + compressed(encode(b"y") + compressed(encode(b"z")))
    assert payloads(compressed(inner) + encode(b"end")) == [b"x", b"y", b"z", b"end"]
    assert checked_set(compressed(inner), 10_000).messages == 3


def test_a_cut_off_last_message_is_passed_over_here_and_in_a_compressed_set() -> None:
    whole, cut = encode(b"whole"), encode(b"cut off")[:-1]
    for data in (whole + cut, whole + cut[:3], compressed(whole + cut)):
        assert payloads(data) == [b"whole"]
    assert checked_set(whole + cut, 100).data == whole


def test_bits_of_the_attributes_outside_the_codec_mean_nothing() -> None:
    assert payloads(encode(b"a", attributes=0xFC)) == [b"a"]


REFUSED = {
    "a wrong checksum": (encode(b"bad")[:-1] + b"x", CorruptRecordError),
    "a negative size": (b"\xff\xff\xff\xff" + encode(b"a"), CorruptRecordError),
    "a size below any message": (b"\x00\x00\x00\x04" + encode(b"a"), CorruptRecordError),
    "magic 2": (encode(b"a", magic=2, attributes=0), UnsupportedMagicError),
    "a magic below zero": (encode(b"a", magic=255, attributes=0), UnsupportedMagicError),
    "magic 1 without a checksum": (b"\x00\x00\x00\x05\x01\x00\x00\x00\x00", CorruptRecordError),
    "an unknown codec": (encode(b"a", attributes=3), InvalidRecordError),
    "what is not gzip": (encode(b"not gzip", attributes=1), InvalidRecordError),
    "what is not snappy": (encode(b"\xff\xff\xff\xff", attributes=2), InvalidRecordError),
    "nothing that should be gzip": (encode(b"", attributes=1), InvalidRecordError),
    "nothing that should be snappy": (encode(b"", attributes=2), InvalidRecordError),
    "gzip that is cut off": (encode(gzip.compress(encode(b"a"))[:-1], attributes=1), InvalidRecordError),
    "a wrong checksum in a compressed set": (compressed(encode(b"b")[:-1] + b"x"), InvalidRecordError),
    "a first message cut off in a compressed set": (compressed(encode(b"a")[:-1]), InvalidRecordError),
}


@pytest.mark.parametrize(("data", "error"), REFUSED.values(), ids=REFUSED)
def test_damage_is_refused_with_its_position_after_what_is_good(data: bytes, error: type[CorruptionError]) -> None:
    good = encode(b"good")
    found: list[Message] = []
    with pytest.raises(error) as refused:
        found.extend(messages_in(good + data, 1000))  # keeps what came before
    assert [one.payload for one in found] == [b"good"]
    assert refused.value.position == 1000 + len(good)
    with pytest.raises(error):
        checked_set(good + data, 100)


def test_a_set_whose_first_message_is_cut_off_is_refused() -> None:
    with pytest.raises(CorruptRecordError, match="cut off, or larger than what was read"):
        list(messages_in(encode(b"large")[:-1]))
    assert list(messages_in(encode(b"large")[:3])) == []


def test_a_large_payload_is_refused_before_anything_after_it_that_is_wrong() -> None:
    large, bad = encode(b"a" * 11), encode(b"bad")[:-1] + b"x"
    with pytest.raises(RecordTooLargeError):
        checked_set(encode(b"a") + large + bad, 10)
    with pytest.raises(CorruptRecordError):
        checked_set(bad + large, 10)


def test_a_compressed_set_may_hold_only_so_much_however_it_is_nested() -> None:
    bomb = encode(bytes(100_000))
    for data in (compressed(bomb), compressed(compressed(bomb)), compressed(compressed(bomb) * 1)):
        with pytest.raises(InvalidRecordError, match="allowed"):
            checked_set(data, 10**6, limit=50_000)
    halves = compressed(encode(bytes(30_000)))
    assert checked_set(halves + halves, 10**6, limit=50_000).messages == 2
    with pytest.raises(InvalidRecordError, match="allowed"):
        checked_set(compressed(halves + halves), 10**6, limit=50_000)


def test_sets_nested_without_end_are_refused() -> None:
    data = encode(b"a")
    for _ in range(NESTING_MAX + 1):
        data = compressed(data)
    with pytest.raises(InvalidRecordError, match="nested"):
        list(messages_in(data))


@given(PAYLOADS, st.sampled_from(CODECS), st.data())
def test_a_flipped_bit_of_a_payload_or_checksum_is_noticed(
    texts: list[bytes], codec: Codec, data: st.DataObject
) -> None:
    whole = bytearray(encode_set([*texts, b"last"], codec))
    starts = [one.position for one in messages_in(bytes(whole))]
    start = data.draw(st.sampled_from(starts))
    end = min([at for at in starts if at > start], default=len(whole))
    at = data.draw(st.integers(start + 6, end - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptionError) as refused:
        list(messages_in(bytes(whole)))
    assert refused.value.position == start


def test_zlib_and_the_checksum_of_the_payload_agree() -> None:
    assert int.from_bytes(encode(b"payload")[6:10], "big") == zlib.crc32(b"payload")
