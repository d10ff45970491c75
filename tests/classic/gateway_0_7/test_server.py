"""The gateway of 0.7: its settings, syncs by time, stops and starts, and requests that nobody recorded."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from pyspark_commitlog.classic.gateway_0_7.config import PositionGatewayConfig
from pyspark_commitlog.classic.gateway_0_7.server import PositionGateway
from pyspark_commitlog.classic.log_0_7.entries import encode, encode_set, messages_in
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.storage import Codec, InvalidConfigError, LogDirLockedError, NotALogDirError
from tests.classic.gateway_0_7.test_server_kafka import BARRIER, BARRIER_ANSWER, Client, request_of
from tests.support.waiting import soon

EACH = PositionLogSettings(flush_interval=1)


def config(logs: PositionLogSettings = EACH, **other: int) -> PositionGatewayConfig:
    return PositionGatewayConfig(port=0, threads=1, logs=logs, **other)  # type: ignore[arg-type]


def produce(client: Client, topic: str, data: bytes, partition: int = 0) -> None:
    request = request_of(0, topic, partition, ">i", len(data)) + data
    client.send(struct.pack(">i", len(request) - 4) + request[4:])


def fetch(client: Client, topic: str, position: int = 0, size: int = 10**6) -> tuple[int, bytes]:
    client.send(request_of(1, topic, 0, ">qi", position, size))
    answer = client.answer()
    return struct.unpack(">h", answer[4:6])[0], answer[6:]


def payloads(data: bytes) -> list[bytes]:
    return [one.payload for one in messages_in(data)]


def test_what_is_produced_is_fetched_with_the_same_bytes(tmp_path: Path) -> None:
    with PositionGateway(str(tmp_path), config()) as server:
        client = Client(server)
        sent = [encode_set([b"a", b"b"], codec) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY)]
        for data in sent:
            produce(client, "t", data)
        assert fetch(client, "t") == (0, b"".join(sent))
        client.close()
    with PositionGateway(str(tmp_path), config()) as server:
        client = Client(server)
        assert fetch(client, "t") == (0, b"".join(sent))
        client.close()


def test_a_large_set_comes_in_pieces_and_whole(tmp_path: Path) -> None:
    large = encode(bytes(range(256)) * 3000)
    with PositionGateway(str(tmp_path), config()) as server:
        client = Client(server)
        for _ in range(20):
            produce(client, "t", large)
        assert fetch(client, "t", size=2**31 - 1) == (0, large * 20)
        client.close()


def test_a_copy_made_while_it_runs_has_what_was_synced(tmp_path: Path) -> None:
    with PositionGateway(str(tmp_path / "log"), config()) as server:
        client = Client(server)
        produce(client, "t", encode(b"synced"))
        assert payloads(fetch(client, "t")[1]) == [b"synced"]
        shutil.copytree(tmp_path / "log", tmp_path / "killed")  # as a kill would leave it
        with pytest.raises(LogDirLockedError):
            PositionGateway(str(tmp_path / "log"), config()).start()
        client.close()
    with PositionGateway(str(tmp_path / "killed"), config()) as server:
        client = Client(server)
        assert payloads(fetch(client, "t")[1]) == [b"synced"]
        client.close()


def test_messages_are_synced_by_time_without_another_append(tmp_path: Path) -> None:
    logs = PositionLogSettings(flush_interval=1000, flush_check_ms=20, flush_interval_ms=20)
    with PositionGateway(str(tmp_path), config(logs)) as server:
        client = Client(server)
        produce(client, "t", encode(b"waits"))
        soon(lambda: payloads(fetch(client, "t")[1]) == [b"waits"])
        client.close()


def test_a_stop_syncs_and_leaves_the_marker(tmp_path: Path) -> None:
    with PositionGateway(str(tmp_path), config(PositionLogSettings(flush_interval=1000))) as server:
        client = Client(server)
        produce(client, "t", encode(b"not synced yet"))
        assert fetch(client, "t") == (0, b"")
        client.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert payloads((tmp_path / "t-0" / f"{0:020}.kafka").read_bytes()) == [b"not synced yet"]


def test_a_directory_that_is_no_log_is_refused_and_nothing_listens(tmp_path: Path) -> None:
    (tmp_path / "something").mkdir()
    with pytest.raises(NotALogDirError):
        PositionGateway(str(tmp_path), config()).start()


def test_a_negative_size_in_a_multifetch_ends_the_answer_and_the_connection(tmp_path: Path) -> None:
    with PositionGateway(str(tmp_path), config()) as server:
        client = Client(server)
        data = encode(b"a")
        produce(client, "t", data)
        parts = b"".join(request_of(1, "t", 0, ">qi", 0, size)[6:] for size in (100, -5, 100))
        body = struct.pack(">hh", 2, 3) + parts
        client.send(struct.pack(">i", len(body)) + body)
        total = 2 + 3 * 6 + 2 * len(data) - 5
        good = struct.pack(">ih", 2 + len(data), 0) + data
        assert client.rest() == struct.pack(">ih", total, 0) + good + struct.pack(">ih", -3, 0)
        client.close()
        again = Client(server)
        assert fetch(again, "t") == (0, data)
        again.close()


HOSTILE = {
    "no key": b"",
    "half a key": b"\0",
    "a topic longer than the request": struct.pack(">hh", 1, 30000) + b"t",
    "a set longer than the request": struct.pack(">hh", 0, 1) + b"t" + struct.pack(">ii", 0, 1000) + b"x",
    "a set of a negative length": struct.pack(">hh", 0, 1) + b"t" + struct.pack(">ii", 0, -1),
    "a negative count of fetches": struct.pack(">hh", 2, -1),
    "fewer fetches than it says": struct.pack(">hh", 2, 30000),
    "fewer sets than it says": struct.pack(">hh", 3, 2),
    "a topic of Kafka 0.7 that is not UTF-8": struct.pack(">hh", 0, 1) + b"\xff" + struct.pack(">ii", 0, 0),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_hostile_requests_close_their_connection_alone(body: bytes, tmp_path: Path) -> None:
    with PositionGateway(str(tmp_path), config()) as server:
        client, other = Client(server), Client(server)
        client.send(struct.pack(">i", len(body)) + body)
        assert client.rest() == b""
        other.send(BARRIER)
        assert other.answer() == BARRIER_ANSWER
        client.close()
        other.close()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_compressed_message_that_holds_too_much_closes_the_connection(tmp_path: Path) -> None:
    logs = PositionLogSettings.from_mapping({"max.decompressed.bytes": "1000", "log.flush.interval": 1})
    with PositionGateway(str(tmp_path), config(logs)) as server:
        client = Client(server)
        produce(client, "t", encode_set([bytes(5000)], Codec.GZIP))
        assert client.rest() == b""
        client.close()
        again = Client(server)
        assert fetch(again, "t") == (0, b"")
        again.close()


def test_settings_have_the_names_of_0_7() -> None:
    made = PositionGatewayConfig.from_mapping({"port": "7000", "num.threads": "3", "log.file.size": "1700"})
    assert (made.listener, made.threads, made.logs.file_size) == (("127.0.0.1", 7000), 3, 1700)
    with pytest.raises(InvalidConfigError, match=r"did you mean 'log\.file\.size'"):
        PositionGatewayConfig.from_mapping({"log.file.sizes": "1700"})
    with pytest.raises(InvalidConfigError, match="port = '70000'"):
        PositionGatewayConfig.from_mapping({"port": "70000"})


def test_listening_for_other_machines_must_be_asked_for() -> None:
    with pytest.raises(InvalidConfigError, match="other machines could connect"):
        PositionGatewayConfig(hostname="0.0.0.0")
    assert PositionGatewayConfig(hostname="0.0.0.0", insecure_listeners=True).listener == ("0.0.0.0", 6667)


def test_the_page_has_every_setting() -> None:
    page = (Path(__file__).parents[3] / "docs" / "kafka_0_7.md").read_text()
    for key in [*PositionGatewayConfig.names(), *PositionLogSettings.names()]:
        assert f"| `{key}` |" in page, key
