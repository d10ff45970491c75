"""Every record set that Kafka wrote, intact and damaged, read like Kafka's own file reader reads it.

An intact one must decode to the JSON twin's content, to the last field. For a damaged one we may return what Kafka
returns, or refuse more; what only we refuse is listed in :data:`STRICTER`, with the reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedMagicError,
)
from pyspark_commitlog.storage.format import StopReason, v2
from pyspark_commitlog.storage.format.constants import Codec, TimestampType
from pyspark_commitlog.storage.format.legacy import v0, v1
from pyspark_commitlog.storage.format.tables import BatchHeaders, Bytes
from tests.support.logs import record_sets

SETS = record_sets.names()
SOUND = [name for name in SETS if not name.startswith(record_sets.DAMAGED)]
DAMAGED = [name for name in SETS if name.startswith(record_sets.DAMAGED)]

# Kafka's file reader reads these and we refuse them: reading on would lose records, or mistake one format for another.
STRICTER: dict[str, type[CorruptionError]] = {
    # A magic of a newer format: Kafka's file reader takes it for 2.
    "corrupt-v2-magic-3": UnsupportedMagicError,
    "corrupt-v2-magic-3-crc-fixed": UnsupportedMagicError,
    "corrupt-v2-magic-127": UnsupportedMagicError,
    # The header counts no records, but there are some: they would vanish.
    "corrupt-v2-count-zero-gzip-crc-fixed": InvalidRecordError,
    "corrupt-v2-count-zero-none-crc-fixed": InvalidRecordError,
    # A message set torn inside its wrapper: the rest of its records would vanish.
    "corrupt-v0-wrapper-inner-torn": InvalidRecordError,
    "corrupt-v1-wrapper-inner-torn": InvalidRecordError,
}
# Kafka's exceptions and ours. Everything thrown there by a decompressor or a buffer is an InvalidRecordError here.
OURS: dict[str, type[CorruptionError]] = {
    "CorruptRecordException": CorruptRecordError,
    "InvalidRecordException": InvalidRecordError,
    "KafkaException": InvalidRecordError,
    "IllegalArgumentException": InvalidRecordError,
    "NullPointerException": InvalidRecordError,  # a control record with a null key
}
# The same refusal with another of our exceptions than the table above lists.
OTHERWISE: dict[str, type[CorruptionError]] = {
    "corrupt-v0-magic-3": UnsupportedMagicError,  # Kafka: a checksum error, for it reads the checksum where 2 has it
    "corrupt-v1-magic-3": UnsupportedMagicError,
    "corrupt-v0-wrapper-inner-size-5": InvalidRecordError,  # the checksum is correct, so not a CorruptRecordError
    "corrupt-v1-wrapper-inner-size-5": InvalidRecordError,
    "corrupt-v0-wrapper-trailing-bytes": InvalidRecordError,
    "corrupt-v1-wrapper-trailing-bytes": InvalidRecordError,
}


def read_batch_by_batch(buffer: Bytes) -> tuple[list[dict[str, Any]], CorruptionError | None]:
    """What can be read before the first error, and the error, in the way of Kafka's reader."""
    scan = formats.scan(buffer)
    batches: list[dict[str, Any]] = []
    for row in range(len(scan.headers)):
        try:
            batches += record_sets.as_twin(buffer, scan.headers[row : row + 1])
        except CorruptionError as error:
            return batches, error
    if scan.reason in (StopReason.END, StopReason.TRUNCATED):
        return batches, None
    return batches, formats.stop_error(scan, buffer)


def test_there_are_as_many_record_sets_as_kafka_wrote() -> None:
    assert len(SETS) == 491


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_record_set_decodes_in_one_call_as_kafka_does(name: str) -> None:
    buffer = record_sets.log_bytes(name)
    scan = formats.scan(buffer)
    assert (scan.end, scan.reason) == (len(buffer), StopReason.END)
    assert formats.checksums_match(buffer, scan.headers).all()
    assert record_sets.as_twin(buffer, scan.headers) == record_sets.load(name)["batches"]


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_record_set_is_read_no_further_than_kafka_reads_it(name: str) -> None:
    twin = record_sets.load(name)
    batches, error = read_batch_by_batch(record_sets.log_bytes(name))
    if name in STRICTER:
        assert twin["error"] is None, "Kafka refuses it too: the table is out of date"
        assert type(error) is STRICTER[name]
        assert len(batches) < len(twin["batches"])
        assert batches == twin["batches"][: len(batches)]
        assert error.position == twin["batches"][len(batches)]["position"]
        return
    assert batches == twin["batches"]
    expected = OTHERWISE.get(name, OURS.get(twin.get("error")))
    assert (None if error is None else type(error)) is expected
    if error is not None and error.position is not None:
        assert error.position == twin["validBytes"]


@pytest.mark.parametrize("name", SOUND)
def test_one_column_asked_for_is_the_same_as_with_all_and_no_other_is_built(name: str) -> None:
    buffer = record_sets.log_bytes(name)
    headers = formats.scan(buffer).headers
    everything, only_values = formats.decode(buffer, headers), formats.decode(buffer, headers, columns=("value",))
    assert only_values.records.keys is None
    assert only_values.records.headers is None
    assert only_values.records.values is not None
    assert everything.records.values is not None
    assert only_values.records.values.to_list() == everything.records.values.to_list()
    assert np.array_equal(only_values.records.offsets, everything.records.offsets)


def _fields(headers: BatchHeaders) -> v2.BatchFields:
    row = headers.table[0]
    return v2.BatchFields(
        timestamp_type=TimestampType(int(headers.timestamp_type[0])),
        leader_epoch=int(row["leader_epoch"]),
        producer_id=int(row["producer_id"]),
        producer_epoch=int(row["producer_epoch"]),
        base_sequence=int(row["base_sequence"]),
        transactional=bool(headers.is_transactional[0]),
        control=bool(headers.is_control[0]),
        delete_horizon_ms=int(row["base_timestamp"]) if headers.has_delete_horizon[0] else None,
    )


def _encoded_again(buffer: Bytes, headers: BatchHeaders) -> Bytes:
    row = headers.table[0]
    if row["count"] == 0:
        return v2.empty_batch(headers)
    bounds = {name: int(row[name]) for name in ("base_offset", "last_offset", "max_timestamp")}
    return v2.encode(formats.decode(buffer, headers).records, _fields(headers), **bounds)


@pytest.mark.parametrize("name", [name for name in SOUND if name.startswith("v2-") and "append-time" not in name])
def test_an_uncompressed_batch_decoded_and_encoded_again_is_the_same_bytes(name: str) -> None:
    """Without those of LogAppendTime, whose records' own times, and therefore deltas, are lost."""
    buffer = record_sets.log_bytes(name)
    headers = formats.scan(buffer).headers
    for row in np.flatnonzero(headers.codec == Codec.NONE).tolist():
        one = headers[row : row + 1]
        start, size = int(one.table["position"][0]), int(one.table["size"][0])
        assert _encoded_again(buffer, one).tobytes() == buffer[start : start + size].tobytes()


@pytest.mark.parametrize("name", [name for name in SOUND if name.startswith(("v0-", "v1-"))])
def test_a_legacy_set_decoded_and_encoded_again_holds_the_same_records(name: str) -> None:
    """Plain messages byte for byte; a wrapper by its records, since its codec may compress differently than Java's."""
    buffer = record_sets.log_bytes(name)
    headers = formats.scan(buffer).headers
    for row in range(len(headers)):
        one = headers[row : row + 1]
        records = formats.decode(buffer, one).records
        module = (v0, v1)[int(one.table["magic"][0])]
        again = module.encode(records, Codec(int(one.codec[0])))
        found = formats.scan(again).headers
        if one.codec[0] == Codec.NONE:
            start, size = int(one.table["position"][0]), int(one.table["size"][0])
            assert again.tobytes() == buffer[start : start + size].tobytes()
        volatile = {"crc": 0, "sizeInBytes": 0, "position": 0}
        told, wanted = record_sets.as_twin(again, found), record_sets.as_twin(buffer, one)
        assert [batch | volatile for batch in told] == [batch | volatile for batch in wanted]
