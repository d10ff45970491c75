"""Oddities in records that no reader minds: found where they are, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.kernels import frozen, oddities
from tests.storage.kernels.test_bounds import batch
from tests.storage.kernels.test_twins import RECORDS, as_array, rows
from tests.support import reference

FIELDS = ["length", "timestamp", "offset", "key", "value", "headers", "name", "text"]


def bits(*batches: bytes) -> list[int]:
    buffer = as_array(b"".join(batches))
    headers = formats.scan(buffer).headers
    (part,) = v2.parts(buffer, headers, 2**31 - 1)
    found = np.zeros(len(headers), dtype=np.uint8)
    oddities.find_oddities(frozen(part.source), part.table, found)
    return [int(each) for each in found]


def record(padded: str = "", attributes: int = 0, key: bytes | None = b"\x80\x80") -> bytes:
    """A record whose number ``padded`` has one byte more than it needs."""

    def number(field: str, value: int) -> bytes:
        plain = reference.varint(value)
        return plain[:-1] + bytes((plain[-1] | 0x80, 0)) if field == padded else plain

    def string(field: str, text: bytes | None) -> bytes:
        return number(field, -1) if text is None else number(field, len(text)) + text

    body = bytes((attributes,)) + number("timestamp", 0) + number("offset", 0) + string("key", key)
    body += string("value", b"\x80" * 70) + number("headers", 1) + string("name", b"\x80") + string("text", b"\x80")
    return number("length", len(body)) + body


@given(st.lists(RECORDS, min_size=1, max_size=3))
def test_nothing_is_odd_in_plain_records(sets: list[list[reference.Record]]) -> None:
    assert bits(*map(reference.encode_batch, sets)) == [0] * len(sets)


@pytest.mark.parametrize("key", [None, b"", b"\x80\x80"], ids=["no key", "empty key", "key"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_needless_byte_is_found_in_every_number(field: str, key: bytes | None) -> None:
    sound, odd = batch(record(key=key), 1), batch(record(key=key) + record(field, key=key), 2)
    assert bits(sound, odd, sound) == [0, oddities.IS_PADDED, 0]
    assert len(rows(formats.decode(as_array(odd), formats.scan(as_array(odd)).headers).records)) == 2


@pytest.mark.parametrize("attributes", [1, 0x80])
def test_attribute_bits_of_a_record_are_found(attributes: int) -> None:
    assert bits(batch(record(), 1), batch(record(attributes=attributes), 1)) == [0, oddities.HAS_ATTRIBUTES]
