"""What is asked and written while the disk cannot be opened is answered with the error, and works once it can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Event

import pytest

from pyspark_commitlog.gateway.threads.disk import A_LOOK, DiskWorker, Store
from pyspark_commitlog.gateway.threads.worker import Worker
from tests.support.waiting import soon

Disk = list[str]


class Words(Store[Disk, str]):
    """Writes words; notes how each was answered."""

    def __init__(self, worker: DiskWorker[Disk], home: Worker) -> None:
        super().__init__(worker, home)
        self.answered: list[tuple[str, Exception | None]] = []
        self.looks = 0

    def _one_look(self, disk: Disk) -> AbstractContextManager[Disk]:
        self.looks += 1
        return nullcontext(disk)

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


def answers_until_the_disk_opens(words: Words) -> list[object]:
    """Returns the two answers that questions get; the disk can be opened after that."""
    answers: list[object] = []
    for count in (1, 2):
        words.look(len, answers.append, answers.append)
        soon(lambda count=count: len(answers) == count)
    return answers


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


def test_questions_that_wait_share_one_look_and_see_every_write_before_them(words: Words) -> None:
    answers: list[object] = []
    for _ in range(2):  # the disk can be opened after that
        words.ask(len, lambda _: None, answers.append)
    soon(lambda: len(answers) == 2)
    all_wait = Event()
    words._disk.run(lambda: assert_set(all_wait))
    for word in ("first", "second"):
        for _ in range(3):
            words.look(len, answers.append, answers.append)
        words.write(word)
    words.look(len, answers.append, answers.append)
    all_wait.set()
    soon(lambda: len(answers) == 9)
    assert answers[2:] == [0, 0, 0, 2, 2, 2, 2]  # both writes went with the first one
    assert words.looks == 3


def test_a_look_that_fails_answers_its_question_alone(words: Words) -> None:
    answers = answers_until_the_disk_opens(words)
    both_wait = Event()
    words._disk.run(lambda: assert_set(both_wait))
    words.look(lambda disk: disk[5], answers.append, lambda error: answers.append(type(error)))
    words.look(len, answers.append, answers.append)
    both_wait.set()
    soon(lambda: answers[2:] == [IndexError, 0])


def test_a_crowd_of_questions_is_answered_in_several_looks(words: Words) -> None:
    answers = answers_until_the_disk_opens(words)
    all_wait = Event()
    words._disk.run(lambda: assert_set(all_wait))
    for _ in range(2 * A_LOOK + 1):
        words.look(len, answers.append, answers.append)
    all_wait.set()
    soon(lambda: answers[2:] == [0] * (2 * A_LOOK + 1))
    assert words.looks == 3


def test_what_a_patient_task_asks_is_answered_after_what_others_ask(words: Words) -> None:
    answers_until_the_disk_opens(words)
    answers: list[str] = []
    all_wait, asked = Event(), Event()

    def ask(name: str) -> None:
        words.look(lambda _: name, answers.append, answers.append)

    words._disk.run(lambda: assert_set(all_wait))
    words._disk.run_patient(lambda: None)  # whose turn is next
    words._home.run_patient(lambda: ask("patient"))
    words._home.run_patient(lambda: words._home.run(lambda: ask("other")))
    words._home.run_patient(asked.set)
    assert_set(asked)
    all_wait.set()
    soon(lambda: len(answers) == 2)
    assert answers == ["other", "patient"]
