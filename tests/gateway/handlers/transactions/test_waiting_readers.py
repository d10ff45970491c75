"""A fetch of committed records waits for open transactions, and is answered when the last of them ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest

from pyspark_commitlog.gateway.handlers.fetch import _Fetching
from pyspark_commitlog.gateway.partitions.bucket.partition import BucketPartition
from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, create_topic, fetch_fields, serving
from tests.support.transactions import WireProducer
from tests.support.waiting import soon

MAX_WAIT_MS = 25_000
SOON_S = 10.0
UNTIL_MUCH_LATER_MS = 60_000  # between two looks for what others committed


@pytest.fixture(scope="module")
def gateway(log_at: str) -> Iterator[Gateway]:
    more = {"commitlog_bucket_poll_interval_ms": UNTIL_MUCH_LATER_MS} if "://" in log_at else {}
    with serving(log_at, **more) as started:
        yield started


@pytest.mark.parametrize("commit", [True, False])
def test_a_fetch_that_waits_is_answered_at_the_end_of_a_transaction(
    gateway: Gateway, client: WireClient, topic: str, commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, wait = Event(), _Fetching._wait

    def waiting(fetching: _Fetching, *given: Any) -> None:
        wait(fetching, *given)
        waits.set()

    monkeypatch.setattr(_Fetching, "_wait", waiting)
    producer = WireProducer(client, topic)
    assert not producer.init().error
    assert producer.add(topic, 0) == producer.produce(topic, b"a") == 0
    found: list[tuple[float, Any]] = []

    def fetch() -> None:
        with WireClient(gateway) as reader:
            answer = reader.ask(1, 11, **fetch_fields(topic, 0, isolation_level=1, max_wait=MAX_WAIT_MS))
            found.append((time.monotonic(), answer.responses[0].partitions[0]))

    thread = Thread(target=fetch)
    thread.start()
    assert waits.wait(SOON_S)
    began_s = time.monotonic()
    assert producer.end(commit=commit) == 0
    thread.join()
    ((answered_s, answer),) = found
    assert answered_s - began_s < SOON_S
    assert answer.records
    assert (b"a" in answer.records) is commit or answer.aborted_transactions


@pytest.mark.parametrize("log_at", ["object store"], indirect=True)  # where the end has no marker
def test_an_end_between_the_read_and_the_wait_of_a_fetch_is_not_missed(
    gateway: Gateway, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(client, "between")
    producer = WireProducer(client, "between")
    assert not producer.init().error
    assert producer.add("between", 0) == producer.produce("between", b"a") == 0
    read, led = _Fetching._read, gateway.context.partitions.look("between", 0)
    assert isinstance(led, BucketPartition)

    def reading(fetching: _Fetching, *, may_wait: bool) -> Any:
        found = read(fetching, may_wait=may_wait)
        monkeypatch.setattr(_Fetching, "_read", read)
        assert producer.end() == 0
        soon(lambda: not led.has_moved())  # those who wait were woken
        return found

    monkeypatch.setattr(_Fetching, "_read", reading)
    with WireClient(gateway) as reader:
        began_s = time.monotonic()
        answer = reader.ask(1, 11, **fetch_fields("between", 0, isolation_level=1, max_wait=MAX_WAIT_MS))
    assert time.monotonic() - began_s < SOON_S
    assert b"a" in answer.responses[0].partitions[0].records
