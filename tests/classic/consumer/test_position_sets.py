"""Message sets of Kafka 0.7, over what a real broker answered and over its files."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pyspark_commitlog.classic.consumer import PositionMessageSet
from pyspark_commitlog.classic.log_0_7.entries import encode, encode_set, messages_in
from pyspark_commitlog.storage import Codec, CorruptRecordError
from tests.support.classic.kafka_0_7 import unpacked

PLAIN = encode(b"one") + encode(b"two", magic=0)
PACKED = encode_set([b"a", b"b", b"c"], Codec.GZIP)


def test_a_message_says_where_it_is_and_where_to_read_on() -> None:
    found = PositionMessageSet(PLAIN + PACKED, 100)
    end, packed_end = 100 + len(PLAIN), 100 + len(PLAIN + PACKED)
    assert [(each.offset, each.next_offset, each.magic, each.value) for each in found] == [
        (100, 113, 1, b"one"),
        (113, end, 0, b"two"),
        (end, end, 1, b"a"),
        (end, end, 1, b"b"),
        (end, packed_end, 1, b"c"),
    ]
    assert {(each.key, each.timestamp, each.timestamp_type, tuple(each.headers)) for each in found} == {
        (None, -1, -1, ())
    }
    assert found.next_offset == packed_end


def test_entries_as_they_are_stored_are_written_byte_for_byte() -> None:
    found = PositionMessageSet(PLAIN + PACKED, 100)
    target = io.BytesIO()
    entries = list(found.shallow())
    assert [each.codec for each in entries] == [Codec.NONE, Codec.NONE, Codec.GZIP]
    assert [each.magic for each in entries] == [1, 0, 1]
    assert [each.payload for each in entries[:2]] == [b"one", b"two"]
    assert [(each.offset, each.next_offset) for each in entries][:2] == [(100, 113), (113, 100 + len(PLAIN))]
    assert all(each.is_valid for each in entries)
    assert sum(each.write_to(target) for each in entries) == len(PLAIN + PACKED)
    assert target.getvalue() == PLAIN + PACKED


def test_every_file_of_a_real_broker_is_read_from_disk_as_from_memory(tmp_path: Path) -> None:
    files = sorted((unpacked("main", tmp_path) / "log").rglob("*.kafka"))
    assert len(files) > 10
    for path in files:
        data, start = path.read_bytes(), int(path.stem)
        found = PositionMessageSet.in_file(str(path), start)
        assert [(each.offset, each.next_offset, each.magic, each.value) for each in found] == list(
            messages_in(data, start)
        )
        target = io.BytesIO()
        assert found.write_to(target) == len(data)
        assert target.getvalue() == data
        assert found.next_offset == start + len(data)


@pytest.mark.parametrize("cut", [1, 4, 9, 12])
def test_an_incomplete_message_is_passed_over_unless_it_is_the_first(cut: int) -> None:
    found = PositionMessageSet(PLAIN + PLAIN[:cut])
    assert len(list(found)) == 2
    assert not found.is_too_small
    alone = PositionMessageSet(PLAIN[:cut])
    assert alone.is_too_small
    assert alone.first_size == (13 if cut >= 4 else 0)
    if cut >= 4:
        with pytest.raises(CorruptRecordError, match="larger than what was read"):
            list(alone)


def test_damage_is_no_reason_to_fetch_more() -> None:
    damaged = bytearray(PLAIN)
    damaged[12] ^= 1
    found = PositionMessageSet(bytes(damaged), 50)
    assert not found.is_too_small
    with pytest.raises(CorruptRecordError, match="position 50"):
        list(found)
    nonsense = PositionMessageSet(b"\xff" * 40)
    assert not nonsense.is_too_small
    with pytest.raises(CorruptRecordError):
        list(nonsense)
