"""RequestMemory: bytes are counted as they arrive until they are given back, and requests never wait in a circle."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark_commitlog.gateway.network.limits.memory import Held, RequestMemory


class Waiting:
    """Requests that were refused, and called."""

    def __init__(self, limit: int) -> None:
        self.memory = RequestMemory(limit)
        self.called: list[str] = []
        self._calls: dict[str, partial[None]] = {}

    def may_read(self, name: str, missing: int, *, is_next: bool = True) -> bool:
        return self.memory.may_read(self._call(name), missing, is_next=is_next)

    def leave(self, name: str) -> None:
        self.memory.leave(self._call(name))

    def hold(self, name: str, size: int) -> Held:
        return self.memory.hold(self._call(name), size)

    def _call(self, name: str) -> Callable[[], None]:
        return self._calls.setdefault(name, partial(self.called.append, name))


def test_a_request_takes_what_has_arrived_not_what_it_claims() -> None:
    waiting = Waiting(100)
    assert all(waiting.may_read(f"{number}", 1_000_000) for number in range(50))
    waiting.memory.take(99)
    assert waiting.may_read("another", 1_000_000)


def test_at_the_limit_one_request_is_read_to_its_end_and_the_others_wait() -> None:
    waiting = Waiting(100)
    waiting.memory.take(100)
    assert waiting.may_read("first", 60)
    assert not waiting.may_read("large", 50)
    assert not waiting.may_read("small", 10)
    waiting.memory.take(60)
    assert waiting.may_read("first", 1)
    assert waiting.called == []
    waiting.leave("first")
    assert waiting.called == ["small"]  # the one that lacks least
    assert waiting.may_read("small", 10)
    assert not waiting.may_read("large", 50)


def test_those_that_wait_are_called_as_far_as_there_is_room() -> None:
    waiting = Waiting(100)
    waiting.memory.take(100)
    assert waiting.may_read("turn", 1000)
    for name, missing in (("a", 90), ("b", 30), ("c", 40)):
        assert not waiting.may_read(name, missing)
    waiting.memory.give(50)
    assert waiting.called == ["b", "c"]
    assert waiting.memory.is_waited_for
    waiting.memory.give(50)
    assert waiting.called == ["b", "c", "a"]
    assert not waiting.memory.is_waited_for


def test_one_that_has_left_is_not_called() -> None:
    waiting = Waiting(100)
    waiting.memory.take(100)
    assert waiting.may_read("turn", 1000)
    assert not waiting.may_read("leaves", 10)
    waiting.leave("leaves")
    waiting.memory.give(100)
    assert waiting.called == []


def test_the_turn_lasts_until_the_bytes_of_its_request_are_given_back() -> None:
    waiting = Waiting(100)
    waiting.memory.take(100)
    assert waiting.may_read("first", 60)
    assert not waiting.may_read("second", 60)
    waiting.memory.take(60)
    held = waiting.hold("first", 60)
    assert not waiting.may_read("first", 1)  # its next request
    assert waiting.called == []
    held.give()
    assert waiting.called == ["first"]
    held.give()  # again: nothing is counted twice
    assert not waiting.may_read("third", 1)


def test_the_turn_lasts_though_requests_that_were_whole_before_are_given_back() -> None:
    waiting = Waiting(100)
    waiting.memory.take(100)
    before = waiting.hold("before", 10)
    assert waiting.may_read("first", 60)
    waiting.memory.take(60)
    held = waiting.hold("first", 60)
    assert not waiting.may_read("second", 60)
    before.give()
    assert waiting.called == []
    held.give()
    assert waiting.called == ["second"]


def test_one_that_found_room_before_it_was_called_waits_no_longer_once_it_is_whole() -> None:
    waiting = Waiting(100)
    waiting.memory.take(200)
    assert waiting.may_read("turn", 60)
    assert not waiting.may_read("first", 200)
    waiting.memory.take(-150)  # as others give back, before they call
    assert waiting.may_read("first", 10)
    waiting.memory.take(60)
    waiting.hold("first", 60)
    assert not waiting.memory.is_waited_for
    waiting.leave("turn")
    assert waiting.called == []
    assert waiting.may_read("second", 1)


def test_one_that_is_not_served_next_is_read_while_there_is_room_and_gets_no_turn() -> None:
    waiting = Waiting(100)
    assert waiting.may_read("later", 60, is_next=False)
    waiting.memory.take(100)
    assert not waiting.may_read("later", 10, is_next=False)
    assert not waiting.memory.is_waited_for
    assert waiting.may_read("next", 60)


def test_bytes_that_another_memory_counts_from_now_on_end_the_turn() -> None:
    waiting, other = Waiting(100), RequestMemory(100)
    waiting.memory.take(100)
    assert waiting.may_read("first", 60)
    waiting.memory.take(60)
    moved = waiting.hold("first", 60).moved_to(other)
    assert waiting.may_read("second", 60)
    assert other.may_read(lambda: None, 1)
    other.take(40)
    assert not other.may_read(lambda: None, 1, is_next=False)
    moved.give()
    assert other.may_read(lambda: None, 1, is_next=False)
