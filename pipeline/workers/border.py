"""errors_end_here: errors of a log leave our code as their message, without the frames that raised them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

from ...storage import LogStoreError

Called = TypeVar("Called", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)


def errors_end_here(spark_calls: Class) -> Class:
    """Decorates a class whose public methods Spark calls.

    Spark shows the whole traceback of their errors, before and after the message. The message of a LogStoreError states
    what to do, and our frames only hide it. Other errors are bugs, and keep their frames.
    """
    for name, member in list(vars(spark_calls).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(spark_calls, name, ending_here(member))
    return spark_calls


def ending_here(call: Called) -> Called:
    """Like :func:`errors_end_here`, for one function or generator."""
    ending: Called = _iterating(call) if inspect.isgeneratorfunction(call) else _calling(call)
    return ending


def _calling(call: Any) -> Any:
    @wraps(call)
    def called(*args: Any, **named: Any) -> Any:
        try:
            return call(*args, **named)
        except LogStoreError as error:
            problem = _without_frames(error)
        raise problem

    return called


def _iterating(call: Any) -> Any:
    @wraps(call)
    def called(*args: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from call(*args, **named)
            return
        except LogStoreError as error:
            problem = _without_frames(error)
        raise problem

    return called


def _without_frames(error: LogStoreError) -> LogStoreError:
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
