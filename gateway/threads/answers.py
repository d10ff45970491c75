"""Answers: collects answers that arrive in any order and from any thread; asks for many items in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
Item = TypeVar("Item")
C = TypeVar("C")

A_TURN = 100  # items that are asked for together, before others have their turn
A_FEW = 10  # requests with more items are patient: requests with few items go first


def gathering(count: int, done: Callable[[list[T]], None]) -> Callable[[int, T], None]:
    """Returns a function that collects ``count`` answers, to be called with an answer's index and the answer.

    It may be called from any thread. Its last call calls ``done`` with all answers in the order of their indexes. If
    ``count`` is 0, ``done`` is called now.
    """
    found: dict[int, T] = {}
    lock = Lock()  # Guards the answers.

    def put(index: int, answer: T) -> None:
        with lock:
            found[index] = answer
            is_last = len(found) == count
        if is_last:
            done([found[each] for each in range(count)])

    if not count:
        done([])
    return put


class Turns(Generic[C, Item, T]):
    """Asks for an answer about each of many items, a few at a time, so that the thread serves others in between."""

    def __init__(
        self,
        run: Callable[[Callable[[C], None], bool], None],
        items: Sequence[Item],
        ask: Callable[[C, Item, Callable[[T], None]], None],
        done: Callable[[Sequence[T]], None],
    ) -> None:
        """``run`` queues a task in the thread, which gets an object that only the thread may use.

        Its second argument: whether the task is patient (:meth:`Worker.run_patient`).
        ``ask`` is called there with that object, an item, and a function that takes the answer. ``done`` is called with
        all answers, in the order of the items, in the thread where the last one arrives.
        """
        self._run, self._items, self._ask, self._done = run, items, ask, done
        self._answers: list[T] = []

    def start(self) -> None:
        """Asks for the first items. For any thread."""
        self._go_on()

    def _go_on(self) -> None:
        self._run(self._next, len(self._items) > A_FEW)

    def _next(self, owned: C) -> None:
        some = self._items[len(self._answers) : len(self._answers) + A_TURN]
        put = gathering(len(some), self._take)
        for index, item in enumerate(some):
            self._ask(owned, item, partial(put, index))

    def _take(self, answers: Sequence[T]) -> None:
        self._answers += answers
        if len(self._answers) == len(self._items):
            self._done(self._answers)
        else:
            self._go_on()
