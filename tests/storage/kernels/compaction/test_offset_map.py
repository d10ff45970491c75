"""The key-to-offset table compared with a dict, and its hash with SipHash written plainly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.format.tables import BinaryColumn
from pyspark_commitlog.storage.kernels.arrays import frozen
from pyspark_commitlog.storage.kernels.compaction.offset_map import OffsetMap, Put, hash_all, siphash

ROOMY = 24 * 1000


def put(offset_map: OffsetMap, *keys: bytes | None, first_offset: int = 0, start_offset: int = 0) -> Put:
    offsets = np.arange(first_offset, first_offset + len(keys), dtype=np.int64)
    return offset_map.put_all(*hashed(offset_map, keys), offsets, start_offset)


def hashed(offset_map: OffsetMap, keys: Sequence[bytes | None]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes, and which keys are not null."""
    hashes = hash_all(BinaryColumn.from_list(list(keys)), offset_map.secret)
    return hashes, np.array([key is not None for key in keys], dtype=np.bool_)


def is_latest(offset_map: OffsetMap, key: bytes | None, offset: int) -> bool:
    return bool(offset_map.are_latest(*hashed(offset_map, [key]), np.array([offset], dtype=np.int64))[0])


def test_the_last_record_of_a_key_and_any_later_ones_are_the_latest() -> None:
    offset_map = OffsetMap(ROOMY, 0.9)
    assert put(offset_map, b"a", b"b", b"a") == Put(3, 2)
    assert [is_latest(offset_map, b"a", offset) for offset in (0, 1, 2, 3)] == [False, False, True, True]


def test_a_missing_key_supersedes_nothing() -> None:
    offset_map = OffsetMap(ROOMY, 0.9)
    put(offset_map, b"a")
    assert is_latest(offset_map, b"b", 0)


def test_a_null_key_is_neither_put_nor_the_latest_and_an_empty_one_is_a_key() -> None:
    offset_map = OffsetMap(ROOMY, 0.9)
    assert put(offset_map, b"", None, b"") == Put(3, 2)
    assert len(offset_map) == 1
    assert not is_latest(offset_map, None, 5)
    assert not is_latest(offset_map, b"", 0)


def test_offsets_below_the_start_are_skipped() -> None:
    offset_map = OffsetMap(ROOMY, 0.9)
    assert put(offset_map, b"a", b"b", first_offset=9, start_offset=10) == Put(2, 10)
    assert len(offset_map) == 1


def test_a_full_map_ends_before_the_next_key_even_one_that_it_holds() -> None:
    offset_map = OffsetMap(24 * 10, 0.3)
    assert offset_map.limit == 3
    assert put(offset_map, b"a", b"b", b"a", b"c", b"a", b"d") == Put(4, 3)
    assert offset_map.latest_offset == 3
    assert put(offset_map, None, b"a", first_offset=4) == Put(1, -1)


@pytest.mark.parametrize(
    ("memory", "factor", "limit"),
    [(1_200_000, 0.0006, 29), (128 << 20, 0.9, 5033164), (24, 1.0, 1), (23, 1.0, 0), (0, 0.9, 0)],
    ids=["Kafka counts 29 in floating point", "the defaults", "one key", "less than a slot", "nothing"],
)
def test_the_limit_is_kafkas(memory: int, factor: float, limit: int) -> None:
    assert OffsetMap(memory, factor).limit == limit


def test_a_cleared_map_is_empty() -> None:
    offset_map = OffsetMap(ROOMY, 0.9)
    put(offset_map, b"a", b"b")
    offset_map.clear()
    assert (len(offset_map), offset_map.latest_offset) == (0, -1)
    assert is_latest(offset_map, b"b", 0)


def test_the_latest_offset_follows_what_was_read() -> None:
    offset_map = OffsetMap(ROOMY, 0.9)
    put(offset_map, b"a", first_offset=7)
    assert offset_map.latest_offset == 7
    offset_map.update_latest_offset(12)
    assert offset_map.latest_offset == 12


@pytest.mark.parametrize("slots", [5_000, 9_999, 40_000])
def test_a_map_that_grows_holds_all_that_was_put(slots: int) -> None:
    """Through every growth up to the limit: with all slots used, so that searching wraps around."""
    offset_map = OffsetMap(24 * slots, 1.0)
    count = offset_map.limit
    keys: list[bytes | None] = [b"%d" % n for n in range(count)]
    assert put(offset_map, *keys) == Put(count, count - 1)
    offsets = np.arange(count, dtype=np.int64)
    assert offset_map.are_latest(*hashed(offset_map, keys), offsets).all()
    assert not offset_map.are_latest(*hashed(offset_map, keys), offsets - 1).any()


@given(
    keys=st.lists(st.one_of(st.none(), st.binary(max_size=3), st.sampled_from([b"a" * 7, b"a" * 8, b"a" * 9]))),
    limit=st.integers(1, 20),
    start_offset=st.integers(0, 10),
)
def test_a_map_is_a_dict_that_ends_at_its_limit(keys: list[bytes | None], limit: int, start_offset: int) -> None:
    offset_map = OffsetMap(24 * limit, 1.0)
    newest: dict[bytes, int] = {}
    taken = len(keys)
    for offset, key in enumerate(keys):
        if key is not None and offset >= start_offset:
            if len(newest) == limit:
                taken = offset
                break
            newest[key] = offset
    assert put(offset_map, *keys, start_offset=start_offset) == Put(taken, max(newest.values(), default=-1))
    assert len(offset_map) == len(newest)
    for offset, key in enumerate(keys):
        assert is_latest(offset_map, key, offset) == (key is not None and offset >= newest.get(key, -1))


# SipHash with 128 bits, as in its paper and reference vectors


def plain_siphash(data: bytes, key: bytes, compressing: int, finishing: int) -> tuple[int, int]:
    mask = 2**64 - 1
    one, two = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    v = [one ^ 0x736F6D6570736575, two ^ 0x646F72616E646F6D, one ^ 0x6C7967656E657261, two ^ 0x7465646279746573]
    v[1] ^= 0xEE

    def turn(x: int, bits: int) -> int:
        return ((x << bits) | (x >> (64 - bits))) & mask

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0], v[2] = (v[0] + v[1]) & mask, (v[2] + v[3]) & mask
            v[1], v[3] = turn(v[1], 13) ^ v[0], turn(v[3], 16) ^ v[2]
            v[0] = turn(v[0], 32)
            v[2], v[0] = (v[2] + v[1]) & mask, (v[0] + v[3]) & mask
            v[1], v[3] = turn(v[1], 17) ^ v[2], turn(v[3], 21) ^ v[0]
            v[2] = turn(v[2], 32)

    padded = data + b"\0" * (7 - len(data) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(compressing)
        v[0] ^= word
    found = []
    v[2] ^= 0xEE
    for _ in range(2):
        rounds(finishing)
        found.append(v[0] ^ v[1] ^ v[2] ^ v[3])
        v[1] ^= 0xDD
    return found[0], found[1]


def test_the_plain_hash_gives_the_published_vector() -> None:
    first, second = plain_siphash(b"", bytes(range(16)), 2, 4)
    assert (first.to_bytes(8, "little") + second.to_bytes(8, "little")).hex() == "a3817f04ba25a8e66df67214c7550293"


@given(data=st.binary(max_size=40), key=st.binary(min_size=16, max_size=16), before=st.integers(0, 3))
def test_the_kernel_hashes_as_the_plain_one_does(data: bytes, key: bytes, before: int) -> None:
    source = frozen(np.frombuffer(b"?" * before + data + b"!", dtype=np.uint8))
    secret = np.frombuffer(key, dtype=np.uint64)
    found = siphash(source, before, len(data), secret[0], secret[1])
    assert tuple(map(int, found)) == plain_siphash(data, key, 1, 3)
