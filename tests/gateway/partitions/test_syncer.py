"""Syncer: who learns of a sync, in which thread, and that nobody is forgotten."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event, Thread, current_thread
from typing import Any

import pytest

from pyspark_commitlog.gateway.partitions.syncer import Call, Group, Syncer, _Inbox
from pyspark_commitlog.gateway.threads.disk_faults import DiskFaults
from tests.support.waiting import soon

TIMEOUT_S = 30


class Partition:
    """Counts its syncs; while it is held, a sync does not end. ``woken``: what happens when it wakes those who wait."""

    def __init__(self, woken: Callable[[], None] = lambda: None) -> None:
        self.syncs = 0
        self.wake = self.wake_if_moved = woken
        self.failure: Exception | None = None
        self.begun, self.free = Event(), Event()
        self.free.set()

    def sync(self) -> None:
        self.begun.set()
        assert self.free.wait(TIMEOUT_S)
        self.syncs += 1
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def syncer() -> Iterator[Syncer]:
    started = Syncer("syncer of a test", lambda _: None, DiskFaults("log"))
    started.start()
    yield started
    started.stop()


def group(led: Partition, *calls: Call) -> Group:
    partition: Any = led
    return Group(partition, calls)


def test_calls_without_a_thread_are_made_by_the_syncer(syncer: Syncer) -> None:
    names: SimpleQueue[str] = SimpleQueue()
    syncer.sync(group(Partition(), Call(lambda _: names.put(current_thread().name))))
    assert names.get(timeout=TIMEOUT_S) == "syncer of a test"


def test_nothing_is_kept_of_what_was_answered(syncer: Syncer) -> None:
    def answer(_: Exception | None) -> None:
        pass

    kept = weakref.ref(answer)  # which refers to a client's request
    syncer.sync(group(Partition(), Call(answer)))
    del answer
    soon(lambda: kept() is None)


def test_the_calls_of_a_thread_are_made_in_one_turn_of_it(syncer: Syncer) -> None:
    turns: SimpleQueue[Callable[[], None]] = SimpleQueue()
    found: list[int] = []
    calls = [Call(lambda _, number=number: found.append(number), turns.put) for number in range(3)]  # type: ignore[misc]
    syncer.sync(group(Partition(), *calls))
    turn = turns.get(timeout=TIMEOUT_S)
    assert found == []
    turn()
    assert found == [0, 1, 2]
    assert turns.empty()


def test_answers_are_on_their_way_before_those_who_wait_for_records_are_woken(syncer: Syncer) -> None:
    order: SimpleQueue[str] = SimpleQueue()
    led = Partition(lambda: order.put("woken"))
    syncer.sync(group(led, Call(lambda _: order.put("answered")), Call(lambda _: None, lambda _: order.put("given"))))
    assert [order.get(timeout=TIMEOUT_S) for _ in range(3)] == ["answered", "given", "woken"]


def test_a_call_that_fails_keeps_no_other_from_being_made(syncer: Syncer) -> None:
    made: SimpleQueue[Exception | None] = SimpleQueue()
    syncer.sync(group(Partition(), Call(lambda _: 1 // 0), Call(made.put)))
    assert made.get(timeout=TIMEOUT_S) is None


def test_a_failing_sync_is_told_to_all(syncer: Syncer) -> None:
    led, made = Partition(), SimpleQueue[Exception | None]()
    led.failure = OSError("the disk")
    syncer.sync(group(led, Call(made.put), Call(made.put)))
    assert [made.get(timeout=TIMEOUT_S) for _ in range(2)] == [led.failure] * 2


def test_what_comes_during_a_sync_shares_the_next_one(syncer: Syncer) -> None:
    led, made = Partition(), SimpleQueue[Exception | None]()
    led.free.clear()
    syncer.sync(group(led, Call(made.put)))
    assert led.begun.wait(TIMEOUT_S)
    for _ in range(4):
        syncer.sync(group(led, Call(made.put)))
    led.free.set()
    assert [made.get(timeout=TIMEOUT_S) for _ in range(5)] == [None] * 5
    assert led.syncs == 2


def test_what_comes_during_the_last_sync_before_a_stop_is_synced_too() -> None:
    led, made = Partition(), SimpleQueue[Exception | None]()
    led.free.clear()
    syncer = Syncer("syncer of a test", lambda _: None, DiskFaults("log"))
    syncer.start()
    syncer.sync(group(led, Call(made.put)))
    assert led.begun.wait(TIMEOUT_S)
    syncer.sync(group(led, Call(made.put)))
    syncer._inbox.put(None)
    led.free.set()
    syncer._thread.join(TIMEOUT_S)
    assert [made.get(timeout=0) for _ in range(2)] == [None, None]


def nobody(_: Exception | None) -> None:
    """What is called, where the test does not care."""


def test_who_waits_for_several_calls_is_woken_when_they_are_there() -> None:
    inbox, led = _Inbox(), Partition()
    thread = Thread(target=lambda: inbox.wait(3), daemon=True)
    thread.start()
    inbox.put(group(led, Call(nobody)))
    inbox.put(group(led, Call(nobody), Call(nobody)))
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    assert [len(each.calls) for each in inbox.take() if each] == [1, 2]


def test_who_waits_in_vain_goes_on_when_the_time_is_over() -> None:
    inbox, led = _Inbox(), Partition()
    inbox.put(group(led, Call(nobody)))
    inbox.wait(2, timeout_s=0.001)
    inbox.wait(1)  # is there
    assert len(inbox.take()) == 1
    assert inbox.calls == 0


def test_the_end_wakes_who_waits_for_many() -> None:
    inbox = _Inbox()
    thread = Thread(target=lambda: inbox.wait(1000), daemon=True)
    thread.start()
    inbox.put(None)
    thread.join(TIMEOUT_S)
    assert inbox.take() == [None]


def test_no_wake_is_lost_or_kept_where_the_time_is_over_as_calls_come() -> None:
    inbox, led, count = _Inbox(), Partition(), 2000
    taken: list[int] = []

    def take() -> None:
        while sum(taken) < count:
            inbox.wait(2, timeout_s=0.00001)
            inbox.wait(1)
            taken.append(len(inbox.take()))

    thread = Thread(target=take, daemon=True)
    thread.start()
    for _ in range(count):
        inbox.put(group(led, Call(nobody)))
    thread.join(TIMEOUT_S)
    assert sum(taken) == count
    assert 0 not in taken
