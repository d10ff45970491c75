"""Patience: repeats requests that brokers did not answer, or refused for the moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ..errors import RetriableError

PATIENCE_S = 60.0  # while a leader or coordinator moves, starts or does not answer
_PAUSE_S = 0.2
AnswerT = TypeVar("AnswerT")


def patiently(ask: Callable[[], AnswerT], *, pause_s: float = _PAUSE_S) -> AnswerT:
    """Returns what ``ask`` returns, after it has raised RetriableError for up to a minute; then raises the last one."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except RetriableError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(pause_s)
