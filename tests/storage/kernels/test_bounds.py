"""Nothing is written outside an array, and no memory reserved, whatever the bytes contain.

Compiled kernels check no bounds: a mistake here shows in ``test_without_jit.py``, which runs this file as plain Python,
where an index outside an array is an IndexError.
"""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import InvalidRecordError
from tests.support.logs import reference

WHOLE = reference.encode_record(reference.Record(0, 0, b"", b""), 0, 0)
NULLS = reference.encode_record(reference.Record(0, 0, None, None), 0, 0)
LARGE = reference.encode_record(reference.Record(1, 5, b"key", b"value", ((b"h", b"x"), (b"i", None))), 0, 0)
INT32_MAX = 2**31 - 1


def batch(body: bytes, count: int) -> bytes:
    """A batch with these bytes for records, and a correct checksum."""
    checked = struct.pack(">hiqqqhii", 0, 9, 0, 0, -1, -1, -1, count) + body
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, reference.crc32c(checked)) + checked


def shortened(record: bytes, size: int) -> bytes:
    """The first ``size`` bytes of a record, with a matching length."""
    return reference.varint(size - 1) + record[1:size]


@pytest.mark.parametrize("wholes", [0, 1, 3])
@pytest.mark.parametrize("record", [NULLS, LARGE], ids=["nulls", "large"])
def test_a_record_ends_within_its_fields_where_no_more_rows_were_expected(record: bytes, wholes: int) -> None:
    """Rows are reserved for as many records as fit at seven bytes each; one more may begin."""
    for size in range(1, len(record)):
        for count in (wholes + 1, INT32_MAX):
            data = np.frombuffer(batch(WHOLE * wholes + shortened(record, size), count), dtype=np.uint8)
            with pytest.raises(InvalidRecordError, match=f"record {wholes} does not decode"):
                formats.decode(data, formats.scan(data).headers)


@pytest.mark.parametrize(
    "body",
    [
        WHOLE[:-1] + reference.varint(INT32_MAX),  # headers
        reference.varint(INT32_MAX) + WHOLE[1:],  # record length
        b"\x14\0\0\0" + reference.varint(INT32_MAX) + bytes(2),  # key length
        b"\x14\0\0\0\0" + reference.varint(INT32_MAX) + b"\0",  # value length
        b"\x16\0\0\0\0\0\x02" + reference.varint(INT32_MAX),  # header key length
        b"\x18\0\0\0\0\0\x02\0" + reference.varint(INT32_MAX),  # header value length
    ],
    ids=["header count", "record length", "key length", "value length", "header key length", "header value length"],
)
def test_the_largest_number_in_any_field_reserves_nothing(body: bytes) -> None:
    """``tracemalloc`` counts NumPy's arrays."""
    data = np.frombuffer(batch(body, INT32_MAX), dtype=np.uint8)
    headers = formats.scan(data).headers
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRecordError):
            formats.decode(data, headers)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
