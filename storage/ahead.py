"""Work done ahead in threads, while what came before it is used: for what leaves the interpreter's lock to others.

Kernels, codecs and reading from files do so. How far the threads go ahead is bounded, and so is their memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar, cast

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
