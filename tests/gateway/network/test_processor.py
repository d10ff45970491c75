"""Processor: calls from other threads and timers, without a connection."""

from __future__ import annotations

import socket
import struct
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

from pyspark_commitlog.gateway.network import processor as module
from pyspark_commitlog.gateway.network.limits.admission import Admission, AdmissionLimits
from pyspark_commitlog.gateway.network.limits.clients import Limits, Terms
from pyspark_commitlog.gateway.network.limits.memory import RequestMemory
from pyspark_commitlog.gateway.network.limits.pace import LOOK_S, PRESSED_LOOKS, SLOW_LOOKS, LeastRate
from pyspark_commitlog.gateway.network.limits.quota import Quota
from pyspark_commitlog.gateway.network.limits.untaken import UntakenBytes
from pyspark_commitlog.gateway.network.processor import Processor

TIMEOUT_S = 20.0
PLAIN = Terms("PLAINTEXT")
RATE = LeastRate(bytes_per_s=1000, grace_s=10.0)
GRACE_LOOKS = int(RATE.grace_s / LOOK_S)


def limits(memory_bytes: int = 1000, **more: float) -> Limits:
    places, memory = Quota(10), RequestMemory(memory_bytes)
    admission, untaken = Admission(AdmissionLimits()), UntakenBytes(1 << 20)
    return Limits(1 << 20, lambda *_: places, memory, memory, admission, RATE, untaken, **more)


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Processor]:
    """A processor that wakes only when it is woken."""
    monkeypatch.setattr(module, "LOOK_S", 3600.0)
    made = Processor("test", lambda _: None, lambda _: False, limits())
    made.start()
    yield made
    made.stop()


def is_run(processor: Processor) -> bool:
    done = threading.Event()
    processor.call_soon(done.set)
    return done.wait(TIMEOUT_S)


def test_a_call_of_another_thread_is_run(processor: Processor) -> None:
    assert all(is_run(processor) for _ in range(100))


def test_a_call_that_comes_while_a_wake_is_taken_does_not_lose_the_next_one(processor: Processor) -> None:
    between = threading.Event()

    class Interrupted:
        """The socket of wakes; another thread calls just before the bytes are taken."""

        def __init__(self, real: socket.socket) -> None:
            self._real = real

        def recv(self, size: int) -> bytes:
            if not between.is_set():
                caller = threading.Thread(target=processor.call_soon, args=(between.set,))
                caller.start()
                caller.join()
            return self._real.recv(size)

        def close(self) -> None:
            self._real.close()

    processor._wake_in = Interrupted(processor._wake_in)  # type: ignore[assignment]
    assert is_run(processor)
    assert between.wait(TIMEOUT_S)
    assert is_run(processor)


def test_timers_run_in_order_and_early_if_it_stops(processor: Processor) -> None:
    ran: list[str] = []
    ended = threading.Event()
    processor.call_soon(lambda: processor.call_later(3600, lambda: ran.append("late")))
    processor.call_soon(lambda: processor.call_later(0.01, lambda: ran.append("second")))
    processor.call_soon(lambda: processor.call_later(0, lambda: ran.append("first")))
    processor.call_soon(lambda: processor.call_later(0.02, ended.set))
    assert ended.wait(TIMEOUT_S)
    assert ran == ["first", "second"]
    processor.stop()
    assert ran == ["first", "second", "late"]


def test_a_cancelled_timer_is_not_run_and_keeps_nothing(processor: Processor) -> None:
    class Task:
        def __call__(self) -> None:
            raise AssertionError

    def cancel(task: Task) -> None:
        for delay_s in (0, 3600):
            processor.call_later(delay_s, task).cancel()

    task = Task()
    kept = weakref.ref(task)
    processor.call_soon(partial(cancel, task))
    del task
    assert is_run(processor)
    assert is_run(processor)
    assert kept() is None
    assert processor._timers == []


def test_an_error_in_a_call_does_not_end_the_thread(processor: Processor) -> None:
    processor.call_soon(lambda: 1 / 0)
    assert is_run(processor)


class Crowded:
    """A processor that has no thread, with a connection amid a large request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, memory_bytes: int) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(Processor, "now_s", lambda _: self.now_s)
        self.processor = Processor("test", lambda _: None, lambda _: False, limits(memory_bytes, login_s=60.0))
        self.large = self.connect()
        self.send(self.large, struct.pack(">i", 1 << 20) + b"a part")
        self.connection = next(iter(self.processor._events))

    def connect(self, terms: Terms = PLAIN) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.processor._adopt(ours, "here", terms)
        return theirs

    def send(self, client: socket.socket, data: bytes) -> None:
        client.sendall(data)
        for each in list(self.processor._events):
            if each.may_read:
                each.on_readable()

    def others_wait(self) -> socket.socket:
        """Fills the memory with others' requests, which keep arriving."""
        first, second = self.connect(), self.connect()
        for each in (first, second):
            self.send(each, struct.pack(">i", 1 << 19) + bytes(1000))
        assert self.processor.limits.memory.is_waited_for
        return first

    def look(self, times: int = 1, *, after_s: float = LOOK_S, sends: bytes = b"") -> bool:
        """Looks; returns whether the connection is still there."""
        for _ in range(times):
            if sends and not self.connection.is_closed:
                self.send(self.large, sends)
            self.now_s += after_s
            self.processor._run_timers()
        return not self.connection.is_closed


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowded]:
    made = Crowded(monkeypatch, memory_bytes=1)
    yield made
    made.processor._end()


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowded]:
    made = Crowded(monkeypatch, memory_bytes=1 << 20)
    yield made
    made.processor._end()


def test_a_request_that_arrives_too_slowly_is_closed_though_nobody_waits(roomy: Crowded) -> None:
    assert roomy.look(GRACE_LOOKS, sends=b"x")
    assert not roomy.look(GRACE_LOOKS, sends=b"x")


def test_a_small_request_that_does_not_end_is_closed_too(roomy: Crowded) -> None:
    client = roomy.connect()
    roomy.send(client, struct.pack(">i", 100)[:3])
    roomy.look(GRACE_LOOKS + 1)
    assert not roomy.processor._events


def test_a_request_at_the_least_rate_is_read_on(roomy: Crowded) -> None:
    assert roomy.look(3 * GRACE_LOOKS, sends=bytes(250))


def test_a_client_that_asks_nothing_is_not_too_slow(roomy: Crowded) -> None:
    idle = roomy.connect()
    roomy.look(3 * GRACE_LOOKS, sends=bytes(250))
    assert len(roomy.processor._events) == 2
    idle.close()


def test_a_thread_that_got_no_time_takes_no_client_for_one_that_stopped(roomy: Crowded) -> None:
    assert roomy.look(GRACE_LOOKS, after_s=3600.0)


def test_a_large_request_that_stops_makes_room_for_others_soon(crowded: Crowded) -> None:
    assert crowded.look(PRESSED_LOOKS - 1)
    crowded.others_wait()
    assert not crowded.look()


def test_a_large_request_that_was_only_claimed_keeps_its_turn_from_others_no_longer(crowded: Crowded) -> None:
    crowded.connection.close()
    crowded.processor.limits.memory.take(1)
    claiming, waiting = crowded.connect(), crowded.connect()
    crowded.send(claiming, struct.pack(">i", 1 << 20))  # has the turn
    crowded.send(waiting, struct.pack(">i", 1 << 19) + bytes(1000))
    crowded.look(PRESSED_LOOKS)
    crowded.processor._calls.popleft()()
    (left,) = crowded.processor._events
    assert left.may_read
    left.on_readable()
    assert left.held == 1000


def test_a_large_request_that_goes_on_is_read_while_others_wait(crowded: Crowded) -> None:
    crowded.others_wait()
    assert crowded.look(SLOW_LOOKS - 1, sends=bytes(1000))


def test_the_slowest_large_request_makes_room_if_nothing_else_does(crowded: Crowded) -> None:
    crowded.others_wait()
    assert not crowded.look(SLOW_LOOKS + 1, sends=bytes(1000))


def test_requests_that_wait_for_memory_are_not_slow(crowded: Crowded) -> None:
    crowded.others_wait()
    crowded.look(3 * SLOW_LOOKS, sends=bytes(1000))
    assert len(crowded.processor._events) == 2  # the others


def test_a_connection_without_a_login_is_closed_after_a_time(roomy: Crowded) -> None:
    newcomer = roomy.connect(Terms("SASL", login_bytes_max=1000))
    roomy.look(int(59 / LOOK_S), sends=bytes(250))
    assert len(roomy.processor._events) == 2
    roomy.look(int(2 / LOOK_S), sends=bytes(250))
    assert len(roomy.processor._events) == 1
    newcomer.close()
