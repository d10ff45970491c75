"""Work done ahead: its order, its bound, and which error is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pyspark_commitlog.storage.ahead import THREADS, in_order, one_ahead
from pyspark_commitlog.storage.errors import StorageError


def test_results_come_in_the_order_of_the_items_whichever_is_done_first() -> None:
    is_second_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert is_second_done.wait(30)
        elif item == 1:
            is_second_done.set()
        return item * 10

    assert list(in_order(work, range(20))) == [item * 10 for item in range(20)]


def test_no_more_items_are_taken_ahead_than_the_bound() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(50):
            taken.append(item)
            yield item

    for result in in_order(lambda item: item, items()):
        assert len(taken) <= result + 1 + THREADS
    assert len(taken) == 50


def test_what_the_items_raise_comes_behind_the_results_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(2)
        raise StorageError("the third is damaged")

    results = in_order(lambda item: item, items())
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(StorageError, match="the third is damaged"):
        next(results)


def test_what_the_work_raises_is_told_before_what_the_items_behind_it_raise() -> None:
    def items() -> Iterator[int]:
        yield 0
        raise StorageError("second")

    def work(item: int) -> int:
        raise StorageError("first")

    with pytest.raises(StorageError, match="first"):
        list(in_order(work, items()))


def test_who_stops_early_hears_nothing_of_what_was_begun() -> None:
    ended = []

    def work(item: int) -> int:
        ended.append(item)
        if item:
            raise StorageError("nobody asked for this one")
        return item

    results = in_order(work, range(10))
    assert next(results) == 0
    results.close()
    assert len(ended) <= 1 + THREADS
    assert sorted(ended) == list(range(len(ended)))


def test_the_next_item_is_taken_while_one_is_used_and_no_further_one() -> None:
    is_taken = [threading.Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for item, event in enumerate(is_taken):
            event.set()
            yield item

    for item in one_ahead(items()):
        assert all(event.wait(30) for event in is_taken[: item + 2])
        assert not any(event.is_set() for event in is_taken[item + 2 :])


def test_what_taking_the_next_item_raises_comes_in_its_turn() -> None:
    def items() -> Iterator[int]:
        yield 0
        raise StorageError("the second is damaged")

    taken = one_ahead(items())
    assert next(taken) == 0
    with pytest.raises(StorageError, match="the second is damaged"):
        next(taken)
    assert list(one_ahead([])) == []
