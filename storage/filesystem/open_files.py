"""Keeps the number of files that this process has open below its limit.

A log has up to three files open, and a process may use thousands of logs, but may have only 1,024 open files, the usual
limit of a shell (``ulimit -n``). Therefore, when files are opened, others that were opened long ago are closed, and
opened again on their next use. The files of locks must stay open, so the limit still bounds the number of locks.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar
from weakref import ref

from ..errors import StorageError

FILES_MIN = 8  # this many files stay open even if the limit is too low, so that not every read opens a file
CLOSED_AT_ONCE = 32  # this many files, those opened first, are closed together
OTHERS = 64  # files that are neither logs nor locks: sockets, pipes, libraries

TOO_MANY = frozenset({errno.EMFILE, errno.ENFILE})  # for this process; for the system

T = TypeVar("T")


class Resting(Protocol):
    """A file that can be closed temporarily."""

    def rest(self) -> bool:
        """Close the file until its next use. Returns False if it is in use or must stay open.

        The caller holds ``OpenFiles.lock``.
        """
        ...


class OpenFiles:
    """The open files of a process, in the order in which they were opened.

    A thread must hold ``lock`` to change the descriptor of a file.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.locks: set[int] = set()  # descriptors of locks, which must stay open
        self.files: dict[int, ref[Resting]] = {}  # by descriptor, those that are not resting
        self.files_max = FILES_MIN  # at this number of files, the limit is checked again

    def make_room(self) -> None:
        """Close some files if the process is close to its limit."""
        available = limit() - len(self.locks)
        self.files_max = max(available - 2 * OTHERS, available // 2, FILES_MIN)
        if len(self.files) >= self.files_max:
            self._close_some()

    def retrying(self, opening: Callable[[], T]) -> T:
        """Calls ``opening`` and returns its result.

        If the process has too many open files, closes others and tries again.
        """
        while True:
            try:
                return opening()
            except OSError as error:
                if error.errno not in TOO_MANY or not self._close_some():
                    raise

    def _close_some(self) -> bool:
        """Close up to CLOSED_AT_ONCE files, those opened first. Returns False if no file can be closed."""
        closed = 0
        with self.lock:
            for descriptor, found in self.files.copy().items():  # a lock that is freed in between leaves the files
                file = found()
                if file is not None and file.rest():
                    self.files.pop(descriptor, None)
                    closed += 1
                    if closed == CLOSED_AT_ONCE:
                        break
        return closed > 0

    def check_room_for_locks(self, count: int, what: str) -> None:
        """Ensure, before an operation begins, that this process can hold ``count`` more locks.

        Increases the process's limit of open files as far as necessary and permitted; raises StorageError if that is
        not enough. ``what`` names the operation in the error.
        """
        needed = count + len(self.locks) + FILES_MIN + OTHERS
        if needed > limit() and not _raise_limit(needed):
            raise StorageError(f"{what} needs {needed:,} open files at a time; {advice(needed)}")


OPEN_FILES = OpenFiles()

# Hold the lock so that no file is being closed during a fork: the child inherits the descriptors as recorded.
os.register_at_fork(
    before=OPEN_FILES.lock.acquire, after_in_parent=OPEN_FILES.lock.release, after_in_child=OPEN_FILES.lock.release
)


def limit() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _raise_limit(needed: int) -> bool:
    """Raise the soft limit of open files to ``needed``. Returns False if that exceeds the user's hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        return False
    if soft != resource.RLIM_INFINITY and soft < needed:  # another thread may have raised it further
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return True


def advice(needed: int | None = None) -> str:
    """A sentence for errors: the limit of open files, and the command that raises it (to ``needed``, if given)."""
    command = "ulimit -n" if needed is None else f"ulimit -n {needed}"
    return f"this process may have {limit():,}: raise that limit, with '{command}' in the shell that starts it"
