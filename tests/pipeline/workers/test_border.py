"""What Spark shows of an error of the log: its message, without the frames that raised it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator

import pytest

from pyspark_commitlog.pipeline.workers.border import errors_end_here
from pyspark_commitlog.storage import InvalidConfigError


def deep(error: Exception) -> None:
    def deeper() -> None:
        try:
            raise KeyError("a cause")
        except KeyError as cause:
            raise error from cause

    deeper()


@errors_end_here
class Called:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def partitions(self) -> None:
        deep(self._error)

    def read(self) -> Iterator[int]:
        yield 1
        deep(self._error)


CALLS = pytest.mark.parametrize("call", [Called.partitions, lambda called: list(called.read())])


def shown(call: Callable[[Called], object], error: Exception) -> str:
    with pytest.raises(type(error)) as raised:
        call(Called(error))
    return "".join(traceback.format_exception(raised.value))


@CALLS
def test_an_error_of_the_log_is_shown_without_frames_of_ours(call: Callable[[Called], object]) -> None:
    text = shown(call, InvalidConfigError("unknown option 'x'"))
    assert text.endswith("unknown option 'x'\n")
    assert "in deep" not in text
    assert "a cause" not in text


@CALLS
def test_a_fault_of_ours_keeps_its_frames(call: Callable[[Called], object]) -> None:
    text = shown(call, ZeroDivisionError("ours"))
    assert "in deeper" in text
    assert "a cause" in text


def test_what_is_read_before_the_error_is_kept() -> None:
    values = Called(InvalidConfigError("later")).read()
    assert next(values) == 1
