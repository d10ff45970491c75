"""Transactions of clients over a log on an object store: through the wire, beside another gateway, after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from time import sleep

import numpy as np
import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import Producer, format as formats
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import GroupOffset
from pyspark_commitlog.storage.errors import OutcomeUnknownError, ProducerFencedError
from tests.support.gateway import WireClient, fetch_fields, serving, serving_apart
from tests.support.logs.building import records
from tests.support.stores.filled import read_rows
from tests.support.stores.filling import make_topic, write as make
from tests.support.stores.served import ServedStores
from tests.support.stores.transactional import Client
from tests.support.transactions import WireProducer
from tests.support.waiting import soon

URL = "s3://memory/logs"
COORDINATOR_NOT_AVAILABLE, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING = 15, 48, 49
CONCURRENT_TRANSACTIONS, PRODUCER_FENCED = 51, 90
UNSTABLE_OFFSET_COMMIT, TRANSACTIONAL_ID_NOT_FOUND = 88, 105
QUICK = {"commitlog_bucket_linger_ms": 1, "commitlog_bucket_poll_interval_ms": 10}


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CommitLog:
    """The log as another process has it open, with topic ``t``."""
    log = ServedStores(monkeypatch).create(URL)
    make_topic(log, "t", 2)
    return log


@pytest.fixture
def gateway(log: CommitLog) -> Iterator[Gateway]:
    with serving(URL, **QUICK) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[WireClient]:
    with WireClient(gateway) as connected:
        yield connected


@pytest.fixture
def producer(client: WireClient) -> WireProducer:
    return begun(client)


def begun(client: WireClient, name: str = "x", timeout_ms: int = 60_000) -> WireProducer:
    producer = WireProducer(client, name)
    assert producer.init(timeout_ms=timeout_ms).error == 0
    return producer


def write(producer: WireProducer, *values: bytes, partition: int = 0) -> None:
    """Adds values to the open transaction, which they may begin."""
    assert producer.add("t", partition) == 0
    assert producer.produce("t", *values, partition=partition) == 0


def values(log: CommitLog, partition: int = 0) -> list[bytes | None]:
    log.catch_up()
    rows = read_rows(log, partition=partition)
    return [value for _, _, value in rows]


_commit = CommitLog.commit


def losing_the_answer(*args: object) -> None:
    """In place of :meth:`CommitLog.commit`."""
    _commit(*args)  # type: ignore[arg-type]
    raise OutcomeUnknownError("the store did not answer")


def test_what_is_committed_is_visible_at_once_and_what_is_aborted_never(log: CommitLog, producer: WireProducer) -> None:
    for number in range(4):
        write(producer, b"%d" % number, b"more")
        write(producer, b"%d" % number, partition=1)
        before = log.catch_up().number
        assert producer.end(commit=number % 2 == 0) == 0
        assert log.catch_up().number == before + 1
    assert values(log) == [b"0", b"more", b"2", b"more"]
    assert values(log, 1) == [b"0", b"2"]


def test_an_end_that_is_asked_for_again_is_answered_as_before(log: CommitLog, producer: WireProducer) -> None:
    write(producer, b"a")
    assert producer.end(commit=True) == producer.end(commit=True) == 0
    assert producer.end(commit=False) == INVALID_TXN_STATE
    assert values(log) == [b"a"]


def test_offsets_are_committed_with_the_records(log: CommitLog, client: WireClient, producer: WireProducer) -> None:
    write(producer, b"a")
    assert producer.commit_offset("g", "t", 5) != 0  # the group was not added
    assert producer.add_group("g") == 0
    assert producer.commit_offset("g", "t", 5) == 0
    topics = [{"name": "t", "partition_indexes": [0]}]
    found = client.ask(9, 7, group_id="g", topics=topics, require_stable=True).topics[0].partitions[0]
    assert found.error_code == UNSTABLE_OFFSET_COMMIT
    assert log.catch_up().groups == {}
    assert producer.end(commit=True) == 0
    assert log.catch_up().groups == {"g": {"t-0": GroupOffset(5, "")}}
    found = client.ask(9, 7, group_id="g", topics=topics, require_stable=True).topics[0].partitions[0]
    assert (found.error_code, found.committed_offset) == (0, 5)


def test_the_next_producer_of_an_id_fences_the_last_one(log: CommitLog, client: WireClient) -> None:
    last = begun(client)
    write(last, b"lost")
    following = begun(client)
    assert last.produce("t", b"lost") != 0
    assert last.end(commit=True) == PRODUCER_FENCED
    write(following, b"kept")
    assert following.end(commit=True) == 0
    assert values(log) == [b"kept"]


def test_a_producer_at_another_gateway_fences_the_last_one(log: CommitLog) -> None:
    with ExitStack() as stack:
        gateways = [stack.enter_context(serving_apart(URL, **QUICK)) for _ in range(2)]
        first, second = (stack.enter_context(WireClient(each)) for each in gateways)
        last = begun(first)
        write(last, b"lost")
        following = begun(second)
        write(following, b"kept")
        assert following.end(commit=True) == 0
        assert last.end(commit=True) == last.end(commit=True) == PRODUCER_FENCED
        assert last.add("t", 0) == INVALID_PRODUCER_ID_MAPPING
        write(following, b"more")
        assert following.end(commit=True) == 0
    assert values(log) == [b"kept", b"more"]


def test_a_producer_that_was_fenced_at_another_gateway_does_not_take_its_id_back(log: CommitLog) -> None:
    with ExitStack() as stack:
        gateways = [stack.enter_context(serving_apart(URL, **QUICK)) for _ in range(2)]
        first, second = (stack.enter_context(WireClient(each)) for each in gateways)
        idle, busy = begun(first, "idle"), begun(first, "busy")
        write(busy, b"lost")
        following = [begun(second, each) for each in ("idle", "busy")]
        for last, code in ((idle, PRODUCER_FENCED), (busy, CONCURRENT_TRANSACTIONS)):
            own = last.producer
            assert [last.init(own).error for _ in range(2)] == [code, PRODUCER_FENCED]
            assert last.add("t", 0) in (INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED)
        for each in following:
            write(each, b"kept")
            assert each.end(commit=True) == 0
        assert begun(first, "idle").producer not in (idle.producer, following[0].producer)  # a new client may
        assert following[0].init(following[0].producer).error == PRODUCER_FENCED
    assert values(log) == [b"kept", b"kept"]


def test_after_a_restart_the_last_producer_of_an_id_goes_on_and_a_fenced_one_does_not(log: CommitLog) -> None:
    with serving_apart(URL, **QUICK) as gateway, WireClient(gateway) as client:
        fenced = begun(client).producer
        last = begun(client).producer
    with serving_apart(URL, **QUICK) as gateway, WireClient(gateway) as client:
        producer = WireProducer(client, "x")
        assert producer.init(fenced).error == PRODUCER_FENCED
        assert producer.init(last).error == 0
        write(producer, b"kept")
        assert producer.end(commit=True) == 0
        assert producer.init(last).error == PRODUCER_FENCED
    assert values(log) == [b"kept"]


def test_a_producer_whose_begin_was_not_answered_asks_again(
    log: CommitLog, producer: WireProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = producer.producer
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "commit", losing_the_answer)
        assert producer.init(own).error == COORDINATOR_NOT_AVAILABLE
    assert producer.init(own).error == 0
    write(producer, b"kept")
    assert producer.end(commit=True) == 0
    assert values(log) == [b"kept"]


def test_a_restart_aborts_what_is_open_and_the_producer_begins_again(log: CommitLog) -> None:
    with serving_apart(URL, **QUICK) as gateway, WireClient(gateway) as client:
        producer = begun(client)
        write(producer, b"kept")
        assert producer.end(commit=True) == 0
        write(producer, b"lost")
        left = producer.producer
    with serving_apart(URL, **QUICK) as gateway, WireClient(gateway) as client:
        producer = WireProducer(client, "x")
        producer.producer = left
        assert producer.end(commit=False) == 0  # Java's producer does not recover from another answer
        assert producer.add("t", 0) == INVALID_PRODUCER_ID_MAPPING
        assert producer.produce("t", b"lost") != 0
        again = begun(client)
        assert again.producer.id != left.id
        write(again, b"more")
        assert again.end(commit=True) == 0
    assert values(log) == [b"kept", b"more"]


def test_a_commit_that_was_made_before_a_restart_is_not_answered_as_an_abort(log: CommitLog) -> None:
    """A client that goes on after an abort would write again what is there."""
    with serving_apart(URL, **QUICK) as gateway, WireClient(gateway) as client:
        left = begun(client)
        write(left, b"a")
        assert left.end(commit=True) == 0
    with serving_apart(URL, **QUICK) as gateway, WireClient(gateway) as client:
        left.client = client
        assert left.end(commit=True) == PRODUCER_FENCED
        begun(client)
        assert left.end(commit=True) == PRODUCER_FENCED
    assert values(log) == [b"a"]


def test_a_commit_whose_answer_was_lost_is_asked_for_until_it_is_known(
    log: CommitLog, producer: WireProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(producer, b"a")
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "commit", losing_the_answer)
        assert producer.end(commit=True) == COORDINATOR_NOT_AVAILABLE
    assert producer.end(commit=True) == 0
    assert values(log) == [b"a"]


def test_a_transaction_that_takes_too_long_is_aborted(log: CommitLog) -> None:
    interval = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": 20}
    with serving(URL, **QUICK, **interval) as gateway, WireClient(gateway) as client:
        producer = begun(client, timeout_ms=1)
        assert producer.add("t", 0) == 0
        soon(lambda: _state(client, "x") == "CompleteAbort")
        assert producer.end(commit=True) == PRODUCER_FENCED
    assert values(log) == []


def _state(client: WireClient, name: str) -> str:
    found = client.ask(65, 0, transactional_ids=[name]).transaction_states[0]
    return str(found.transaction_state)


def test_transactions_are_shown_to_administrators(client: WireClient, producer: WireProducer) -> None:
    write(producer, b"a")
    assert _state(client, "x") == "Ongoing"
    listed = client.ask(66, 0, state_filters=[], producer_id_filters=[]).transaction_states
    assert [(each.transactional_id, each.producer_id) for each in listed] == [("x", producer.producer.id)]
    found = client.ask(65, 0, transactional_ids=["y"]).transaction_states[0]
    assert found.error_code == TRANSACTIONAL_ID_NOT_FOUND


def test_a_client_may_raise_the_epoch_of_its_producer(log: CommitLog, producer: WireProducer) -> None:
    write(producer, b"lost")
    assert producer.end(commit=False) == 0
    own = producer.producer
    assert producer.init(own).error == 0
    assert producer.producer == Producer(own.id, own.epoch + 1)
    write(producer, b"kept")
    assert producer.end(commit=True) == 0
    assert values(log) == [b"kept"]


# Beside others, in the log at once


def fetched(client: WireClient, isolation: int, offset: int = 0) -> tuple[int, int, list[int]]:
    """High watermark, last stable offset, and the offsets of the records that a consumer of partition 0 gets."""
    fields = fetch_fields("t", offset, isolation_level=isolation)
    found = client.ask(1, 11, **fields).responses[0].partitions[0]
    assert not found.error_code
    buffer = np.frombuffer(found.records or b"", np.uint8)
    records = formats.decode(buffer, formats.scan(buffer).headers).records.offsets.tolist() if len(buffer) else []
    return found.high_watermark, found.last_stable_offset, [each for each in records if each >= offset]


def latest(client: WireClient, isolation: int) -> int:
    partitions = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
    asked = [{"name": "t", "partitions": partitions}]
    return int(client.ask(2, 5, replica_id=-1, isolation_level=isolation, topics=asked).topics[0].partitions[0].offset)


def spark_writes(log: CommitLog, *values: bytes) -> None:
    log.catch_up()
    make(log, "t", {0: [records(values)]})


def test_producers_at_two_gateways_and_spark_get_offsets_and_readers_wait_for_the_first_one(log: CommitLog) -> None:
    with ExitStack() as stack:
        gateways = [stack.enter_context(serving_apart(URL, **QUICK)) for _ in range(2)]
        first, second = (stack.enter_context(WireClient(each)) for each in gateways)
        one, two = begun(first, "one"), begun(second, "two")
        write(one, b"a", b"b")
        assert one.last_offset == 0
        write(two, b"c")
        assert two.last_offset == 2
        spark_writes(log, b"s")
        write(one, b"d")
        assert one.last_offset == 4
        for client in (first, second):
            soon(lambda client=client: fetched(client, 0) == (5, 0, [0, 1, 2, 3, 4]))  # type: ignore[misc]
            assert fetched(client, 1) == (5, 0, [])
            assert (latest(client, 0), latest(client, 1)) == (5, 0)
        assert two.end(commit=True) == 0
        assert fetched(second, 1) == (5, 0, [])
        assert one.end(commit=False) == 0
        for client in (first, second):
            soon(lambda client=client: fetched(client, 1) == (5, 5, [2, 3]))  # type: ignore[misc]
            assert fetched(client, 0, 3) == (5, 5, [3])
            assert fetched(client, 1, 4) == (5, 5, [])
            assert latest(client, 1) == 5
    assert values(log) == [b"c", b"s"]


def test_a_consumer_that_waits_gets_the_records_once_they_are_committed(
    log: CommitLog, gateway: Gateway, producer: WireProducer
) -> None:
    write(producer, b"a")
    with WireClient(gateway) as consumer:
        waiting = consumer.send(1, 11, **fetch_fields("t", 0, max_wait=30_000, isolation_level=1))
        assert producer.end(commit=True) == 0
        found = consumer.answer(1, 11, waiting).responses[0].partitions[0]
    assert (found.last_stable_offset, bool(found.records)) == (1, True)


def test_a_consumer_reads_over_the_gap_of_an_abort(client: WireClient, producer: WireProducer) -> None:
    for is_kept in (False, True, False):
        write(producer, b"a", b"b")
        assert producer.end(commit=is_kept) == 0
    assert fetched(client, 1) == (6, 6, [2, 3])
    assert fetched(client, 1, 1) == (6, 6, [2, 3])
    assert fetched(client, 1, 5) == (6, 6, [])


def test_the_transaction_of_a_gateway_that_was_killed_is_aborted_by_another(log: CommitLog) -> None:
    left = Client(log)  # its process does nothing any more
    left.transactions.begin("x", Producer(8, 0), 50)
    left.producer = 8
    left.append(b"lost")
    spark_writes(log, b"kept")
    with serving(URL, **QUICK, transaction_abort_timed_out_transaction_cleanup_interval_ms=20) as gateway:
        soon(lambda: not log.catch_up().open)
        with WireClient(gateway) as client:
            soon(lambda: fetched(client, 1) == (2, 2, [1]))
    with pytest.raises(ProducerFencedError):
        left.end(commit=True)


def test_a_gateway_leaves_the_transactions_of_others_open_for_their_timeout(log: CommitLog) -> None:
    left = Client(log)
    left.append(b"kept")
    with serving(URL, **QUICK, transaction_abort_timed_out_transaction_cleanup_interval_ms=1):
        sleep(0.2)
    left.end(commit=True)
    assert values(log) == [b"kept"]


def test_a_gateway_that_stops_aborts_what_is_open(log: CommitLog) -> None:
    with serving(URL, **QUICK) as gateway, WireClient(gateway) as client:
        write(begun(client), b"lost")
        assert log.catch_up().open
    assert not log.catch_up().open


def test_open_transactions_of_a_partition_are_shown_to_administrators(
    client: WireClient, producer: WireProducer
) -> None:
    write(producer, b"a")
    topics = [{"name": "t", "partition_indexes": [0]}]
    (found,) = client.ask(61, 0, topics=topics).topics[0].partitions[0].active_producers
    assert (found.producer_id, found.current_txn_start_offset) == (producer.producer.id, 0)
    assert producer.end(commit=True) == 0
    (found,) = client.ask(61, 0, topics=topics).topics[0].partitions[0].active_producers
    assert found.current_txn_start_offset == -1


def test_a_batch_that_is_sent_again_gets_the_offset_that_it_has(log: CommitLog, producer: WireProducer) -> None:
    write(producer, b"a")
    spark_writes(log, b"s")
    producer._sequences.clear()
    assert producer.produce("t", b"a") == 0
    assert producer.last_offset == 0
    assert producer.end(commit=True) == 0
    assert values(log) == [b"a", b"s"]
