"""Transactions of clients on an object store: staged until they end, then one commit or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from pyspark_commitlog.storage.bucket import ClientBatch, CommitLog, GroupOffset, StagedTransactions, delete_topic
from pyspark_commitlog.storage.bucket.commits.commit import VoidChange
from pyspark_commitlog.storage.errors import (
    InvalidTxnStateError,
    ObjectStoreError,
    OutcomeUnknownError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
)
from pyspark_commitlog.storage.writing import AppendInfo, Producer, check_batch
from tests.support.logs.building import batch, config
from tests.support.stores.commits import commit_log
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.filled import read_rows
from tests.support.stores.filling import make_topic
from tests.support.stores.memory_store import MemoryStore

PRODUCER = 7


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log(store: MemoryStore) -> CommitLog:
    log = commit_log(store)
    make_topic(log, "t", 2)
    return log


@pytest.fixture
def staged(log: CommitLog) -> StagedTransactions:
    staged = StagedTransactions(log)
    staged.begin("x", Producer(PRODUCER, 0))
    return staged


def sent(log: CommitLog, sequence: int, *values: bytes, partition: int = 0, **settings: Any) -> ClientBatch:
    data = batch(*values, producer_id=PRODUCER, base_sequence=sequence, transactional=True).data
    return ClientBatch(log.state.topic_ids["t"], partition, check_batch(data, config(**settings)))


def values(log: CommitLog, partition: int = 0) -> list[tuple[int, bytes | None]]:
    log.catch_up()
    return [(offset, value) for offset, _, value in read_rows(log, partition=partition)]


def counts(results: Sequence[object]) -> list[tuple[int, int]]:
    """First offset, and records, of each."""
    found = [each for each in results if isinstance(each, AppendInfo)]
    assert len(found) == len(results), results
    return [(each.first_offset, each.last_offset - each.first_offset + 1) for each in found]


def test_all_partitions_and_offsets_are_visible_with_one_commit(log: CommitLog, staged: StagedTransactions) -> None:
    before = log.state.number
    assert counts(staged.append(PRODUCER, [sent(log, 0, b"a", b"b"), sent(log, 0, b"x", partition=1)])) == [
        (-1, 2),
        (-1, 1),
    ]
    assert counts(staged.append(PRODUCER, [sent(log, 2, b"c")])) == [(-1, 1)]
    staged.add_offsets(PRODUCER, "g", {"t-0": GroupOffset(5, "m")})
    assert staged.undecided("g") == {"t-0"}
    assert (log.catch_up().number, values(log), log.state.groups) == (before, [], {})
    staged.commit(PRODUCER)
    assert log.state.number == before + 1
    assert values(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert values(log, 1) == [(0, b"x")]
    assert log.state.groups == {"g": {"t-0": GroupOffset(5, "m")}}
    assert staged.undecided("g") == set()


def test_a_broker_sees_no_transaction_in_what_was_committed(
    store: MemoryStore, log: CommitLog, staged: StagedTransactions
) -> None:
    staged.append(PRODUCER, [sent(log, 0, b"a"), sent(log, 1, b"b", compression_type="lz4")])
    staged.commit(PRODUCER)
    (data,) = (each for key, each in store.objects.items() if key.startswith("staged/"))
    assert data[16] == 2
    assert data[22] & 0x10 == 0  # the transactional bit
    assert data[43:51] == b"\xff" * 8  # no producer
    assert values(log) == [(0, b"a"), (1, b"b")]


def test_what_is_aborted_is_not_in_the_log_and_sequences_go_on(log: CommitLog, staged: StagedTransactions) -> None:
    staged.append(PRODUCER, [sent(log, 0, b"a")])
    staged.add_offsets(PRODUCER, "g", {"t-0": GroupOffset(5, "")})
    staged.abort(PRODUCER)
    assert staged.undecided("g") == set()
    staged.append(PRODUCER, [sent(log, 1, b"b")])
    staged.commit(PRODUCER)
    assert values(log) == [(0, b"b")]
    assert log.state.groups == {}


def test_a_repeated_batch_is_staged_once_and_a_gap_is_refused(log: CommitLog, staged: StagedTransactions) -> None:
    found = staged.append(PRODUCER, [sent(log, 0, b"a"), sent(log, 0, b"a"), sent(log, 2, b"c")])
    assert counts(found[:2]) == [(-1, 1), (-1, 1)]
    assert isinstance(found[2], OutOfOrderSequenceError)
    assert counts(staged.append(PRODUCER, [sent(log, 0, b"a"), sent(log, 1, b"b")])) == [(-1, 1)] * 2
    staged.commit(PRODUCER)
    assert values(log) == [(0, b"a"), (1, b"b")]


def test_an_empty_transaction_needs_no_commit(log: CommitLog, staged: StagedTransactions) -> None:
    before = log.state.number
    staged.commit(PRODUCER)
    staged.abort(PRODUCER)
    assert log.catch_up().number == before


def test_the_next_holder_of_an_id_fences_the_last_one_also_in_another_process(
    store: MemoryStore, log: CommitLog, staged: StagedTransactions
) -> None:
    staged.append(PRODUCER, [sent(log, 0, b"a")])
    other = StagedTransactions(commit_log(store, 1))
    other.begin("x", Producer(PRODUCER + 1, 0))
    with pytest.raises(ProducerFencedError):
        staged.commit(PRODUCER)
    with pytest.raises(TransactionAbortedError):
        staged.commit(PRODUCER)
    with pytest.raises(InvalidTxnStateError):
        staged.append(PRODUCER, [sent(log, 1, b"b")])
    assert values(log) == []


@pytest.mark.parametrize("error", [TransactionAbortedError, UnknownTopicOrPartitionError])
def test_what_can_never_be_committed_is_aborted(
    log: CommitLog, staged: StagedTransactions, store: MemoryStore, error: type[Exception]
) -> None:
    staged.append(PRODUCER, [sent(log, 0, b"a")])
    write = next(key for key in store.objects if key.startswith("staged/")).split("/")[1]
    if error is TransactionAbortedError:
        log.commit(lambda _: VoidChange([write]))
    else:
        log.commit(lambda state: delete_topic(state, "t"))
    with pytest.raises(error):
        staged.commit(PRODUCER)
    assert staged.undecided("g") == set()


@pytest.mark.parametrize("seed", range(15))
def test_a_commit_that_is_tried_until_it_is_known_counts_once(seed: int) -> None:
    inner, random = MemoryStore(), Random(seed)
    make_topic(commit_log(inner), "t", 2)
    faulty = FaultyStore(inner, random)
    faulty.rate = 0.0
    log = commit_log(faulty, seed, deadline_ms=2_000)
    staged = StagedTransactions(log)
    staged.begin("x", Producer(PRODUCER, 0))
    faulty.rate = 0.4
    kept = []
    for number in range(10):
        value, is_kept = b"%d" % number, random.random() < 0.6
        _until_done(lambda value=value, number=number: staged.append(PRODUCER, [sent(log, number, value)]))  # type: ignore[misc]
        _until_done(lambda is_kept=is_kept: (staged.commit if is_kept else staged.abort)(PRODUCER))  # type: ignore[misc]
        kept += [value] if is_kept else []
    faulty.rate = 0.0
    faulty.land_late(1.0)
    assert values(commit_log(inner, 99)) == list(enumerate(kept))


def _until_done(task: Any) -> None:
    while True:
        try:
            task()
            return
        except (ObjectStoreError, OutcomeUnknownError):
            pass
