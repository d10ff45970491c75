"""The coordinator when disks fail, when another process interferes, and between two steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_commitlog.gateway.transactions.store import StoredStates
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import (
    TRANSACTION_STATE_TOPIC,
    Producer,
    TransactionCoordinator,
    TransactionStates,
    delete_topic,
    empty_state,
    positive_hash,
)
from tests.support.disk.faulty_filesystem import FaultyFileSystem, Rule, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.transactions import APP, clock_of, content, manage
from tests.support.transaction_bench import Bench

NONE = ErrorCode.none


@pytest.fixture
def faulty(disk: MemoryFileSystem) -> FaultyFileSystem:
    return FaultyFileSystem(disk)


@pytest.fixture
def bench(disk: MemoryFileSystem, faulty: FaultyFileSystem) -> Iterator[Bench]:
    bench = Bench(disk, faulty)
    yield bench
    bench.close()


@pytest.fixture
def producer(bench: Bench) -> Producer:
    error, producer = bench.init()
    assert error is NONE
    assert producer is not None
    return producer


def begun(bench: Bench, producer: Producer, value: bytes = b"a") -> None:
    assert bench.add(producer, 0, 1) is NONE
    assert [bench.append(producer, partition, value) for partition in (0, 1)] == [NONE, NONE]


def failing(faulty: FaultyFileSystem, rule: Rule) -> None:
    faulty.rules.append(rule)


STATES, DATA = "*__transaction_state-0/*.log", "/logs/t-1/*.log"


def test_a_decision_that_could_not_be_synced_is_read_again(
    bench: Bench, producer: Producer, disk: MemoryFileSystem, faulty: FaultyFileSystem
) -> None:
    begun(bench, producer)
    failing(faulty, fail("sync", STATES))
    assert bench.end(producer) is ErrorCode.coordinator_not_available
    assert bench.append(producer, 0, b"late") is ErrorCode.invalid_txn_state
    assert bench.end(producer) in (NONE, ErrorCode.concurrent_transactions)
    assert bench.end(producer) is NONE
    assert content(manage(disk), 0) == content(manage(disk), 1) == [b"a"]
    assert bench.transaction(producer, b"b") == [NONE] * 5


def test_a_decision_whose_sync_found_no_room_for_a_thread_is_read_again(
    bench: Bench, producer: Producer, disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(bench, producer)

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as failing_sync:
        failing_sync.setattr(StoredStates, "sync", no_thread)
        answers: list[ErrorCode] = []
        bench.coordinator.end(APP, producer, answers.append, commit=True)
        bench.serve()
    assert answers == [ErrorCode.coordinator_not_available]
    assert bench.end(producer) in (NONE, ErrorCode.concurrent_transactions)
    assert bench.end(producer) is NONE
    assert content(manage(disk), 0) == content(manage(disk), 1) == [b"a"]


def test_partitions_that_could_not_be_stored_are_not_added(
    bench: Bench, producer: Producer, faulty: FaultyFileSystem
) -> None:
    failing(faulty, fail("write", STATES))
    assert bench.add(producer, 0) is ErrorCode.coordinator_not_available
    assert bench.append(producer, 0, b"a") is ErrorCode.invalid_txn_state
    begun(bench, producer)
    assert bench.end(producer) is NONE


def test_markers_that_could_not_be_written_are_tried_again(
    bench: Bench, producer: Producer, disk: MemoryFileSystem, faulty: FaultyFileSystem
) -> None:
    begun(bench, producer)
    failing(faulty, rule := fail("sync", DATA, lasting=True))
    assert bench.end(producer) is ErrorCode.coordinator_not_available
    assert bench.state() == "PREPARE_COMMIT 0"
    assert bench.add(producer, 0) is ErrorCode.concurrent_transactions
    assert bench.end(producer, commit=False) is ErrorCode.invalid_txn_state
    assert bench.end(producer) is ErrorCode.coordinator_not_available
    assert rule.struck
    faulty.rules.clear()
    bench.look()
    assert bench.state() == "COMPLETE_COMMIT 0"
    assert bench.end(producer) is NONE
    assert content(manage(disk), 1) == [b"a"]
    assert bench.transaction(producer, b"b") == [NONE] * 5


def test_no_batch_is_appended_once_the_end_is_asked_for(
    bench: Bench, producer: Producer, disk: MemoryFileSystem
) -> None:
    begun(bench, producer)
    answers: list[ErrorCode] = []
    bench.coordinator.end(APP, producer, answers.append, commit=True)
    assert bench.append(producer, 0, b"late") is ErrorCode.not_enough_replicas
    again: list[ErrorCode] = []
    bench.coordinator.end(APP, producer, again.append, commit=True)
    bench.coordinator.init_producer_id(APP, 1000, None, lambda error, _: again.append(error))
    assert again == [ErrorCode.concurrent_transactions] * 2
    bench.serve()
    assert answers == [NONE]
    assert content(manage(disk), 0) == [b"a"]


def test_an_end_that_arrives_late_ends_the_next_transaction(
    bench: Bench, producer: Producer, disk: MemoryFileSystem
) -> None:
    """As with Kafka (KAFKA-17754): before version 5 of EndTxn, no request says which transaction it belongs to."""
    assert bench.transaction(producer, b"a") == [NONE] * 5
    begun(bench, producer, b"b")
    assert bench.end(producer, commit=False) is NONE
    assert content(manage(disk), 0) == [b"a"]


def test_an_end_of_another_epoch_is_refused(bench: Bench, producer: Producer) -> None:
    _, newer = bench.init()
    assert newer == Producer(producer.id, producer.epoch + 1)
    begun(bench, newer)
    for epoch in (producer.epoch, newer.epoch + 1):
        assert bench.end(Producer(producer.id, epoch)) is ErrorCode.producer_fenced
    assert bench.state() == "ONGOING 1"


def test_epochs_do_not_rise_while_states_cannot_be_written(
    bench: Bench, producer: Producer, faulty: FaultyFileSystem
) -> None:
    failing(faulty, fail("write", STATES, lasting=True))
    assert [bench.init() for _ in range(3)] == [(ErrorCode.coordinator_not_available, None)] * 3
    faulty.rules.clear()
    assert bench.init() == (NONE, Producer(producer.id, producer.epoch + 1))


def test_a_coordinator_whose_state_was_replaced_goes_on_with_the_newest(
    bench: Bench, producer: Producer, disk: MemoryFileSystem
) -> None:
    states = TransactionStates(manage(disk))
    newer = Producer(producer.id, producer.epoch + 1)
    states.replace(APP, states.newest(APP), empty_state(newer, 1000, 0))
    assert bench.add(producer, 0) is ErrorCode.not_coordinator
    assert bench.add(producer, 0) is ErrorCode.producer_fenced
    assert bench.transaction(newer, b"a") == [NONE] * 5


def test_while_a_driver_has_the_id_its_client_waits_and_older_ones_are_fenced(disk: MemoryFileSystem) -> None:
    first = Bench(disk)
    _, producer = first.init()
    assert producer is not None
    assert first.transaction(producer, b"a") == [NONE] * 5
    first.close()
    bench = Bench(disk)
    with TransactionCoordinator.open(manage(disk), APP):
        assert bench.add(producer, 0) is ErrorCode.concurrent_transactions
        assert bench.end(producer) is ErrorCode.concurrent_transactions
        assert bench.end(Producer(producer.id, producer.epoch - 1)) is ErrorCode.producer_fenced
        assert bench.init() == (ErrorCode.concurrent_transactions, None)
        loaded: list[ErrorCode] = []
        bench.coordinator.load(APP, loaded.append)
        bench.serve()
        assert loaded == [ErrorCode.invalid_producer_epoch]
    assert bench.transaction(producer, b"b") == [NONE] * 5


def test_a_transaction_ends_without_the_partitions_of_a_topic_that_was_deleted(
    bench: Bench, producer: Producer, disk: MemoryFileSystem
) -> None:
    begun(bench, producer)
    delete_topic(manage(disk), "t")
    assert [bench.end(producer) for _ in range(2)][-1] is NONE  # the first one finds out
    assert bench.state() == "COMPLETE_COMMIT 0"


def test_what_is_late_is_aborted_with_the_next_epoch_and_what_is_idle_is_given_back(
    bench: Bench, producer: Producer, disk: MemoryFileSystem
) -> None:
    begun(bench, producer)
    clock_of(disk).advance(59_999)
    bench.look()
    assert bench.state() == "ONGOING 0"
    clock_of(disk).advance(1)
    bench.look()
    assert bench.state() == "COMPLETE_ABORT 1"
    assert bench.end(producer) is ErrorCode.producer_fenced
    clock_of(disk).advance(60_000)
    bench.look()
    with TransactionCoordinator.open(manage(disk), APP):
        pass
    assert content(manage(disk), 0) == []


def test_after_a_late_transaction_the_producer_before_it_is_fenced_too(
    bench: Bench, producer: Producer, disk: MemoryFileSystem
) -> None:
    _, newer = bench.init(producer)
    assert newer is not None
    assert bench.init(producer) == (NONE, newer)
    begun(bench, newer)
    clock_of(disk).advance(30_000)
    assert bench.add(newer, 0) is NONE  # it is not idle
    clock_of(disk).advance(30_000)
    bench.look()
    assert bench.state() == "COMPLETE_ABORT 2"
    assert bench.init(producer) == (ErrorCode.producer_fenced, None)


def listed(bench: Bench, older_than_ms: int) -> list[str]:
    found: list[str] = []
    bench.coordinator.list(lambda _, ids: found.extend(name for name, _ in ids), older_than_ms=older_than_ms)
    bench.serve()
    return found


def test_an_id_without_a_transaction_is_listed_as_older_than_any_time(
    bench: Bench, producer: Producer, disk: MemoryFileSystem
) -> None:
    """As by Kafka: the time at which no transaction began, -1, counts as one of 1969."""
    assert listed(bench, 3_600_000) == [APP]
    begun(bench, producer)
    clock_of(disk).advance(10)
    assert [listed(bench, each) for each in (-1, 9, 10)] == [[APP], [APP], []]


def test_looks_do_not_queue_up_before_a_slow_disk(
    bench: Bench, disk: MemoryFileSystem, faulty: FaultyFileSystem
) -> None:
    """Each of many looks that come while one is read would be read after it, before what clients ask."""
    for failing_once in (False, True):
        for _ in range(3):
            bench.coordinator.look()
        assert bench.waiting == 1
        if failing_once:
            rule = fail("list", "/logs")
            failing(faulty, rule)
        bench.serve()
    bench.coordinator.look()
    assert (rule.struck, bench.waiting) == (1, 1)


def test_a_state_that_could_not_be_read_is_read_by_the_next_request(
    disk: MemoryFileSystem, faulty: FaultyFileSystem
) -> None:
    first = Bench(disk)
    _, producer = first.init()
    assert producer is not None
    begun(first, producer)
    first.close()
    bench = Bench(disk, faulty)
    failing(faulty, rule := fail("open", STATES))
    assert bench.end(producer) is ErrorCode.coordinator_not_available
    assert rule.struck == 1
    assert bench.end(producer) is NONE
    assert content(manage(disk), 1) == [b"a"]


def test_abandoned_transactions_are_aborted_while_another_partition_of_states_cannot_be_read(
    faulty: FaultyFileSystem, disk: MemoryFileSystem
) -> None:
    home = positive_hash(APP) % 2
    with manage(disk) as manager:
        delete_topic(manager, TRANSACTION_STATE_TOPIC)
        manager.create_topic(TRANSACTION_STATE_TOPIC, partitions=2)
        other = next(f"n{i}" for i in range(100) if positive_hash(f"n{i}") % 2 != home)
        TransactionStates(manager).replace(other, None, empty_state(Producer(7, 0), 1000, 0))
    first = Bench(disk)
    _, producer = first.init()
    assert producer is not None
    begun(first, producer)
    first.close()
    bench = Bench(disk, faulty)
    failing(faulty, rule := fail("open", f"/logs/{TRANSACTION_STATE_TOPIC}-{1 - home}/*.log", lasting=True))
    clock_of(disk).advance(60_000)
    bench.look()
    assert rule.struck
    assert bench.state() == "COMPLETE_ABORT 1"
    bench.close()
