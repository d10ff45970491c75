"""Produce requests of turns over a log on an object store: which are, what fails, and what is limited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import Codec, CommitLog, LogManager, alter_configs
from pyspark_commitlog.storage.bucket.files import filesystem as bucket_files
from tests.gateway.turns.producer import PRODUCE, Producer, known, together
from tests.support.gateway import create_topic, serving, set_config
from tests.support.stores.filled import read_rows
from tests.support.stores.served import ServedStores
from tests.support.waiting import soon

URL = "s3://memory/logs"
STORAGE_ERROR, BAD_SEQUENCE, TOO_LARGE = 56, 45, 10


@pytest.fixture(name="log")
def fixture_log(monkeypatch: pytest.MonkeyPatch) -> CommitLog:
    return ServedStores(monkeypatch).create(URL)


@contextmanager
def producing(linger_ms: int = 5, **settings: Any) -> Iterator[tuple[Gateway, Producer]]:
    """A gateway over the log with a topic, and a client whose next requests are served together."""
    with (
        serving(URL, commitlog_bucket_linger_ms=linger_ms, **settings) as gateway,
        Producer(gateway) as client,
    ):
        create_topic(client, "t")
        known(client)
        yield gateway, client


def fail_commits(monkeypatch: pytest.MonkeyPatch, gateway: Gateway) -> None:
    """Has the gateway's next commits fail."""

    def fail(*_: object) -> None:
        raise OSError("no way to the store")

    monkeypatch.setattr(gateway.context.appender._log, "commit", fail)  # type: ignore[attr-defined]


def test_pipelined_requests_are_served_together_and_answered_in_order(log: CommitLog) -> None:
    with producing() as (gateway, client):
        sent = [client.send_batch(b"%d" % number) for number in range(100)]
        assert [client.result(each) for each in sent] == [(0, 2 + number) for number in range(100)]
        assert together(gateway) > 50
        assert client.end_offset() == 102
        figures = gateway.figures.snapshot()
        assert (figures.topics["t"].records_in, figures.topics["t"].produced) == (102, 102)
        assert figures.requests[PRODUCE].count == 102
    assert [value for *_, value in read_rows(log)][2:] == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_batches_of_every_codec_are_served_together(log: CommitLog, codec: Codec) -> None:
    with producing() as (gateway, client):
        value = b"value" * 1000
        sent = [client.send_batch(value, codec=codec) for _ in range(20)]
        assert [client.result(each) for each in sent] == [(0, 2 + number) for number in range(20)]
        assert together(gateway) > 10
    assert [found for *_, found in read_rows(log)][2:] == [value] * 20


def test_an_idempotent_producer_that_repeats_itself_gets_its_first_offset(log: CommitLog) -> None:
    with producing() as (gateway, client):
        offsets = [client.produce(producer_id=7, base_sequence=number) for number in range(8)]
        assert offsets == [(0, 2 + number) for number in range(8)]
        assert client.produce(producer_id=7, base_sequence=6) == (0, 8)
        assert client.produce(producer_id=7, base_sequence=20)[0] == BAD_SEQUENCE
        assert client.produce(producer_id=7, base_sequence=8) == (0, 10)
        assert together(gateway) == 11
        figures = gateway.figures.snapshot()
        assert (figures.topics["t"].produced, figures.failed_produces) == (11, 1)
    assert len(read_rows(log)) == 11


def test_requests_without_acks_are_served_together_and_not_answered(log: CommitLog) -> None:
    with producing() as (gateway, client):
        first, _, third = client.send_at_once([-1, 0, 1])
        assert (client.result(first), client.result(third)) == ((0, 2), (0, 4))
        assert together(gateway) == 3
    assert len(read_rows(log)) == 5


def test_a_commit_that_fails_is_answered_to_all_and_ends_connections_that_want_no_answers(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with producing() as (gateway, client), Producer(gateway) as other:
        with monkeypatch.context() as patched:
            fail_commits(patched, gateway)
            first, _ = client.send_at_once([-1, 0])
            assert client.result(first) == (STORAGE_ERROR, -1)
            assert client.is_closed()
            assert other.produce() == (STORAGE_ERROR, -1)
        assert gateway.figures.snapshot().failed_produces == 3
        assert other.produce() == (0, 2)
    assert len(read_rows(log)) == 3


def test_a_client_that_leaves_keeps_no_place(log: CommitLog) -> None:
    """Its batches are appended all the same."""
    with producing(linger_ms=300, queued_max_requests=2) as (gateway, client):
        with Producer(gateway) as other:
            assert other.produce() == (0, 2)
            other.send_at_once([-1, -1])
            soon(lambda: together(gateway) == 2)
        assert client.produce() == (0, 5)


def test_places_are_given_back(log: CommitLog) -> None:
    """With two places, the others wait, and all are answered."""
    with producing(queued_max_requests=2) as (gateway, client):
        for _ in range(5):
            sent = [client.send_batch() for _ in range(5)]
            assert {client.result(each)[0] for each in sent} == {0}
        assert together(gateway) > 5


def test_large_requests_go_the_usual_way_between_small_ones(log: CommitLog) -> None:
    with producing(queued_max_request_bytes=500_000) as (gateway, client):
        sizes = [10, 10, 100_000, 10, 10, 300_000, 300_000, 10, 10, 10]
        sent = [client.send_batch(bytes(size)) for size in sizes]
        assert [client.result(each) for each in sent] == [(0, 2 + number) for number in range(len(sizes))]
        assert 0 < together(gateway) < 8
    assert [len(value or b"") for *_, value in read_rows(log)][2:] == sizes


def test_settings_that_change_hold_for_the_next_batch(log: CommitLog) -> None:
    with producing() as (_, client):
        assert client.produce(bytes(2000))[0] == 0
        set_config(client, "t", "max.message.bytes", "1000")
        soon(lambda: client.produce(bytes(2000))[0] == TOO_LARGE)


def test_settings_that_another_process_changes_hold_within_seconds(log: CommitLog) -> None:
    with producing() as (_, client):
        assert client.produce(bytes(2000))[0] == 0
        bucket_files._of_this_process.clear()
        with LogManager.open(URL) as manager:
            alter_configs(manager, "t", {"max.message.bytes": "1000"})
        soon(lambda: client.produce(bytes(2000))[0] == TOO_LARGE)


def test_the_batches_of_a_turn_stay_as_they_are_when_its_memory_is_used_again(log: CommitLog) -> None:
    with producing(linger_ms=100) as (gateway, client):
        values = [b"%d" % number * 500 for number in range(60)]
        sent = []
        for each in values:
            sent.append(client.send_batch(each))
            soon(lambda: together(gateway) >= len(sent))
        assert [client.result(each)[0] for each in sent] == [0] * 60
    assert [value for *_, value in read_rows(log)][2:] == values


def test_nothing_is_served_together_where_that_is_off(log: CommitLog) -> None:
    with producing(commitlog_produce_together_enable=False) as (gateway, client):
        assert client.produce()[0] == 0
        assert together(gateway) == 0


def test_two_clients_of_one_partition_get_the_offsets_of_their_own_records(log: CommitLog) -> None:
    with producing(num_network_threads=2) as (gateway, client), Producer(gateway) as other:
        known(other)
        sent = [(each, each.send_batch(b"%d" % id(each))) for _ in range(30) for each in (client, other)]
        offsets = {each.result(number)[1]: b"%d" % id(each) for each, number in sent}
        assert together(gateway) > 0
    assert {offset: value for offset, _, value in read_rows(log) if offset >= 4} == offsets
