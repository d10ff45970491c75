"""The command without a process of its own: what it prints, and its exit code."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest.mock import patch

from pyspark_commitlog.cli import main


class Done(NamedTuple):
    """As a shell sees it."""

    code: int
    stdout: str
    stderr: str


class Terminal(io.StringIO):
    """Somebody watches."""

    def isatty(self) -> bool:
        return True


def commitlog(*arguments: object, terminal: bool = False) -> Done:
    """Run ``commitlog`` with ``arguments``."""
    out, err = Terminal() if terminal else io.StringIO(), io.StringIO()
    code: object = 0
    argv = ["commitlog", *map(str, arguments)]
    with patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    assert isinstance(code, int)
    return Done(code, out.getvalue(), err.getvalue())
