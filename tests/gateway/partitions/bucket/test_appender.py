"""Appends on an object store: which of them share a commit, and that each is answered."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from pyspark_commitlog.gateway.partitions.appending import Append
from pyspark_commitlog.gateway.partitions.bucket.appender import BucketAppender
from pyspark_commitlog.gateway.partitions.bucket.partition import open_bucket_partition
from pyspark_commitlog.gateway.partitions.led_partition import LedPartition
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.protocol.errors import RequestError
from pyspark_commitlog.storage import (
    AppendInfo,
    ClientTransactions,
    CommitLog,
    InvalidTxnStateError,
    LogManager,
    Producer,
    TopicPartition,
    check_batch,
)
from tests.support.logs.building import batch
from tests.support.stores.filled import read_rows
from tests.support.stores.filling import make_topic
from tests.support.stores.served import ServedStores
from tests.support.waiting import soon

URL = "s3://memory/logs"
AN_HOUR_MS = 3_600_000


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> ServedStores:
    return ServedStores(monkeypatch)


@pytest.fixture
def manager(stores: ServedStores) -> Iterator[LogManager]:
    make_topic(stores.create(URL), "t", 2)
    with LogManager.open(URL) as opened:
        yield opened


@pytest.fixture
def log(manager: LogManager) -> CommitLog:
    assert manager.bucket is not None
    return manager.bucket


def led(manager: LogManager, partition: int = 0) -> LedPartition:
    return open_bucket_partition(manager, TopicPartition("t", partition))


def append(led: LedPartition, value: bytes, results: list[Any], **more: Any) -> Append:
    return Append(led, check_batch(batch(value).data, led.config), results.append, **more)


def run(log: CommitLog, *appends: Append, linger_ms: int = AN_HOUR_MS) -> None:
    """Gives the appends to an appender, and ends it."""
    appender = BucketAppender(log, ClientTransactions(log), linger_ms)
    for each in appends:
        appender.append(each)
    appender.start()
    appender.stop()


def puts(stores: ServedStores) -> int:
    return stores.stores[URL].requests["put_new"]


def test_what_comes_within_the_linger_shares_a_commit(
    stores: ServedStores, manager: LogManager, log: CommitLog
) -> None:
    results: list[Any] = []
    first, second = led(manager), led(manager, 1)
    before = puts(stores)
    run(
        log,
        *(append(each, b"v", results) for each in (first, second, first)),
    )
    assert [each.first_offset for each in results] == [0, 0, 1]
    assert puts(stores) - before == 2
    assert [each[0] for each in read_rows(log)] == [0, 1]


def test_what_has_no_room_in_an_object_is_in_the_next_commit(
    stores: ServedStores, manager: LogManager, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Any] = []
    first = led(manager)
    appends = [append(first, b"v", results) for _ in range(5)]
    limit = 2 * len(appends[0].batch.data)
    monkeypatch.setattr("pyspark_commitlog.gateway.partitions.bucket.appender.STAGED_BYTES_MAX", limit)
    before = puts(stores)
    run(log, *appends)
    assert [each.first_offset for each in results] == [0, 1, 2, 3, 4]
    assert puts(stores) - before == 6


def test_a_batch_that_its_check_refuses_keeps_no_other_from_its_commit(manager: LogManager, log: CommitLog) -> None:
    def refuse() -> None:
        raise RequestError(ErrorCode.invalid_txn_state)

    results: list[Any] = []
    first = led(manager)
    run(
        log,
        append(first, b"a", results, check=refuse),
        append(first, b"b", results),
        linger_ms=0,
    )
    refused = [each for each in results if not isinstance(each, AppendInfo)]
    assert [each.code for each in refused] == [ErrorCode.invalid_txn_state]
    assert [each[2] for each in read_rows(log)] == [b"b"]


def test_a_commit_that_fails_is_the_answer_of_each(
    manager: LogManager, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no way to the store")

    results: list[Any] = []
    monkeypatch.setattr(log, "commit", fail)
    run(
        log,
        *(append(led(manager, each), b"a", results) for each in (0, 1)),
    )
    assert [str(each) for each in results] == ["no way to the store"] * 2


def test_after_a_failure_of_the_store_no_later_batch_of_a_new_producer_is_taken_without_the_first(
    manager: LogManager, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Any] = []
    sent = [batch(b"%d" % number, producer_id=5, base_sequence=number).data for number in range(3)]
    first, commit, failures = led(manager), log.commit, [OSError("no way to the store")]

    def fail_once(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return commit(*given)

    monkeypatch.setattr("pyspark_commitlog.gateway.partitions.bucket.appender.STAGED_BYTES_MAX", len(sent[0]))
    monkeypatch.setattr(log, "commit", fail_once)
    run(log, *(Append(first, check_batch(each, first.config), results.append) for each in sent))
    assert [str(each) for each in results] == ["no way to the store"] * 3
    run(log, *(Append(first, check_batch(each, first.config), results.append) for each in sent))
    assert [each.first_offset for each in results[3:]] == [0, 1, 2]


def test_batches_that_are_encoded_again_share_a_commit_only_if_the_largest_would_fit(
    stores: ServedStores, manager: LogManager, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Any] = []
    first = led(manager)
    appends = [append(first, b"v", results) for _ in range(2)]
    appends = [each._replace(batch=each.batch._replace(header=None)) for each in appends]
    limit = 2 * first.config.max_message_bytes - 1
    monkeypatch.setattr("pyspark_commitlog.gateway.partitions.bucket.appender.STAGED_BYTES_MAX", limit)
    before = puts(stores)
    run(log, *appends)
    assert [each.first_offset for each in results] == [0, 1]
    assert puts(stores) - before == 4


def test_a_batch_is_checked_while_its_transaction_cannot_end(manager: LogManager, log: CommitLog) -> None:
    transactions, results = ClientTransactions(log), list[Any]()
    transactions.begin("x", Producer(5, 0), 60_000)
    first, ending = led(manager), list[Thread]()

    def check() -> None:
        ending.append(Thread(target=transactions.end, args=([(5, False)],)))
        ending[0].start()
        soon(lambda: transactions._producers[5].is_ending)

    data = batch(b"late", producer_id=5, base_sequence=0, transactional=True).data
    appender = BucketAppender(log, transactions, 0)
    appender.append(Append(first, check_batch(data, first.config), results.append, check=check, transaction=5))
    appender.start()
    appender.stop()
    ending[0].join()
    assert [type(each) for each in results] == [InvalidTxnStateError]
    transactions.end([(5, True)])
    assert read_rows(log) == []


def test_transactions_share_a_commit_with_each_other_and_with_batches_of_none(
    stores: ServedStores, manager: LogManager, log: CommitLog
) -> None:
    transactions, results = ClientTransactions(log), list[Any]()
    first = led(manager)
    for producer in (5, 6):
        transactions.begin(str(producer), Producer(producer, 0), 60_000)
    appender, before = BucketAppender(log, transactions, 10), puts(stores)
    for producer in (5, None, 6):
        own = {} if producer is None else {"producer_id": producer, "base_sequence": 0, "transactional": True}
        data = check_batch(batch(b"%r" % producer, **own).data, first.config)  # type: ignore[arg-type]
        appender.append(Append(first, data, results.append, transaction=producer))
    appender.start()
    appender.stop()
    assert [each.first_offset for each in results] == [0, 1, 2]
    assert puts(stores) - before == 2
