"""Read-ahead: its order, its bound, and which error is raised."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator

import pytest

from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.prefetch import THREADS, gathered, in_order, one_ahead
from tests.support.waiting import soon


def test_results_come_in_the_order_of_the_items_whichever_is_done_first() -> None:
    is_second_done = threading.Event()

    def task(item: int) -> int:
        if item == 0:
            assert is_second_done.wait(30)
        elif item == 1:
            is_second_done.set()
        return item * 10

    assert list(in_order(task, range(20))) == [item * 10 for item in range(20)]


def test_no_more_items_are_taken_ahead_than_the_bound() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(50):
            taken.append(item)
            yield item

    for result in in_order(lambda item: item, items()):
        assert len(taken) <= result + 1 + THREADS
    assert len(taken) == 50


@pytest.mark.parametrize("threads", [1, 8])
def test_as_many_results_are_computed_at_once_as_threads_are_wanted(threads: int) -> None:
    together = threading.Barrier(threads, timeout=60)

    def task(item: int) -> int:
        together.wait()
        return item

    assert list(in_order(task, range(16), threads)) == [*range(16)]


def test_lists_grow_with_the_preceding_items_up_to_the_bound() -> None:
    before = 0
    for each in gathered([1] * 60, lambda item: item, least=2, most=12):
        is_last = before + len(each) == 60
        assert is_last or min(max(2, before // 2), 12) <= len(each) <= 18
        before += len(each)
    assert before == 60


def test_an_error_of_the_items_is_raised_after_the_results_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(2)
        raise StorageError("the third is damaged")

    results = in_order(lambda item: item, items())
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(StorageError, match="the third is damaged"):
        next(results)


def test_an_error_of_the_task_is_raised_before_one_of_later_items() -> None:
    def items() -> Iterator[int]:
        yield 0
        raise StorageError("second")

    def task(item: int) -> int:
        raise StorageError("first")

    with pytest.raises(StorageError, match="first"):
        list(in_order(task, items()))


def test_stopping_early_ignores_errors_of_tasks_in_progress() -> None:
    ended = []

    def task(item: int) -> int:
        ended.append(item)
        if item:
            raise StorageError("nobody asked for this one")
        return item

    results = in_order(task, range(10))
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


def test_an_error_of_the_next_item_is_raised_in_its_turn() -> None:
    def items() -> Iterator[int]:
        yield 0
        raise StorageError("the second is damaged")

    taken = one_ahead(items())
    assert next(taken) == 0
    with pytest.raises(StorageError, match="the second is damaged"):
        next(taken)
    assert list(one_ahead([])) == []


def sized(items: Iterable[int]) -> Generator[list[int], None, None]:
    """Gathers items, with each item's number as its size."""
    return gathered(items, lambda item: item, least=3, most=4)


class Gated:
    """Items; those after the first list come once that is in use. Records which ones were requested."""

    def __init__(self, first: list[int], others: Iterable[int]) -> None:
        self.taken: list[int] = []
        self.is_first_used, self.are_all_there = threading.Event(), threading.Event()
        self._first, self._others = first, others

    def __iter__(self) -> Iterator[int]:
        for item in self._first:
            self.taken.append(item)
            yield item
        assert self.is_first_used.wait(30)
        for item in self._others:
            self.taken.append(item)
            yield item
        self.are_all_there.set()


def test_items_that_arrive_while_others_are_in_use_are_gathered() -> None:
    items = Gated([1, 2], [3, 1])
    lists = sized(items)
    assert next(lists) == [1, 2]
    items.is_first_used.set()
    assert items.are_all_there.wait(30)
    assert list(lists) == [[3, 1]]


def test_no_more_is_gathered_than_the_bound_and_one_item() -> None:
    items = Gated([3], [2, 2, 2, 2])
    lists = sized(items)
    assert next(lists) == [3]
    items.is_first_used.set()
    soon(lambda: items.taken == [3, 2, 2, 2, 2])  # one is at hand
    assert not items.are_all_there.wait(0.2)
    assert next(lists) == [2, 2, 2]
    assert list(lists) == [[2]]


def test_an_error_of_the_items_is_raised_after_all_that_was_gathered() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise StorageError("the second is damaged")

    lists = sized(items())
    assert next(lists) == [1]
    with pytest.raises(StorageError, match="the second is damaged"):
        next(lists)
    assert list(sized([])) == []


def test_stopping_early_ends_the_waiting_thread() -> None:
    items = Gated([3], range(4, 50))
    lists = sized(items)
    assert next(lists) == [3]
    items.is_first_used.set()
    soon(lambda: items.taken == [3, 4, 5, 6])
    lists.close()
    assert items.taken == [3, 4, 5, 6]
