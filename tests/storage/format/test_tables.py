"""Columns of byte strings and tables of records."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.format.tables import BinaryColumn, HeadersColumn, Records

STRINGS = st.lists(st.none() | st.binary(max_size=9), max_size=9)


def records(offsets: list[int]) -> Records:
    """Record i has the key ``b"i"``, no value, and i headers."""
    count = len(offsets)
    names = [b"%d.%d" % (i, h) for i in range(count) for h in range(i)]
    return Records(
        offsets=np.array(offsets, dtype=np.int64),
        timestamps=np.arange(count, dtype=np.int64),
        timestamp_types=np.zeros(count, dtype=np.int8),
        keys=BinaryColumn.from_list([b"%d" % i for i in range(count)]),
        values=None,
        headers=HeadersColumn(
            np.cumsum([0, *range(count)]).astype(np.int32),
            BinaryColumn.from_list(list(names)),
            BinaryColumn.from_list([None] * len(names)),
        ),
    )


def keys_of(table: Records) -> list[bytes | None]:
    assert table.keys is not None
    return table.keys.to_list()


@given(STRINGS)
def test_a_column_gives_back_the_strings_it_was_made_of(strings: list[bytes | None]) -> None:
    assert BinaryColumn.from_list(strings).to_list() == strings


@given(STRINGS, st.integers(0, 9), st.integers(0, 9))
def test_a_slice_of_a_column_is_the_slice_of_the_strings(strings: list[bytes | None], start: int, more: int) -> None:
    start = min(start, len(strings))
    stop = min(start + more, len(strings))
    assert BinaryColumn.from_list(strings).slice(start, stop).to_list() == strings[start:stop]


def test_a_string_of_a_large_column_is_read_without_reading_the_column() -> None:
    """The data is shorter than its offsets: only the bytes of the slice may be read."""
    column = BinaryColumn(np.frombuffer(b"abc", dtype=np.uint8), np.array([0, 1, 3, 2**31 - 1], dtype=np.int32), None)
    assert column.slice(1, 2).to_list() == [b"bc"]


def test_more_bytes_than_32_bit_offsets_can_address_are_refused() -> None:
    """Of one string many times, so that nothing is ever joined."""
    with pytest.raises(ValueError, match="2147483648 bytes in one column"):
        BinaryColumn.from_list([bytes(2**20)] * 2**11)


@pytest.mark.parametrize(
    ("start_offset", "end_offset", "left"),
    [(0, 100, [5, 7, 9]), (5, 10, [5, 7, 9]), (6, 9, [7]), (6, 10, [7, 9]), (10, 20, []), (0, 5, [])],
)
def test_records_between_two_offsets(start_offset: int, end_offset: int, left: list[int]) -> None:
    found = records([5, 7, 9]).between(start_offset, end_offset)
    assert found.offsets.tolist() == left
    assert len(keys_of(found)) == len(left)


def test_a_slice_of_records_takes_all_columns_along() -> None:
    found = records([5, 7, 9, 11]).slice(1, 3)
    assert (found.offsets.tolist(), found.timestamps.tolist(), keys_of(found)) == ([7, 9], [1, 2], [b"1", b"2"])
    assert found.values is None
    assert found.headers is not None
    assert found.headers.offsets.tolist() == [0, 1, 3]
    assert found.headers.keys.to_list()[:3] == [b"1.0", b"2.0", b"2.1"]


def test_headers_of_records_are_what_their_column_was_made_of() -> None:
    headers = [[(b"1.0", b"a")], [], [(b"2.0", None), (b"2.1", b"")]]
    column = HeadersColumn.from_list(headers)
    assert column.offsets.tolist() == [0, 1, 1, 3]
    assert column.to_list() == headers
    assert column.slice(1, 3).to_list() == headers[1:]
    assert HeadersColumn.from_list([]).to_list() == []
