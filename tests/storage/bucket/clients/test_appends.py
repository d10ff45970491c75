"""Batches of clients on an object store: offsets, repetitions, refusals, and what a store does on a bad day."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from pyspark_commitlog.storage.bucket.clients.appends import ClientBatch, append_batches
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits import producers as producers_module
from pyspark_commitlog.storage.bucket.commits.checkpoints import decode_checkpoint, encode_checkpoint
from pyspark_commitlog.storage.bucket.commits.commit import TopicChange, VoidChange
from pyspark_commitlog.storage.bucket.stores.port import ObjectStore
from pyspark_commitlog.storage.bucket.topics import delete_topic
from pyspark_commitlog.storage.bucket.upkeep import finish_copy
from pyspark_commitlog.storage.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    MissingSegmentError,
    ObjectStoreError,
    OutcomeUnknownError,
    OutOfOrderSequenceError,
    UnknownTopicOrPartitionError,
    UnsupportedForMessageFormatError,
)
from pyspark_commitlog.storage.writing.append_info import AppendInfo
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch
from tests.support.logs.building import batch, config
from tests.support.stores.commits import commit_log
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.filled import read_rows
from tests.support.stores.filling import make_topic
from tests.support.stores.memory_store import MemoryStore


def opened(store: ObjectStore, partitions: int = 1, seed: int = 0, **more: Any) -> CommitLog:
    log = commit_log(store, seed, **more)
    if "t" not in log.state.topic_ids:
        make_topic(log, "t", partitions)
    return log


def client_batch(log: CommitLog, *values: bytes, partition: int = 0, **fields: Any) -> ClientBatch:
    settings = config(**fields.pop("settings", {}))
    return ClientBatch(log.state.topic_ids["t"], partition, check_batch(batch(*values, **fields).data, settings))


def produced(log: CommitLog, sequence: int, *values: bytes, producer: int = 7, **more: Any) -> ClientBatch:
    return client_batch(log, *values, producer_id=producer, base_sequence=sequence, **more)


def offsets(results: Sequence[object]) -> list[int]:
    found = [each for each in results if isinstance(each, AppendInfo)]
    assert len(found) == len(results), results
    return [each.first_offset for each in found]


def values(log: CommitLog, partition: int = 0) -> list[tuple[int, bytes | None]]:
    return [(offset, value) for offset, _, value in read_rows(log, partition=partition)]


def test_batches_of_several_partitions_are_one_object_and_one_commit() -> None:
    store = MemoryStore()
    log = opened(store, 2)
    before = store.requests["put_new"]
    results = append_batches(
        log,
        [client_batch(log, b"a", b"b"), client_batch(log, b"x", partition=1), client_batch(log, b"c")],
    )
    assert offsets(results) == [0, 0, 2]
    assert store.requests["put_new"] - before == 2
    assert values(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert values(log, 1) == [(0, b"x")]
    assert log.state.producers == {}


def test_a_batch_keeps_its_producer_and_its_checksum() -> None:
    log = opened(MemoryStore())
    append_batches(log, [client_batch(log, b"a"), produced(log, 0, b"b", b"c")])
    sent = batch(b"b", b"c", producer_id=7, base_sequence=0).tobytes()
    assert any(sent[16:] in data for data in log.store.objects.values())  # type: ignore[attr-defined]


def test_a_repeated_batch_gets_its_first_offset_also_from_another_process_and_a_checkpoint() -> None:
    store = MemoryStore()
    log = opened(store)
    assert offsets(append_batches(log, [produced(log, 0, b"a", b"b"), produced(log, 2, b"c")])) == [0, 2]
    for other in (log, commit_log(store, 1), _from_checkpoint(store, log)):
        results = append_batches(other, [produced(other, 0, b"a", b"b"), produced(other, 2, b"c")])
        assert offsets(results) == [0, 2]
        assert all(isinstance(each, AppendInfo) and each.duplicate for each in results)
    assert values(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def _from_checkpoint(store: MemoryStore, log: CommitLog) -> CommitLog:
    other = commit_log(store, 2)
    other._state = decode_checkpoint(encode_checkpoint(log.state))
    assert other.state.producers == log.state.producers
    return other


def test_a_batch_that_comes_twice_at_once_is_added_once() -> None:
    log = opened(MemoryStore())
    assert offsets(append_batches(log, [produced(log, 0, b"a"), produced(log, 0, b"a")])) == [0, 0]
    assert values(log) == [(0, b"a")]


def test_five_batches_of_a_producer_are_recognised() -> None:
    log = opened(MemoryStore())
    append_batches(log, [produced(log, each, b"v") for each in range(6)])
    found = append_batches(log, [produced(log, each, b"v") for each in range(6)])
    assert isinstance(found[0], OutOfOrderSequenceError)
    assert offsets(found[1:]) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("sequence", "epoch", "error"), [(2, 1, OutOfOrderSequenceError), (1, 0, InvalidProducerEpochError)]
)
def test_what_does_not_follow_is_refused_and_others_are_added(
    sequence: int, epoch: int, error: type[Exception]
) -> None:
    log = opened(MemoryStore())
    append_batches(log, [produced(log, 0, b"a", producer_epoch=1)])
    refused = produced(log, sequence, b"b", producer_epoch=epoch)
    found = append_batches(log, [refused, client_batch(log, b"c")])
    assert isinstance(found[0], error)
    assert offsets(found[1:]) == [1]
    assert values(log) == [(0, b"a"), (1, b"c")]


def test_another_writer_that_was_faster_is_seen_before_the_commit() -> None:
    """One that added the same batch, and one that added others."""
    store = MemoryStore()
    slow, fast = opened(store), commit_log(store, 1)
    append_batches(fast, [produced(fast, 0, b"a"), client_batch(fast, b"other")])
    found = append_batches(slow, [produced(slow, 0, b"a"), produced(slow, 1, b"b")])
    assert offsets(found) == [0, 2]
    assert values(slow) == [(0, b"a"), (1, b"other"), (2, b"b")]


def test_a_write_that_the_collector_made_void_is_put_again() -> None:
    store = MemoryStore()
    slow, fast = opened(store), commit_log(store, 1)
    put, voided = store.put_new, list[str]()

    def put_new(key: str, data: bytes) -> None:
        put(key, data)
        if key.startswith("staged/") and not voided:
            voided.append(key.split("/")[1])
            fast.commit(lambda _: VoidChange(voided))

    store.put_new = put_new  # type: ignore[method-assign]
    assert offsets(append_batches(slow, [client_batch(slow, b"a")])) == [0]
    assert values(slow) == [(0, b"a")]
    assert voided
    assert slow.state.uses.keys().isdisjoint(voided)


def test_a_topic_that_was_deleted_is_unknown_and_its_producers_are_forgotten() -> None:
    log = opened(MemoryStore())
    late = produced(log, 1, b"b")
    append_batches(log, [produced(log, 0, b"a")])
    log.commit(lambda state: delete_topic(state, "t"))
    assert log.state.producers == {}
    assert isinstance(append_batches(log, [late])[0], UnknownTopicOrPartitionError)


def test_a_batch_for_a_copy_that_is_not_finished_is_refused_and_others_are_added() -> None:
    log = opened(MemoryStore(), partitions=2)
    log.commit(lambda state: delete_topic(state, "t"))
    log.commit(lambda _: TopicChange("create", "t", "u" * 22, 2, {}, is_copied=True))
    log.commit(lambda state: finish_copy(state, "u" * 22, 1))
    refused, added = append_batches(log, [client_batch(log, b"a"), client_batch(log, b"b", partition=1)])
    assert isinstance(refused, MissingSegmentError)
    assert (offsets([added]), values(log, 1)) == ([0], [(0, b"b")])


def test_what_the_topic_changes_is_changed() -> None:
    log = opened(MemoryStore())
    timed = client_batch(log, b"a", settings={"message_timestamp_type": "LogAppendTime"}, timestamps=5)
    packed = client_batch(log, b"b", settings={"compression_type": "lz4"})
    found = append_batches(log, [timed, packed])
    assert offsets(found) == [0, 1]
    assert found[0].log_append_time_ms > 5  # type: ignore[union-attr]
    assert values(log) == [(0, b"a"), (1, b"b")]


def test_transactional_batches_and_old_formats_are_refused() -> None:
    log = opened(MemoryStore())
    transactional = produced(log, 0, b"a", transactional=True)
    old = client_batch(log, b"a", settings={"message_format_version": "0.10.0"})
    found = append_batches(log, [transactional, old])
    assert [type(each) for each in found] == [InvalidTxnStateError, UnsupportedForMessageFormatError]


def test_producers_that_did_not_write_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers_module, "PRODUCERS_KEPT", 2)
    log = opened(MemoryStore())
    for producer, sequence in ((1, 0), (2, 0), (1, 1), (3, 0)):
        append_batches(log, [produced(log, sequence, b"v", producer=producer)])
    assert [key[2] for key in log.state.producers] == [1, 3]


@pytest.mark.parametrize("seed", range(15))
def test_nothing_is_lost_or_doubled_when_producers_repeat_over_a_faulty_store(seed: int) -> None:
    """Two gateways; a producer sends each batch to one of them until one knows it. Offsets are dense."""
    inner, random = MemoryStore(), Random(seed)
    opened(inner)
    faulty = FaultyStore(inner, random)
    faulty.rate = 0.0
    gateways = [commit_log(faulty, seed + each, deadline_ms=2_000) for each in range(2)]
    faulty.rate = 0.3
    sequences = {1: 0, 2: 0}
    for _ in range(20):
        producer = random.choice([1, 2])
        _send(gateways, random, producer, sequences[producer])
        sequences[producer] += 1
    faulty.rate = 0.0
    faulty.land_late(1.0)
    log = commit_log(inner, 99)
    rows = values(log)
    assert [offset for offset, _ in rows] == list(range(len(rows)))
    for producer, end in sequences.items():
        own = [value for _, value in rows if value is not None and value.startswith(b"%d-" % producer)]
        assert own == [b"%d-%d" % (producer, each) for each in range(end)]


def _send(gateways: Sequence[CommitLog], random: Random, producer: int, sequence: int) -> None:
    while True:
        log = random.choice(gateways)
        sent = produced(log, sequence, b"%d-%d" % (producer, sequence), producer=producer)
        try:
            found = append_batches(log, [sent])[0]
        except (ObjectStoreError, OutcomeUnknownError):
            continue
        assert isinstance(found, AppendInfo), found
        return
