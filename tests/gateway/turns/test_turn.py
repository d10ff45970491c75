"""Produce requests served in turns: which are, what fails, and what is limited."""

from __future__ import annotations

import errno
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.gateway.network.connection import Connection
from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.gateway.turns import compressed, loading
from pyspark_commitlog.gateway.turns.loading import Loading
from pyspark_commitlog.gateway.turns.turn import ProduceTurn
from pyspark_commitlog.storage import APPEND_LOCK_FILE, Codec
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.filesystem.local_file import LocalFile
from pyspark_commitlog.storage.kernels.produce import tables
from tests.gateway.turns.producer import PRODUCE, VERSION, Producer, known, together
from tests.support.gateway import create_topic, produce_fields, serving, set_config
from tests.support.logs.building import batch
from tests.support.tls import certificate
from tests.support.waiting import soon

STORAGE_ERROR, TOPIC_DENIED, BAD_SEQUENCE, TOO_LARGE, LIST_TOO_LARGE = 56, 29, 45, 10, 18
CHECKED_FROM = 21  # the first byte of a batch that the log does not change
LAZY = {"flush_messages": str(2**62)}


def led_by(gateway: Gateway, topic: str = "t") -> FilePartition:
    found = gateway.context.partitions.look(topic, 0)
    assert isinstance(found, FilePartition)
    return found


@contextmanager
def producing(
    directory: Path, configs: dict[str, str] | None = None, **settings: Any
) -> Iterator[tuple[Gateway, Producer]]:
    """A gateway with a topic, and a client whose next requests are served together."""
    with serving(directory / "log", **settings) as gateway, Producer(gateway) as client:
        create_topic(client, "t", **(configs or {}))
        known(client)
        yield gateway, client


def fail_syncs(monkeypatch: pytest.MonkeyPatch, led: FilePartition) -> None:
    def fail() -> None:
        raise led._log._fail_stop.fail(OSError(errno.EIO, "input/output error"))

    monkeypatch.setattr(led, "sync", fail)


@pytest.mark.parametrize("configs", [{}, LAZY], ids=["synced", "lazy"])
def test_pipelined_requests_are_served_together_and_answered_in_order(tmp_path: Path, configs: dict[str, str]) -> None:
    with producing(tmp_path, configs) as (gateway, client):
        sent = [client.send_batch() for _ in range(100)]
        assert [client.result(each) for each in sent] == [(0, 2 + number) for number in range(100)]
        assert together(gateway) > 50
        assert client.end_offset() == 102
        assert gateway.figures.snapshot().topics["t"].records_in == 102
        assert gateway.figures.snapshot().requests[PRODUCE].count == 102


def test_requests_over_tls_are_served_together(tmp_path: Path) -> None:
    """Also many that arrive in one record of TLS, more than a turn takes."""
    keystore, trusted = certificate(tmp_path)
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl_keystore_location": str(keystore)}
    with serving(tmp_path / "log", **settings) as gateway, Producer(gateway, tls=trusted) as client:
        create_topic(client, "t", **LAZY)
        known(client)
        sent = client.send_at_once([-1] * 150)
        assert [client.result(each) for each in sent] == [(0, 2 + number) for number in range(150)]
        assert together(gateway) == 150


def test_what_is_no_tls_behind_a_request_ends_its_connection_with_a_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keystore, trusted = certificate(tmp_path)
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl_keystore_location": str(keystore)}
    with serving(tmp_path / "log", **settings) as gateway, Producer(gateway, tls=trusted) as client:
        create_topic(client, "t", **LAZY)
        known(client)
        assert client.produce() == (0, 2)
        client.socket = socket.socket(fileno=client.socket.detach())
        client.socket.sendall(b"\x17\x03\x03\0\x20" + bytes(32))
        soon(lambda: "TLS: DECRYPTION_FAILED_OR_BAD_RECORD_MAC" in caplog.text)


def test_an_idempotent_producer_is_served_together_until_it_repeats_itself(tmp_path: Path) -> None:
    with producing(tmp_path) as (gateway, client):
        offsets = [client.produce(producer_id=7, base_sequence=number) for number in range(8)]
        assert offsets == [(0, 2 + number) for number in range(8)]
        assert together(gateway) == 8
        assert client.produce(producer_id=7, base_sequence=6) == (0, 8)
        assert client.produce(producer_id=7, base_sequence=20)[0] == BAD_SEQUENCE
        assert client.produce(producer_id=7, base_sequence=8) == (0, 10)
        assert together(gateway) == 9


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_batches_are_served_together_and_stored_as_they_are(tmp_path: Path, codec: Codec) -> None:
    with producing(tmp_path, LAZY) as (gateway, client):
        value = b"value" * 1000
        sent = [client.send_batch(value, codec=codec) for _ in range(20)]
        assert [client.result(each) for each in sent] == [(0, 2 + number) for number in range(20)]
        assert together(gateway) > 10
        data = batch(value, codec=codec).tobytes()
        (log,) = (tmp_path / "log" / "t-0").glob("*.log")
        assert log.read_bytes().count(data[CHECKED_FROM:]) == 20


def test_a_topic_with_a_codec_of_its_own_has_that_codec_served_together(tmp_path: Path) -> None:
    with producing(tmp_path, {**LAZY, "compression_type": "lz4"}) as (gateway, client):
        assert [client.produce(codec=Codec.LZ4)[0] for _ in range(6)] == [0] * 6
        before = together(gateway)
        assert before >= 3
        assert client.produce(codec=Codec.ZSTD)[0] == 0
        assert client.produce()[0] == 0
        assert together(gateway) == before


def test_batches_that_decompress_to_much_go_the_usual_way_in_their_order(tmp_path: Path) -> None:
    with producing(tmp_path, LAZY) as (gateway, client):
        sizes = [10, 2 << 20, 10, 10, 3 << 20, 10]
        sent = [client.send_batch(bytes(size), codec=Codec.ZSTD) for size in sizes]
        assert [client.result(each) for each in sent] == [(0, 2 + number) for number in range(len(sizes))]
        assert together(gateway) <= 4


def test_a_request_may_decompress_to_no_more_than_is_set(tmp_path: Path) -> None:
    with producing(tmp_path, LAZY, commitlog_produce_max_decompressed_bytes=3000) as (gateway, client):
        create_topic(client, "u", 3, **LAZY)
        data = [{"index": index, "records": batch(bytes(2000), codec=Codec.LZ4).tobytes()} for index in range(3)]

        def errors(used: int) -> list[int]:
            fields = {"acks": -1, "timeout": 1000, "topic_data": [{"name": "u", "partition_data": data[:used]}]}
            answer = client.ask(PRODUCE, VERSION, **fields).responses[0].partition_responses
            return [int(each.error_code) for each in answer]

        soon(lambda: errors(1) == [0] and together(gateway) > 0)  # others while the appender still has the partition
        assert [errors(3) for _ in range(4)] == [[0, 0, LIST_TOO_LARGE]] * 4


def test_a_turn_decompresses_to_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "TURN_BYTES", 2000)
    with producing(tmp_path, LAZY) as (gateway, client):
        request = produce_fields("t", batch(bytes(1500), codec=Codec.LZ4).tobytes())
        sent = [client.send(PRODUCE, VERSION, **request) for _ in range(50)]
        assert [client.result(each) for each in sent] == [(0, 2 + number) for number in range(50)]
        assert 0 < together(gateway) < 50


@pytest.mark.parametrize("configs", [{}, LAZY], ids=["synced", "lazy"])
def test_requests_without_acks_are_served_together_and_not_answered(tmp_path: Path, configs: dict[str, str]) -> None:
    with producing(tmp_path, configs) as (gateway, client):
        for number in range(4):
            first = client.send_batch(b"first", producer_id=7, base_sequence=2 * number)
            client.send_batch(b"second", producer_id=7, base_sequence=2 * number + 1, acks=0)
            assert client.result(first) == (0, 2 + 2 * number)
        assert client.produce(producer_id=7, base_sequence=8) == (0, 10)
        assert together(gateway) == 9


def test_a_request_without_acks_that_is_refused_closes_the_connection(tmp_path: Path) -> None:
    with producing(tmp_path, LAZY) as (gateway, client):
        client.send_batch(producer_id=7, base_sequence=0, acks=0)
        client.send_batch(producer_id=7, base_sequence=20, acks=0)
        assert client.is_closed()
        assert together(gateway) == 1


def test_a_write_that_fails_without_acks_closes_the_connection_after_the_answers_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with producing(tmp_path) as (gateway, client):
        fail_syncs(monkeypatch, led_by(gateway))
        first, _ = client.send_at_once([-1, 0])
        assert client.result(first) == (STORAGE_ERROR, -1)
        assert client.is_closed()
        assert together(gateway) == 2
        assert gateway.figures.snapshot().failed_produces == 2


def test_a_failed_sync_is_answered_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with producing(tmp_path) as (gateway, client):
        fail_syncs(monkeypatch, led_by(gateway))
        assert client.produce() == (STORAGE_ERROR, -1)
        assert together(gateway) == 1
        assert gateway.figures.snapshot().failed_produces == 1
        assert client.produce()[0] == 0  # the log was opened again


def test_a_failed_write_is_answered_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with producing(tmp_path, LAZY) as (gateway, client):
        write = LocalFile.write

        def fail(self: LocalFile, position: int, *data: Any) -> None:
            if self.path.endswith(".log"):
                raise OSError(errno.ENOSPC, "no space left on device", self.path)
            write(self, position, *data)

        monkeypatch.setattr(LocalFile, "write", fail)
        assert client.produce() == (STORAGE_ERROR, -1)
        assert together(gateway) == 1
        monkeypatch.undo()
        assert client.produce() == (0, 2)
        assert client.end_offset() == 3


def test_what_few_connections_put_back_may_be_more_than_the_share_of_each_of_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tables, "MEMORY_BYTES", 32 << 10)
    serve, crowds, seen = ProduceTurn.serve, list[int](), set[Connection]()

    def crowded(turn: ProduceTurn[Any], connections: Sequence[Connection], frames_max: int) -> None:
        serve(turn, connections, frames_max)
        seen.update(connections)
        if len(seen) == 2 and not crowds and connections[0]._reader.ahead > 16 << 10:
            crowds.append(other.send_batch())
            serve(turn, list(seen), frames_max)

    monkeypatch.setattr(ProduceTurn, "serve", crowded)
    settings = {"num_network_threads": 1}
    with producing(tmp_path, LAZY, **settings) as (gateway, client), Producer(gateway) as other:
        known(other)
        assert other.produce()[0] == 0
        sent = client.send_at_once([-1] * 300)
        assert [client.result(each)[0] for each in sent] == [0] * 300
        assert [other.result(each)[0] for each in crowds] == [0]
    assert "could not be served" not in caplog.text


def test_places_are_given_back(tmp_path: Path) -> None:
    """With two places, the others wait, and all are answered."""
    with producing(tmp_path, queued_max_requests=2) as (gateway, client):
        for _ in range(10):
            sent = [client.send_batch() for _ in range(5)]
            assert {client.result(each)[0] for each in sent} == {0}
        assert together(gateway) > 5


def test_a_lock_that_another_process_holds_does_not_stop_the_thread(tmp_path: Path) -> None:
    with producing(tmp_path, LAZY) as (gateway, client), Producer(gateway) as other:
        create_topic(other, "u", **LAZY)
        other.topic = "u"
        known(other)
        lock = LocalFileSystem().lock(str(tmp_path / "log" / "t-0" / APPEND_LOCK_FILE))
        assert lock is not None
        with lock:
            sent = client.send_batch()
            assert other.produce()[0] == 0
        assert client.result(sent)[0] == 0


@pytest.mark.parametrize("configs", [{}, LAZY], ids=["synced", "lazy"])
def test_large_requests_are_served_by_themselves_between_small_ones(tmp_path: Path, configs: dict[str, str]) -> None:
    with producing(tmp_path, configs) as (gateway, client):
        sizes = [10, 100_000, 10, 65_000, 10, 300_000, 300_000, 10, 10]
        sent = [client.send_batch(bytes(size)) for size in sizes]
        assert [client.result(each) for each in sent] == [(0, 2 + number) for number in range(len(sizes))]
        before = together(gateway)
        assert [client.produce(bytes(300_000)) for _ in range(5)] == [(0, 11 + number) for number in range(5)]
        assert together(gateway) == before + 5


def test_a_large_request_is_written_by_another_thread_while_one_of_another_client_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with producing(tmp_path) as (gateway, client), Producer(gateway) as other:
        known(other)
        led, may_sync = led_by(gateway), threading.Event()
        sync = led.sync
        monkeypatch.setattr(led, "sync", lambda: may_sync.wait(20) and sync())
        before = together(gateway)
        first = client.send_batch(bytes(300_000))
        soon(lambda: together(gateway) == before + 1)
        second = other.send_batch(bytes(300_000))
        soon(lambda: led.is_appending or led._log.log_end_offset == 6)
        may_sync.set()
        assert (client.result(first), other.result(second)) == ((0, 4), (0, 5))
        assert together(gateway) == before + 1


def test_the_memory_of_large_requests_is_given_back(tmp_path: Path) -> None:
    with producing(tmp_path, queued_max_request_bytes=1_000_000) as (gateway, client):
        for _ in range(10):
            sent = [client.send_batch(bytes(300_000)) for _ in range(5)]
            assert {client.result(each)[0] for each in sent} == {0}
        assert together(gateway) > 40


def test_a_large_request_that_is_refused_goes_the_usual_way(tmp_path: Path) -> None:
    with producing(tmp_path, {**LAZY, "max_message_bytes": "200000"}) as (gateway, client):
        assert client.produce(bytes(100_000)) == (0, 2)
        assert client.produce(bytes(300_000))[0] == TOO_LARGE
        assert together(gateway) == 1
        # Its place among the requests in progress is free soon after its answer; until then others go the usual way.
        soon(lambda: client.produce(bytes(100_000))[0] == 0 and together(gateway) == 2)


def test_a_request_that_is_larger_than_others_wait_for_goes_the_usual_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_commitlog.gateway.turns.turn.ONE_BYTES_MAX", 200_000)
    with producing(tmp_path, LAZY) as (gateway, client):
        assert client.produce(bytes(100_000)) == (0, 2)
        assert client.produce(bytes(300_000)) == (0, 3)
        assert together(gateway) == 1


def test_an_error_of_ours_costs_the_connection_of_a_large_request_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with producing(tmp_path, LAZY, queued_max_request_bytes=500_000) as (gateway, client):
        with monkeypatch.context() as patched:
            patched.setattr("pyspark_commitlog.gateway.turns.writing.TurnWrites.append", lambda *_: 1 / 0)
            client.send_batch(bytes(300_000))
            assert client.is_closed()
        with Producer(gateway) as other:
            assert [other.produce(bytes(300_000))[0] for _ in range(3)] == [0, 0, 0]


def test_a_request_that_stops_after_others_were_served_together_is_given_up(tmp_path: Path) -> None:
    settings = {"commitlog_request_min_bytes_per_second": 100_000, "commitlog_request_grace_ms": 300}
    with producing(tmp_path, LAZY, **settings) as (gateway, client):
        assert client.produce()[0] == 0
        assert together(gateway) == 1
        client.socket.sendall(struct.pack(">i", 1000) + bytes(100))
        assert client.is_closed()


def test_settings_that_change_hold_for_the_next_batch(tmp_path: Path) -> None:
    with producing(tmp_path, LAZY) as (_, client):
        assert client.produce(bytes(2000))[0] == 0
        set_config(client, "t", "max.message.bytes", "1000")
        soon(lambda: client.produce(bytes(2000))[0] == TOO_LARGE)


def test_threads_append_to_one_partition(tmp_path: Path) -> None:
    with producing(tmp_path, LAZY, num_network_threads=3) as (gateway, first), Producer(gateway) as second:
        known(second)
        answers: dict[Producer, list[tuple[int, int]]] = {}

        def produce(client: Producer) -> None:
            sent = [client.send_batch() for _ in range(200)]
            answers[client] = [client.result(each) for each in sent]

        threads = [threading.Thread(target=produce, args=(each,)) for each in (first, second)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        found = [each for client in answers for each in answers[client]]
        assert sorted(found) == [(0, 4 + number) for number in range(400)]
        assert all(sorted(each) == each for each in answers.values())
        assert together(gateway) > 0


RULES = """
[[allow]]
users = ["alice"]
operations = ["write"]
topics = ["t"]
"""


def test_a_client_that_has_logged_in_is_served_together_where_it_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    users = UsersFile(str(tmp_path / "users.json"))
    for user in ("alice", "bob", "root"):
        users.add(user, user)
    settings: dict[str, Any] = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl_enabled_mechanisms": "PLAIN",
        "commitlog_users_file": users.path,
        "commitlog_rules_file": str(tmp_path / "rules.toml"),
        "super_users": "User:root",
    }

    def logged_in(gateway: Gateway, user: str) -> Producer:
        client = Producer(gateway)
        client.ask(17, 1, mechanism="PLAIN")
        assert not client.ask(36, 2, auth_bytes=f"\0{user}\0{user}".encode()).error_code
        return client

    with serving(tmp_path / "log", **settings) as gateway, logged_in(gateway, "root") as root:
        create_topic(root, "t", **LAZY)
        known(root)
        with logged_in(gateway, "alice") as alice, logged_in(gateway, "bob") as bob:
            assert alice.produce()[0] == 0
            before = together(gateway)
            assert [alice.produce()[0] for _ in range(3)] == [0, 0, 0]
            assert together(gateway) == before + 3
            assert [bob.produce()[0] for _ in range(3)] == [TOPIC_DENIED] * 3
            assert together(gateway) == before + 3
            monkeypatch.setattr(compressed, "check_plain", None)  # nothing is decompressed for who may not write
            request = produce_fields("t", batch(bytes(1500), codec=Codec.LZ4).tobytes())
            assert bob.result(bob.send(PRODUCE, VERSION, **request))[0] == TOPIC_DENIED


def test_a_full_table_makes_place_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.kernels.produce.tables.PARTITIONS_MAX", 2)
    with producing(tmp_path, LAZY) as (gateway, client):
        for name in ("u", "v", "w"):
            create_topic(client, name, **LAZY)
            client.topic = name
            assert [client.produce() for _ in range(5)] == [(0, number) for number in range(5)]
        before = together(gateway)
        soon(lambda: client.produce()[0] == 0 and together(gateway) > before)


def test_nothing_is_served_together_where_that_is_off(tmp_path: Path) -> None:
    with producing(tmp_path, commitlog_produce_together_enable=False) as (gateway, client):
        assert client.produce()[0] == 0
        assert together(gateway) == 0


def test_an_error_of_ours_costs_the_connections_of_the_turn_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with producing(tmp_path, LAZY) as (gateway, client):
        with monkeypatch.context() as patched:
            patched.setattr("pyspark_commitlog.gateway.turns.writing.TurnWrites.append", lambda *_: 1 / 0)
            client.send_batch()
            assert client.is_closed()
        with Producer(gateway) as other:
            assert [other.produce()[0] for _ in range(3)] == [0, 0, 0]


def test_the_kernels_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[int] = []
    monkeypatch.setattr(loading, "compile_turns", lambda: compiled.append(1))
    monkeypatch.setattr(loading, "are_being_compiled", lambda: False)  # as after the start of another test's gateway
    fresh = Loading()
    for _ in range(3):
        fresh.begin()
    soon(lambda: fresh.is_done)
    fresh.begin()
    assert compiled == [1]
