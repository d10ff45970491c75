"""Runs the command in this process; returns its output and exit code."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest.mock import patch

from pyspark_commitlog.cli import main


class Done(NamedTuple):
    """Exit code and output as a shell sees them; bytes that are not UTF-8 become ``\\xff``."""

    code: int
    stdout: str
    stderr: str


class Stream(io.TextIOWrapper):
    """An output stream for text and bytes; ``is_watched``: it claims to be a terminal."""

    def __init__(self, written: bytes = b"", *, is_watched: bool = False) -> None:
        super().__init__(io.BytesIO(written), encoding="utf-8", write_through=True)
        self._is_watched = is_watched

    def isatty(self) -> bool:
        return self._is_watched

    def text(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(errors="backslashreplace")


def commitlog(*arguments: object, terminal: bool = False, stdin: bytes = b"") -> Done:
    """Runs ``commitlog`` with ``arguments``."""
    out, err = Stream(is_watched=terminal), Stream(is_watched=terminal)
    code: object = 0
    argv = ["commitlog", *map(str, arguments)]
    with (
        patch.object(sys, "argv", argv),
        patch.object(sys, "stdin", Stream(stdin)),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    assert isinstance(code, int)
    return Done(code, out.text(), err.text())
