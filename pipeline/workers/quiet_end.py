"""Ends Spark's Python workers without a traceback.

Spark ends an idle worker by closing the connection. The worker then tries to answer that there was no task. Over TCP
this succeeds, although nobody reads the answer; over a unix socket it fails, and ``pyspark.daemon`` prints a traceback
in the middle of a run that succeeds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

PLAIN_DAEMON = "pyspark.daemon"


def ending_quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """Returns Spark's function ``worker``, changed to end without a traceback when Spark closes the connection."""

    @wraps(worker)
    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            sys.unraisablehook = _report_others  # for errors that Python 3.13 finds when it closes the worker's files
            return 1

    return run


def _report_others(found: sys.UnraisableHookArgs) -> None:
    if not isinstance(found.exc_value, BrokenPipeError):
        sys.__unraisablehook__(found)


def end_quietly() -> None:
    """Changes this process if ``pyspark.daemon`` forked it; does nothing elsewhere.

    Processes that find, plan and commit always come from ``pyspark.daemon``, whatever ``spark.python.daemon.module``
    says. It calls its function ``worker`` by name for each task, so the call that fails is already another one.
    """
    daemon: Any = sys.modules["__main__"]
    is_plain = getattr(getattr(daemon, "__spec__", None), "name", None) == PLAIN_DAEMON
    if is_plain and not hasattr(daemon.worker, "__wrapped__"):
        daemon.worker = ending_quietly(daemon.worker)
