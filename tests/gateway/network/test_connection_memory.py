"""Connections share the memory of requests: none keeps it from others while it is muted.

The processor has no thread: the test does its turns.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pyspark_commitlog.gateway.network.connection import Connection
from pyspark_commitlog.gateway.network.exchange import Exchange
from pyspark_commitlog.gateway.network.limits.admission import Admission, AdmissionLimits
from pyspark_commitlog.gateway.network.limits.clients import Limits, Terms
from pyspark_commitlog.gateway.network.limits.memory import RequestMemory
from pyspark_commitlog.gateway.network.limits.pace import LeastRate
from pyspark_commitlog.gateway.network.limits.quota import Quota
from pyspark_commitlog.gateway.network.processor import Processor

LARGE = struct.pack(">i", 100_000) + bytes(100_000)  # a request whose bytes are counted


class Serving:
    """A processor whose requests are answered at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        self.now_s, self._stack = 0.0, stack
        monkeypatch.setattr(Processor, "now_s", lambda _: self.now_s)
        self.served: list[Connection] = []
        memory, places = RequestMemory(1), Quota(100)
        rate = LeastRate(bytes_per_s=1, grace_s=3600.0)
        memory.take(1)  # it is full, so one connection at a time has the turn to read on
        admission = Admission(AdmissionLimits())
        limits = Limits(1 << 20, lambda *_: places, memory, memory, admission, rate)
        self.processor = Processor("test", self._serve, lambda _: False, limits)

    def _serve(self, exchange: Exchange) -> None:
        self.served.append(exchange.connection)
        exchange.answer(())

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
