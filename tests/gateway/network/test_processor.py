"""Processor: calls from other threads and timers, without a connection."""

from __future__ import annotations

import socket
import struct
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

from pyspark_commitlog.gateway.network import Limits, Processor, Quota, Terms, processor as module

TIMEOUT_S = 20.0


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Processor]:
    """A processor that wakes only when it is woken."""
    monkeypatch.setattr(module, "IDLE_LOOK_S", 3600.0)
    made = Processor("test", lambda _: None, lambda _: False, Limits(100, None, Quota(10), Quota(1000)))
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
    """A processor that has no thread, with a connection amid a large request, and a memory that is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(Processor, "now_s", lambda _: self.now_s)
        self.processor = Processor("test", lambda _: None, lambda _: False, Limits(1 << 20, None, Quota(10), Quota(1)))
        self.large = self.connect()
        self.send(self.large, struct.pack(">i", 1 << 20) + b"a part")
        self.connection = next(iter(self.processor._events))

    def connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.processor._adopt(ours, "here", Terms("PLAINTEXT"))
        return theirs

    def send(self, client: socket.socket, data: bytes) -> None:
        client.sendall(data)
        for each in list(self.processor._events):
            each.on_readable()

    def look(self, times: int = 1, *, after_s: float = module.IDLE_LOOK_S) -> bool:
        """Looks; returns whether the connection is still there."""
        for _ in range(times):
            self.now_s += after_s
            self.processor._run_timers()
        return not self.connection.is_closed


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowded]:
    made = Crowded(monkeypatch)
    yield made
    made.processor._end()


def test_a_thread_that_got_no_time_takes_no_client_for_one_that_stopped(crowded: Crowded) -> None:
    crowded.send(crowded.connect(), struct.pack(">i", 1 << 20))
    assert crowded.look(after_s=3600.0)
    assert crowded.look(module.STALL_LOOKS - 1)
    crowded.send(crowded.large, b"more")
    assert crowded.look(module.STALL_LOOKS)
    assert not crowded.look(module.STALL_LOOKS)


def test_a_large_request_may_pause_while_nobody_waits_for_its_memory(crowded: Crowded) -> None:
    assert crowded.look(10 * module.STALL_LOOKS)
    with crowded.connect() as other:
        crowded.send(other, struct.pack(">i", 1 << 20))
    waiting = [each for each in crowded.processor._events if each is not crowded.connection]
    for each in waiting:
        each.close()
    assert crowded.look(10 * module.STALL_LOOKS)
