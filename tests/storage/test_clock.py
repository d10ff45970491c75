"""When operations that repeat are due."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark_commitlog.storage.clock import when_due
from tests.support.clock import ManualClock


class Waits(threading.Event):
    """An event whose waits move a clock instead of taking time."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._clock.advance(round(timeout * 1000))
        return self.is_set()


def ran(
    intervals_ms: dict[str, int], until_ms: int, takes_ms: Callable[[str], int] = lambda _: 0
) -> list[tuple[str, int]]:
    """What ran and when, in ms from the start."""
    clock = ManualClock()
    begin_ms, over, found = clock.now_ms(), Waits(clock), list[tuple[str, int]]()
    for name in when_due(intervals_ms, over, clock):
        found.append((name, clock.now_ms() - begin_ms))
        clock.advance(takes_ms(name))
        if clock.now_ms() - begin_ms >= until_ms:
            over.set()
    return found


def test_each_begins_at_once_and_then_at_its_interval() -> None:
    assert ran({"a": 300, "b": 500}, 1000) == [
        *(("a", 0), ("b", 0), ("a", 300), ("b", 500), ("a", 600), ("a", 900), ("b", 1000)),
    ]


def test_what_takes_longer_than_its_interval_is_not_made_up_for() -> None:
    assert ran({"a": 100}, 500, lambda _: 250) == [("a", 0), ("a", 250)]


def test_a_long_one_delays_the_others_which_then_take_turns() -> None:
    assert ran({"long": 1000, "short": 100}, 1200, {"long": 450, "short": 0}.__getitem__)[:4] == [
        *(("long", 0), ("short", 450), ("short", 550), ("short", 650)),
    ]


def test_nothing_runs_once_it_is_over() -> None:
    over = threading.Event()
    over.set()
    assert list(when_due({"a": 1}, over)) == []


def test_waiting_ends_as_soon_as_it_is_over() -> None:
    over = threading.Event()
    names = when_due({"a": 10**9}, over)
    assert next(names) == "a"
    threading.Timer(0.05, over.set).start()
    assert list(names) == []
