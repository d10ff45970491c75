"""Connections share the memory of requests and answers: none keeps it from others, muted or reading nothing.

The processor has no thread: the test does its turns.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from math import inf
from pathlib import Path
from random import Random

import pytest

from pyspark_commitlog.gateway.network.connection import Connection
from pyspark_commitlog.gateway.network.exchange import Exchange
from pyspark_commitlog.gateway.network.file_slice import FEW_BYTES, FileSlice, Part
from pyspark_commitlog.gateway.network.limits.admission import Admission, AdmissionLimits
from pyspark_commitlog.gateway.network.limits.clients import Limits, Terms
from pyspark_commitlog.gateway.network.limits.memory import RequestMemory
from pyspark_commitlog.gateway.network.limits.pace import LOOK_S, SLOW_LOOKS, LeastRate
from pyspark_commitlog.gateway.network.limits.quota import Quota
from pyspark_commitlog.gateway.network.limits.untaken import UntakenBytes
from pyspark_commitlog.gateway.network.processor import Processor

SMALL = struct.pack(">i", 1) + b"?"
LARGE = struct.pack(">i", 100_000) + bytes(100_000)  # a request whose bytes are counted
ANSWER = 1 << 20
UNTAKEN_MAX = 5 * ANSWER


class Serving:
    """A processor whose requests are answered at once, unless ``keeps`` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stack: ExitStack, memory_bytes: int = 1) -> None:
        self.now_s, self._stack = 0.0, stack
        monkeypatch.setattr(Processor, "now_s", lambda _: self.now_s)
        self.answer: Sequence[Part] = ()
        self.served: list[Connection] = []
        self.keeps = self.overlaps = False
        self.kept: deque[Exchange] = deque()  # in progress
        self.memory, self.untaken, places = RequestMemory(memory_bytes), UntakenBytes(UNTAKEN_MAX), Quota(100)
        rate = LeastRate(bytes_per_s=1, grace_s=3600.0)
        self.memory.take(1)
        admission = Admission(AdmissionLimits())
        limits = Limits(1 << 20, lambda *_: places, self.memory, self.memory, admission, rate, self.untaken)
        self.processor = Processor("test", self._serve, lambda _: self.overlaps, limits)

    def _serve(self, exchange: Exchange) -> None:
        self.served.append(exchange.connection)
        if self.keeps:
            self.kept.append(exchange)
        else:
            exchange.answer(self.answer)

    def answer_first(self) -> None:
        """Answers the request that has been in progress for longest."""
        self.kept.popleft().answer(self.answer)
        self.turn()

    @property
    def held(self) -> int:
        """The bytes of requests that the memory counts."""
        return self.memory._taken - 1

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


def two_that_wait(serving: Serving) -> list[tuple[Connection, socket.socket]]:
    """A connection that has the turn, and lacks the last byte of its request, and two that wait for the turn."""
    found = [serving.connect() for _ in range(3)]
    for (_, client), sent in zip(found, (LARGE[:-1], LARGE, LARGE), strict=True):
        serving.send(client, sent)
    return found


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
    (first, client), (muted, _), (other, _) = two_that_wait(serving)
    muted.mute(60.0)
    serving.send(client, LARGE[-1:])
    assert serving.served == [first, other]
    serving.turn(after_s=61.0)
    assert serving.served == [first, other, muted]


def test_a_connection_whose_turn_comes_as_it_is_muted_gives_it_back(serving: Serving) -> None:
    (first, client), (muted, _), (other, _) = two_that_wait(serving)
    client.sendall(LARGE[-1:])
    first.on_readable()  # the turn is that of the next one, which does not know it yet
    muted.mute(60.0)
    serving.turn()
    assert serving.served == [first, other]
    serving.turn(after_s=61.0)
    assert serving.served == [first, other, muted]


def test_large_requests_in_progress_exceed_the_limit_by_one_at_most(serving: Serving) -> None:
    serving.keeps = True
    for _ in range(20):
        serving.send(serving.connect()[1], LARGE)
    for served in range(1, 21):
        assert len(serving.served) == served
        assert serving.held == 100_000
        serving.answer_first()
    assert serving.held == 0


def test_a_large_request_behind_one_in_progress_gets_no_turn_before_that_was_answered(serving: Serving) -> None:
    serving.keeps = True
    first, client = serving.connect()
    other, another = serving.connect()
    serving.send(client, SMALL + LARGE)
    assert (serving.served, serving.held) == ([first], 0)
    serving.send(another, LARGE)
    assert serving.served == [first, other]
    serving.answer_first()
    assert serving.served == [first, other]  # the turn is that of the other one
    serving.answer_first()
    assert serving.served == [first, other, first]


def test_a_large_request_behind_an_answer_that_is_not_taken_gets_no_turn(serving: Serving) -> None:
    serving.answer = [bytes(ANSWER)]
    first, client = serving.connect()
    serving.send(client, SMALL + LARGE)
    serving.answer = ()
    assert (serving.served, serving.held) == ([first], 0)
    other, another = serving.connect()
    serving.send(another, LARGE)
    assert serving.served == [first, other]
    while serving.untaken.count:
        client.recv(ANSWER)
        serving.turn()
    assert serving.served == [first, other, first]


def test_a_large_request_that_was_parsed_and_waits_takes_no_memory_from_others(serving: Serving) -> None:
    serving.keeps = True
    first, client = serving.connect()
    other, another = serving.connect()
    serving.send(client, LARGE)
    serving.send(another, LARGE)
    assert serving.served == [first]
    serving.kept[0].park_parsed()
    assert not serving.kept[0].frame
    serving.turn()
    assert serving.served == [first, other]
    serving.answer_first()
    assert serving.held == 100_000


def test_the_turn_of_a_client_that_has_left_ends_when_its_request_was_served(serving: Serving) -> None:
    serving.keeps = True
    first, client = serving.connect()
    other, another = serving.connect()
    serving.send(client, LARGE)
    first.close()
    serving.send(another, LARGE)
    assert serving.served == [first]
    serving.answer_first()
    assert serving.served == [first, other]


@pytest.mark.parametrize("seed", range(10))
def test_requests_in_any_order_are_all_served_within_the_limit(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Clients send small and large requests in pieces, are muted and parked, and some requests overlap."""
    chance, limit = Random(seed), 250_000
    with ExitStack() as stack:
        serving = Serving(monkeypatch, stack, limit)
        serving.processor._look_at_s = inf  # nobody is too slow
        serving.keeps, serving.overlaps = True, chance.random() < 0.5
        clients = [serving.connect() for _ in range(8)]
        unsent = [bytearray(b"".join(chance.choices((SMALL, LARGE), k=12))) for _ in clients]
        count = sum(data.count(b"\0\0\0\1?") + len(data) // len(LARGE) for data in unsent)
        while len(serving.served) < count or serving.kept:
            number = chance.randrange(len(clients))
            with suppress(BlockingIOError):
                del unsent[number][: clients[number][1].send(unsent[number][: chance.randrange(1, 90_000)])]
            if clients[number][0].is_busy and chance.random() < 0.1:  # a client is muted before it is answered
                clients[number][0].mute(1.0)
            serving.turn(after_s=0.1)
            assert serving.held < limit + 2 * len(LARGE)  # one request, and one read
            if serving.kept and chance.random() < 0.5:
                serving.kept.rotate(chance.randrange(8))
                chance.choice((Exchange.park_parsed, Exchange.park))(serving.kept[0])
                serving.answer_first()
        assert serving.held == 0
        serving.processor._end()


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """Serves with room for ten large requests."""
    with ExitStack() as stack:
        made = Serving(monkeypatch, stack, 1_000_000)
        made.keeps = True
        yield made
        made.processor._end()


def test_large_requests_that_overlap_are_read_while_there_is_room(roomy: Serving) -> None:
    roomy.overlaps = True
    connection, client = roomy.connect()
    for _ in range(5):
        roomy.send(client, LARGE)
    assert roomy.served == [connection] * 5
    for _ in range(5):
        roomy.answer_first()
    assert roomy.held == 0


def test_large_requests_that_wait_behind_others_for_long_make_room(
    roomy: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    behind = [roomy.connect() for _ in range(10)]
    for _, client in behind:
        roomy.send(client, SMALL + LARGE)
    assert roomy.held == 1_000_000
    for _ in range(2 * SLOW_LOOKS):
        roomy.turn(after_s=LOOK_S)
    assert not any(each.is_closed for each, _ in behind)  # nobody waits for their memory
    turn, another = roomy.connect()
    roomy.send(another, LARGE)  # has the turn
    roomy.send(roomy.connect()[1], LARGE)
    assert roomy.served[-1] is turn
    roomy.turn(after_s=LOOK_S)
    assert [each.is_closed for each, _ in behind] == [True] + [False] * 9
    assert "a large request waits for earlier ones of its client" in caplog.text


def test_a_part_of_a_large_request_that_waits_behind_others_for_long_makes_room(roomy: Serving) -> None:
    behind, client = roomy.connect()
    roomy.send(client, SMALL + struct.pack(">i", 1 << 20))
    for _ in range(10):
        roomy.send(client, bytes(100_000))
    roomy.send(client, bytes((1 << 20) - 1_000_000))  # the rest has arrived, and is not read
    for _ in range(2):  # the first has the turn, the other one waits
        roomy.send(roomy.connect()[1], LARGE)
    assert len(roomy.served) == 2
    for _ in range(SLOW_LOOKS - 1):
        roomy.turn(after_s=LOOK_S)
    assert not behind.is_closed
    for _ in range(2):
        roomy.turn(after_s=LOOK_S)
    assert behind.is_closed
    assert len(roomy.served) == 3


def test_pipelined_requests_that_go_on_make_no_room_for_others(roomy: Serving) -> None:
    connection, client = roomy.connect()
    roomy.send(client, LARGE)
    for _ in range(2 * SLOW_LOOKS):
        roomy.send(client, LARGE)
        assert connection.held_behind
        roomy.turn(after_s=LOOK_S)
        roomy.answer_first()
    roomy.send(client, LARGE)
    for _ in range(10):
        roomy.send(roomy.connect()[1], LARGE)
    assert roomy.memory.is_waited_for
    roomy.turn(after_s=LOOK_S)
    assert not connection.is_closed


# Answers


def ask(serving: Serving, count: int) -> list[tuple[Connection, socket.socket]]:
    """Connects clients, each of which asks once."""
    found = [serving.connect() for _ in range(count)]
    for _, client in found:
        serving.send(client, SMALL)
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
