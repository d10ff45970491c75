"""Varints written by plain Python are those that messages are read with."""

from __future__ import annotations

from hypothesis import given, strategies as st

from pyspark_commitlog.storage.format.internal.message_schema import FieldDecoder
from pyspark_commitlog.storage.format.varints import unsigned_varint


@given(st.integers(0, 2**32 - 1) | st.sampled_from([each + more for each in (2**7, 2**14, 2**21) for more in (-1, 0)]))
def test_a_varint_is_read_as_the_number_that_was_written(value: int) -> None:
    encoded = unsigned_varint(value)
    decoder = FieldDecoder(encoded, flexible=True)
    assert decoder.unsigned_varint() == value
    assert decoder.at == len(encoded) == max(1, -(-value.bit_length() // 7))
