"""Fast paths compared with their slow twins in ``tests/support/logs/reference.py``, on input made up by hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import InvalidRecordError
from pyspark_commitlog.storage.format import StopReason, batch_scan, v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.legacy import v0, v1
from pyspark_commitlog.storage.format.tables import BinaryColumn, Bytes, HeadersColumn, Records
from pyspark_commitlog.storage.kernels import murmur2, varint
from pyspark_commitlog.storage.kernels.arrays import frozen
from tests.support.logs import reference

Walking = Callable[[Bytes, int, int], batch_scan.Walk]

TEXT = st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.binary(max_size=20), st.none() | TEXT), max_size=4).map(tuple)
TIMES = st.integers(-1, 2**62)
ROWS = st.lists(st.tuples(st.integers(1, 70_000), TIMES, st.none() | TEXT, st.none() | TEXT, HEADERS), min_size=1)
RECORDS = ROWS.map(lambda rows: spread(0, rows))


def spread(offset: int, rows: list[tuple[int, int, bytes | None, bytes | None, tuple]]) -> list[reference.Record]:
    """Records whose offsets are the first field of each row apart."""
    records = []
    for step, *fields in rows:
        offset += step
        records.append(reference.Record(offset, *fields))
    return records


def table(records: list[reference.Record]) -> Records:
    """The same records in columns."""
    headers = [header for record in records for header in record.headers]
    counts = np.cumsum([0, *(len(record.headers) for record in records)]).astype(np.int32)
    column = HeadersColumn(
        counts,
        BinaryColumn.from_list([key for key, _ in headers]),
        BinaryColumn.from_list([text for _, text in headers]),
    )
    return Records(
        np.array([record.offset for record in records], dtype=np.int64),
        np.array([record.timestamp for record in records], dtype=np.int64),
        np.zeros(len(records), dtype=np.int8),
        BinaryColumn.from_list([record.key for record in records]),
        BinaryColumn.from_list([record.value for record in records]),
        column if headers else None,
    )


def rows(records: Records) -> list[reference.Record]:
    """The table as records."""
    assert records.keys is not None
    assert records.values is not None
    headers: list[tuple] = [()] * len(records)
    if records.headers is not None:
        pairs = list(zip(records.headers.keys.to_list(), records.headers.values.to_list(), strict=True))
        headers = [tuple(pairs[first:last]) for first, last in pairwise(records.headers.offsets.tolist())]
    columns = (records.offsets.tolist(), records.timestamps.tolist(), records.keys.to_list(), records.values.to_list())
    return [reference.Record(*fields) for fields in zip(*columns, headers, strict=True)]


def as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype=np.uint8)


@given(RECORDS)
def test_a_batch_is_written_like_the_slow_twin_writes_it(records: list[reference.Record]) -> None:
    assert v2.encode(table(records), v2.BatchFields()).tobytes() == reference.encode_batch(records)


@given(RECORDS)
def test_a_batch_is_read_like_the_slow_twin_reads_it(records: list[reference.Record]) -> None:
    batch = reference.encode_batch(records)
    assert reference.decode_batch(batch) == records
    decoded = formats.decode(as_array(batch), formats.scan(as_array(batch)).headers)
    assert rows(decoded.records) == records


@given(RECORDS, st.binary(max_size=40))
def test_a_batch_is_read_alike_whatever_follows_it(records: list[reference.Record], behind: bytes) -> None:
    """Keys and values are copied in blocks if enough bytes follow."""
    batch = reference.encode_batch(records)
    decoded = formats.decode(as_array(batch + behind), formats.scan(as_array(batch)).headers)
    assert rows(decoded.records) == records


@given(st.lists(RECORDS, min_size=1, max_size=4), st.sampled_from(Codec))
def test_a_run_of_batches_is_read_into_one_table(sets: list[list[reference.Record]], codec: Codec) -> None:
    """Every second batch is compressed, so that uncompressed neighbours and single streams meet in one run."""
    fields = (v2.BatchFields(), v2.BatchFields(codec=codec))
    buffer = np.concatenate([v2.encode(table(records), fields[i % 2]) for i, records in enumerate(sets)])
    decoded = formats.decode(buffer, formats.scan(buffer).headers)
    assert rows(decoded.records) == [record for records in sets for record in records]
    assert decoded.counts.tolist() == [len(records) for records in sets]


@given(RECORDS, st.randoms(use_true_random=False), st.integers(1, 3))
def test_both_read_damaged_bytes_with_a_correct_checksum_alike(records, random, flips) -> None:
    """What the twin reads must be read alike, what it calls malformed refused: never a wrong record or a crash."""
    batch = bytearray(reference.encode_batch(records))
    for _ in range(flips):
        batch[random.randrange(reference.HEADER.size - 4, len(batch))] = random.randrange(256)
    batch[17:21] = reference.crc32c(bytes(batch[21:])).to_bytes(4, "big")
    buffer = as_array(bytes(batch))
    headers = formats.scan(buffer).headers
    try:
        expected = reference.decode_batch(bytes(batch))
    except reference.Malformed:
        expected = None
    try:
        found = rows(formats.decode(buffer, headers).records)
    except InvalidRecordError:
        found = None
    assert found == expected


@given(RECORDS, st.data())
def test_rows_are_cut_into_batches_that_hold_no_more_than_asked(records: list[reference.Record], data) -> None:
    only = np.array(data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records))))
    bound = data.draw(st.integers(1, 2000))
    fields = v2.BatchFields(producer_id=7, producer_epoch=0, base_sequence=2**31 - 3)
    encoded = v2.encode_batches(table(records), fields, only=only, batch_bytes_max=bound)
    told = encoded.headers.table
    expected = [
        (i, record.timestamp, record.key, record.value, record.headers)
        for i, record in enumerate(records[row] for row in np.flatnonzero(only))
    ]
    found = rows(formats.decode(encoded.buffer, encoded.headers).records)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == expected
    assert formats.scan(encoded.buffer).headers.table.tolist() == told.tolist()
    assert told["base_sequence"].tolist() == [(2**31 - 3 + first) % 2**31 for first in told["base_offset"].tolist()]
    for header in told:
        assert header["size"] - v2.LAYOUT.itemsize <= bound or header["count"] == 1


@given(st.lists(RECORDS, max_size=4), st.sampled_from(Codec), st.data())
def test_shares_of_some_tables_are_encoded_as_each_would_be_alone(
    sets: list[list[reference.Record]], codec: Codec, data: st.DataObject
) -> None:
    fields, bound = v2.BatchFields(codec=codec), data.draw(st.integers(0, 2000))
    memory = np.full(data.draw(st.sampled_from([0, 500, 50_000])), 0xFF, dtype=np.uint8)
    shares = [data.draw(st.lists(st.integers(-1, 2), min_size=len(each), max_size=len(each))) for each in sets]
    expected: dict[int, list[reference.Record]] = {}
    for share, record in zip(chain(*shares), chain(*sets), strict=True):
        expected.setdefault(share, []).append(record)
    expected.pop(-1, None)
    encoder = v2.ShareEncoder(3, fields, batch_bytes_max=bound, memory=memory)
    for _ in range(2):  # the second time in memory that is not empty
        tables = [v2.Divided(table(each), np.array(told, np.int32)) for each, told in zip(sets, shares, strict=True)]
        found = {share: signed(encoded) for share, encoded in encoder.encode(tables)}
        alone = {
            share: v2.encode_batches(table(rows), fields, batch_bytes_max=bound) for share, rows in expected.items()
        }
        assert found == {share: signed(encoded) for share, encoded in sorted(alone.items())}


def signed(encoded: v2.EncodedBatches) -> tuple[bytes, list[tuple[int, ...]]]:
    """Bytes and headers, after stamping a producer."""
    of_producer = {
        "base_offset": 9,
        "leader_epoch": 2,
        "producer_id": 7,
        "producer_epoch": 1,
        "base_sequence": 5,
        "transactional": True,
    }
    stamped = v2.stamp_producer(*encoded, **of_producer)
    return encoded.buffer.tobytes(), stamped.table.tolist()


@given(RECORDS, st.sampled_from([0, 1]))
def test_plain_messages_are_written_and_read_like_the_twin_does(records: list[reference.Record], magic: int) -> None:
    plain = [reference.Record(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in records]
    expected = b"".join(reference.encode_message(magic, record) for record in plain)
    buffer = (v0, v1)[magic].encode(table(plain))
    assert buffer.tobytes() == expected
    assert rows(formats.decode(buffer, formats.scan(buffer).headers).records) == plain


WALKS = pytest.mark.parametrize("walk", [batch_scan.walk_plainly, batch_scan.walk_compiled])


@WALKS
@given(st.lists(st.binary(max_size=90) | RECORDS.map(reference.encode_batch), max_size=4), st.integers(0, 40))
@example([bytes(18)], 0)
@example([b"\0" * 11 + b"\x0e\0\0\0\0\xff" + bytes(12)], 0)
def test_the_walk_stops_where_and_why_the_twin_stops(walk: Walking, pieces: list[bytes], cut: int) -> None:
    data = b"".join(pieces)
    data = data[: max(len(data) - cut, 0)]
    found, reason = reference.walk(data)
    told = walk(frozen(as_array(data)), 0, 5)
    assert list(zip(*(column.tolist() for column in told[:3]), strict=True)) == found
    assert told.end == sum(size for _, size, _ in found)
    assert StopReason(told.reason).name == reason


@WALKS
@pytest.mark.parametrize("batches_max", [0, 1, 2])
def test_a_walk_continues_after_the_requested_number_of_batches(walk: Walking, batches_max: int) -> None:
    batches = [reference.encode_message(magic, reference.Record(7, -1, b"key", b"value")) for magic in (0, 1, 0)]
    data = frozen(as_array(b"".join(batches)))
    found = walk(data, len(batches[0]), batches_max)
    assert found.sizes.tolist() == [len(batch) for batch in batches[1 : 1 + batches_max]]
    assert found.end == sum(map(len, batches[: 1 + batches_max]))
    assert StopReason(found.reason) is (StopReason.END if batches_max == 2 else StopReason.FULL)


@given(st.integers(-(2**63), 2**63 - 1))
@example(-(2**63))
@example(2**63 - 1)
def test_a_number_is_written_and_read_as_a_varint(value: int) -> None:
    target = np.zeros(12, dtype=np.uint8)
    size = varint.write(target, 0, value)
    assert target[:size].tobytes() == reference.varint(value)
    assert varint.size_of(value) == size
    assert varint.read_varlong(frozen(target), 0, size) == (value, size)


@given(st.lists(st.none() | st.binary(max_size=40), max_size=20), st.integers(1, 1000))
def test_keys_go_to_the_partitions_of_the_twin(keys: list[bytes | None], count: int) -> None:
    chosen = murmur2.partitions_of(BinaryColumn.from_list(keys), count).tolist()
    assert chosen == [-1 if key is None else (reference.murmur2(key) & 0x7FFFFFFF) % count for key in keys]
