"""Work done ahead in threads, while what came before it is used: for what leaves the interpreter's lock to others.

Kernels, codecs and reading from files do so. How far the threads go ahead is bounded, and so is their memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Condition
from typing import Generic, TypeVar, cast

from pyspark_commitlog.storage.errors import LogStoreError

THREADS = 2

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
    """``work`` of each item, in their order; while one is used, up to ``THREADS`` more are begun.

    The caller's thread takes the items. LogStoreError and OSError raised by them come in their turn, as what ``work``
    raises does, so that the first damage of a file is told, whatever is wrong behind it. To stop early, close the
    generator: work that has begun is waited for, and what it raises means nothing.
    """
    begun = deque[Future[Result]]()
    with ThreadPoolExecutor(THREADS) as threads:
        for future in _begin_all(work, iter(items), threads):
            begun.append(future)
            if len(begun) > THREADS:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def one_ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """The items; the next one is taken in a thread while one is used. What taking it raises comes in its turn."""
    behind_last = cast(Item, object())  # equal to no item
    with ThreadPoolExecutor(1) as thread:
        take = partial(thread.submit, next, iter(items), behind_last)
        taken = take()
        while (item := taken.result()) is not behind_last:
            taken = take()
            yield item


def gathered(
    items: Iterable[Item], size: Callable[[Item], int], *, least: int, most: int
) -> Generator[list[Item], None, None]:
    """The items in lists, in order: all that a thread took while the list before was used.

    A list is waited for until it is large enough, or the items are over. ``least`` is enough at first, later half of
    all that was before, but never more than ``most``, which is no less than ``least``. So lists are large where there
    are many items, and what comes behind the last item is little beside all. The thread waits while one and a half
    times ``most`` is there.

    What taking an item raises comes behind the items before it. To stop early, close the generator: an item that is
    being taken is waited for.
    """
    waiting = _Waiting(size, least, most)
    with ThreadPoolExecutor(1) as thread:
        taken = thread.submit(waiting.fill, items)
        try:
            while waiting.are_some():
                yield waiting.take()  # which nobody here holds on to
            taken.result()
        finally:
            waiting.stop()


class _Waiting(Generic[Item]):
    """What one thread has taken and another has not used yet."""

    def __init__(self, size: Callable[[Item], int], least: int, most: int) -> None:
        self._size_of, self._least, self._most, self._bound = size, least, most, most + most // 2
        self._items: list[Item] = []
        self._size = self._size_before = 0  # of these, and of those that were taken before
        self._is_over = False
        self._changed = Condition()

    def fill(self, items: Iterable[Item]) -> None:
        """Take all items, unless stopped before."""
        try:
            for item in items:
                size = self._size_of(item)
                with self._changed:
                    self._changed.wait_for(lambda: self._size < self._bound or self._is_over)
                    if self._is_over:
                        return
                    self._items.append(item)
                    self._size += size
                    if self._is_enough():  # woken for less, who waits would only wait on
                        self._changed.notify()
        finally:
            self.stop()

    def are_some(self) -> bool:
        """Whether there is anything to take, once that is enough, or no more will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_enough() or self._is_over)
            return bool(self._items)

    def _is_enough(self) -> bool:
        return self._size >= min(max(self._least, self._size_before // 2), self._most)

    def take(self) -> list[Item]:
        """All there are."""
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
    work: Callable[[Item], Result], items: Iterator[Item], threads: ThreadPoolExecutor
) -> Iterator[Future[Result]]:
    try:
        for item in items:
            yield threads.submit(work, item)
    except (LogStoreError, OSError) as error:
        failed: Future[Result] = Future()
        failed.set_exception(error)
        yield failed
