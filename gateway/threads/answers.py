"""Answers: collects several answers, which arrive in any order and from any thread."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

T = TypeVar("T")


def gathering(count: int, done: Callable[[list[T]], None]) -> Callable[[int, T], None]:
    """Returns a function that collects ``count`` answers, to be called with an answer's index and the answer.

    It may be called from any thread. Its last call calls ``done`` with all answers in the order of their indexes. If
    ``count`` is 0, ``done`` is called now.
    """
    found: dict[int, T] = {}
    lock = Lock()

    def put(index: int, answer: T) -> None:
        with lock:
            found[index] = answer
            is_last = len(found) == count
        if is_last:
            done([found[each] for each in range(count)])

    if not count:
        done([])
    return put
