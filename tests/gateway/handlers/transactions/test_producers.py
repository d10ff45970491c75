"""Transactional producers: their requests in order and out of order, with Kafka's codes, and what readers see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, current_thread
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_commitlog.gateway.partitions.led_partition import LedPartition
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import (
    GroupOffsets,
    Isolation,
    LogManager,
    Producer,
    TransactionalIdLock,
    TransactionCoordinator,
    TransactionStates,
    empty_state,
    resolve_dead_transactions,
)
from tests.support.gateway import WireClient, fetch_fields, serving
from tests.support.transactions import WireProducer, committed
from tests.support.waiting import soon

INVALID_REQUEST, INVALID_EPOCH, INVALID_STATE, OTHER_PRODUCER, BAD_TIMEOUT, TRY_LATER = 42, 47, 48, 49, 50, 51
NOT_AVAILABLE, NOT_ATTEMPTED, FENCED, NOT_ADDED = 15, 55, 90, 120


@pytest.fixture
def producer(client: WireClient, topic: str) -> WireProducer:
    """A producer with the id of its topic, initialised."""
    made = WireProducer(client, topic)
    assert not made.init().error
    return made


def begun(producer: WireProducer, topic: str, *values: bytes) -> WireProducer:
    """The producer with an open transaction of ``values``."""
    assert producer.add(topic, 0) == 0
    assert producer.produce(topic, *values) == 0
    return producer


def test_the_state_of_an_id_of_another_gateway_is_not_read_by_the_thread_of_the_connections(
    gateway: Gateway, client: WireClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    gate = gateway.context.transactions.gate
    monkeypatch.setattr(gate, "_homes", SimpleNamespace(has=lambda _: False))
    monkeypatch.setattr(gate, "_newest", lambda _: names.append(current_thread().name))
    stranger = WireProducer(client, topic)
    stranger.producer = Producer(1, 0)
    assert [stranger.produce(topic, b"refused") for _ in range(2)] == [INVALID_STATE] * 2
    assert names == ["gateway-appender"] * 2


# What readers see


@pytest.mark.parametrize("commit", [True, False])
def test_a_partition_that_is_opened_with_other_settings_before_its_marker_gets_it(
    gateway: Gateway, producer: WireProducer, topic: str, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    context, closed = gateway.context, Event()
    change = context.appender.change

    def change_late(led: LedPartition, *rest: Any) -> None:
        if led.topic == topic and not closed.is_set():
            context.partitions.close_topic(topic, closed.set)
            assert closed.wait(30)
        change(led, *rest)

    begun(producer, topic, b"a")
    monkeypatch.setattr(context.appender, "change", change_late)
    assert producer.end(commit=commit) == 0
    assert closed.is_set()
    with LogManager.open(context.log_dir) as manager, manager.open_reader(topic, 0) as reader:
        assert reader.end_offset(Isolation.READ_COMMITTED) == reader.log_end_offset == 2
    assert committed(gateway, topic) == ([b"a"] if commit else [])


@pytest.mark.parametrize("is_found_first", [False, True])
def test_a_partition_whose_deletion_is_refused_while_a_transaction_ends_gets_its_marker(
    gateway: Gateway, producer: WireProducer, topic: str, monkeypatch: pytest.MonkeyPatch, is_found_first: bool
) -> None:
    context, closed = gateway.context, Event()
    change = context.appender.change

    def close() -> None:
        context.partitions.close_topic(topic, closed.set, keep_closed=True)  # as DeleteTopics does
        assert closed.wait(30)

    def change_late(led: LedPartition, *rest: Any) -> None:
        if led.topic == topic and not closed.is_set():
            close()
        change(led, *rest)

    begun(producer, topic, b"a")
    if is_found_first:
        monkeypatch.setattr(context.appender, "change", change_late)
    else:
        close()
    assert producer.end() == NOT_AVAILABLE
    context.partitions.reopen_topic(topic)
    soon(lambda: producer.end() == 0)
    assert committed(gateway, topic) == [b"a"]


@pytest.mark.parametrize("commit", [True, False])
def test_readers_see_what_was_committed_as_soon_as_it_is_answered(
    gateway: Gateway, client: WireClient, producer: WireProducer, topic: str, commit: bool
) -> None:
    for number in range(3):
        begun(producer, topic, b"%d" % number)
        assert producer.state() == "Ongoing"
        assert producer.end(commit=commit) == 0
        asked = fetch_fields(topic, 2 * number, isolation_level=1)
        found = client.ask(1, 11, **asked).responses[0].partitions[0]
        assert found.last_stable_offset == found.high_watermark == 2 * (number + 1)
        aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions]
        assert aborted == ([] if commit else [(producer.producer.id, 2 * number)])
        assert committed(gateway, topic) == ([b"%d" % each for each in range(number + 1)] if commit else [])
    assert producer.state() == ("CompleteCommit" if commit else "CompleteAbort")


def test_readers_of_committed_records_wait_for_an_open_transaction(
    client: WireClient, producer: WireProducer, topic: str
) -> None:
    begun(producer, topic, b"a")
    found = client.ask(1, 11, **fetch_fields(topic, 0, isolation_level=1)).responses[0].partitions[0]
    assert (found.last_stable_offset, found.high_watermark, found.records or b"") == (0, 1, b"")
    seen = client.ask(1, 11, **fetch_fields(topic, 0)).responses[0].partitions[0]
    assert len(seen.records) > 60
    producer.end()
    again = client.ask(1, 11, **fetch_fields(topic, 0, isolation_level=1)).responses[0].partitions[0]
    assert again.last_stable_offset == 2


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_as_soon_as_the_commit_is_answered(
    gateway: Gateway, producer: WireProducer, topic: str, commit: bool
) -> None:
    group = f"group-{commit}"
    assert producer.add_group(group) == 0
    assert producer.commit_offset(group, topic, 5) == 0
    with LogManager.open(gateway.context.log_dir) as manager:
        assert GroupOffsets(manager).fetch(group) == {}
        assert producer.end(commit=commit) == 0
        found = {each: offset.offset for each, offset in GroupOffsets(manager).fetch(group).items()}
    assert found == ({(topic, 0): 5} if commit else {})


def test_a_transaction_may_span_partitions_added_in_turn(gateway: Gateway, producer: WireProducer, topic: str) -> None:
    for partition in (0, 1):
        assert producer.add(topic, partition) == 0
        assert producer.produce(topic, b"%d" % partition, partition=partition) == 0
    assert producer.add(topic, 0, 1) == 0
    assert producer.end() == 0
    assert [committed(gateway, topic, each) for each in (0, 1)] == [[b"0"], [b"1"]]


# What is refused


@pytest.mark.parametrize(("version", "code"), [(8, INVALID_STATE), (10, INVALID_STATE), (11, NOT_ADDED)])
def test_a_batch_for_a_partition_that_was_not_added_is_refused(
    gateway: Gateway, producer: WireProducer, topic: str, version: int, code: int
) -> None:
    assert (producer.produce(topic, b"early", version=version), producer.last_start) == (code, -1)
    assert producer.add(topic, 0) == 0
    assert producer.produce(topic, b"other", partition=1, version=version) == code
    assert producer.produce(topic, b"one", version=version) == 0
    assert producer.end() == 0
    assert producer.produce(topic, b"late", version=version) == code
    assert committed(gateway, topic) == [b"one"]


def test_the_epoch_is_checked_before_the_partition(producer: WireProducer, topic: str) -> None:
    old = producer.producer
    producer.init()
    producer.producer = old
    assert producer.produce(topic, b"v") == INVALID_EPOCH
    producer.producer = Producer(old.id + 1, old.epoch)
    assert producer.produce(topic, b"v") == OTHER_PRODUCER


def test_a_batch_without_a_transaction_is_refused(client: WireClient, topic: str) -> None:
    stranger = WireProducer(client, f"no-{topic}")
    stranger.producer = Producer(2**40, 0)
    assert stranger.produce(topic, b"v") == OTHER_PRODUCER
    assert stranger.add(topic) == OTHER_PRODUCER
    assert stranger.end() == OTHER_PRODUCER
    assert stranger.add_group("g") == OTHER_PRODUCER
    assert stranger.commit_offset("g", topic, 1) == OTHER_PRODUCER
    assert stranger.state() == ""


def test_offsets_need_the_partition_of_their_group(producer: WireProducer, topic: str) -> None:
    assert producer.add(topic) == 0
    assert producer.commit_offset("other", topic, 1, version=3) == INVALID_STATE
    assert producer.commit_offset("other", topic, 1, version=4) == NOT_ADDED


@pytest.mark.parametrize(("version", "code"), [(1, INVALID_EPOCH), (2, FENCED)])
def test_a_fenced_producer_is_told_so_in_words_of_its_version(
    client: WireClient, producer: WireProducer, topic: str, version: int, code: int
) -> None:
    begun(producer, topic, b"a")
    assert WireProducer(client, producer.id).init().error == 0
    assert producer.add(topic, version=version) == code
    assert producer.add_group("g", version=version) == code
    assert producer.end(version=version) == code


def test_partitions_that_do_not_exist_are_not_added(client: WireClient, producer: WireProducer, topic: str) -> None:
    answer = client.ask(
        24,
        3,
        v3_and_below_transactional_id=producer.id,
        v3_and_below_producer_id=producer.producer.id,
        v3_and_below_producer_epoch=producer.producer.epoch,
        v3_and_below_topics=[{"name": topic, "partitions": (1, 7, 1)}],
    )
    found = answer.results_by_topic_v3_and_below[0].results_by_partition
    assert [(each.partition_index, each.partition_error_code) for each in found] == [(1, NOT_ATTEMPTED), (7, 3)]
    assert producer.state() == "Empty"


def test_bad_requests_to_begin(client: WireClient, producer: WireProducer) -> None:
    assert WireProducer(client, "").init().error == INVALID_REQUEST
    assert producer.init(timeout_ms=0).error == BAD_TIMEOUT
    assert producer.init(timeout_ms=900_001).error == BAD_TIMEOUT
    assert producer.init(Producer(-1, 4)).error == INVALID_REQUEST


def test_an_empty_id_is_refused_before_its_timeout(client: WireClient) -> None:
    fields = {"transactional_id": "", "transaction_timeout": 0, "producer_id": -1, "producer_epoch": -1}
    assert client.ask(22, 4, **fields).error_code.name == "invalid_request"


# Requests asked again


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_is_asked_again_is_answered_as_before(producer: WireProducer, topic: str, commit: bool) -> None:
    assert producer.end(commit=commit) == INVALID_STATE
    begun(producer, topic, b"a")
    assert [producer.end(commit=commit) for _ in range(3)] == [0, 0, 0]
    assert producer.end(commit=not commit) == INVALID_STATE
    begun(producer, topic, b"b")
    assert producer.end(commit=not commit) == 0


def test_a_producer_raises_its_own_epoch_once_however_often_it_asks(client: WireClient, producer: WireProducer) -> None:
    own = producer.producer
    first = producer.init(own)
    assert first == (0, Producer(own.id, own.epoch + 1))
    assert producer.init(own) == first
    assert producer.init(first.producer).producer.epoch == own.epoch + 2
    assert producer.init(own, version=3).error == INVALID_EPOCH
    assert producer.init(own).error == FENCED
    assert producer.init(Producer(own.id + 5, own.epoch)).error == FENCED
    assert producer.init().producer.epoch == own.epoch + 3


def test_a_producer_that_raises_its_epoch_within_its_transaction_is_fenced(
    gateway: Gateway, producer: WireProducer, topic: str
) -> None:
    """As with Kafka: a client must end its transaction first."""
    begun(producer, topic, b"left")
    own = producer.producer
    assert producer.init(own).error == TRY_LATER
    assert producer.state() == "CompleteAbort"
    assert producer.init(own).error == FENCED
    assert producer.init() == (0, Producer(own.id, own.epoch + 2))
    assert committed(gateway, topic) == []


def test_a_new_producer_ends_what_the_last_one_left(
    gateway: Gateway, client: WireClient, producer: WireProducer, topic: str
) -> None:
    begun(producer, topic, b"left")
    heir = WireProducer(client, producer.id)
    assert heir.init() == (0, Producer(producer.producer.id, producer.producer.epoch + 2))
    assert producer.produce(topic, b"late") == INVALID_EPOCH
    begun(heir, topic, b"new")
    assert heir.end() == 0
    assert committed(gateway, topic) == [b"new"]


def test_another_producer_id_follows_when_the_epochs_are_used_up(
    gateway: Gateway, client: WireClient, topic: str
) -> None:
    with LogManager.open(gateway.context.log_dir) as manager:
        TransactionStates(manager).replace(topic, None, empty_state(Producer(2**50, 32765), 1000, 0))
    producer = WireProducer(client, topic)
    assert producer.init() == (0, Producer(2**50, 32766))
    own = producer.producer
    found = producer.init(own)
    assert (found.error, found.producer.epoch, found.producer.id != own.id) == (0, 0, True)
    assert producer.init(own) == found
    begun(producer, topic, b"a")
    assert producer.end() == 0


# Other processes


def test_a_driver_and_a_client_exclude_each_other(gateway: Gateway, client: WireClient, topic: str) -> None:
    producer = WireProducer(client, topic)
    with LogManager.open(gateway.context.log_dir) as manager:
        with TransactionCoordinator.open(manager, topic) as driver:
            transaction = driver.begin([(topic, 0)])
            assert producer.init().error == TRY_LATER
            driver.abort(transaction)
        assert producer.init().error == 0
        assert producer.producer.id != transaction.producer_id
        begun(producer, topic, b"a")
        assert producer.end() == 0
        with pytest.raises(Exception, match="in use by a gateway"):
            TransactionCoordinator.open(manager, topic)
        assert producer.add(topic) == 0
        left = [each for each in resolve_dead_transactions(manager) if each.transaction.transactional_id == topic]
        assert [each.resolution.value for each in left] == ["left"]
    assert committed(gateway, topic) == [b"a"]


@pytest.fixture
def own_log_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "own"
    with LogManager.open(str(directory), create=True) as manager:
        manager.create_topic("t", partitions=2)
        manager.create_topic("__transaction_state", partitions=1, configs={"cleanup.policy": "compact"})
        manager.create_topic("__consumer_offsets", partitions=1, configs={"cleanup.policy": "compact"})
    return directory


QUICK = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": 20}


@pytest.fixture
def quick(own_log_dir: Path) -> Iterator[Gateway]:
    """A gateway that often looks for what is late."""
    with serving(own_log_dir, **QUICK) as gateway:
        yield gateway


def test_what_is_late_is_aborted_and_its_producer_fenced(quick: Gateway) -> None:
    with WireClient(quick) as client:
        producer = WireProducer(client, "app")
        producer.init(timeout_ms=1)
        assert producer.add("t") == 0
        soon(lambda: producer.state() == "CompleteAbort")
        assert producer.produce("t", b"late") == INVALID_EPOCH
        assert producer.end() == FENCED
        assert producer.init().producer.epoch == 2


def test_an_idle_id_is_given_back_and_its_producer_goes_on(quick: Gateway) -> None:
    with WireClient(quick) as client, LogManager.open(quick.context.log_dir) as manager:
        producer = WireProducer(client, "app")
        producer.init(timeout_ms=2_000)  # enough for a transaction, on a busy machine too

        def is_free() -> bool:
            try:
                TransactionalIdLock.take(manager, "app").release()
            except Exception:
                return False
            return True

        assert not is_free()
        soon(is_free)
        begun(producer, "t", b"a")
        assert not is_free()
        assert producer.end() == 0
        assert committed(quick, "t") == [b"a"]


def test_what_a_dead_driver_left_is_ended_and_its_id_given_back(quick: Gateway) -> None:
    with LogManager.open(quick.context.log_dir) as manager:
        driver = TransactionCoordinator.open(manager, "app", timeout_ms=1)
        driver.begin([("t", 0)])
        with WireClient(quick) as client:
            watch = WireProducer(client, "app")
            assert watch.state() == "Ongoing"
            driver.close()
            soon(lambda: watch.state() == "CompleteAbort")
        soon(lambda: TransactionCoordinator.open(manager, "app").close() is None)


# Restarts


@pytest.mark.parametrize("step", range(5))
def test_a_producer_goes_on_after_a_restart_at_each_step(own_log_dir: Path, step: int) -> None:
    producer: WireProducer | None = None
    steps = [
        lambda p: p.add("t"),
        lambda p: p.produce("t", b"a"),
        lambda p: p.add_group("g"),
        lambda p: p.commit_offset("g", "t", 7),
        lambda p: p.end(),
    ]
    with serving(own_log_dir) as gateway, WireClient(gateway) as client:
        producer = WireProducer(client, "app")
        producer.init()
        assert [each(producer) for each in steps[:step]] == [0] * step
    with serving(own_log_dir) as gateway, WireClient(gateway) as client:
        producer.client = client
        assert [each(producer) for each in steps[step:]] == [0] * (5 - step)
        assert committed(gateway, "t") == [b"a"]
        with LogManager.open(str(own_log_dir)) as manager:
            assert [each.offset for each in GroupOffsets(manager).fetch("g").values()] == [7]
        assert producer.end() == 0
