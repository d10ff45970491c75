"""Disk: a thread that reads and writes for a coordinator, so that the coordinator never waits for the disk itself.

:class:`DiskWorker` is the thread, :class:`Store` the coordinator's interface to it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

from .said import Said
from .worker import Task, Timer, Worker

D = TypeVar("D")  # the object that reads and writes; it belongs to the thread of the disk
D_co = TypeVar("D_co", covariant=True)
W = TypeVar("W")  # one write
T = TypeVar("T")

_Look = tuple[Callable[[D], Any], Callable[[Any], None], Callable[[Exception], None]]  # question, done, failed
A_LOOK = 200  # questions; others have their turn after them

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

    def run_patient(self, task: Task) -> None:
        """Runs ``task`` after all others. For any thread."""
        ...

    @property
    def opened(self) -> D_co:
        """The object that reads and writes, for tasks."""
        ...


class Home(Protocol):
    """The coordinator's thread."""

    is_patient: bool  # whether the task that runs now lets others go first

    def run(self, task: Task) -> None:
        """Runs ``task`` after earlier ones. For any thread."""
        ...

    def later(self, delay_s: float, task: Task) -> Timer:
        """Runs ``task`` after ``delay_s`` seconds, unless the timer is cancelled."""
        ...


class Store(ABC, Generic[D, W]):
    """Reads and writes in the thread of the disk, and answers in the coordinator's.

    Pending writes are written together. If the disk cannot be opened, questions and writes are answered with that
    error. Errors other than refusals are logged, each kind once. Methods are for the coordinator's thread.
    """

    WHAT = "a coordinator's disk"  # the name of what failed, for the log

    def __init__(self, disk: Disk[D], home: Home) -> None:
        self._disk, self._home, self._said = disk, home, Said(logger)
        self._waiting: list[W] = []
        # Waiting questions that one read may answer, by whether they are patient.
        self._looks: dict[bool, list[_Look[D]] | None] = {True: None, False: None}
        self._guard = Lock()
        self._using = Lock()  # held while something uses the disk

    def ask(self, question: Callable[[D], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Calls ``done`` with the result of ``question``, or ``failed`` with its error; runs after earlier writes."""
        with self._guard:
            self._end_looks()
        self._flush_first()

        def run() -> None:
            try:
                with self._using:
                    answer = question(self._disk.opened)
            except Exception as error:  # an error of the disk or a bug
                self._note(error)
                self._home.run(partial(failed, error))
            else:
                self._home.run(partial(_pass, answer, done, failed))

        self._disk.run(run)

    def look(self, question: Callable[[D], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Like :meth:`ask`, for a question that only reads; waiting questions share one read of the log.

        One request may name thousands of groups, and a read may cost a request to an object store. A question of a
        patient task is patient, too: it runs after the questions of others.
        """
        is_patient = self._home.is_patient
        with self._guard:
            looks = self._looks[is_patient]
            is_first = looks is None or len(looks) == A_LOOK
            if looks is None or is_first:
                looks = self._looks[is_patient] = []
            looks.append((question, done, failed))
        if is_first:
            run = self._disk.run_patient if is_patient else self._disk.run
            run(partial(self._look, looks))

    def _end_looks(self) -> None:
        """Makes later questions read again, after the pending writes."""
        self._looks = {True: None, False: None}

    def _look(self, looks: list[_Look[D]]) -> None:
        with self._guard:
            for is_patient, waiting in self._looks.items():
                if waiting is looks:
                    self._looks[is_patient] = None  # no question is added from here on
        answers: list[Task] = []
        try:
            with self._using, self._one_look(self._disk.opened) as disk:
                for question, done, failed in looks:
                    answers.append(self._answered(disk, question, done, failed))
        except Exception as error:  # an error of the disk or a bug
            self._note(error)
            answers += [partial(failed, error) for _, _, failed in looks[len(answers) :]]
        self._home.run(partial(_call_all, answers))

    def _answered(
        self, disk: D, question: Callable[[D], T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> Task:
        try:
            answer = question(disk)
        except Exception as error:  # an error of the disk or a bug
            self._note(error)
            return partial(failed, error)
        return partial(_pass, answer, done, failed)

    def _one_look(self, disk: D) -> AbstractContextManager[D]:
        """Within the block, the disk may keep what it has read, because nothing is written."""
        return nullcontext(disk)

    def _put(self, write: W) -> None:
        """Queues a write, to be written together with others; then :meth:`_answer` is called."""
        with self._guard:
            self._end_looks()
            self._waiting.append(write)
            is_first = len(self._waiting) == 1
        if is_first:
            self._begin_flush()

    def _begin_flush(self) -> None:
        """Schedules the pending writes."""
        self._disk.run(self._flush)

    def _flush_first(self) -> None:
        """Schedules the pending writes before the next question."""

    def _taken(self) -> list[W]:
        """Removes the pending writes and returns them."""
        with self._guard:
            writes, self._waiting = self._waiting, []
        return writes

    def _flush(self) -> None:
        errors: Sequence[Exception | None]
        with self._using:  # acquired before the writes are taken, so that no other thread writes later ones first
            writes = self._taken()
            try:
                errors = self._write(self._disk.opened, writes) if writes else ()
            except Exception as error:  # an error of the disk or a bug: each client gets an answer
                errors = [error] * len(writes)
        for each in errors:
            if each is not None:
                self._note(each)
        self._home.run(partial(self._answer_all, writes, errors))

    def _answer_all(self, writes: Sequence[W], errors: Sequence[Exception | None]) -> None:
        """Answers in one turn of the coordinator's thread, because waking it for each takes longer than an answer."""
        for write, failure in zip(writes, errors, strict=True):
            try:
                self._answer(write, failure)
            except Exception:  # ours: the others get their answers
                logger.exception("an answer failed")

    def _note(self, error: Exception) -> None:
        """Logs an error at once, because its cause stays until an administrator sees it; requests only get its code."""
        if self._is_fault(error):
            self._said.log(self.WHAT, error)

    def _is_fault(self, error: Exception) -> bool:
        """Whether an error must be logged; False if it only refuses a request."""
        return True

    @abstractmethod
    def _write(self, disk: D, writes: Sequence[W]) -> Sequence[Exception | None]:
        """Writes in the thread of the disk; returns the error of each, None for one that is written."""

    @abstractmethod
    def _answer(self, write: W, error: Exception | None) -> None:
        """Answers a write, in the coordinator's thread."""


def _call_all(tasks: Sequence[Task]) -> None:
    for each in tasks:
        try:
            each()
        except Exception:  # ours: the others get their answers
            logger.exception("an answer failed")


def _pass(answer: T, done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
    """Calls ``done`` with an answer, or ``failed`` with the error that it raises, so that the caller is answered."""
    try:
        done(answer)
    except Exception as error:  # ours
        logger.exception("an answer failed")
        failed(error)
