"""Bounded read-ahead in threads, for tasks that release the GIL.

Kernels, codecs and file reads release it. The bound on the read-ahead also bounds the memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Condition
from typing import Generic, TypeVar, cast

from .errors import LogStoreError

THREADS = 2

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    task: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS
) -> Generator[Result, None, None]:
    """Yields the result of ``task`` for each item, in order; as many ``threads`` compute as many results ahead.

    The caller's thread iterates over ``items``. A LogStoreError or OSError from ``items`` or ``task`` is raised after
    the results before it, so that the first damage in a file is reported, whatever follows. To stop early, close the
    generator, which waits for tasks in progress and ignores their errors.
    """
    begun = deque[Future[Result]]()
    with ThreadPoolExecutor(threads) as pool:
        for future in _begin_all(task, iter(items), pool):
            begun.append(future)
            if len(begun) > threads:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def one_ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yields the items; a thread fetches the next one ahead. An error is raised after the items before it."""
    end = cast(Item, object())  # equal to no item
    with ThreadPoolExecutor(1) as thread:
        take = partial(thread.submit, next, iter(items), end)
        taken = take()
        while (item := taken.result()) is not end:
            taken = take()
            yield item


def gathered(
    items: Iterable[Item], size: Callable[[Item], int], *, least: int, most: int
) -> Generator[list[Item], None, None]:
    """Yields the items in lists, in order: each list has all items fetched by a thread since the previous list.

    A list is yielded once the sum of ``size`` over its items is large enough, or the items end. At first, ``least`` is
    enough, later half the size of all previous lists, but never more than ``most``, which must not be below ``least``.
    Therefore lists are large if there are many items, and the last list is small compared with the total. The thread
    pauses while items of 1.5 times ``most`` are waiting.

    An error while fetching an item is raised after the items before it. To stop early, close the generator: it waits
    for an item that is being fetched.
    """
    waiting = _Waiting(size, least, most)
    with ThreadPoolExecutor(1) as thread:
        taken = thread.submit(waiting.fill, items)
        try:
            while waiting.are_some():
                yield waiting.take()  # without keeping a reference here
            taken.result()
        finally:
            waiting.stop()


class _Waiting(Generic[Item]):
    """Items that one thread has fetched and another has not taken yet."""

    def __init__(self, size: Callable[[Item], int], least: int, most: int) -> None:
        self._size_of, self._least, self._most, self._bound = size, least, most, most + most // 2
        self._items: list[Item] = []
        self._size = self._size_before = 0  # of the waiting items, and of all taken before
        self._is_over = False
        self._changed = Condition()  # Guards all fields.

    def fill(self, items: Iterable[Item]) -> None:
        """Fetches all items, unless :meth:`stop` is called earlier."""
        try:
            for item in items:
                size = self._size_of(item)
                with self._changed:
                    self._changed.wait_for(lambda: self._size < self._bound or self._is_over)
                    if self._is_over:
                        return
                    self._items.append(item)
                    self._size += size
                    if self._is_enough():  # waking the consumer for less would only make it wait again
                        self._changed.notify()
        finally:
            self.stop()

    def are_some(self) -> bool:
        """Waits until there are enough items or no more will come; returns whether there are any."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_enough() or self._is_over)
            return bool(self._items)

    def _is_enough(self) -> bool:
        return self._size >= min(max(self._least, self._size_before // 2), self._most)

    def take(self) -> list[Item]:
        """Removes and returns all waiting items."""
        with self._changed:
            taken, self._items = self._items, []
            self._size_before, self._size = self._size_before + self._size, 0
            self._changed.notify()
            return taken

    def stop(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()


def _begin_all(
    task: Callable[[Item], Result], items: Iterator[Item], threads: ThreadPoolExecutor
) -> Iterator[Future[Result]]:
    try:
        for item in items:
            yield threads.submit(task, item)
    except (LogStoreError, OSError) as error:
        failed: Future[Result] = Future()
        failed.set_exception(error)
        yield failed
