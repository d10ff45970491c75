"""What a job says of an error: its message, without the frames of Java and of Python's workers around it.

``COMMITLOG_FRAMES=full`` shows the frames; conf/log4j2.properties reads the variable, too.
"""

from __future__ import annotations

import logging
import re
from os import environ

VARIABLE = "COMMITLOG_FRAMES"
_OWN_ERROR = re.compile(r"^pyspark_commitlog\.[\w.]+Error: (.+)$", re.MULTILINE)


def are_shown() -> bool:
    """Whether ``COMMITLOG_FRAMES`` asks for frames."""
    return environ.get(VARIABLE, "none") != "none"


def hide_frames() -> None:
    """Keeps py4j from logging what Python functions of a query raise; the query's error says the same."""
    if not are_shown():
        logging.getLogger("py4j").setLevel(logging.CRITICAL)


def cause(error: Exception) -> str:
    """Returns our own error in a line, where Spark's has it among the frames of a worker and the query's plan."""
    own = _OWN_ERROR.findall(str(error))
    return own[-1] if own and not are_shown() else str(error)
