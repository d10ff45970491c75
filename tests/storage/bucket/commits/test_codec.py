"""Commits as bytes: what is written is read back, and what no writer wrote is refused."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

import numpy as np
import pytest
import zstandard

from pyspark_commitlog.storage.bucket.commits.codec import MAGIC, decode_commit, encode_commit
from pyspark_commitlog.storage.bucket.commits.commit import (
    Change,
    Commit,
    DataChange,
    FinishChange,
    GroupOffset,
    OffsetsChange,
    OpenChange,
    PartitionSlices,
    RetainChange,
    StagedObject,
    SwapChange,
    TopicChange,
    VoidChange,
)
from pyspark_commitlog.storage.bucket.commits.frames import encode_frame
from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.format.checksums import crc32c
from tests.support.stores.commits import TOPIC_ID, create_topic, data, hex_id, segment

OFFSETS = {"g": {"t-0": GroupOffset(5, "ä"), "t-1": None}, "": {}}
CHANGES: dict[str, Change] = {
    "data": data(1, 3, 4, app="app", version=0, epoch=1, query="q", run="r", offsets=OFFSETS),
    "data without an app": data(1, 3),
    "data without records": DataChange(hex_id(1)),
    "data without a version": data(1, 3, app="app", epoch=1, offsets=OFFSETS),
    "offsets": OffsetsChange(OFFSETS),
    "create": create_topic(),
    "create for a copy": TopicChange("create", "t", TOPIC_ID, 2, {}, is_copied=True),
    "finish": FinishChange(TOPIC_ID, 1),
    "alter": TopicChange("alter", "t", TOPIC_ID, configs={"retention.ms": "1"}),
    "partitions": TopicChange("partitions", "t", TOPIC_ID, 5),
    "delete": TopicChange("delete", "t", TOPIC_ID),
    "open": OpenChange("app", 1, "q", None),
    "swap": SwapChange(TOPIC_ID, 0, segment(5, 9)),
    "swap of a compacted segment": SwapChange(TOPIC_ID, 0, segment(5, 9)._replace(is_compacted=True)),
    "retain": RetainChange(TOPIC_ID, 0, 7),
    "void": VoidChange([hex_id(1), hex_id(2)]),
}


def commit_of(change: Change) -> Commit:
    return Commit(7, hex_id(7), hex_id(6), 1_700_000_000_000, "process 1 of ä", change)


def content_of(change: Change) -> dict[str, Any]:
    data = encode_commit(commit_of(change))
    found: dict[str, Any] = json.loads(zstandard.ZstdDecompressor().decompress(data[16:]))
    return found


def as_object(content: object) -> bytes:
    return encode_frame(MAGIC, json.dumps(content).encode())


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_commit_is_read_as_it_was_written(change: Change) -> None:
    written = commit_of(change)
    read = decode_commit(encode_commit(written))
    assert encode_commit(read) == encode_commit(written)
    assert (read.number, read.uid, read.previous, read.time_ms, read.by) == (
        written.number,
        written.uid,
        written.previous,
        written.time_ms,
        written.by,
    )
    assert type(read.change) is type(change)
    if not isinstance(change, DataChange | VoidChange):
        assert read.change == change


def test_the_fields_of_a_commit_are_those_of_the_format() -> None:
    assert content_of(data(1, 3, app="app", version=0, epoch=1, query="q", run="r")) == {
        "v": 1,
        "n": 7,
        "uid": hex_id(7),
        "prev": hex_id(6),
        "timeMs": 1_700_000_000_000,
        "by": "process 1 of ä",
        "kind": "data",
        "write": hex_id(1),
        "objects": [[0, 7, 0, 350]],
        "parts": [{"topicId": TOPIC_ID, "p": 0, "base": 0, "slices": [[0, 0, 300, 3, 1, 1003]]}],
        "app": "app",
        "version": 0,
        "epoch": 1,
        "query": "q",
        "run": "r",
    }


def test_200_tasks_of_64_partitions_fit_easily() -> None:
    objects = [StagedObject(task, task, 0, 64_000) for task in range(200)]
    slices = [[[task, p * 1000, 1000, 9, 1, 1_700_000_000_000 + task] for task in range(200)] for p in range(64)]
    parts = [PartitionSlices(TOPIC_ID, p, 0, np.array(rows, np.int64)) for p, rows in enumerate(slices)]
    encoded = encode_commit(commit_of(DataChange(hex_id(1), objects, parts)))
    assert len(encoded) < 200_000
    read = decode_commit(encoded).change
    assert isinstance(read, DataChange)
    assert sum(len(part.slices) for part in read.parts) == 12_800


# --- damage


@pytest.mark.parametrize("change", [CHANGES["data"], CHANGES["void"]], ids=["data", "void"])
def test_any_damaged_byte_and_any_cut_is_noticed(change: Change) -> None:
    good = encode_commit(commit_of(change))
    for position in range(len(good)):
        for bit in (1, 128):
            damaged = bytearray(good)
            damaged[position] ^= bit
            with pytest.raises(CorruptionError):
                decode_commit(bytes(damaged))
        with pytest.raises(CorruptionError):
            decode_commit(good[:position])
    with pytest.raises(CorruptionError, match="follow the head"):
        decode_commit(good + b"\0")


def test_bytes_that_decompress_to_much_are_refused_before_they_do() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 28))
    frame = encode_frame(MAGIC, b"")
    with pytest.raises(CorruptionError, match="where at most"):
        decode_commit(frame[:8] + struct.pack(">II", len(bomb), crc32c(bomb)) + bomb)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 20))
    with pytest.raises(CorruptionError, match="where at most"):
        decode_commit(frame[:8] + struct.pack(">II", len(unsized), crc32c(unsized)) + unsized)


SLICE = [0, 0, 300, 3, 1, 1003]
BAD_FIELDS: dict[str, dict[str, Any]] = {
    "another version": {"v": 4},
    "a kind of a newer version": {"kind": "future"},
    "number 0": {"n": 0},
    "a number that is true": {"n": True},
    "a number with a fraction": {"n": 1.0},
    "a uid with capitals": {"uid": "A" * 32},
    "a path as write": {"write": "../../etc"},
    "no write": {"write": None},
    "objects that are texts": {"objects": [["0", 7, 0, 350]]},
    "objects of floats": {"objects": [[0.5, 7, 0, 350]]},
    "objects of huge numbers": {"objects": [[0, 7, 0, 2**70]]},
    "a negative task": {"objects": [[-1, 7, 0, 350]]},
    "uneven rows": {"objects": [[0, 7, 0, 350], [0]]},
    "rows of nothing": {"objects": [[]]},
    "deep rows": {"objects": [[[0, 7, 0, 350]]]},
    "an object twice": {"objects": [[0, 7, 0, 350], [0, 7, 0, 350]]},
    "a version without epoch": {"epoch": None},
    "offsets that are a list": {"offsets": []},
    "a negative offset": {"offsets": {"g": {"t-0": [-1, ""]}}},
    "an offset that is true": {"offsets": {"g": {"t-0": [True, ""]}}},
    "parts that are no objects": {"parts": [1]},
}
BAD_SLICES: dict[str, list[list[Any]]] = {
    "no slice": [],
    "another object": [[1, *SLICE[1:]]],
    "an object from the end": [[-1, *SLICE[1:]]],
    "past the end of its object": [[0, 51, 300, 3, 1, 1003]],
    "past the end by wrapping around": [[0, 2**63 - 1, 300, 3, 1, 1003]],
    "a negative position": [[0, -1, *SLICE[2:]]],
    "no bytes": [[0, 0, 0, 3, 1, 1003]],
    "no records": [[0, 0, 300, 0, 1, 1003]],
    "no batches": [[0, 0, 300, 3, 0, 1003]],
    "more batches than records": [[0, 0, 300, 3, 4, 1003]],
    "more records than an int": [[0, 0, 300, 2**31, 1, 1003]],
    "a timestamp below -1": [[0, 0, 300, 3, 1, -2]],
    "bytes twice": [[0, 0, 200, 3, 1, 1003], [0, 199, 100, 3, 1, 1003]],
}


@pytest.mark.parametrize("bad", BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_a_field_that_no_writer_wrote_is_refused(bad: dict[str, Any]) -> None:
    content = content_of(data(1, 3, app="app", version=0, epoch=1))
    with pytest.raises(CorruptionError):
        decode_commit(as_object({**content, **bad}))


@pytest.mark.parametrize("slices", BAD_SLICES.values(), ids=BAD_SLICES)
def test_slices_that_cannot_be_are_refused(slices: list[list[Any]]) -> None:
    content = content_of(data(1, 3))
    content["parts"][0]["slices"] = slices
    with pytest.raises(CorruptionError, match="slices"):
        decode_commit(as_object(content))


def test_a_partition_named_twice_is_refused() -> None:
    content = content_of(data(1, 3))
    content["parts"] = [{**content["parts"][0], "slices": [[0, at, 10, 1, 1, 5]]} for at in (0, 10)]
    with pytest.raises(CorruptionError, match="no partition twice"):
        decode_commit(as_object(content))


@pytest.mark.parametrize("name", ["../../etc", "..", "", "a/b", "t" * 250])
def test_a_topic_that_leaves_the_directory_by_its_name_is_refused(name: str) -> None:
    with pytest.raises(CorruptionError, match="topic"):
        decode_commit(as_object({**content_of(create_topic()), "name": name}))


def test_a_topic_of_a_billion_partitions_is_refused_before_they_are_made() -> None:
    with pytest.raises(CorruptionError, match="partitions"):
        decode_commit(as_object({**content_of(create_topic()), "partitions": 10**9}))


@pytest.mark.parametrize("content", [b"[]", b"1", b"\xff", b"{", b"[" * 100_000, b""], ids=str)
def test_what_is_no_json_object_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode_commit(encode_frame(MAGIC, content))


def test_random_json_is_refused_or_read_but_never_fails_otherwise() -> None:
    random = Random(5)
    values: list[Any] = [None, True, 0, -1, 2**63, 1.5, "", "t", [], [[]], [[1, 2]], {}, {"a": 1}, [None], "a" * 32]
    for change in CHANGES.values():
        content = content_of(change)
        for _ in range(150):
            changed = dict(content)
            for name in random.sample(sorted(content), 2):
                changed[name] = random.choice(values)
            try:
                decode_commit(as_object(changed))
            except CorruptionError:
                continue


def test_a_commit_above_the_limits_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.bucket.commits.codec.JSON_BYTES_MAX", 100)
    with pytest.raises(ValueError, match="too large"):
        encode_commit(commit_of(CHANGES["data"]))
