"""FairWorker: an owner with many tasks delays no other one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from threading import Event

import pytest

from pyspark_commitlog.gateway.threads.fair import FairTask, FairWorker

TIMEOUT_S = 20.0


class Busy:
    """A worker whose first task has not ended yet."""

    def __init__(self, places: int = 100) -> None:
        self.worker = FairWorker("test", places)
        self.ran: list[str] = []
        self.dropped: list[str] = []
        self._goes_on, self._began = Event(), Event()
        self.worker.start()
        self.worker.run("first", FairTask(self._wait, lambda: None))
        assert self._began.wait(TIMEOUT_S)

    def _wait(self) -> None:
        self._began.set()
        assert self._goes_on.wait(TIMEOUT_S)

    def give(self, owner: str, name: str) -> None:
        self.worker.run(owner, FairTask(partial(self.ran.append, name), partial(self.dropped.append, name)))

    def go_on(self) -> list[str]:
        """Lets the worker do what waits, and returns the tasks in the order in which they ran."""
        done = Event()
        for _ in range(3):  # the owner with the most is last
            self.worker.run("last", FairTask(lambda: None, lambda: None))
        self._goes_on.set()
        while not done.is_set() and self.worker._count:
            done.wait(0.01)
        self.worker.stop()
        return self.ran


@pytest.fixture
def busy() -> Iterator[Busy]:
    made = Busy()
    yield made
    made._goes_on.set()
    made.worker.stop()


def test_the_owner_with_the_fewest_tasks_is_first_and_its_newest_task(busy: Busy) -> None:
    for number in range(3):
        busy.give("crowd", f"c{number}")
    busy.give("alice", "a")
    busy.give("bob", "b")
    assert busy.go_on() == ["b", "a", "c2", "c1", "c0"]


def test_an_error_of_a_task_ends_nothing(busy: Busy) -> None:
    busy.give("alice", "a")
    busy.worker.run("bob", FairTask(lambda: 1 / 0, lambda: None))  # type: ignore[arg-type, return-value]
    assert busy.go_on() == ["a"]


def test_without_a_place_the_oldest_task_of_the_owner_with_the_most_is_dropped() -> None:
    busy = Busy(places=4)
    busy.give("alice", "a")
    for number in range(6):
        busy.give("crowd", f"c{number}")
    assert busy.dropped == ["c0", "c1", "c2"]
    busy._goes_on.set()
    busy.worker.stop()


def test_a_stop_drops_what_waits() -> None:
    busy = Busy()
    busy.give("alice", "a")
    busy.worker._is_stopping = True
    busy._goes_on.set()
    busy.worker.stop()
    assert (busy.ran, busy.dropped) == ([], ["a"])
