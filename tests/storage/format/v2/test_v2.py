"""Batches of format 2: the bytes of Kafka's own tests, the changes a leader makes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import (
    CorruptRecordError,
    InvalidRecordError,
    OffsetsOutOfOrderError,
    UnsupportedMagicError,
)
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.legacy import v0, v1
from pyspark_commitlog.storage.format.tables import BinaryColumn, Bytes, Records, last_sequence

# The bytes of Kafka's MemoryRecordsTest.testChecksum.
TWO_RECORDS = (
    "0000000000000000000000550000000002e58cf1ff00000000000100000000000454c300000000000454c3ffffffffffffffffffffffffffff"
    "0000000220000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c75653200"
)
EMPTY = (
    "000000000000000a0000003100000000025c2de6e4000000000001ffffffffffffffff00000000000454c3000000000000002a000300000008"
    "00000000"
)


def records(offsets: list[int], timestamps: list[int] | None = None) -> Records:
    count = len(offsets)
    return Records(
        np.array(offsets, dtype=np.int64),
        np.array(timestamps or range(count), dtype=np.int64),
        np.zeros(count, dtype=np.int8),
        BinaryColumn.from_list([b"key%d" % (i + 1) for i in range(count)]),
        BinaryColumn.from_list([b"value%d" % (i + 1) for i in range(count)]),
        None,
    )


@pytest.fixture
def three_batches() -> Bytes:
    """Offsets 0 to 2, 3, 4 to 8; writable."""
    parts = [[0, 1, 2], [3], [4, 6, 8]]
    return np.concatenate([v2.encode(records(part), v2.BatchFields(leader_epoch=4)) for part in parts])


def test_two_records_have_the_bytes_and_the_checksum_of_kafkas_own_test() -> None:
    batch = v2.encode(records([0, 1], [283843, 1234]), v2.BatchFields(leader_epoch=0))
    assert batch.tobytes().hex() == TWO_RECORDS
    assert formats.scan(batch).headers.table["crc"].tolist() == [3851219455]


@pytest.mark.parametrize(("module", "crc"), [(v0, 1978725405), (v1, 109425508)], ids=["v0", "v1"])
def test_a_plain_message_has_the_checksum_of_kafkas_own_test(module, crc: int) -> None:
    message = module.encode(records([0], [283843]))
    assert formats.scan(message).headers.table["crc"].tolist() == [crc]


def test_an_emptied_batch_keeps_offsets_producer_and_sequence() -> None:
    fields = v2.BatchFields(codec=Codec.GZIP, leader_epoch=0, producer_id=42, producer_epoch=3, base_sequence=8)
    full = v2.encode(records([10, 11], [283843, 1234]), fields)
    assert v2.empty_batch(formats.scan(full).headers).tobytes().hex() == EMPTY


def test_stamping_offsets_and_epoch_leaves_every_checksum_unchanged(three_batches: Bytes) -> None:
    before = formats.scan(three_batches).headers
    told = v2.stamp(three_batches, before, base_offset=2**40, leader_epoch=9)
    found = formats.scan(three_batches).headers
    assert found.table.tolist() == told.table.tolist()
    assert (found.table["last_offset"] - before.table["last_offset"] == 2**40).all()
    assert set(found.table["leader_epoch"].tolist()) == {9}
    assert found.table["crc"].tolist() == before.table["crc"].tolist()
    formats.verify(three_batches, found)


def test_a_producer_is_stamped_with_sequences_that_span_the_offsets(three_batches: Bytes) -> None:
    told = v2.stamp_producer(
        three_batches,
        formats.scan(three_batches).headers,
        base_offset=2**40,
        leader_epoch=9,
        producer_id=7,
        producer_epoch=1,
        base_sequence=2**31 - 3,
        transactional=True,
    )
    found = formats.scan(three_batches).headers
    assert found.table.tolist() == told.table.tolist()
    assert found.table["base_sequence"].tolist() == [2**31 - 3, 0, 1]
    assert (found.table["base_offset"][0], set(found.table["leader_epoch"].tolist())) == (2**40, {9})
    assert found.is_transactional.all()
    formats.verify(three_batches, found)


def test_the_append_time_becomes_the_time_of_every_record(three_batches: Bytes) -> None:
    told = v2.set_append_time(three_batches, formats.scan(three_batches).headers, 12345)
    decoded = formats.decode(three_batches, told)
    assert set(decoded.records.timestamps.tolist()) == {12345}
    assert set(decoded.records.timestamp_types.tolist()) == {1}


def test_a_corrected_largest_timestamp_is_signed(three_batches: Bytes) -> None:
    told = v2.set_max_timestamp(three_batches, formats.scan(three_batches).headers, np.array([5, 6, 7]))
    assert told.table["max_timestamp"].tolist() == [5, 6, 7]
    formats.verify(three_batches, formats.scan(three_batches).headers)


def test_of_two_wrong_checksums_the_first_is_reported_with_position_and_values(three_batches: Bytes) -> None:
    headers = formats.scan(three_batches).headers
    for batch in (1, 2):
        three_batches[headers.table["position"][batch] + 65] ^= 1
    assert formats.checksums_match(three_batches, headers).tolist() == [True, False, False]
    with pytest.raises(CorruptRecordError, match=f"{headers.table['crc'][1]:#010x} in the header") as caught:
        formats.decode(three_batches, headers)
    assert caught.value.position == headers.table["position"][1]


def test_a_selection_of_batches_decodes_without_the_others(three_batches: Bytes) -> None:
    headers = formats.scan(three_batches).headers
    three_batches[headers.table["position"][1] + 65] ^= 1  # not selected, so its damage does not matter
    decoded = formats.decode(three_batches, headers[np.array([True, False, True])])
    assert decoded.records.offsets.tolist() == [0, 1, 2, 4, 6, 8]
    assert decoded.counts.tolist() == [3, 3]


def test_a_walk_ends_after_as_many_batches_as_were_asked_for(three_batches: Bytes) -> None:
    scan = formats.scan(three_batches, batches_max=2)
    assert (len(scan.headers), scan.reason) == (2, formats.StopReason.FULL)
    assert len(formats.scan(three_batches, start=scan.end).headers) == 1


def test_no_records_are_no_bytes() -> None:
    assert len(v2.encode(records([]), v2.BatchFields())) == 0
    assert len(v2.encode_batches(records([]), v2.BatchFields(), batch_bytes_max=100).headers) == 0


@pytest.mark.parametrize("offsets", [[1, 1], [2, 1], [0, 2**31]], ids=["equal", "back", "too far apart"])
def test_offsets_that_no_batch_can_hold_are_refused(offsets: list[int]) -> None:
    with pytest.raises(OffsetsOutOfOrderError):
        v2.encode(records(offsets), v2.BatchFields())


@pytest.mark.parametrize(
    "fields",
    [
        {"transactional": True},
        {"producer_id": 5, "base_sequence": 0},
        {"producer_id": 5, "producer_epoch": 0},
    ],
    ids=["transactional without producer", "producer without epoch", "producer without sequence"],
)
def test_fields_that_no_writer_may_set_are_refused(fields) -> None:
    with pytest.raises(ValueError, match="producer"):
        v2.BatchFields(**fields)


def test_a_record_count_beyond_the_bytes_reserves_no_memory_and_is_refused() -> None:
    batch = v2.encode(records([0, 1]), v2.BatchFields())
    batch[57:61] = [0x7F, 0xFF, 0xFF, 0xFF]
    headers = v2.set_max_timestamp(batch, formats.scan(batch).headers, np.array([1]))
    with pytest.raises(InvalidRecordError, match="record 2"):
        formats.decode(batch, headers)


def test_a_format_from_the_future_is_its_own_error() -> None:
    with pytest.raises(UnsupportedMagicError, match="3"):
        formats.by_magic(3)
    batch = v2.encode(records([0]), v2.BatchFields())
    batch[16] = 3
    error = formats.stop_error(formats.scan(batch), batch)
    assert isinstance(error, UnsupportedMagicError)


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(-1, 5, -1), (0, 0, 0), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 4, 1)]
)
def test_sequences_wrap_to_zero(base: int, delta: int, last: int) -> None:
    assert last_sequence(base, delta) == last
