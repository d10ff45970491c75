"""Finds the processes of this machine that hold the lock of a file, for the errors of others that wait for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

_PROCESSES = "/proc"
_LOCK = b"\nlock:"  # a line about an open file that holds a lock (proc(5), fdinfo)
COMMAND_CHARACTERS_MAX = 100


def lock_holders(path: str) -> str:
    """Returns the processes that hold a lock on a file, as text that continues a sentence; empty if none is found.

    A lock lasts as long as any process has its file open. Children forked by Python close it (:mod:`.locks`), but
    children forked by a library may keep it after the process that took it has ended. Finds only processes that this
    one may inspect.
    """
    with suppress(OSError):
        found = [f"process {each} ({_command(each)})" for each in sorted(_holding(os.stat(path)))]
        if found:
            return f"; the lock is held by {' and '.join(found)}"
    return ""


def _holding(file: os.stat_result) -> Iterator[int]:
    for name in os.listdir(_PROCESSES):
        if name.isdecimal():
            with suppress(OSError):  # of another user, or it has ended
                if any(_holds(name, descriptor, file) for descriptor in os.listdir(f"{_PROCESSES}/{name}/fd")):
                    yield int(name)


def _holds(process: str, descriptor: str, file: os.stat_result) -> bool:
    with suppress(OSError):  # closed in the meantime
        if os.path.samestat(os.stat(f"{_PROCESSES}/{process}/fd/{descriptor}"), file):
            with open(f"{_PROCESSES}/{process}/fdinfo/{descriptor}", "rb") as info:
                return _LOCK in info.read()
    return False


def _command(process: int) -> str:
    """Returns the command line of a process, without characters that could forge a line of a log."""
    with open(f"{_PROCESSES}/{process}/cmdline", "rb") as file:
        words = file.read(4 * COMMAND_CHARACTERS_MAX).decode(errors="replace").split("\0")
    text = " ".join(words).strip()
    return "".join(each if each.isprintable() else "?" for each in text)[:COMMAND_CHARACTERS_MAX]
