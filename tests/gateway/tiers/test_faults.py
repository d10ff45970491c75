"""A gateway whose tier fails, is slow, or lacks objects: one partition has an error, and all others are served."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import Isolation
from pyspark_commitlog.storage.bucket.stores.patience import Patience
from pyspark_commitlog.storage.errors import ObjectStoreError
from tests.gateway.tiers.test_serving import EARLIEST, STORAGE_ERROR, consumed, fetched, first_local, list_offset, only
from tests.support.gateway import WireClient, fetch_fields, serving
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.memory_store import MemoryStore
from tests.support.tiers import Broker, broker, store_with
from tests.support.waiting import soon

WAIT_MS = 2_000
HANGS_S = 240


class Faults(FaultyStore):
    """A store that fails for objects of some names, or lets reads of them wait."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner, Random(1), 0.0)
        self.failing = self.slow = "nothing"
        self.may_go_on = Event()
        self.asked: list[str] = []

    def _may_fail(self, key: str) -> None:
        self.asked.append(key)
        if self.failing in key:
            raise ObjectStoreError(f"{key}: 503")
        if self.slow in key:
            self.may_go_on.wait(HANGS_S)


@pytest.fixture
def of_broker(tmp_path: Path) -> Broker:
    return broker("kafka", tmp_path)


@pytest.fixture
def store(of_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    faults = Faults(store_with(of_broker.tier))
    monkeypatch.setattr("pyspark_commitlog.storage.tiers.opening.open_objects", lambda _: faults)
    monkeypatch.setattr(
        "pyspark_commitlog.storage.bucket.stores.patience.Patience.of_process", lambda: Patience(100, 1, 2)
    )
    yield faults
    faults.may_go_on.set()


@pytest.fixture
def gateway(of_broker: Broker, store: Faults) -> Iterator[Gateway]:
    with serving(of_broker.log, commitlog_tier_url="s3://bucket/tier", remote_fetch_max_wait_ms=WAIT_MS) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[WireClient]:
    with WireClient(gateway) as connected:
        yield connected


def asked(*offsets: tuple[str, int]) -> dict[str, Any]:
    """The fields of a Fetch of several topics."""
    topics = [
        {"topic": topic, "partitions": [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]}
        for topic, offset in offsets
    ]
    return fetch_fields("", 0, topics=topics)


def by_topic(answer: Any) -> dict[str, Any]:
    return {each.topic: each.partitions[0] for each in answer.responses}


def of_segment(store: Faults, topic: str, start: int, kind: str = ".log") -> str:
    """The name of an object of a segment."""
    found = (key for key in store.inner.objects if f"/{topic}-" in key and f"/{start:020d}-" in key)
    return next(key for key in found if key.endswith(kind))


def test_a_tier_that_fails_is_an_error_of_that_partition_only_and_is_logged_once(
    client: WireClient, of_broker: Broker, store: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    store.failing = name = of_segment(store, "t-plain", 76)
    local = first_local(of_broker, "t-epochs")
    for _ in range(3):
        found = by_topic(client.ask(1, 11, **asked(("t-plain", 80), ("t-epochs", local), ("t-txn", 0))))
        assert found["t-plain"].error_code == STORAGE_ERROR
        assert all(not found[each].error_code and found[each].records for each in ("t-epochs", "t-txn"))
    errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(errors) == 1
    assert "t-plain-0" in errors[0]
    assert name in errors[0]


def test_a_tier_that_works_again_is_read_again(client: WireClient, of_broker: Broker, store: Faults) -> None:
    store.failing = of_segment(store, "t-plain", 76)
    assert only(client.ask(1, 11, **fetch_fields("t-plain", 80))).error_code == STORAGE_ERROR
    store.failing = "nothing"
    soon(lambda: not only(client.ask(1, 11, **fetch_fields("t-plain", 80))).error_code)
    found = consumed(client, "t-plain", 0, Isolation.READ_COMMITTED)
    assert found == of_broker.rows("t-plain", Isolation.READ_COMMITTED)


def test_a_lost_object_is_a_storage_error_where_it_is_read(
    client: WireClient, store: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    name = of_segment(store, "t-plain", 76)
    del store.inner.objects[name]
    assert fetched(client, "t-plain", 0, Isolation.READ_UNCOMMITTED).records
    assert only(client.ask(1, 11, **fetch_fields("t-plain", 80))).error_code == STORAGE_ERROR
    assert fetched(client, "t-plain", 200, Isolation.READ_UNCOMMITTED).records
    assert name in caplog.text


def test_lost_first_segments_are_a_storage_error_so_that_no_consumer_begins_elsewhere(
    client: WireClient, store: Faults
) -> None:
    for kind in (".log", ".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint"):
        del store.inner.objects[of_segment(store, "t-plain", 0, kind)]
    assert list_offset(client, "t-plain", EARLIEST) == (0, 0)
    assert only(client.ask(1, 11, **fetch_fields("t-plain", 0))).error_code == STORAGE_ERROR


def test_a_damaged_batch_is_never_sent_and_its_object_is_named(
    gateway: Gateway, client: WireClient, store: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    name = of_segment(store, "t-plain", 76)
    data = bytearray(store.inner.objects[name])
    data[300] ^= 1
    store.inner.objects[name] = bytes(data)
    assert only(client.ask(1, 11, **fetch_fields("t-plain", 76))).error_code == STORAGE_ERROR
    assert f"{name}, position" in caplog.text
    (found,) = gateway.figures.damaged
    assert found[0].endswith(name)


def test_a_slow_tier_is_an_error_in_time_and_others_are_served_and_the_read_goes_on(
    gateway: Gateway, client: WireClient, of_broker: Broker, store: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    store.slow = of_segment(store, "t-plain", 76)
    local = first_local(of_broker, "t-epochs")
    waiting = client.send(1, 11, **asked(("t-plain", 80), ("t-epochs", local), ("t-txn", 0)))
    soon(lambda: store.slow in store.asked)
    with WireClient(gateway) as other:  # of the same network thread
        assert fetched(other, "t-epochs", local, Isolation.READ_UNCOMMITTED).records
        assert fetched(other, "t-codec", 0, Isolation.READ_UNCOMMITTED).records
    found = by_topic(client.answer(1, 11, waiting))
    assert found["t-plain"].error_code == STORAGE_ERROR
    assert all(not found[each].error_code and found[each].records for each in ("t-epochs", "t-txn"))
    assert caplog.text.count("t-plain-0: the tier has not answered within 2000 ms") == 1
    store.may_go_on.set()
    assert fetched(client, "t-plain", 80, Isolation.READ_UNCOMMITTED).records
    assert store.asked.count(store.slow) == 1


def test_times_are_not_found_in_a_tier_that_fails(client: WireClient, of_broker: Broker, store: Faults) -> None:
    store.failing = "/t-plain-"
    time = of_broker.rows("t-plain", Isolation.READ_UNCOMMITTED)[100][1]
    assert list_offset(client, "t-plain", time) == (STORAGE_ERROR, -1)
    assert list_offset(client, "t-plain", EARLIEST) == (0, 0)
    epochs = of_broker.rows("t-epochs", Isolation.READ_UNCOMMITTED)
    assert list_offset(client, "t-epochs", epochs[0][1])[0] == 0


def test_what_is_read_from_a_tier_is_counted_until_clients_have_taken_it(gateway: Gateway, client: WireClient) -> None:
    fetched(client, "t-plain", 0, Isolation.READ_UNCOMMITTED)
    soon(lambda: gateway.context.answers.taken == 0)


def test_a_tier_that_hangs_does_not_keep_the_gateway_from_ending(of_broker: Broker, store: Faults) -> None:
    with serving(of_broker.log, commitlog_tier_url="s3://bucket/tier", remote_fetch_max_wait_ms=1) as gateway:
        store.slow = "/t-plain-"
        with WireClient(gateway) as client:
            assert only(client.ask(1, 11, **fetch_fields("t-plain", 0))).error_code == STORAGE_ERROR
        soon(lambda: any(store.slow in each for each in store.asked))
        began_s = time.monotonic()
    assert time.monotonic() - began_s < HANGS_S / 2


def test_reads_beyond_the_limit_of_those_that_wait_are_refused_at_once(of_broker: Broker, store: Faults) -> None:
    few = {"remote_log_reader_threads": 1, "remote_log_reader_max_pending_tasks": 1, "remote_fetch_max_wait_ms": 10_000}
    with serving(of_broker.log, commitlog_tier_url="s3://bucket/tier", **few) as gateway:
        store.slow = "/t-plain-"
        with WireClient(gateway) as first, WireClient(gateway) as second, WireClient(gateway) as third:
            first.send(1, 11, **fetch_fields("t-plain", 0))
            soon(lambda: any(store.slow in each for each in store.asked))
            waiting = second.send(1, 11, **fetch_fields("t-codec", 0))
            tier = gateway.context.tier
            assert tier is not None
            soon(lambda: tier._pending == 2)
            assert only(third.ask(1, 11, **fetch_fields("t-txn", 0))).error_code == STORAGE_ERROR
            store.may_go_on.set()
            assert only(second.answer(1, 11, waiting)).records
