"""Batches for a log with other offsets: what stays as it is, and what is encoded again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.errors import CorruptRecordError, RecordTooLargeError
from pyspark_commitlog.storage.format import decode, scan, verify
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.tables import BatchHeaders, Records
from pyspark_commitlog.storage.format.v2 import LAYOUT, BatchFields, EncodedBatches, encode_batches
from pyspark_commitlog.storage.kernels.murmur2 import partitions_of
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.writing.forwarding import (
    FetchAnswer,
    Forwarded,
    forwarded,
    forwarded_by,
    produced_batches,
    to_message_sets,
    visible_records,
)
from pyspark_commitlog.storage.writing.log import Log
from tests.support.logs.building import open_log, records

LARGE = 1 << 20


def log_of(path: Path, *, codec: Codec = Codec.NONE, **configs: object) -> Log:
    """Four batches of five records."""
    log = open_log(path, **configs)
    for first in range(0, 20, 5):
        values = [b"value %02d" % number * 20 for number in range(first, first + 5)]
        log.append_records(records(values), BatchFields(codec=codec))
    return log


def data_of(log: Log) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path(log.context.directory).glob("*.log")))


def values(batches: EncodedBatches) -> list[bytes | None]:
    found = decode(batches.buffer, batches.headers, is_verified=True).records.values
    assert found is not None
    return found.to_list()


def wanted(*numbers: int) -> list[bytes]:
    return [b"value %02d" % number * 20 for number in numbers]


def only(found: Forwarded) -> EncodedBatches:
    ((share, batches),) = found.shares
    assert share == 0
    return batches


def contents(buffer: bytes | np.ndarray, headers: BatchHeaders) -> list[bytes]:
    """The records of each batch as they are encoded."""
    data = bytes(buffer)
    table = headers.table[["position", "size"]].tolist()
    return [data[position + LAYOUT.itemsize : position + size] for position, size in table]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_whole_batches_keep_the_bytes_of_their_records(tmp_path: Path, codec: Codec) -> None:
    data = data_of(log_of(tmp_path / "log", codec=codec))
    found = forwarded(FetchAnswer(data, 5), batch_size_max=LARGE)
    batches = only(found)
    assert (found.kept, found.next_offset) == (3, 20)
    source = np.frombuffer(data, dtype=np.uint8)
    assert contents(batches.buffer, batches.headers) == contents(source, scan(source).headers)[1:]
    assert batches.headers.table["base_offset"].tolist() == [0, 5, 10]


def test_an_incomplete_last_batch_is_left_for_the_next_fetch(tmp_path: Path) -> None:
    data = data_of(log_of(tmp_path / "log"))
    found = forwarded(FetchAnswer(data[: len(data) * 3 // 4 - 1], 0), batch_size_max=LARGE)
    assert (found.kept, found.next_offset) == (2, 10)
    assert forwarded(FetchAnswer(b"", 7), batch_size_max=LARGE) == Forwarded([], 7, 0)


def test_a_batch_that_begins_before_the_wanted_offset_loses_the_records_before_it(tmp_path: Path) -> None:
    data = data_of(log_of(tmp_path / "log", codec=Codec.GZIP))
    found = forwarded(FetchAnswer(data, 13), batch_size_max=LARGE)
    batches = only(found)
    assert (found.kept, found.next_offset) == (1, 20)
    assert values(batches) == wanted(*range(13, 20))
    assert batches.headers.table["base_offset"].tolist() == [0, 2]
    assert set(batches.headers.codec.tolist()) == {Codec.GZIP}


def test_batches_that_are_too_large_for_the_target_are_divided(tmp_path: Path) -> None:
    data = data_of(log_of(tmp_path / "log"))
    found = forwarded(FetchAnswer(data, 0), batch_size_max=500)
    batches = only(found)
    assert found.kept == 0
    assert batches.headers.table["size"].max() <= 500
    assert values(batches) == wanted(*range(20))


def test_a_record_that_is_too_large_for_the_target_is_an_error(tmp_path: Path) -> None:
    data = data_of(log_of(tmp_path / "log"))
    with pytest.raises(RecordTooLargeError, match=r"needs a batch of \d+ bytes, but the target takes only 100"):
        forwarded(FetchAnswer(data, 0), batch_size_max=100)


def test_times_of_a_broker_become_those_of_a_producer(tmp_path: Path) -> None:
    data = data_of(log_of(tmp_path / "log", message_timestamp_type="LogAppendTime"))
    batches = only(forwarded(FetchAnswer(data, 0), batch_size_max=LARGE))
    assert batches.headers.timestamp_type.tolist() == [0] * len(batches.headers)
    source = np.frombuffer(data, dtype=np.uint8)
    expected = decode(source, scan(source).headers).records.timestamps
    assert decode(batches.buffer, batches.headers, is_verified=True).records.timestamps.tolist() == expected.tolist()


def transactional_log(path: Path) -> Log:
    """Producer 7: aborted 0 to 1, marker 2, committed 3, marker 4, aborted 6, marker 7; without a producer: 5."""
    log = open_log(path)

    def transaction(value: int, count: int, epoch: int, *, commit: bool) -> None:
        batch = records(wanted(*range(value, value + count)))
        fields = BatchFields(producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True)
        log.append_records(batch, fields)
        log.end_transaction(Producer(7, epoch + 1), commit=commit)

    transaction(0, 2, 0, commit=False)
    transaction(3, 1, 1, commit=True)
    log.append_records(records(wanted(5)))
    transaction(6, 1, 2, commit=False)
    return log


def test_markers_and_aborted_records_are_not_sent(tmp_path: Path) -> None:
    answer = FetchAnswer(data_of(transactional_log(tmp_path / "log")), 0, [(7, 0), (7, 6)])
    found = forwarded(answer, batch_size_max=LARGE)
    batches = only(found)
    assert values(batches) == wanted(3, 5)
    assert (found.kept, found.next_offset) == (2, 8)
    assert batches.headers.table["base_offset"].tolist() == [0, 1]
    seen, next_offset = visible_records(answer)
    assert (seen.offsets.tolist(), next_offset) == ([3, 5], 8)


def test_a_fetch_of_markers_alone_moves_on(tmp_path: Path) -> None:
    data = data_of(transactional_log(tmp_path / "log"))
    assert forwarded(FetchAnswer(data, 6, [(7, 6)]), batch_size_max=LARGE) == Forwarded([], 8, 0)


def test_records_go_to_the_shares_that_they_are_given_in_their_order(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    keys: list[bytes | None] = [b"%d" % (number % 7) for number in range(20)]
    sent = Records.to_append(keys, list(wanted(*range(20))), 1_000)
    log.append_records(sent, BatchFields(codec=Codec.LZ4))
    assert sent.keys is not None
    shares = partitions_of(sent.keys, 3)

    found = forwarded_by(
        lambda each: partitions_of(each.keys, 3),  # type: ignore[arg-type]
        FetchAnswer(data_of(log), 0),
        count=3,
        batch_size_max=LARGE,
    )
    assert (found.kept, found.next_offset) == (0, 20)
    for share, batches in found.shares:
        assert values(batches) == wanted(*np.flatnonzero(shares == share).tolist())
        assert set(batches.headers.codec.tolist()) == {Codec.LZ4}


def test_produced_batches_are_those_of_one_producer_in_sequence(tmp_path: Path) -> None:
    data = data_of(log_of(tmp_path / "log", codec=Codec.ZSTD))
    batches = only(forwarded(FetchAnswer(data, 0), batch_size_max=LARGE))
    produced = list(
        produced_batches(batches, producer_id=9, producer_epoch=2, base_sequence=2**31 - 5, transactional=True)
    )
    assert [count for _, count in produced] == [5] * 4
    sequences = []
    for batch, _ in produced:
        buffer = np.frombuffer(batch, dtype=np.uint8)
        headers = scan(buffer).headers
        verify(buffer, headers)
        (row,) = headers.table
        assert (row["base_offset"], row["producer_id"], row["producer_epoch"]) == (0, 9, 2)
        assert headers.is_transactional.all()
        sequences.append(int(row["base_sequence"]))
    assert sequences == [2**31 - 5, 0, 5, 10]


def test_a_log_takes_them_in_a_transaction(tmp_path: Path) -> None:
    source = log_of(tmp_path / "log", codec=Codec.GZIP)
    batches = only(forwarded(FetchAnswer(data_of(source), 5), batch_size_max=LARGE))
    target = open_log(tmp_path / "target")
    target.append_records(records([b"before"]))
    target.append_transactional(batches, Producer(3, 0))
    target.end_transaction(Producer(3, 1), commit=True)
    found = [piece.values.to_list() for piece in target.records(0, target.log_end_offset) if piece.values is not None]
    assert [value for piece in found for value in piece] == [b"before", *wanted(*range(5, 20))]


def test_a_damaged_batch_is_an_error(tmp_path: Path) -> None:
    data = bytearray(data_of(log_of(tmp_path / "log")))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        forwarded(FetchAnswer(bytes(data), 0), batch_size_max=LARGE)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [*Codec])
def test_message_sets_of_old_formats_have_the_records_in_order_and_no_compressed_message_is_too_large(
    magic: int, codec: Codec
) -> None:
    values: list[bytes | None] = [bytes((number * step) % 251 for step in range(500)) for number in range(40)]
    keys: list[bytes | None] = [None, b"key"] * 20
    batches = encode_batches(Records.to_append(keys, values, 1_000), BatchFields(codec=codec), batch_bytes_max=2000)
    sets = [*to_message_sets(batches, magic, 3000)]
    found = []
    for data in sets:
        buffer = np.frombuffer(data, dtype=np.uint8)
        headers = scan(buffer).headers
        assert set(headers.table["magic"].tolist()) == {magic}
        is_plain = codec is Codec.NONE
        assert len(headers) == (40 if is_plain else 1)
        assert is_plain or len(data) <= 3000
        records = decode(buffer, headers).records
        assert set(records.timestamps.tolist()) == {1_000 if magic else -1}
        assert records.keys is not None
        assert records.values is not None
        found += zip(records.keys.to_list(), records.values.to_list(), strict=True)
    assert found == [*zip(keys, values, strict=True)]
    assert (len(sets) == 1) == (codec is Codec.NONE)
