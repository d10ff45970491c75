"""The quick test that replaces a closer one: it succeeds exactly if the long way has nothing to report."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.config import DECOMPRESSED_BYTES_MAX
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.tables import Bytes
from pyspark_commitlog.storage.kernels import frozen, plain
from pyspark_commitlog.storage.segment_reader import Window
from pyspark_commitlog.storage.verify import batches as checks
from pyspark_commitlog.storage.verify.batches import Place, RecordChecks
from pyspark_commitlog.storage.verify.findings import Findings
from tests.storage.kernels.test_bounds import batch
from tests.storage.kernels.test_oddities import FIELDS, record
from tests.storage.kernels.test_twins import RECORDS, as_array
from tests.support import reference


def is_plain(buffer: Bytes) -> bool:
    headers = formats.scan(buffer).headers
    (part,) = v2.parts(buffer, headers, 2**31 - 1)
    return bool(plain.are_plain(frozen(part.source), part.table, frozen(headers.table["last_offset"])))


def told(buffer: Bytes) -> tuple[int, list[object]]:
    """The number of records, and the findings about them."""
    findings = Findings()
    check = RecordChecks(Place(findings, "a log"), DECOMPRESSED_BYTES_MAX)
    check.check(Window(0, buffer, formats.scan(buffer).headers))
    return check.records, list(findings.all())


def the_long_way(buffer: Bytes) -> tuple[int, list[object]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks.plain, "are_plain", lambda *_: False)
        return told(buffer)


@given(st.lists(RECORDS, min_size=1, max_size=3))
def test_records_written_plainly_are_plain(sets: list[list[reference.Record]]) -> None:
    buffer = as_array(b"".join(map(reference.encode_batch, sets)))
    assert is_plain(buffer)
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
    if is_plain(buffer):
        assert findings[1] == []


def _is_in_records(at: int, encoded: list[bytes]) -> bool:
    for one in encoded:
        if at < len(one):
            return at >= v2.LAYOUT.itemsize
        at -= len(one)
    return False


@pytest.mark.parametrize("field", FIELDS)
def test_a_needless_byte_is_not_plain_in_any_number(field: str) -> None:
    assert is_plain(as_array(batch(record(), 1)))
    assert not is_plain(as_array(batch(record(field), 1)))


@pytest.mark.parametrize("attributes", [1, 0x80])
def test_attribute_bits_are_not_plain(attributes: int) -> None:
    assert not is_plain(as_array(batch(record(attributes=attributes), 1)))


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
def test_a_contradicting_header_is_not_plain(change: Callable[[Bytes], None]) -> None:
    buffer = as_array(reference.encode_batch([reference.Record(n, 1000 + n, b"k", b"v") for n in range(3)])).copy()
    assert is_plain(buffer)
    change(buffer)
    assert not is_plain(buffer)
