"""What is asked and written while the disk cannot be opened is answered with the error, and works once it can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event

import pytest

from pyspark_commitlog.gateway.threads import DiskWorker, Store, Worker
from tests.support.waiting import soon

Disk = list[str]


class Words(Store[Disk, str]):
    """Writes words; notes how each was answered."""

    def __init__(self, worker: DiskWorker[Disk], home: Worker) -> None:
        super().__init__(worker, home)
        self.answered: list[tuple[str, Exception | None]] = []

    def write(self, word: str) -> None:
        self._put(word)

    def _write(self, disk: Disk, writes: Sequence[str]) -> Sequence[None]:
        disk += writes
        return [None] * len(writes)

    def _answer(self, write: str, error: Exception | None) -> None:
        if write == "wrong":
            raise ValueError(write)
        self.answered.append((write, error))


def assert_set(event: Event) -> None:
    assert event.wait(30)


NO_FILES = OSError(24, "Too many open files")


@pytest.fixture
def words() -> Iterator[Words]:
    errors: list[Exception] = [NO_FILES, NO_FILES]

    def open_disk() -> Disk:
        if errors:
            raise errors.pop()
        return []

    worker, home = DiskWorker("disk", open_disk, list[str].clear), Worker("home")
    worker.start()
    home.start()
    yield Words(worker, home)
    worker.stop()
    home.stop()


def test_a_write_is_answered_if_the_disk_cannot_be_opened_and_the_next_one_is_written(words: Words) -> None:
    for word in ("first", "second", "third"):
        words.write(word)
        soon(lambda word=word: [each for each, _ in words.answered][-1] == word)
    assert words.answered == [("first", NO_FILES), ("second", NO_FILES), ("third", None)]


def test_an_answer_that_fails_keeps_no_other_from_being_given(words: Words) -> None:
    both_wait = Event()
    words._disk.run(lambda: assert_set(both_wait))
    for word in ("wrong", "right"):
        words.write(word)
    both_wait.set()
    soon(lambda: [word for word, _ in words.answered] == ["right"])


def test_a_question_is_answered_if_the_disk_cannot_be_opened(words: Words) -> None:
    answers: list[object] = []
    for count in (1, 2, 3):
        words.ask(len, answers.append, answers.append)
        soon(lambda count=count: len(answers) == count)
    assert answers == [NO_FILES, NO_FILES, 0]
