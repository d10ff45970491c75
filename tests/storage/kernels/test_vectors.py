"""Numbers and hashes as Kafka itself writes and reads them."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from pyspark_commitlog.storage.format.tables import BinaryColumn
from pyspark_commitlog.storage.kernels import murmur2, varint
from pyspark_commitlog.storage.kernels.arrays import frozen
from tests.support.logs import record_sets, reference

READERS = {"varint": (varint.read_varint, 32), "varlong": (varint.read_varlong, 64)}


@pytest.mark.parametrize("row", record_sets.load("varints"), ids=lambda row: str(row["value"]))
def test_a_varint_has_the_bytes_that_kafka_writes(row) -> None:
    target = np.zeros(12, dtype=np.uint8)
    size = varint.write(target, 0, row["value"])
    assert target[:size].tobytes().hex() == row["varlong"]
    assert varint.read_varlong(frozen(target), 0, size) == (row["value"], size)
    if row["varint"] is not None:
        assert row["varint"] == row["varlong"]
        assert varint.read_varint(frozen(target), 0, size) == (row["value"], size)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("row", record_sets.load("varints-decode"), ids=lambda row: row["hex"] or "nothing")
def test_odd_varints_are_read_as_kafka_reads_them(row, kind: str) -> None:
    read, bits = READERS[kind]
    data = bytes.fromhex(row["hex"])
    value, behind = read(frozen(np.frombuffer(data, dtype=np.uint8)), 0, len(data))
    if "error" in row[kind]:
        assert behind == (varint.TOO_LONG if row[kind]["error"] == "IllegalArgumentException" else varint.CUT)
        with pytest.raises(reference.Malformed):
            reference.read_varint(data, 0, bits)
    else:
        assert (value, behind) == (row[kind]["value"], row[kind]["bytesRead"])
        assert reference.read_varint(data, 0, bits) == (value, behind)


def test_keys_go_where_kafkas_partitioner_sends_them() -> None:
    rows = record_sets.load("partitioner")
    keys = [base64.b64decode(row["keyBase64"]) for row in rows]
    assert [murmur2.murmur2(key) for key in keys] == [row["murmur2"] for row in rows]
    for count in (1, 2, 3, 7, 12, 100):
        chosen = murmur2.partitions_of(BinaryColumn.from_list(keys), count).tolist()
        assert chosen == [row["partitions"][str(count)] for row in rows]


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"abc", 479470107),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"", 275646681),
    ],
)
def test_murmur2_of_known_keys(key: bytes, hashed: int) -> None:
    assert murmur2.murmur2(key) == hashed == reference.murmur2(key)


def test_a_slice_of_a_column_goes_where_the_whole_goes() -> None:
    keys = BinaryColumn.from_list([b"a", None, b"bcd", b"efghi", b""])
    whole = murmur2.partitions_of(keys, 12).tolist()
    assert murmur2.partitions_of(keys.slice(2, 5), 12).tolist() == whole[2:]
