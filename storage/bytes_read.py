"""Counts the bytes of ``.log`` files that this process reads, for progress bars of commands and of the browser page.

These counts are no metrics: nothing is counted while no bar is shown, nor what other processes read, such as Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Data = TypeVar("Data", bytes, memoryview)

_counters = list[Callable[[int], None]]()


@contextmanager
def counting_reads(count: Callable[[int], None]) -> Iterator[None]:
    """Within the ``with`` block, calls ``count`` with the bytes of each read of a ``.log``, from any thread."""
    _counters.append(count)
    try:
        yield
    finally:
        _counters.remove(count)


def counted(data: Data) -> Data:
    """Counts the length of ``data``, which was read from a ``.log``, and returns it."""
    for count in _counters:
        count(len(data))
    return data


def count_passed(size: Callable[[], int]) -> None:
    """Counts bytes of a ``.log`` that need not be read; ``size`` is called only while bytes are counted."""
    for count in _counters:
        count(size())
