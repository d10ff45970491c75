"""The gateway of 0.7 beside what a real Kafka 0.7.2 answered: the recorded frames again, byte for byte."""

from __future__ import annotations

import base64
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.classic.gateway_0_7.config import PositionGatewayConfig
from pyspark_commitlog.classic.gateway_0_7.server import PositionGateway
from pyspark_commitlog.classic.log_0_7.directory import PositionLogDirectory
from tests.support.classic.kafka_0_7 import RECORDED_AT_MS, produced_sets, recorded, settings_of, unpacked
from tests.support.clock import ManualClock

BARRIER = bytes.fromhex("0000000400020000")  # a multi-fetch of nothing: its answer comes once all before it is done
BARRIER_ANSWER = bytes.fromhex("000000020000")
RANDOM_PARTITION = 1  # where the broker put the message for partition -1


class Client:
    """One connection."""

    def __init__(self, server: PositionGateway) -> None:
        self._socket = socket.create_connection(server.address, timeout=20)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> bytes:
        """The next answer, with its length."""
        head = self._read(4)
        return head + self._read(struct.unpack(">i", head)[0])

    def rest(self) -> bytes:
        """All that comes until the server closes."""
        found = b""
        while data := self._receive():
            found += data
        return found

    def is_closed_after_all(self) -> bool:
        """Whether the server has closed the connection; waits until what was sent is done."""
        try:
            self.send(BARRIER)
        except OSError:
            return True
        found = self.rest_of(len(BARRIER_ANSWER))
        assert found in (b"", BARRIER_ANSWER)
        return not found

    def rest_of(self, size: int) -> bytes:
        """Up to ``size`` bytes, fewer if the server closes before."""
        found = b""
        while len(found) < size and (data := self._receive(size - len(found))):
            found += data
        return found

    def _read(self, size: int) -> bytes:
        found = self.rest_of(size)
        assert len(found) == size
        return found

    def _receive(self, size: int = 65536) -> bytes:
        try:
            return self._socket.recv(size)
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self._socket.close()


@contextmanager
def serving(directory: Path, scenario: str, **other: object) -> Iterator[PositionGateway]:
    config = PositionGatewayConfig(port=0, threads=2, logs=settings_of(scenario), **other)  # type: ignore[arg-type]
    with PositionGateway(str(directory), config, clock=ManualClock(RECORDED_AT_MS)) as server:
        yield server


@pytest.fixture(scope="module")
def main(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PositionGateway]:
    with serving(unpacked("main", tmp_path_factory.mktemp("main")) / "log", "main") as server:
        yield server


def frame_of(event: dict[str, Any]) -> bytes:
    return base64.b64decode(event["frame"])


def exchanges(label: str) -> list[tuple[bytes, bytes | None]]:
    """Each request of a label with its answer; None: the broker closed the connection."""
    found: list[tuple[bytes, bytes | None]] = []
    for event in recorded("main/wire.json.xz"):
        if event["label"] == label and event["kind"] == "request":
            found.append((frame_of(event), None))
        elif event["label"] == label and event["kind"] == "response":
            found[-1] = (found[-1][0], frame_of(event))
    return found


@pytest.mark.parametrize("label", ["fetch", "multifetch", "offsets"])
def test_every_recorded_frame_is_answered_with_the_recorded_bytes(main: PositionGateway, label: str) -> None:
    client = Client(main)
    asked = exchanges(label)
    assert len(asked) >= 12
    is_cut_off = label == "fetch"  # the recording ends with a request
    for request, answer in asked[:-1] if is_cut_off else asked:
        client.send(request)
        if answer is None:
            assert client.rest() == b"", request.hex()
            client = Client(main)
        else:
            assert client.answer() == answer, request.hex()
    client.close()


@pytest.mark.parametrize("one", recorded("main/raw-exchanges.json.xz"), ids=lambda one: one["what"])
def test_odd_bytes_are_answered_as_recorded(main: PositionGateway, one: dict[str, Any]) -> None:
    client = Client(main)
    client.send(base64.b64decode(one["sent"]))
    wanted = base64.b64decode(one["received"])
    assert client.rest_of(len(wanted)) == wanted
    assert client.is_closed_after_all() == one["closed_by_server"]
    client.close()


# Produce


def test_every_recorded_produce_writes_the_recorded_bytes_and_odd_ones_end_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PositionLogDirectory, "any_partition", lambda *_: RANDOM_PARTITION)
    kept = unpacked("main", tmp_path / "kept") / "log"
    with serving(tmp_path / "log", "main") as server:
        ends = odd_ends()
        for label in ("produce", "multi-produce", "produce-odd"):
            replay(server, label, ends)
    for directory in (path for path in kept.iterdir() if path.is_dir()):
        assert contents(tmp_path / "log" / directory.name) == contents(directory), directory.name
    assert {path.name for path in (tmp_path / "log").iterdir() if path.is_dir()} == {
        path.name for path in kept.iterdir() if path.is_dir()
    }


def replay(server: PositionGateway, label: str, ends: dict[bytes, bool]) -> None:
    """Sends the frames of a label; compares the last of equal answers: the recorded client asked until it changed."""
    client = Client(server)
    for request, group in groupby(exchanges(label), key=lambda one: one[0]):
        *_, (_, answer) = group
        client.send(request)
        if not produced_sets(request[4:]) and request[4:6] != b"\0\3":
            assert client.answer() == answer, request.hex()
            continue
        is_closed = client.is_closed_after_all()
        assert is_closed == ends.get(request, False), request.hex()
        if is_closed:
            client = Client(server)
    client.close()


def odd_ends() -> dict[bytes, bool]:
    """Whether the broker closed the connection after an odd produce."""
    steps = recorded("main/steps.json.xz")
    frames = [step[kind] for step in steps for kind in ("produce_frame", "multiproduce_frame") if kind in step]
    found = {base64.b64decode(each["sent"]): bool(each["closed_by_server"]) for each in frames}
    illegal = [step["command"][1:3] for step in steps if "illegal" in step.get("note", "")]
    for request, _ in exchanges("produce-odd"):
        for topic, partition, _ in produced_sets(request[4:]):
            if [topic, partition] in illegal:
                found[request] = True
    return found


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.kafka"))}


# After retention: the file times come from the recording


@pytest.mark.parametrize("scenario", ["retention", "retention-size"])
def test_a_log_after_retention_is_fetched_and_listed_as_recorded(scenario: str, tmp_path: Path) -> None:
    answers = recorded(f"{scenario}/answers.json.xz")
    with serving(unpacked(scenario, tmp_path) / "after-live", scenario) as server:
        client = Client(server)
        for one in answers["fetch_after"]:
            client.send(request_of(1, one["topic"], one["partition"], ">qi", one["offset"], one["size"]))
            answer = client.answer()
            assert struct.unpack(">h", answer[4:6]) == (one["errorCode"],)
            assert len(answer) - 4 == one["sizeInBytes"]
        for one in answers["offsets_after"]:
            client.send(request_of(4, one["topic"], one["partition"], ">qi", one["time"], one["max"]))
            answer = client.answer()
            assert struct.unpack(f">i{(len(answer) - 10) // 8}q", answer[6:])[1:] == tuple(one["offsets"]), one
        client.close()


def request_of(key: int, topic: str, partition: int, form: str, *values: int) -> bytes:
    name = topic.encode()
    body = struct.pack(">hh", key, len(name)) + name + struct.pack(">i", partition) + struct.pack(form, *values)
    return struct.pack(">i", len(body)) + body
