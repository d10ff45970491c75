"""The error text of a job: the message, without the frames of Java and of Python's workers around it.

``COMMITLOG_FRAMES=full`` shows the frames; conf/log4j2.properties reads the variable, too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import cache
from os import environ

from ...storage import EXIT_DAMAGED, CorruptionError

VARIABLE = "COMMITLOG_FRAMES"
_OWN_ERROR = re.compile(r"^pyspark_commitlog\.[\w.]+Error: (.+)$", re.MULTILINE)


def are_shown() -> bool:
    """Whether ``COMMITLOG_FRAMES`` asks for frames."""
    return environ.get(VARIABLE, "none") != "none"


def hide_frames() -> None:
    """Keeps py4j from logging errors of a query's Python functions; the query's error has the same text."""
    if not are_shown():
        logging.getLogger("py4j").setLevel(logging.CRITICAL)


def cause(error: Exception) -> str:
    """Returns our own error as one line, from Spark's error with the frames of a worker and the query's plan."""
    own = _OWN_ERROR.findall(str(error))
    return own[-1] if own and not are_shown() else str(error)


def failure_code(error: Exception) -> int:
    """Returns the exit code for an error: 3 for damage of a log, even if only in the text of Spark's error, else 1."""
    is_damage = isinstance(error, CorruptionError) or bool(_damage_named().search(str(error)))
    return EXIT_DAMAGED if is_damage else 1


@cache
def _damage_named() -> re.Pattern[str]:
    return re.compile(rf"\bpyspark_commitlog\.[\w.]+\.({'|'.join(_names_below(CorruptionError))}): ")


def _names_below(error: type[Exception]) -> Iterator[str]:
    yield error.__name__
    for each in error.__subclasses__():
        yield from _names_below(each)
