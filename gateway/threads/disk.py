"""Disk: a thread that reads and writes for a coordinator, so that the coordinator never waits for the disk itself.

:class:`DiskWorker` is the thread, :class:`Store` the coordinator's interface to it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Generic, Protocol, TypeVar

from .said import Said
from .worker import Task, Timer, Worker

D = TypeVar("D")  # what reads and writes; it belongs to the thread of the disk
D_co = TypeVar("D_co", covariant=True)
W = TypeVar("W")  # one write
T = TypeVar("T")

logger = logging.getLogger(__name__)


class DiskWorker(Worker, Generic[D]):
    """A worker that owns an object that reads and writes, such as a log manager, and opens it at the first use."""

    def __init__(self, name: str, open_disk: Callable[[], D], close_disk: Callable[[D], None]) -> None:
        """Both functions are called in the thread of the worker."""
        super().__init__(name)
        self._open_disk, self._close_disk = open_disk, close_disk
        self._opened: D | None = None

    @property
    def opened(self) -> D:
        """The object that reads and writes. Raises what ``open_disk`` raises. Only for the thread of the worker."""
        if self._opened is None:
            self._opened = self._open_disk()
        return self._opened

    def close(self) -> None:
        """Closes the object, if it was opened."""
        if self._opened is not None:
            self._close_disk(self._opened)


class Disk(Protocol[D_co]):
    """The thread of the disk."""

    def run(self, task: Task) -> None:
        """Runs ``task`` after earlier ones. For any thread."""
        ...

    @property
    def opened(self) -> D_co:
        """The object that reads and writes, for tasks."""
        ...


class Home(Protocol):
    """The coordinator's thread."""

    def run(self, task: Task) -> None:
        """Runs ``task`` after earlier ones. For any thread."""
        ...

    def later(self, delay_s: float, task: Task) -> Timer:
        """Runs ``task`` after ``delay_s`` seconds, unless the timer is cancelled."""
        ...


class Store(ABC, Generic[D, W]):
    """Reads and writes in the thread of the disk, and answers in the coordinator's.

    Pending writes are written together. If the disk cannot be opened, questions and writes are answered with that
    error. Errors that are no refusals are logged, each kind once. Methods are for the coordinator's thread.
    """

    WHAT = "a coordinator's disk"  # that failed, for the log

    def __init__(self, disk: Disk[D], home: Home) -> None:
        self._disk, self._home, self._said = disk, home, Said(logger)
        self._waiting: list[W] = []
        self._guard = Lock()

    def ask(self, question: Callable[[D], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Calls ``done`` with the result of ``question``, or ``failed`` with its error; runs after earlier writes."""

        def run() -> None:
            try:
                answer = question(self._disk.opened)
            except Exception as error:  # of the disk, or ours
                self._note(error)
                self._home.run(partial(failed, error))
            else:
                self._home.run(partial(_pass, answer, done, failed))

        self._disk.run(run)

    def _put(self, write: W) -> None:
        """Queues a write, to be written together with others; then :meth:`_answer` is called."""
        with self._guard:
            self._waiting.append(write)
            is_first = len(self._waiting) == 1
        if is_first:
            self._disk.run(self._flush)

    def _flush(self) -> None:
        with self._guard:
            writes, self._waiting = self._waiting, []
        errors: Sequence[Exception | None]
        try:
            errors = self._write(self._disk.opened, writes)
        except Exception as error:  # of the disk, or ours: each client gets an answer
            errors = [error] * len(writes)
        for each in errors:
            if each is not None:
                self._note(each)
        self._home.run(partial(self._answer_all, writes, errors))

    def _answer_all(self, writes: Sequence[W], errors: Sequence[Exception | None]) -> None:
        """Answers in one turn of the coordinator's thread: to wake it for each takes longer than an answer."""
        for write, failure in zip(writes, errors, strict=True):
            try:
                self._answer(write, failure)
            except Exception:  # ours: the others get their answers
                logger.exception("an answer failed")

    def _note(self, error: Exception) -> None:
        """Logs an error at once, for its cause stays until somebody reads of it; requests only get its code."""
        if self._is_fault(error):
            self._said.log(self.WHAT, error)

    def _is_fault(self, error: Exception) -> bool:
        """Whether an error must be logged; False: it only answers a request that is refused."""
        return True

    @abstractmethod
    def _write(self, disk: D, writes: Sequence[W]) -> Sequence[Exception | None]:
        """Writes in the thread of the disk; returns the error of each, None for one that is written."""

    @abstractmethod
    def _answer(self, write: W, error: Exception | None) -> None:
        """Answers a write, in the coordinator's thread."""


def _pass(answer: T, done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
    """Calls ``done`` with an answer, or ``failed`` with the error that it raises, so that the caller is answered."""
    try:
        done(answer)
    except Exception as error:  # ours
        logger.exception("an answer failed")
        failed(error)
