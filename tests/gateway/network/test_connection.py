"""Connections: the order of answers, pipelined requests, hostile and slow clients, idle ones, and a clean stop."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, fetch_fields, produce_fields, request_body, request_head, serving
from tests.support.logs.building import batch, open_files
from tests.support.waiting import soon


def test_answers_leave_in_the_order_of_the_requests(client: WireClient, topic: str) -> None:
    asked = [client.send(0, 8, **produce_fields(topic, batch(b"one").tobytes()))]
    asked.append(client.send(18, 0))
    asked.append(client.send(0, 8, **produce_fields(topic, batch(b"two").tobytes())))
    asked.append(client.send(1, 11, **fetch_fields(topic, 0)))
    answers = [client.answer(*each) for each in zip((0, 18, 0, 1), (8, 0, 8, 11), asked, strict=True)]
    assert [answers[at].responses[0].partition_responses[0].base_offset for at in (0, 2)] == [0, 1]
    assert answers[3].responses[0].partitions[0].high_watermark == 2


def test_a_request_behind_a_produce_sees_what_it_wrote(client: WireClient, topic: str) -> None:
    for end in range(1, 11):
        client.send(0, 8, **produce_fields(topic, batch(b"v").tobytes()))
        client.send(1, 11, **fetch_fields(topic, 0))
        client.receive()
        assert client.answer(1, 11, 2 * end + 1).responses[0].partitions[0].high_watermark == end


def test_produce_requests_without_acks_get_no_answer_and_keep_their_place(client: WireClient, topic: str) -> None:
    for _ in range(3):
        client.send(0, 8, **produce_fields(topic, batch(b"v").tobytes(), acks=0))
    last = client.send(1, 11, **fetch_fields(topic, 0))
    assert client.answer(1, 11, last).responses[0].partitions[0].high_watermark == 3


def test_an_error_without_acks_closes_the_connection(client: WireClient) -> None:
    client.send(0, 8, **produce_fields("nowhere", batch(b"v").tobytes(), acks=0))
    assert client.is_closed()


HOSTILE = {
    "a negative length": struct.pack(">i", -1),
    "a length of 2 GB": struct.pack(">i", 2**31 - 1),
    "an empty frame": struct.pack(">i", 0),
    "a request of no kind": struct.pack(">ihhih", 10, 9999, 0, 1, -1),
    "a version that is not served": struct.pack(">ihhih", 10, 3, 99, 1, -1),
    "a client id that is longer than the frame": struct.pack(">ihhih", 10, 3, 1, 1, 1000),
    "an array that is longer than the frame": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
    "a Fetch that ends too early": struct.pack(">ihhih", 10, 1, 11, 1, -1),
    "a Produce with too many topics": struct.pack(">ihhihhhii", 22, 0, 8, 1, -1, -1, -1, 0, 2**31 - 1),
    "text that is not UTF-8": struct.pack(">ihhih", 12, 3, 1, 1, 2) + b"\xff\xff",
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_frame_costs_its_connection_only(sent: bytes, gateway: Gateway, client: WireClient) -> None:
    with WireClient(gateway) as hostile:
        hostile.socket.sendall(sent)
        assert hostile.is_closed()
    assert client.ask(18, 0).error_code == 0


def test_a_frame_in_pieces_is_served(client: WireClient) -> None:
    frame = request_head(18, 0, 7)
    for byte in struct.pack(">i", len(frame)) + frame:
        client.socket.sendall(bytes([byte]))
    assert client.answer(18, 0, 7).error_code == 0


def test_a_slow_reader_holds_up_nobody(gateway: Gateway, client: WireClient, topic: str) -> None:
    records = batch(b"x" * 900_000).tobytes()
    for _ in range(8):
        client.ask(0, 8, **produce_fields(topic, records))
    with WireClient(gateway) as slow:
        all_of_it = fetch_fields(topic, 0, max_bytes=1 << 23, partition_max_bytes=1 << 23)
        asked = [slow.send(1, 11, **all_of_it) for _ in range(2)]
        assert client.ask(18, 0).error_code == 0
        sizes = [len(slow.answer(1, 11, each).responses[0].partitions[0].records) for each in asked]
        assert sizes == [8 * len(records)] * 2


def test_more_requests_than_may_be_in_progress_are_all_answered(tmp_path: Path) -> None:
    with serving(tmp_path, queued_max_requests=2) as gateway, WireClient(gateway) as one, WireClient(gateway) as two:
        one.ask(3, 4, topics=[{"name": "t"}], allow_auto_topic_creation=True)
        body = request_body(0, 8, produce_fields("t", batch(b"v").tobytes()))
        for client in (one, two) * 20:
            client.send_body(0, 8, body)
        for client in (one, two) * 20:
            client.receive()


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(tmp_path: Path) -> None:
    settings = {"connections_max_idle_ms": 1}
    with serving(tmp_path, **settings) as gateway, WireClient(gateway) as busy, WireClient(gateway) as idle:
        busy.ask(3, 4, topics=[{"name": "t"}], allow_auto_topic_creation=True)
        waiting = busy.send(1, 11, **fetch_fields("t", 0, max_wait=3000))
        assert idle.is_closed()
        assert busy.answer(1, 11, waiting).error_code == 0


@pytest.fixture
def unread(tmp_path: Path) -> Iterator[tuple[WireClient, int]]:
    """A client whose answer is ready, and the bytes of its records; it may be idle for a second."""
    records = batch(b"x" * 900_000).tobytes()
    with serving(tmp_path, connections_max_idle_ms=1000) as gateway, WireClient(gateway) as client:
        client.ask(3, 4, topics=[{"name": "t"}], allow_auto_topic_creation=True)
        for _ in range(8):
            client.ask(0, 8, **produce_fields("t", records))
        fields = fetch_fields("t", 0, max_bytes=1 << 23, partition_max_bytes=1 << 23)
        client.send(1, 11, **fields)
        yield client, 8 * len(records)


def test_a_client_that_never_reads_its_answer_is_closed(
    unread: tuple[WireClient, int], caplog: pytest.LogCaptureFixture
) -> None:
    client, _ = unread
    until_s = time.monotonic() + 20
    while not caplog.messages and time.monotonic() < until_s:
        time.sleep(0.05)
    assert [each for each in caplog.messages if "takes no byte of its answer" in each]
    with pytest.raises((EOFError, ConnectionResetError)):
        client.receive()


def test_a_client_that_reads_slowly_is_not_closed(unread: tuple[WireClient, int]) -> None:
    client, size = unread
    slow_until_s, left = time.monotonic() + 2.5, size
    while left > 0:
        received = client.socket.recv(200_000)
        assert received
        left -= len(received)
        time.sleep(0.1 if time.monotonic() < slow_until_s else 0)


def test_clients_that_read_no_answers_are_closed_above_the_limit_of_all_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path, commitlog_queued_max_answer_bytes=20_000_000) as gateway, ExitStack() as stack:
        monkeypatch.setattr(gateway.context, "cluster_id", "c" * 5_000_000)
        idle = [stack.enter_context(WireClient(gateway)) for _ in range(10)]
        for each in idle:
            each.send(60, 0)
        soon(lambda: "the client takes its answer too slowly" in caplog.text)
        with WireClient(gateway) as client:
            assert len(client.ask(60, 0).cluster_id) == 5_000_000


def test_larger_requests_take_turns_if_their_memory_is_limited(tmp_path: Path) -> None:
    with serving(tmp_path, queued_max_request_bytes=1) as gateway:
        clients = [WireClient(gateway) for _ in range(4)]
        clients[0].ask(3, 4, topics=[{"name": "t"}], allow_auto_topic_creation=True)
        body = request_body(0, 8, produce_fields("t", batch(b"x" * 500_000).tobytes()))
        sending = [threading.Thread(target=client.send_body, args=(0, 8, body)) for client in clients]
        for thread in sending:
            thread.start()
        for client in clients:
            client.receive()
        for thread in sending:
            thread.join()
        assert gateway.context.partitions.all()[0].high_watermark == 4


def stalled(gateway: Gateway, claimed: int, sent: int) -> WireClient:
    """A client that stops amid a request."""
    client = WireClient(gateway)
    client.socket.sendall(struct.pack(">i", claimed) + bytes(sent))
    return client


def produces(client: WireClient, size: int) -> bool:
    client.ask(3, 4, topics=[{"name": "t"}], allow_auto_topic_creation=True)
    answer = client.ask(0, 8, **produce_fields("t", batch(b"x" * size).tobytes()))
    return not answer.responses[0].partition_responses[0].error_code


def test_large_requests_that_are_claimed_take_no_memory_from_others(tmp_path: Path) -> None:
    with serving(tmp_path, queued_max_request_bytes=1 << 20) as gateway, ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(stalled(gateway, 90 << 20, 1000))
        assert produces(stack.enter_context(WireClient(gateway)), 500_000)


def test_large_requests_that_stop_make_room_for_others(tmp_path: Path) -> None:
    settings = {"queued_max_request_bytes": 1 << 20, "commitlog_request_grace_ms": 1000}
    with serving(tmp_path, **settings) as gateway, ExitStack() as stack:
        hostile = [stack.enter_context(stalled(gateway, 90 << 20, 100_000)) for _ in range(20)]
        assert produces(stack.enter_context(WireClient(gateway)), 500_000)
        assert all(each.is_closed() for each in hostile)


def test_a_request_that_pauses_for_too_long_is_closed(tmp_path: Path) -> None:
    with serving(tmp_path, commitlog_request_grace_ms=1) as gateway:
        for claimed, sent in ((90 << 20, 100_000), (1000, 10)):
            with stalled(gateway, claimed, sent) as hostile:
                assert hostile.is_closed()


def test_slow_requests_of_one_sort_keep_no_place_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr("pyspark_commitlog.gateway.handlers.topics.is_legal", lambda _: goes_on.wait(60) and False)
    asked = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    with serving(tmp_path, queued_max_requests=2) as gateway, ExitStack() as stack:
        slow = [stack.enter_context(WireClient(gateway)) for _ in range(5)]
        sent = [each.send(19, 4, topics=[asked], timeout=1000) for each in slow]
        assert stack.enter_context(WireClient(gateway)).ask(18, 0).error_code == 0
        goes_on.set()
        for client, each in zip(slow, sent, strict=True):
            assert client.answer(19, 4, each).topics[0].error_code


def test_connections_above_the_limit_are_closed(tmp_path: Path) -> None:
    with serving(tmp_path, max_connections=1) as gateway, WireClient(gateway) as first:
        first.ask(18, 0)
        with WireClient(gateway) as second:
            assert second.is_closed()
        first.ask(18, 0)


def test_a_stop_answers_what_was_read_and_closes(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway:
        client = WireClient(gateway)
        client.ask(3, 4, topics=[{"name": "t"}], allow_auto_topic_creation=True)
        waiting = client.send(1, 11, **fetch_fields("t", 0, max_wait=600_000))
        until = time.monotonic() + 10
        while not any(each.has_waiters for each in gateway.context.partitions.all()) and time.monotonic() < until:
            time.sleep(0.01)
        threads = threading.active_count()
    assert client.answer(1, 11, waiting).responses[0].partitions[0].high_watermark == 0
    assert client.is_closed()
    client.socket.close()
    assert threading.active_count() < threads
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(gateway.address, timeout=5)


def test_files_are_let_go_when_clients_leave_in_the_middle_of_an_answer(gateway: Gateway, topic: str) -> None:
    with WireClient(gateway) as client:
        client.ask(0, 8, **produce_fields(topic, batch(b"x" * 900_000).tobytes()))
    before = open_files(Path(gateway.context.log_dir))
    for _ in range(10):
        with WireClient(gateway) as leaving:
            leaving.send(1, 11, **fetch_fields(topic, 0))
            leaving.receive_some()
    with WireClient(gateway) as last:
        last.ask(18, 0)
    assert open_files(Path(gateway.context.log_dir)) <= before + 1
