"""RequestMemory: bytes are counted as they arrive, and requests never wait for each other."""

from __future__ import annotations

from functools import partial

from pyspark_commitlog.gateway.network.limits.memory import RequestMemory


class Waiting:
    """Requests that were refused, and called."""

    def __init__(self, limit: int) -> None:
        self.memory = RequestMemory(limit)
        self.called: list[str] = []
        self._calls: dict[str, partial[None]] = {}

    def may_read(self, name: str, missing: int) -> bool:
        call = self._calls.setdefault(name, partial(self.called.append, name))
        return self.memory.may_read(call, missing)

    def leave(self, name: str) -> None:
        self.memory.leave(self._calls[name])


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
