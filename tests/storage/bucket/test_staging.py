"""Staged objects: what tasks put is what readers of a commit find, byte for byte but for offsets."""

from __future__ import annotations

import json
import pickle
import struct
import zlib
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.bucket.commits.commit import StagedObject
from pyspark_commitlog.storage.bucket.proposals import StagedWrite, commit_write
from pyspark_commitlog.storage.bucket.staged_objects import MAGIC, TAIL, read_footer
from pyspark_commitlog.storage.bucket.staging import Staged, StagedTopic, Stager, combined
from pyspark_commitlog.storage.bucket.stores.patience import Attempts, Patience, PatientStore
from pyspark_commitlog.storage.bucket.stores.port import ObjectStore
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    ObjectStoreError,
    RecordTooLargeError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.checksums import crc32c
from pyspark_commitlog.storage.format.constants import Codec
from tests.support.clock import ManualClock
from tests.support.logs.building import records
from tests.support.stores.commits import TOPIC_ID, commit_log, create_topic, hex_id
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.memory_store import MemoryStore

WRITE = hex_id(1)


@dataclass
class Task:
    """A stager and what it was given, by partition."""

    stager: Stager
    given: dict[int, list[bytes]]

    def write(self, partition: int, *values: bytes, batch_bytes: int = 1 << 20) -> None:
        table = records(list(values), timestamps=[1000 + len(values)] * len(values))
        self.stager.append("t", partition, v2.encode_batches(table, v2.BatchFields(), batch_bytes_max=batch_bytes))
        self.given.setdefault(partition, []).extend(values)


def attempts(deadline_ms: int = 60_000) -> Attempts:
    return Attempts(Patience(deadline_ms), ManualClock(), Random(1))


def task(store: ObjectStore, number: int = 0, *, limit: int = 32 << 20, **configs: Any) -> Task:
    topic = StagedTopic(TOPIC_ID, 2, LogConfig(**configs))
    stager = Stager(store, WRITE, number, 7, {"t": topic}, attempts, clock=ManualClock(5_000), limit=limit)
    return Task(stager, {})


def committed(store: MemoryStore, *staged: Staged) -> dict[int, list[bytes]]:
    """Commits what was staged; returns the values of each partition as a reader finds them, and checks the offsets."""
    log = commit_log(store)
    log.commit(lambda _: create_topic())
    everything = combined(staged)
    log.commit(lambda state: commit_write(state, StagedWrite(WRITE, everything.objects, everything.slices)))
    return {number: values_of(store, number) for number in range(2)}


def values_of(store: MemoryStore, partition: int) -> list[bytes]:
    found: list[bytes] = []
    for one in commit_log(store).state.slices(TOPIC_ID, partition):
        buffer = np.frombuffer(store.get_range(one.key, one.position, one.size), np.uint8).copy()
        headers = formats.scan(buffer).headers
        assert (len(headers), headers.end, headers.next_offset) == (one.batches, one.size, one.records)
        assert (headers.table["producer_id"] == -1).all()
        assert headers.table["max_timestamp"].max() == one.max_timestamp
        formats.verify(buffer, headers)
        decoded = formats.decode(buffer, v2.stamp(buffer, headers, base_offset=one.base, leader_epoch=0)).records
        assert decoded.offsets.tolist() == list(range(one.base, one.end))
        assert decoded.values is not None
        found += [value or b"" for value in decoded.values.to_list()]
    return found


def test_records_are_found_by_the_commit_as_they_were_written() -> None:
    store = MemoryStore()
    one, two = task(store, 0), task(store, 1)
    one.write(0, b"a", b"b")
    one.write(1, b"c")
    one.write(0, b"d")
    two.write(0, b"e")
    assert committed(store, one.stager.finish(), two.stager.finish()) == {0: [b"a", b"b", b"d", b"e"], 1: [b"c"]}
    assert sorted(key for key in store.objects if key.startswith("staged")) == [
        f"staged/{WRITE}/0-7-0.data",
        f"staged/{WRITE}/1-7-0.data",
    ]


def test_a_task_with_much_puts_several_objects_and_none_is_too_large() -> None:
    store, random = MemoryStore(), Random(2)
    writing = task(store, limit=3_000)
    for number in range(60):
        writing.write(number % 2, *(random.randbytes(90) for _ in range(random.randrange(1, 20))), batch_bytes=1_000)
    staged = writing.stager.finish()
    assert len(staged.objects) > 20
    for key, data in store.objects.items():
        footer = read_footer(store, key, len(data))
        assert sum(map(sum, footer.sizes)) <= 3_000
    assert committed(store, staged) == writing.given


def test_a_task_without_records_puts_nothing() -> None:
    store = MemoryStore()
    writing = task(store)
    info = writing.stager.append("t", 0, v2.encode_batches(records([]), v2.BatchFields(), batch_bytes_max=1 << 20))
    assert (info.first_offset, info.last_offset) == (0, -1)
    assert writing.stager.finish() == ([], {})
    assert store.objects == {}


def test_offsets_of_an_append_count_the_tasks_own_records() -> None:
    writing = task(MemoryStore())
    infos = [
        writing.stager.append("t", 0, v2.encode_batches(records([b"x"] * n), v2.BatchFields(), batch_bytes_max=1 << 20))
        for n in (2, 3)
    ]
    assert [(info.first_offset, info.last_offset) for info in infos] == [(0, 1), (2, 4)]
    writing.stager.close()


def test_a_producers_batches_are_staged_without_it() -> None:
    store = MemoryStore()
    writing = task(store)
    fields = v2.BatchFields(producer_id=5, producer_epoch=1, base_sequence=7, transactional=True, codec=Codec.LZ4)
    writing.stager.append("t", 0, v2.encode_batches(records([b"a"]), fields, batch_bytes_max=1 << 20))
    assert committed(store, writing.stager.finish())[0] == [b"a"]


def test_a_topic_may_give_records_the_time_of_their_append() -> None:
    store = MemoryStore()
    writing = task(store, message_timestamp_type="LogAppendTime")
    writing.write(0, b"a")
    staged = writing.stager.finish()
    assert staged.slices[TOPIC_ID, 0][0].tolist()[-1] == 5_000
    committed(store, staged)


def test_a_batch_above_the_size_of_an_object_has_one_to_itself() -> None:
    store = MemoryStore()
    writing = task(store, limit=1_000)
    writing.write(0, b"a")
    writing.write(0, bytes(1_500))
    writing.write(0, b"b")
    writing.write(1, bytes(2_000), bytes(3_000), batch_bytes=0)
    staged = writing.stager.finish()
    assert len(staged.objects) == 5
    assert committed(store, staged) == {0: [b"a", bytes(1_500), b"b"], 1: [bytes(2_000), bytes(3_000)]}


def test_what_no_put_or_topic_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.bucket.staging.BATCH_BYTES_MAX", 1_000)
    writing = task(MemoryStore(), max_message_bytes=2_000)
    with pytest.raises(RecordTooLargeError, match="object"):
        writing.write(0, bytes(1_500))
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
        writing.write(0, bytes(2_500))
    for topic, partition in (("t", 2), ("t", -1), ("other", 0)):
        with pytest.raises(UnknownTopicOrPartitionError):
            writing.stager.append(
                topic, partition, v2.encode_batches(records([b""]), v2.BatchFields(), batch_bytes_max=1 << 20)
            )
    writing.stager.close()


def test_what_was_staged_travels() -> None:
    writing = task(MemoryStore())
    writing.write(0, b"a")
    staged = writing.stager.finish()
    objects, slices = pickle.loads(pickle.dumps(staged))
    assert objects == staged.objects
    assert slices[TOPIC_ID, 0].tolist() == staged.slices[TOPIC_ID, 0].tolist()


# --- faults


def test_objects_are_put_whatever_the_store_answers() -> None:
    for seed in range(20):
        store = MemoryStore()
        writing = task(FaultyStore(store, Random(seed), 0.5), limit=1_000)
        for number in range(12):
            writing.write(0, bytes([number]) * 300, batch_bytes=600)
        assert committed(store, writing.stager.finish()) == {**writing.given, 1: []}


def test_a_store_that_takes_nothing_fails_the_task() -> None:
    class Full(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            raise ObjectStoreError(f"{key}: full")

    writing = task(Full(), limit=1_000)
    writing.write(0, bytes(900))
    with pytest.raises(ObjectStoreError, match="full"):
        writing.stager.finish()


def test_an_object_of_another_attempt_is_not_taken_for_ones_own() -> None:
    store = MemoryStore()
    for writing, value in ((task(store), b"a"), (task(store), b"b")):
        writing.write(0, value)
        if value == b"a":
            writing.stager.finish()
        else:
            with pytest.raises(StorageError, match="another object"):
                writing.stager.finish()
    with pytest.raises(StorageError, match="another object"):
        PatientStore(store, attempts).put_unique(StagedObject(0, 7, 0, 1).key(WRITE), b"x" * 20)


# --- the footer


def staged_object() -> tuple[MemoryStore, str]:
    store = MemoryStore()
    writing = task(store)
    writing.write(0, b"a", b"b", batch_bytes=1)
    writing.write(1, b"c")
    (staged,) = writing.stager.finish().objects
    return store, staged.key(WRITE)


def test_the_footer_says_what_is_where() -> None:
    store, key = staged_object()
    data = store.objects[key]
    footer = read_footer(store, key, len(data))
    assert footer.write == WRITE
    assert [(topic_id, partition, at) for topic_id, partition, at, _ in footer.slices] == [
        (TOPIC_ID, 0, 0),
        (TOPIC_ID, 1, sum(footer.sizes[0])),
    ]
    assert [len(sizes) for sizes in footer.sizes] == [2, 1]
    assert crc32c(data[: sum(map(sum, footer.sizes))]) == footer.checksum


def test_a_damaged_footer_is_named() -> None:
    store, key = staged_object()
    good = store.objects[key]
    begin = sum(map(sum, read_footer(store, key, len(good)).sizes))
    for position in range(begin, len(good)):
        store.objects[key] = good[:position] + bytes([good[position] ^ 4]) + good[position + 1 :]
        with pytest.raises(CorruptionError, match=key):
            read_footer(store, key, len(good))
    for size in (0, 5, TAIL.size, begin):
        store.objects[key] = good[:size]
        with pytest.raises(CorruptionError, match=key):
            read_footer(store, key, size)


@pytest.mark.parametrize(
    "bad",
    [
        {"sizes": [[1]]},
        {"sizes": [[0, 70], [70]]},
        {"sizes": [["70"], [70]]},
        {"sizes": 5},
        {"slices": [5]},
        {"slices": []},
        {"crc": -1},
        {"write": "../x"},
    ],
    ids=str,
)
def test_a_footer_that_no_task_wrote_is_refused(bad: dict[str, Any]) -> None:
    store, key = staged_object()
    good = store.objects[key]
    begin = sum(map(sum, read_footer(store, key, len(good)).sizes))
    content = json.loads(zlib.decompress(good[begin : -TAIL.size]))
    footer = zlib.compress(json.dumps({**content, **bad}).encode())
    changed = good[:begin] + footer + struct.pack(">II8s", len(footer), crc32c(footer), MAGIC)
    store.objects[key] = changed
    with pytest.raises(CorruptionError, match=key):
        read_footer(store, key, len(changed))
