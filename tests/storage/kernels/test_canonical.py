"""Canonical records: the quick test succeeds exactly if the long way has nothing to report; what is odd is found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.config import DECOMPRESSED_BYTES_MAX
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.tables import Bytes
from pyspark_commitlog.storage.kernels import canonical
from pyspark_commitlog.storage.kernels.arrays import frozen
from pyspark_commitlog.storage.segment.walk import Window
from pyspark_commitlog.storage.verify import batches as checks
from pyspark_commitlog.storage.verify.batches import BatchFindings, RecordChecks
from pyspark_commitlog.storage.verify.findings import Findings
from tests.storage.kernels.test_bounds import batch
from tests.storage.kernels.test_twins import RECORDS, as_array, rows
from tests.support.logs import reference

FIELDS = ["length", "timestamp", "offset", "key", "value", "headers", "name", "text"]


def bits(*batches: bytes) -> list[int]:
    buffer = as_array(b"".join(batches))
    headers = formats.scan(buffer).headers
    (part,) = v2.parts(buffer, headers, 2**31 - 1)
    found = np.zeros(len(headers), dtype=np.uint8)
    canonical.find_oddities(frozen(part.source), part.table, found)
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


def is_canonical(buffer: Bytes) -> bool:
    headers = formats.scan(buffer).headers
    (part,) = v2.parts(buffer, headers, 2**31 - 1)
    return bool(canonical.are_canonical(frozen(part.source), part.table, frozen(headers.table["last_offset"])))


def told(buffer: Bytes) -> tuple[int, list[object]]:
    """The number of records, and the findings about them."""
    findings = Findings()
    check = RecordChecks(BatchFindings(findings, "a log"), DECOMPRESSED_BYTES_MAX)
    check.check(Window(0, buffer, formats.scan(buffer).headers))
    return check.records, list(findings.all())


def the_long_way(buffer: Bytes) -> tuple[int, list[object]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks.canonical, "are_canonical", lambda *_: False)
        return told(buffer)


@given(st.lists(RECORDS, min_size=1, max_size=3))
def test_plainly_written_records_are_canonical(sets: list[list[reference.Record]]) -> None:
    buffer = as_array(b"".join(map(reference.encode_batch, sets)))
    assert is_canonical(buffer)
    assert told(buffer) == the_long_way(buffer) == (sum(map(len, sets)), [])


@given(st.lists(RECORDS, min_size=1, max_size=3), st.data())
def test_changed_bytes_of_records_are_reported_as_by_the_long_way(
    sets: list[list[reference.Record]], data: st.DataObject
) -> None:
    encoded = list(map(reference.encode_batch, sets))
    buffer = as_array(b"".join(encoded)).copy()
    bodies = [at for at in range(len(buffer)) if _is_in_records(at, encoded)]
    for at in data.draw(st.lists(st.sampled_from(bodies), max_size=3)) if bodies else []:
        buffer[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0x81, 0xFF]) | st.integers(0, 255))
    findings = the_long_way(buffer)
    assert told(buffer) == findings
    if is_canonical(buffer):
        assert findings[1] == []


def _is_in_records(at: int, encoded: list[bytes]) -> bool:
    for one in encoded:
        if at < len(one):
            return at >= v2.LAYOUT.itemsize
        at -= len(one)
    return False


@pytest.mark.parametrize("field", FIELDS)
def test_a_needless_byte_is_not_canonical_in_any_number(field: str) -> None:
    assert is_canonical(as_array(batch(record(), 1)))
    assert not is_canonical(as_array(batch(record(field), 1)))


@pytest.mark.parametrize("attributes", [1, 0x80])
def test_attribute_bits_are_not_canonical(attributes: int) -> None:
    assert not is_canonical(as_array(batch(record(attributes=attributes), 1)))


def _shifted(name: str, by: int) -> Callable[[Bytes], None]:
    dtype, at = v2.LAYOUT.fields[name][:2]  # type: ignore[index]

    def shift(buffer: Bytes) -> None:
        field = buffer[at : at + dtype.itemsize].view(dtype)
        field += by

    return shift


@pytest.mark.parametrize(
    "change",
    [_shifted("max_timestamp", 1), _shifted("last_offset_delta", -1), _shifted("count", -1), _shifted("count", 1)],
    ids=["a larger timestamp", "a lower last offset", "a record less", "a record more"],
)
def test_a_contradicting_header_is_not_canonical(change: Callable[[Bytes], None]) -> None:
    buffer = as_array(reference.encode_batch([reference.Record(n, 1000 + n, b"k", b"v") for n in range(3)])).copy()
    assert is_canonical(buffer)
    change(buffer)
    assert not is_canonical(buffer)


@given(st.lists(RECORDS, min_size=1, max_size=3))
def test_nothing_is_odd_in_plainly_written_records(sets: list[list[reference.Record]]) -> None:
    assert bits(*map(reference.encode_batch, sets)) == [0] * len(sets)


@pytest.mark.parametrize("key", [None, b"", b"\x80\x80"], ids=["no key", "empty key", "key"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_needless_byte_is_found_in_every_number(field: str, key: bytes | None) -> None:
    sound, odd = batch(record(key=key), 1), batch(record(key=key) + record(field, key=key), 2)
    assert bits(sound, odd, sound) == [0, canonical.IS_PADDED, 0]
    assert len(rows(formats.decode(as_array(odd), formats.scan(as_array(odd)).headers).records)) == 2


@pytest.mark.parametrize("attributes", [1, 0x80])
def test_attribute_bits_of_a_record_are_found(attributes: int) -> None:
    assert bits(batch(record(), 1), batch(record(attributes=attributes), 1)) == [0, canonical.HAS_ATTRIBUTES]


def surveyed(body: bytes, count: int, base_timestamp: int, *, start: int = 0, behind: bytes = b"") -> object:
    """What the kernel says of ``body``, as the twin says it."""
    source = frozen(as_array(bytes(start) + body + behind))
    at, index, *found = canonical.survey(source, start, start + len(body), 0, count, base_timestamp)
    return tuple(map(int, found)) if (at, index) == (start + len(body), count) else None


TIMED = st.tuples(st.integers(-1, 2**62), st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=80))


@given(st.lists(TIMED, min_size=1, max_size=9), st.integers(0, 70), st.binary(max_size=3))
def test_a_survey_finds_the_largest_and_smallest_times_and_the_missing_keys(
    rows: list[tuple[int, bytes | None, bytes | None]], start: int, behind: bytes
) -> None:
    records = [reference.Record(offset, *row) for offset, row in enumerate(rows)]
    body = b"".join(reference.encode_record(record, 0, rows[0][0]) for record in records)
    expected = reference.survey(body, len(rows), rows[0][0])
    assert expected is not None
    assert surveyed(body, len(rows), rows[0][0], start=start, behind=behind) == expected


@given(RECORDS, st.integers(0, 10_000), st.integers(0, 255), st.integers(-1, 1), st.integers(-(2**63), 2**63 - 1))
def test_a_survey_accepts_the_same_damaged_records_as_its_twin(
    records: list[reference.Record], at: int, byte: int, more: int, base_timestamp: int
) -> None:
    rows = [reference.Record(place, r.timestamp, r.key, r.value, r.headers) for place, r in enumerate(records)]
    body = bytearray(b"".join(reference.encode_record(row, 0, 0) for row in rows))
    body[at % len(body)] = byte
    count = len(rows) + more
    assert surveyed(bytes(body), count, base_timestamp) == reference.survey(bytes(body), count, base_timestamp)


@pytest.mark.parametrize("padded", FIELDS)
def test_a_survey_refuses_padded_numbers(padded: str) -> None:
    assert surveyed(record(), 1, 5) == (5, 5, 0)
    assert surveyed(record(padded), 1, 5) is None


def test_a_survey_refuses_attributes_and_other_offsets() -> None:
    assert surveyed(record(attributes=1), 1, 5) is None
    assert surveyed(record() + record(), 2, 5) is None  # offsets 0 and 0
