"""Connections share the memory of requests and answers: none keeps it from others, muted or reading nothing.

The processor has no thread: the test does its turns.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.network.connection import Connection
from pyspark_commitlog.gateway.network.exchange import Exchange
from pyspark_commitlog.gateway.network.file_slice import FEW_BYTES, FileSlice, Part
from pyspark_commitlog.gateway.network.limits.admission import Admission, AdmissionLimits
from pyspark_commitlog.gateway.network.limits.clients import Limits, Terms
from pyspark_commitlog.gateway.network.limits.memory import RequestMemory
from pyspark_commitlog.gateway.network.limits.pace import LOOK_S, LeastRate
from pyspark_commitlog.gateway.network.limits.quota import Quota
from pyspark_commitlog.gateway.network.limits.untaken import UntakenBytes
from pyspark_commitlog.gateway.network.processor import Processor

LARGE = struct.pack(">i", 100_000) + bytes(100_000)  # a request whose bytes are counted
ANSWER = 1 << 20
UNTAKEN_MAX = 5 * ANSWER


class Serving:
    """A processor whose requests are answered at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        self.now_s, self._stack = 0.0, stack
        monkeypatch.setattr(Processor, "now_s", lambda _: self.now_s)
        self.answer: Sequence[Part] = ()
        self.served: list[Connection] = []
        self.memory, self.untaken, places = RequestMemory(1), UntakenBytes(UNTAKEN_MAX), Quota(100)
        rate = LeastRate(bytes_per_s=1, grace_s=3600.0)
        self.memory.take(1)
        admission = Admission(AdmissionLimits())
        limits = Limits(1 << 20, lambda *_: places, self.memory, self.memory, admission, rate, self.untaken)
        self.processor = Processor("test", self._serve, lambda _: False, limits)

    def _serve(self, exchange: Exchange) -> None:
        self.served.append(exchange.connection)
        exchange.answer(self.answer)

    def connect(self) -> tuple[Connection, socket.socket]:
        before = {*self.processor._events}
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self.processor._adopt(self._stack.enter_context(ours), "here", Terms("PLAINTEXT"))
        (connection,) = {*self.processor._events} - before
        return connection, self._stack.enter_context(theirs)

    def send(self, client: socket.socket, data: bytes) -> None:
        client.sendall(data)
        self.turn()

    def turn(self, after_s: float = 0.0) -> None:
        """Serves until nothing more happens, and then what is due."""
        self.now_s += after_s
        self.processor._run_timers()
        while (ready := self.processor._selector.select(0)) or self.processor._calls:
            self.processor._serve_ready(ready)
            while self.processor._calls:
                self.processor._calls.popleft()()


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    with ExitStack() as stack:
        made = Serving(monkeypatch, stack)
        yield made
        made.processor._end()


# Requests: the memory is full, so one connection at a time has the turn to read on


def test_a_muted_connection_gives_its_turn_to_others_and_is_read_on_later(serving: Serving) -> None:
    muted, client = serving.connect()
    other, another = serving.connect()
    serving.send(client, LARGE[:-1])
    serving.send(another, LARGE)
    assert not serving.served  # it waits for the turn
    muted.mute(60.0)
    serving.turn()
    assert serving.served == [other]
    serving.send(client, LARGE[-1:])
    assert serving.served == [other]
    serving.turn(after_s=61.0)
    assert serving.served == [other, muted]


def test_a_muted_connection_that_waits_gets_no_turn_until_it_may_read(serving: Serving) -> None:
    first, client = serving.connect()
    muted, waiting = serving.connect()
    other, another = serving.connect()
    serving.send(client, LARGE[:-1])
    for each in (waiting, another):
        serving.send(each, LARGE)
    muted.mute(60.0)
    serving.send(client, LARGE[-1:])
    assert serving.served == [first, other]
    serving.turn(after_s=61.0)
    assert serving.served == [first, other, muted]


def test_a_connection_whose_turn_comes_as_it_is_muted_gives_it_back(serving: Serving) -> None:
    first, client = serving.connect()
    muted, waiting = serving.connect()
    other, another = serving.connect()
    serving.send(client, LARGE[:-1])
    for each in (waiting, another):
        serving.send(each, LARGE)
    client.sendall(LARGE[-1:])
    first.on_readable()  # the turn is that of the next one, which does not know it yet
    muted.mute(60.0)
    serving.turn()
    assert serving.served == [first, other]
    serving.turn(after_s=61.0)
    assert serving.served == [first, other, muted]


# Answers


def ask(serving: Serving, count: int) -> list[tuple[Connection, socket.socket]]:
    """Connects clients, each of which asks once."""
    found = [serving.connect() for _ in range(count)]
    for _, client in found:
        serving.send(client, struct.pack(">i", 1) + b"?")
    return found


def test_answers_that_many_clients_do_not_take_are_bounded(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    serving.answer = [bytes(ANSWER)]
    idle = ask(serving, 20)
    assert serving.untaken.count == 20 * ANSWER
    for _ in range(2):
        serving.turn(after_s=LOOK_S)
    assert serving.untaken.count == UNTAKEN_MAX
    assert [each.is_closed for each, _ in idle].count(True) == 15
    assert "the client takes its answer too slowly" in caplog.text


def test_answers_below_the_limit_may_wait(serving: Serving) -> None:
    serving.answer = [bytes(ANSWER)]
    idle = ask(serving, 5)
    for _ in range(100):
        serving.turn(after_s=LOOK_S)
    assert not any(each.is_closed for each, _ in idle)


def test_a_client_that_takes_its_answer_slowly_is_kept_before_those_that_take_nothing(serving: Serving) -> None:
    serving.answer = [bytes(ANSWER)]
    [(slow, client), *_] = ask(serving, 5)
    for _ in range(8):
        client.recv(100_000)
        serving.turn(after_s=LOOK_S)
    idle = ask(serving, 1)
    for _ in range(2):
        serving.turn(after_s=LOOK_S)
    assert serving.untaken.count <= UNTAKEN_MAX
    assert not slow.is_closed
    assert not idle[0][0].is_closed  # it has waited for less time than others


def test_a_client_that_lets_files_wait_pays_for_none_of_the_memory(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(bytes(ANSWER))
    with (tmp_path / "segment").open("rb") as file:
        serving.answer = [b"head", FileSlice(file.fileno(), 0, ANSWER), b"head", FileSlice(file.fileno(), 0, FEW_BYTES)]
        paused = ask(serving, 3)
        serving.turn(after_s=300.0)
        serving.answer = [bytes(ANSWER)]
        ask(serving, 20)
        for _ in range(2):
            serving.turn(after_s=LOOK_S)
    assert not any(each.is_closed for each, _ in paused)
    assert serving.untaken.count <= UNTAKEN_MAX


def test_what_closed_connections_held_is_free(serving: Serving) -> None:
    serving.answer = [bytes(ANSWER)]
    for connection, _ in ask(serving, 3):
        connection.close()
    [(_, client)] = ask(serving, 1)
    while serving.untaken.count:
        assert client.recv(ANSWER)
        serving.turn()
    assert serving.untaken.count == 0
