"""A fault is logged at once, and once, although every request meets it."""

from __future__ import annotations

import logging

import pytest

from pyspark_commitlog.gateway.threads.repeats import KINDS_MAX
from pyspark_commitlog.gateway.threads.said import AGAIN_S, Said
from pyspark_commitlog.storage.errors import CorruptionError

logger = logging.getLogger("tests.said")


class Time:
    """A clock that is set."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def said(time: Time) -> Said:
    return Said(logger, time)


def test_a_fault_is_logged_once_and_again_after_a_while(
    said: Said, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        said.log("groups cannot be stored", OSError(f"no disk, group {number}"))
    assert caplog.messages == ["groups cannot be stored: no disk, group 0"]
    time.now_s = AGAIN_S
    said.log("groups cannot be stored", OSError("no disk"))
    assert len(caplog.messages) == 2


def test_faults_of_several_kinds_and_files_are_all_logged(said: Said, caplog: pytest.LogCaptureFixture) -> None:
    for path in ("a", "b", "a"):
        said.log("read", CorruptionError("damage", path=path))
    said.log("read", OSError("no disk"))
    said.log("write", OSError("no disk"))
    assert len(caplog.messages) == 4


def test_what_was_logged_takes_bounded_memory(said: Said) -> None:
    for number in range(3 * KINDS_MAX):
        said.log(f"request {number}", OSError("no disk"))
    assert len(said._repeats) <= KINDS_MAX
