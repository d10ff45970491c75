"""Message sets of Kafka 0.8 and later, over what Kafka wrote: in memory, in a file, cut off, damaged, aborted."""

from __future__ import annotations

import io
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.classic.consumer import BatchMessageSet, Message
from pyspark_commitlog.classic.errors import MessageTooLargeError
from pyspark_commitlog.storage import Codec, CorruptionError, CorruptRecordError, OffsetOutOfRangeError
from pyspark_commitlog.storage.format import v2
from tests.support.logs import record_sets
from tests.support.logs.building import records, replicated
from tests.support.logs.record_sets import TYPES

WHOLE = [
    name
    for name in record_sets.names()
    if not name.startswith(record_sets.DAMAGED) and len(record_sets.log_bytes(name)) < 300_000
]


def shown(message: Message) -> dict[str, Any]:
    """A message as the JSON twins have it."""
    return {
        "offset": message.offset,
        "timestamp": message.timestamp,
        **record_sets._text("key", message.key),
        **record_sets._text("value", message.value),
        "headers": [[name, record_sets._base64(value)] for name, value in message.headers],
    }


def of_twin(name: str) -> list[dict[str, Any]]:
    return [
        {field: value for field, value in record.items() if field not in ("sequence", "controlType")}
        for batch in record_sets.load(name)["batches"]
        if not batch["isControl"]
        for record in batch["records"]
    ]


@pytest.mark.parametrize("name", WHOLE)
def test_messages_are_those_that_kafka_reads(name: str, tmp_path: Path) -> None:
    data = record_sets.log_bytes(name).tobytes()
    (tmp_path / "00.log").write_bytes(data)
    in_memory, in_file = BatchMessageSet(data), BatchMessageSet.in_file(str(tmp_path / "00.log"))
    assert [shown(each) for each in in_memory] == [shown(each) for each in in_file] == of_twin(name)
    assert in_memory.valid_bytes == in_file.size_in_bytes == len(data)


@pytest.mark.parametrize("name", WHOLE)
def test_batches_as_they_are_stored_have_the_fields_that_kafka_reads(name: str) -> None:
    data = record_sets.log_bytes(name).tobytes()
    target = io.BytesIO()
    batches = list(BatchMessageSet(data).shallow())
    for batch, wanted in zip(batches, record_sets.load(name)["batches"], strict=True):
        assert batch.last_offset == wanted["lastOffset"]
        assert (batch.magic, batch.crc, batch.size_in_bytes) == (
            wanted["magic"],
            wanted["crc"],
            wanted["sizeInBytes"],
        )
        assert batch.codec.name.lower() == wanted["compression"]
        assert TYPES[batch.timestamp_type] == wanted["timestampType"]
        assert batch.max_timestamp == wanted["maxTimestamp"]
        assert batch.is_valid
        if batch.magic == 2:
            assert (batch.base_offset, batch.count) == (wanted["baseOffset"], wanted["count"])
            assert (batch.producer_id, batch.producer_epoch) == (wanted["producerId"], wanted["producerEpoch"])
            assert (batch.base_sequence, batch.leader_epoch) == (wanted["baseSequence"], wanted["partitionLeaderEpoch"])
            assert (batch.is_control, batch.is_transactional) == (wanted["isControl"], wanted["isTransactional"])
        assert [each.offset for each in batch] == [each["offset"] for each in wanted["records"]]
        assert batch.write_to(target) == batch.size_in_bytes
    assert target.getvalue() == data


def test_a_set_is_written_to_files_and_sockets_as_it_is(tmp_path: Path) -> None:
    data = record_sets.log_bytes("mixed-magic-0-1-2").tobytes() * 500
    (tmp_path / "a.log").write_bytes(b"before" + data)
    found = BatchMessageSet.in_file(str(tmp_path / "a.log"), 6)
    with (tmp_path / "unbuffered").open("wb", buffering=0) as target:
        assert found.write_to(target) == len(data)
    assert (tmp_path / "unbuffered").read_bytes() == data
    one, other = socket.socketpair()
    received = bytearray()
    thread = threading.Thread(target=lambda: received.extend(b"".join(iter(lambda: other.recv(65536), b""))))
    thread.start()
    with one:
        assert found.write_to(one) == len(data)
    thread.join(20)
    other.close()
    assert received == data


def test_a_file_that_is_empty_or_shorter_than_the_range_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"")
    found = BatchMessageSet.in_file(str(tmp_path / "a.log"), 0, 100)
    assert (list(found), found.size_in_bytes, found.valid_bytes, found.next_offset) == ([], 0, 0, 0)
    with pytest.raises(FileNotFoundError):
        BatchMessageSet.in_file(str(tmp_path / "nothing"))


def test_messages_below_the_offset_that_was_asked_for_are_passed_over() -> None:
    data = replicated(b"a", b"b", b"c", base_offset=5).tobytes()
    found = BatchMessageSet(data, 6)
    assert [(each.offset, each.next_offset, each.value) for each in found] == [(6, 7, b"b"), (7, 8, b"c")]
    assert found.next_offset == 8
    assert len(list(found)) == 2  # again from the same place


@pytest.mark.parametrize("cut", [1, 11, 12, 17, 60, 61, 68])
def test_an_incomplete_message_at_the_end_is_passed_over(cut: int) -> None:
    data = replicated(b"a", base_offset=0).tobytes()
    found = BatchMessageSet(data + replicated(b"b", base_offset=1).tobytes()[:cut])
    assert [each.value for each in found] == [b"a"]
    assert (found.valid_bytes, found.size_in_bytes, found.next_offset) == (len(data), len(data) + cut, 1)
    assert not found.is_too_small


@pytest.mark.parametrize("cut", [1, 11, 12, 17, 60, 61, 68])
def test_a_set_without_a_whole_message_says_how_large_it_is(cut: int) -> None:
    data = replicated(b"a" * 10, base_offset=3).tobytes()
    found = BatchMessageSet(data[:cut], 3)
    assert found.is_too_small
    assert found.first_size == (len(data) if cut >= 12 else 0)
    with pytest.raises(MessageTooLargeError, match="offset 3"):
        list(found)
    with pytest.raises(MessageTooLargeError, match="offset 3"):
        list(found.shallow())


def test_damage_is_raised_after_the_messages_before_it(tmp_path: Path) -> None:
    one = replicated(b"a", base_offset=0).tobytes()
    damaged = bytearray(one + one)
    damaged[-1] ^= 1
    (tmp_path / "a.log").write_bytes(damaged)
    found = iter(BatchMessageSet.in_file(str(tmp_path / "a.log")))
    assert next(found).offset == 0
    with pytest.raises(CorruptRecordError, match=rf"a\.log, position {len(one)}"):
        next(found)
    assert [each.is_valid for each in BatchMessageSet(damaged).shallow()] == [True, False]


@pytest.mark.parametrize("name", ["corrupt-file-ff-at-end", "corrupt-file-hole-between-batches"])
def test_what_is_no_batch_is_damage(name: str) -> None:
    with pytest.raises(CorruptionError):
        list(BatchMessageSet(record_sets.log_bytes(name).tobytes()))


def test_the_error_of_a_fetch_is_raised_when_the_set_is_read() -> None:
    found = BatchMessageSet(b"", 7, OffsetOutOfRangeError("not there"), 1)
    assert found.error_code == 1
    with pytest.raises(OffsetOutOfRangeError):
        list(found)
    with pytest.raises(OffsetOutOfRangeError):
        list(found.shallow())


def batch_of(producer_id: int, offset: int, *, control: bool = False, codec: Codec = Codec.NONE) -> bytes:
    fields = v2.BatchFields(
        producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True, control=control, codec=codec
    )
    data = v2.encode(records([b"v"], keys=[b"\0\0\0\0" if control else None]), fields)
    return offset.to_bytes(8, "big") + data.tobytes()[8:]


def test_records_of_aborted_transactions_and_markers_are_left_out() -> None:
    data = b"".join(
        [
            batch_of(1, 0),
            batch_of(2, 1),
            batch_of(1, 2, control=True),  # aborts
            batch_of(1, 3),
            batch_of(2, 4),
            batch_of(2, 5, control=True),
            batch_of(2, 6),
            batch_of(1, 7),
            batch_of(1, 8, control=True),  # aborts
            batch_of(1, 9),
        ]
    )
    assert [each.offset for each in BatchMessageSet(data)] == [0, 1, 3, 4, 6, 7, 9]
    committed = BatchMessageSet(data, aborted=[(1, 3), (1, 0)])
    assert [each.offset for each in committed] == [1, 4, 6, 9]
    assert committed.next_offset == 10
