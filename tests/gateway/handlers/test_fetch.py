"""Fetch: what is returned, at once or after a wait, and errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pyspark_commitlog.gateway.network.loop import Timer
from pyspark_commitlog.gateway.network.processor import Processor
from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import LogManager, StorageError, delete_topic
from tests.support.gateway import WireClient, create_topic, fetch_fields, produce_fields, serving, set_config
from tests.support.logs.building import batch, records
from tests.support.waiting import soon

NAMED, BY_ID = range(4, 13), range(13, 18)


def only(answer: Any) -> Any:
    """The answer for the one partition."""
    (topic,) = answer.responses
    (partition,) = topic.partitions
    return partition


def produce(client: WireClient, topic: str, *values: bytes) -> int:
    answer = client.ask(0, 8, **produce_fields(topic, batch(*values).tobytes()))
    return int(answer.responses[0].partition_responses[0].base_offset)


def id_of(client: WireClient, topic: str) -> Any:
    return client.ask(3, 10, topics=[{"name": topic}]).topics[0].topic_id


@pytest.mark.parametrize("version", NAMED)
def test_every_version_returns_the_stored_batches(client: WireClient, topic: str, version: int) -> None:
    produce(client, topic, b"one")
    produce(client, topic, b"two")
    found = only(client.ask(1, version, **fetch_fields(topic, 0)))
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 2, 2)
    assert b"one" in found.records
    assert b"two" in found.records
    assert found.aborted_transactions is None
    assert only(client.ask(1, version, **fetch_fields(topic, 0, isolation_level=1))).aborted_transactions == ()


@pytest.mark.parametrize("version", BY_ID)
def test_newer_versions_ask_by_the_topics_id(client: WireClient, topic: str, version: int) -> None:
    produce(client, topic, b"one")
    fields = fetch_fields(topic, 0)
    fields["topics"][0]["topic_id"] = id_of(client, topic)
    answer = client.ask(1, version, **fields)
    assert answer.responses[0].topic_id == fields["topics"][0]["topic_id"]
    assert b"one" in only(answer).records
    fields["topics"][0]["topic_id"] = uuid4()
    assert only(client.ask(1, version, **fields)).error_code == 100


def test_the_first_batch_is_whole_whatever_the_limits(client: WireClient, topic: str) -> None:
    produce(client, topic, b"x" * 5000)
    produce(client, topic, b"y")
    found = only(client.ask(1, 11, **fetch_fields(topic, 0, max_bytes=1, partition_max_bytes=1)))
    assert len(found.records) > 5000
    assert b"y" not in found.records[-10:]


def test_nothing_to_read_is_an_empty_answer_not_null(client: WireClient, topic: str) -> None:
    found = only(client.ask(1, 11, **fetch_fields(topic, 0)))
    assert (found.error_code, found.records, found.high_watermark) == (0, b"", 0)


def test_an_answer_lists_every_partition_that_was_asked_for(client: WireClient, topic: str) -> None:
    produce(client, topic, b"one")
    part = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 100} for number in (1, 0, 5)]
    answer = client.ask(1, 11, **fetch_fields(topic, 0, topics=[{"topic": topic, "partitions": part}]))
    partitions = answer.responses[0].partitions
    found = [(each.partition_index, each.error_code, len(each.records or b"") > 0) for each in partitions]
    assert found == [(1, 0, False), (0, 0, True), (5, 3, False)]


@pytest.mark.parametrize("offset", [-1, 2, 2**62])
def test_an_offset_outside_the_log_is_an_error(client: WireClient, topic: str, offset: int) -> None:
    produce(client, topic, b"one")
    assert only(client.ask(1, 11, **fetch_fields(topic, offset, max_wait=60_000))).error_code == 1


def test_other_leader_epochs_are_refused(client: WireClient, topic: str) -> None:
    for epoch, code in ((-1, 0), (0, 0), (1, 75), (99, 75)):
        fields = fetch_fields(topic, 0)
        fields["topics"][0]["partitions"][0]["current_leader_epoch"] = epoch
        assert only(client.ask(1, 11, **fields)).error_code == code


@pytest.mark.parametrize("version", [0, 3, 5])
def test_a_client_that_knows_no_storage_error_asks_for_the_leader_and_then_again(
    client: WireClient, topic: str, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("the disk fails")

    monkeypatch.setattr(FilePartition, "slice", fail)
    assert only(client.ask(1, version, **fetch_fields(topic, 0))).error_code == 6
    assert only(client.ask(1, 6, **fetch_fields(topic, 0))).error_code == 56


@pytest.mark.parametrize("version", [2, 4, 9])
def test_a_topic_stored_with_zstd_is_refused_to_a_client_from_before_zstd(
    client: WireClient, topic: str, version: int
) -> None:
    set_config(client, topic, "compression.type", "zstd")
    produce(client, topic, b"one")
    found = only(client.ask(1, version, **fetch_fields(topic, 0)))
    assert (found.error_code, found.records, getattr(found, "aborted_transactions", ())) == (76, b"", ())
    assert only(client.ask(1, 10, **fetch_fields(topic, 0))).records


@pytest.mark.parametrize("epoch", [1, -2])
def test_a_session_that_was_not_begun_cannot_go_on(client: WireClient, topic: str, epoch: int) -> None:
    answer = client.ask(1, 11, session_id=0, session_epoch=epoch, **fetch_fields(topic, 0))
    assert (answer.error_code, answer.responses) == (70, ())


def test_a_fetch_waits_for_bytes_and_is_woken_by_them(gateway: Gateway, client: WireClient, topic: str) -> None:
    waiting = client.send(1, 11, **fetch_fields(topic, 0, max_wait=600_000, min_bytes=100))
    with WireClient(gateway) as writer:
        produce(writer, topic, b"few")
        produce(writer, topic, b"x" * 100)
    found = only(client.answer(1, 11, waiting))
    assert b"few" in found.records
    assert len(found.records) >= 100


def test_large_fetches_that_wait_take_no_memory_from_other_requests(tmp_path: Path) -> None:
    forgotten = [{"topic": f"{number}" * 200, "partitions": [0]} for number in range(100, 300)]
    with serving(tmp_path, queued_max_request_bytes=1) as gateway, ExitStack() as stack:
        *readers, writer = [stack.enter_context(WireClient(gateway)) for _ in range(4)]
        create_topic(writer, "t")
        fields = fetch_fields("t", 0, max_wait=600_000, forgotten_topics_data=forgotten)
        waiting = [reader.send(1, 11, **fields) for reader in readers]
        assert produce(writer, "t", bytes(100_000)) == 0
        for reader, each in zip(readers, waiting, strict=True):
            assert only(reader.answer(1, 11, each)).high_watermark == 1


def test_a_fetch_that_was_answered_early_keeps_nothing_until_its_time_is_over(
    gateway: Gateway, client: WireClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[Timer] = []
    real = Processor.call_later

    def noted(processor: Processor, delay_s: float, task: Callable[[], None]) -> Timer:
        timers.append(real(processor, delay_s, task))
        return timers[-1]

    monkeypatch.setattr(Processor, "call_later", noted)
    waiting = client.send(1, 11, **fetch_fields(topic, 0, max_wait=600_000))
    soon(lambda: bool(timers))
    with WireClient(gateway) as writer:
        produce(writer, topic, b"one")
    assert b"one" in only(client.answer(1, 11, waiting)).records
    assert [each.task for each in timers] == [None]


def test_a_fetch_does_not_wait_for_bytes_that_its_limit_keeps_out(client: WireClient, topic: str) -> None:
    """A broker fills the limit with a part of the next batch, which is not sent here, but counts."""
    for value in (b"a" * 200, b"b" * 200, b"c" * 200):
        produce(client, topic, value)
    client.socket.settimeout(20)
    limits = {"max_wait": 600_000, "min_bytes": 500, "partition_max_bytes": 500, "max_bytes": 500}
    assert len(only(client.ask(1, 11, **fetch_fields(topic, 0, **limits))).records) < 300


def test_a_fetch_is_woken_by_what_another_process_appends(client: WireClient, topic: str, log_dir: Path) -> None:
    waiting = client.send(1, 11, **fetch_fields(topic, 0, max_wait=600_000))
    with LogManager.open(str(log_dir)) as manager:
        manager.open_log(topic, 0).append_records(records([b"by another"]))
        assert b"by another" in only(client.answer(1, 11, waiting)).records


def test_a_fetch_ends_when_its_time_is_over(client: WireClient, topic: str) -> None:
    assert only(client.ask(1, 11, **fetch_fields(topic, 0, max_wait=20))).records == b""


def test_a_topic_deleted_under_a_waiting_fetch_is_unknown(gateway: Gateway, client: WireClient, topic: str) -> None:
    waiting = client.send(1, 11, **fetch_fields(topic, 0, max_wait=600_000))
    with WireClient(gateway) as other:
        assert other.ask(20, 3, topic_names=[topic], timeout=1000).responses[0].error_code == 0
    assert only(client.answer(1, 11, waiting)).error_code == 3


def test_a_topic_that_another_process_deletes_is_unknown_too(client: WireClient, topic: str, log_dir: Path) -> None:
    produce(client, topic, b"one")
    waiting = client.send(1, 11, **fetch_fields(topic, 1, max_wait=600_000))
    with LogManager.open(str(log_dir)) as manager:
        delete_topic(manager, topic)
        assert only(client.answer(1, 11, waiting)).error_code == 3
        manager.create_topic(topic, partitions=1)
    assert produce(client, topic, b"one again") == 0


def test_readers_never_see_more_than_is_acknowledged_or_synced(gateway: Gateway, topic: str) -> None:
    """Writers and readers at once: offsets count up, and each fetch ends at its high watermark."""
    ended = threading.Event()

    def write() -> None:
        with WireClient(gateway) as writer:
            for number in range(200):
                assert produce(writer, topic, b"%d" % number) == number
        ended.set()

    thread = threading.Thread(target=write)
    thread.start()
    offset = 0
    with WireClient(gateway) as reader:
        while offset < 200:
            found = only(reader.ask(1, 11, **fetch_fields(topic, offset, max_wait=100)))
            for base in base_offsets(found.records):
                assert base == offset < found.high_watermark
                offset += 1
    thread.join()
    assert ended.is_set()


def base_offsets(data: bytes) -> list[int]:
    found = []
    while data:
        found.append(int.from_bytes(data[:8], "big"))
        data = data[int.from_bytes(data[8:12], "big") + 12 :]
    return found
