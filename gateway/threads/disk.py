"""Disk: a thread that reads and writes for a coordinator, so that the coordinator never waits for the disk itself.

:class:`DiskWorker` is the thread, :class:`Store` what a coordinator asks it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Generic, Protocol, TypeVar

from .worker import Task, Timer, Worker

D = TypeVar("D")  # what reads and writes; it belongs to the thread of the disk
W = TypeVar("W")  # one write
T = TypeVar("T")


class DiskWorker(Worker, Generic[D]):
    """A worker that owns what reads and writes, such as a log manager, which is opened at the first use."""

    def __init__(self, name: str, open_disk: Callable[[], D], close_disk: Callable[[D], None]) -> None:
        """Both functions are called in the thread of the worker."""
        super().__init__(name)
        self._open_disk, self._close_disk = open_disk, close_disk
        self._opened: D | None = None

    def ask(self, task: Callable[[D], None]) -> None:
        """Runs ``task`` after those given before. For any thread."""
        self.run(lambda: task(self.opened))

    @property
    def opened(self) -> D:
        """The object that reads and writes. Only for the thread of the worker."""
        if self._opened is None:
            self._opened = self._open_disk()
        return self._opened

    def close(self) -> None:
        """Closes what was opened."""
        if self._opened is not None:
            self._close_disk(self._opened)


class Home(Protocol):
    """The coordinator's thread."""

    def run(self, task: Task) -> None:
        """Runs ``task`` after those given before. For any thread."""
        ...

    def later(self, delay_s: float, task: Task) -> Timer:
        """Runs ``task`` after ``delay_s``, unless the timer is cancelled."""
        ...


class Store(ABC, Generic[D, W]):
    """Reads and writes in the thread of the disk, and answers in the coordinator's.

    What waits to be written is written together. Its methods are for the coordinator's thread.
    """

    def __init__(self, on_disk: Callable[[Callable[[D], None]], None], home: Home) -> None:
        """``on_disk`` runs tasks in the thread of the disk."""
        self._on_disk, self._home = on_disk, home
        self._waiting: list[W] = []
        self._guard = Lock()

    def ask(self, question: Callable[[D], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Calls ``done`` with the answer of a question, or ``failed`` with its error, after what was written before."""

        def run(disk: D) -> None:
            try:
                answer = question(disk)
            except Exception as error:  # of the disk, or ours
                self._home.run(partial(failed, error))
            else:
                self._home.run(partial(done, answer))

        self._on_disk(run)

    def _put(self, write: W) -> None:
        """Writes with what else waits; then :meth:`_answer` is called."""
        with self._guard:
            self._waiting.append(write)
            is_first = len(self._waiting) == 1
        if is_first:
            self._on_disk(self._flush)

    def _flush(self, disk: D) -> None:
        with self._guard:
            writes, self._waiting = self._waiting, []
        errors: Sequence[Exception | None]
        try:
            errors = self._write(disk, writes)
        except Exception as error:  # of ours: each client gets an answer
            errors = [error] * len(writes)
        for write, failure in zip(writes, errors, strict=True):
            self._home.run(partial(self._answer, write, failure))

    @abstractmethod
    def _write(self, disk: D, writes: Sequence[W]) -> Sequence[Exception | None]:
        """Writes in the thread of the disk; returns the error of each, None for one that is written."""

    @abstractmethod
    def _answer(self, write: W, error: Exception | None) -> None:
        """Answers a write, in the coordinator's thread."""
