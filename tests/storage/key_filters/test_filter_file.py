"""Files of key filters: what they say of keys, their layout, and damage."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.format.tables import BinaryColumn
from pyspark_commitlog.storage.kernels.finding import key_filter as kernel
from pyspark_commitlog.storage.key_filters.filter_file import HEADER, ROW, FilterFile, KeyFilter, SegmentId, encode
from tests.support.logs.key_filters import BytesFile, filters_in

ID = SegmentId(5, 1000, 1_700_000_000_000, 77)


def hashes_of(keys: list[bytes]) -> kernel.Uint64s:
    return kernel.hashes_of(BinaryColumn.from_list([*keys]))


def filter_of(keys: list[bytes], segment: SegmentId = ID) -> KeyFilter:
    return KeyFilter.of(segment, np.unique(hashes_of(keys)), 9)


def lacking(data: bytes, keys: list[bytes]) -> list[int]:
    found = FilterFile(BytesFile(data)).lacking(hashes_of(keys))  # type: ignore[arg-type]
    return found["base_offset"].tolist()


@given(st.lists(st.binary(max_size=30), max_size=300))
def test_a_filter_holds_every_key_that_it_was_made_of(keys: list[bytes]) -> None:
    data = encode([filter_of(keys)])
    [found] = filters_in(data)
    assert (found.segment, found.next_offset) == (ID, 9)
    assert found.holds_all(hashes_of(keys))
    assert all(lacking(data, [key]) == [] for key in keys)


def test_each_filter_of_a_file_tells_of_its_own_keys() -> None:
    ids = [ID._replace(base_offset=offset) for offset in (0, 5, 2**40)]
    data = encode([filter_of(keys, id_) for keys, id_ in zip(([b"a"], [b"b"], [b"a", b"c"]), ids, strict=True)])
    assert [each.segment for each in filters_in(data)] == ids
    assert [lacking(data, keys) for keys in ([b"a"], [b"b"], [b"b", b"c"], [b"d"])] == [
        [5],
        [0, 2**40],
        [0],
        [0, 5, 2**40],
    ]


def test_the_page_on_the_format_has_the_layout_of_the_file() -> None:
    page = (Path(__file__).parents[3] / "docs" / "format.md").read_text().partition("## Key filters")[2]
    rows = [(int(position), int(size)) for position, size in re.findall(r"^\| (\d+) \| (\d+) \|", page, re.MULTILINE)]
    fields = [layout.fields[name] for layout in (HEADER, ROW) for name in layout.names or ()]  # type: ignore[index]
    assert rows == [(field[1], field[0].itemsize) for field in fields]


def test_a_null_key_has_no_hash() -> None:
    assert len(kernel.hashes_of(BinaryColumn.from_list([None, b"", None]))) == 1


def test_few_absent_keys_seem_to_be_there_with_12_bits_a_key() -> None:
    keys = [b"key %d" % number for number in range(20_000)]
    data = encode([filter_of(keys)])
    assert 8 * len(data) <= 12 * len(keys)
    absent = [b"absent %d" % number for number in range(2_000)]
    assert sum(lacking(data, [key]) == [] for key in absent) < 20


def test_every_damaged_byte_of_a_file_is_noticed() -> None:
    data, chance = encode([filter_of([b"a", b"b", b"c"]), filter_of([b"d"])]), Random(0)
    for position in range(len(data)):
        spoiled = bytearray(data)
        spoiled[position] ^= 1 << chance.randrange(8)
        with pytest.raises(CorruptionError):
            filters_in(bytes(spoiled))
    for size in range(len(data)):
        with pytest.raises(CorruptionError):
            filters_in(data[:size])


def test_damaged_bits_spoil_only_their_filter() -> None:
    ids = [ID._replace(base_offset=offset) for offset in (0, 5)]
    data = encode([filter_of([b"a"], id_) for id_ in ids])
    assert lacking(data, [b"absent"]) == [0, 5]
    assert lacking(data[:-1], [b"absent"]) == [0]
    assert lacking(data[:-17] + bytes([data[-17] ^ 1]) + data[-16:], [b"absent"]) == [5]
