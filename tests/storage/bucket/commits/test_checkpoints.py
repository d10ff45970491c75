"""Checkpoints: what a state is as bytes, and what is not believed."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

import numpy as np
import pytest
import zstandard

from pyspark_commitlog.storage.bucket.commits.applying import apply
from pyspark_commitlog.storage.bucket.commits.checkpoints import MAGIC, decode_checkpoint, encode_checkpoint
from pyspark_commitlog.storage.bucket.commits.commit import (
    FinishChange,
    GroupOffset,
    OffsetsChange,
    OpenChange,
    RetainChange,
    SwapChange,
    TopicChange,
    VoidChange,
)
from pyspark_commitlog.storage.bucket.commits.frames import encode_frame
from pyspark_commitlog.storage.bucket.commits.rows import Rows, decode_rows, encode_rows
from pyspark_commitlog.storage.bucket.commits.state import State
from pyspark_commitlog.storage.errors import CorruptionError
from tests.support.stores.commits import TOPIC_ID, create_topic, data, follow, hex_id, segment, state_of

OTHER_ID = "u" * 22


def full_state() -> State:
    return state_of(
        create_topic("b", 3, OTHER_ID),
        create_topic(),
        OpenChange("app", 1, "q", "r"),
        data(1, 3, 4, app="app", version=0, epoch=1, query="q", run="r"),
        data(2, 5, partition=1),
        data(3, 5, 6, base=7),
        OffsetsChange({"g": {"t-0": GroupOffset(5, "ä")}}),
        SwapChange(TOPIC_ID, 0, segment(0, 12)),
        VoidChange([hex_id(9)]),
        RetainChange(TOPIC_ID, 1, 2),
    )


def test_partitions_that_are_being_copied_stay_so_and_older_versions_refuse_the_state() -> None:
    copied = TopicChange("create", "t", TOPIC_ID, 3, {}, is_copied=True)
    state = state_of(copied, FinishChange(TOPIC_ID, 1))
    read = decode_checkpoint(encode_checkpoint(state))
    assert {key[1]: each.is_unfinished for key, each in read.partitions.items()} == {0: True, 1: False, 2: True}
    assert head_of(encode_checkpoint(state))["v"] == 3
    finished = state_of(copied, *(FinishChange(TOPIC_ID, number) for number in range(3)))
    assert head_of(encode_checkpoint(finished))["v"] == 1


def head_of(checkpoint: bytes) -> dict[str, Any]:
    payload = zstandard.ZstdDecompressor().decompress(checkpoint[16:])
    (length,) = struct.unpack_from(">I", payload)
    found: dict[str, Any] = json.loads(payload[4 : 4 + length])
    return found


def test_a_state_is_read_as_it_was_written() -> None:
    state = full_state()
    read = decode_checkpoint(encode_checkpoint(state))
    assert encode_checkpoint(read) == encode_checkpoint(state)
    for field in ("log_id", "number", "uid", "topics", "topic_ids", "apps", "groups", "void", "dropped", "uses"):
        assert getattr(read, field) == getattr(state, field), field
    assert read.dropped
    assert read.named_objects() == state.named_objects()
    for key, partition in state.partitions.items():
        assert read.slices(*key) == state.slices(*key)
        assert (read.partitions[key].log_start, read.partitions[key].end) == (partition.log_start, partition.end)
        assert read.partitions[key].segments == partition.segments


def test_an_empty_state_has_a_checkpoint_too() -> None:
    assert encode_checkpoint(decode_checkpoint(encode_checkpoint(state_of()))) == encode_checkpoint(state_of())


def test_a_state_goes_on_from_a_checkpoint_as_without_one() -> None:
    state = full_state()
    read = decode_checkpoint(encode_checkpoint(full_state()))
    for change in (data(4, 2, base=18), SwapChange(TOPIC_ID, 0, segment(12, 18, 2)), RetainChange(TOPIC_ID, 0, 13)):
        apply(state, follow(state, change))
        apply(read, follow(read, change))
    assert encode_checkpoint(read) == encode_checkpoint(state)


def test_what_no_slice_names_is_dropped() -> None:
    state = state_of(create_topic(), data(1, 3), data(2, 4, base=3), data(3, 1, base=7), RetainChange(TOPIC_ID, 0, 3))
    named = state.named_objects()
    state.forget_unnamed()
    assert state.writes == [hex_id(2), hex_id(3)]
    assert len(state.objects) == 2
    assert state.named_objects() == named


def test_a_slice_takes_few_bytes() -> None:
    state = state_of(create_topic())
    random = Random(1)
    for write in range(2000):
        records = [random.randrange(900, 1100) for _ in range(4)]
        base = state.partitions[TOPIC_ID, 0].end
        apply(state, follow(state, data(write, *records, base=base)))
    assert len(encode_checkpoint(state)) < 8000 * 16 + 2000 * 24


# --- rows


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([[0, 2**63 - 1], [-(2**63), 5], [2**63 - 1, -(2**63)]], id="extremes, whose differences wrap"),
        pytest.param([[1, 2]], id="one"),
    ],
)
def test_rows_are_read_as_they_were_written(rows: list[list[int]]) -> None:
    table = np.array(rows, np.int64)
    assert decode_rows(memoryview(encode_rows(table)), len(rows), 2).tolist() == rows


def test_no_rows_are_no_bytes() -> None:
    assert encode_rows(np.empty((0, 3), np.int64)) == b""
    assert decode_rows(memoryview(b""), 0, 3).shape == (0, 3)
    with pytest.raises(CorruptionError):
        decode_rows(memoryview(b"x"), 0, 3)


def test_rows_grow_and_are_cut() -> None:
    rows, wanted, random = Rows(2), [], Random(3)
    for _ in range(200):
        added = [[random.randrange(9), 1] for _ in range(random.randrange(5))]
        rows.extend(np.array(added, np.int64).reshape(-1, 2))
        wanted += added
        if random.random() < 0.1:
            start, end = sorted(random.choices(range(len(wanted) + 1), k=2))
            rows.cut(start, end)
            del wanted[start:end]
        assert rows.table.tolist() == wanted
        assert len(rows) == len(wanted)


# --- what is not believed


def test_any_damaged_byte_and_any_cut_is_noticed() -> None:
    good = encode_checkpoint(full_state())
    for position in range(0, len(good), 3):
        damaged = bytearray(good)
        damaged[position] ^= 4
        for bad in (bytes(damaged), good[:position]):
            with pytest.raises(CorruptionError):
                decode_checkpoint(bad)


def payload_of(state: State) -> tuple[dict[str, Any], bytes]:
    payload = zstandard.ZstdDecompressor().decompress(encode_checkpoint(state)[16:])
    (length,) = struct.unpack_from(">I", payload)
    return json.loads(payload[4 : 4 + length]), payload[4 + length :]


def as_object(head: dict[str, Any], tables: bytes) -> bytes:
    text = json.dumps(head).encode()
    return encode_frame(MAGIC, struct.pack(">I", len(text)) + text + tables)


BAD_HEADS: dict[str, dict[str, Any]] = {
    "another version": {"v": 4},
    "no log": {"logId": "x"},
    "more objects than there are": {"objects": 2**31 - 1},
    "a huge number of writes": {"writes": 2**62},
    "no partitions": {"partitions": []},
    "a partition of no topic": {"partitions": [["x" * 22, 0, 0, 0, 0, 0]]},
    "partitions of numbers": {"partitions": [1]},
    "a topic with a path as name": {"topics": [["../etc", TOPIC_ID, 1, {}]]},
    "a topic with more partitions": {"topics": [["t", TOPIC_ID, 3, {}], ["b", OTHER_ID, 2, {}]]},
    "a topic of a billion partitions": {"topics": [["t", TOPIC_ID, 10**9, {}]]},
    "a topic twice": {"topics": [["t", TOPIC_ID, 1, {}], ["t", OTHER_ID, 1, {}]]},
    "apps without progress": {"apps": {"app": 1}},
    "void that is no id": {"void": ["x"]},
    "groups that are a list": {"groups": []},
}


@pytest.mark.parametrize("bad", BAD_HEADS.values(), ids=BAD_HEADS)
def test_a_head_that_no_writer_wrote_is_refused(bad: dict[str, Any]) -> None:
    head, tables = payload_of(full_state())
    with pytest.raises(CorruptionError):
        decode_checkpoint(as_object({**head, **bad}, tables))


def test_offsets_that_no_slice_covers_are_refused() -> None:
    head, tables = payload_of(full_state())
    for number, partition in enumerate(head["partitions"]):
        for field in (2, 3):
            for step in (-1, 1):
                changed = [list(each) for each in head["partitions"]]
                changed[number][field] += step
                is_inside = field == 2 and partition[4] + partition[5] and 0 <= changed[number][2] <= partition[3]
                if is_inside:
                    continue  # a log start may be inside a slice
                with pytest.raises(CorruptionError):
                    decode_checkpoint(as_object({**head, "partitions": changed}, tables))


def test_random_tables_are_refused_or_read_but_never_fail_otherwise() -> None:
    head, tables = payload_of(full_state())
    random = Random(7)
    for _ in range(300):
        changed = bytearray(tables)
        for _ in range(random.randrange(1, 4)):
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        try:
            decode_checkpoint(as_object(head, bytes(changed)))
        except CorruptionError:
            continue
