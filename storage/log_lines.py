"""Keeps clients from forging lines of the log: their texts, in any message, stay within one line."""

from __future__ import annotations

import logging
import sys

from .text import printable

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_CONTINUED = "    "  # indents the further lines of an entry, such as those of a traceback


class LineFormatter(logging.Formatter):
    """Escapes control characters, such as ends of lines, and indents tracebacks, which may have texts of clients."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the name of what it overrides
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        first, *more = super().format(record).splitlines()
        return "\n".join([first, *(_CONTINUED + printable(each) for each in more)])


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Logs to stderr from here on, unless the process logs already; for programs, not for libraries.

    ``level``: of this package; of libraries, warnings are logged at most.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING))
    if level != logging.WARNING:
        logging.getLogger(__name__.partition(".")[0]).setLevel(level)
