"""Control records, compared with what Kafka writes and parses."""

from __future__ import annotations

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import InvalidRecordError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.internal import control_records
from pyspark_commitlog.storage.format.internal.control_records import ControlType
from tests.support.logs import record_sets

ROWS = record_sets.load("control")
KEYS = [row for row in ROWS if row["kind"] == "key" and row["keyHex"]]
PARSED = [row for row in ROWS if row["kind"] == "parseKey"]
MARKERS = [row for row in ROWS if row["kind"] == "endTransactionMarker"]
KRAFT = [row for row in ROWS if row["kind"] == "kraft"]

# The bytes that Kafka writes for offset 5, leader epoch 2, time 1000, producer 42 of epoch 3, coordinator epoch 7.
COMMIT = (
    "0000000000000005000000420000000202dbc3b9ad00300000000000000000000003e800000000000003e8000000000000002a0003ffffffff"
    "000000012000000008000000010c00000000000700"
)
ABORT = (
    "00000000000000050000004200000002022ffd6fe500300000000000000000000003e800000000000003e8000000000000002a0003ffffffff"
    "000000012000000008000000000c00000000000700"
)


def marker(commit: bool, coordinator_epoch: int = 7):
    return control_records.end_transaction_marker(
        commit=commit,
        offset=5,
        leader_epoch=2,
        timestamp_ms=1000,
        producer_id=42,
        producer_epoch=3,
        coordinator_epoch=coordinator_epoch,
    )


@pytest.mark.parametrize(("commit", "expected"), [(True, COMMIT), (False, ABORT)], ids=["commit", "abort"])
def test_a_marker_is_the_78_bytes_that_kafka_writes(commit: bool, expected: str) -> None:
    assert marker(commit).tobytes().hex() == expected
    assert len(marker(commit)) == 78


@pytest.mark.parametrize("row", KEYS, ids=lambda row: row["type"])
def test_the_key_of_each_control_type_is_known(row) -> None:
    assert control_records.parse_key(bytes.fromhex(row["keyHex"])) == ControlType[row["type"]]
    assert ControlType[row["type"]] == row["id"]


@pytest.mark.parametrize("row", PARSED, ids=lambda row: row["keyHex"] or "empty")
def test_an_odd_key_is_parsed_as_kafka_parses_it(row) -> None:
    key = bytes.fromhex(row["keyHex"])
    if "error" in row:
        with pytest.raises(InvalidRecordError):
            control_records.parse_key(key)
    else:
        assert control_records.parse_key(key).name == row["parsed"]


@pytest.mark.parametrize("row", MARKERS, ids=lambda row: f"{row['type']} {row['coordinatorEpoch']}")
def test_a_marker_value_has_the_bytes_that_kafka_writes_and_is_read_back(row) -> None:
    value = bytes.fromhex(row["valueHex"])
    assert control_records.parse_marker_value(value) == row["coordinatorEpoch"]
    buffer = marker(row["type"] == "COMMIT", row["coordinatorEpoch"])
    headers = formats.scan(buffer).headers
    values = formats.decode(buffer, headers).records.values
    assert values is not None
    assert values.to_list() == [value]
    told = control_records.read_marker(buffer, headers)
    assert told == (row["type"] == "COMMIT", row["coordinatorEpoch"], 1000)


@pytest.mark.parametrize("row", KRAFT, ids=lambda row: row["type"])
def test_control_records_of_kraft_are_known_by_type_and_end_no_transaction(row) -> None:
    assert control_records.parse(bytes.fromhex(row["keyHex"]), bytes.fromhex(row["valueHex"])) == (
        ControlType[row["type"]],
        None,
    )
    buffer = record_sets.log_bytes(row["case"])
    assert control_records.read_marker(buffer, formats.scan(buffer).headers[:1]) is None


def test_a_control_record_without_a_key_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="key"):
        control_records.parse(None, b"")


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=lambda codec: codec.name)
def test_markers_read_together_are_those_read_one_by_one(codec: Codec) -> None:
    """With control records of another kind, a batch that compaction emptied, and a compressed one."""
    record = formats.decode(marker(False, 6), formats.scan(marker(False, 6)).headers).records
    again = v2.encode(
        record, v2.BatchFields(producer_id=7, producer_epoch=0, transactional=True, control=True, codec=codec)
    )
    empty = v2.empty_batch(formats.scan(marker(True)).headers)
    buffer = np.concatenate([marker(True, 5), empty, record_sets.log_bytes(KRAFT[0]["case"]), again])
    headers = formats.scan(buffer).headers
    headers = headers[headers.is_control]
    found = control_records.read_markers(buffer, headers)
    assert found == [control_records.read_marker(buffer, headers[row : row + 1]) for row in range(len(headers))]
    assert [each.coordinator_epoch for each in found if each is not None] == [5, 6]
