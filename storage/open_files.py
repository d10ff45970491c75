"""How many files this process has open: fewer than it may have; and what to say where that is not enough.

A log has up to three files open, and a process may work on thousands of logs, but have 1,024 files open: the usual
limit of a shell (``ulimit -n``). So files that were opened long ago are closed when others are to be opened, and opened
again when they are used. Locks are files that stay open, so that their number is what a limit bounds in the end.
"""

from __future__ import annotations

import errno
import resource
import sys
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar
from weakref import ref

from pyspark_commitlog.storage.errors import StorageError

FILES_MIN = 8  # kept open whatever the limit is: else one would be opened for every read
CLOSED_AT_ONCE = 32  # of those that were opened first
OTHERS = 64  # files that are neither logs nor locks: sockets, pipes, libraries

TOO_MANY = frozenset({errno.EMFILE, errno.ENFILE})  # of this process, of all

T = TypeVar("T")


class Resting(Protocol):
    """A file that can be closed for a while."""

    def rest(self) -> bool:
        """Close it until its next use. False where it is in use, or must not be closed. Called under the lock."""
        ...


class OpenFiles:
    """The open files of a process, in the order in which they were opened.

    ``lock`` guards every change of a file's descriptor.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.locks: set[int] = set()  # descriptors of locks, which are not closed for others
        self.files: dict[int, ref[Resting]] = {}  # by descriptor, those that are not resting
        self.files_max = FILES_MIN  # where the limit is looked at again

    def make_room(self) -> None:
        """Close some files, if there are so many that others in this process may soon find no room."""
        left = limit() - len(self.locks)
        self.files_max = max(left - 2 * OTHERS, left // 2, FILES_MIN)
        if len(self.files) >= self.files_max:
            self._close_some()

    def retrying(self, opening: Callable[[], T]) -> T:
        """What ``opening`` returns; where the process has too many files open, others are closed and it is repeated."""
        while True:
            try:
                return opening()
            except OSError as error:
                if error.errno not in TOO_MANY or not self._close_some():
                    raise

    def _close_some(self) -> bool:
        """Close those that were opened first. False where none can be."""
        closed = 0
        with self.lock:
            for descriptor, found in list(self.files.items()):
                file = found()
                if file is not None and file.rest():
                    self.files.pop(descriptor, None)
                    closed += 1
                    if closed == CLOSED_AT_ONCE:
                        break
        return closed > 0

    def check_room_for_locks(self, count: int, what: str) -> None:
        """See to it that this process may hold ``count`` locks more, before anything is done.

        Raises this process's limit as far as that needs and its user may; StorageError where that is not far enough.
        """
        needed = count + len(self.locks) + FILES_MIN + OTHERS
        if needed > limit() and not _raise_limit(needed):
            raise StorageError(f"{what} needs {needed:,} open files at a time; {advice(needed)}")


OPEN_FILES = OpenFiles()


def limit() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _raise_limit(needed: int) -> bool:
    """The system has two limits: the hard one is how far this user may raise the other."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return True


def advice(needed: int | None = None) -> str:
    """What to do about a limit that is too low."""
    command = "ulimit -n" if needed is None else f"ulimit -n {needed}"
    return f"this process may have {limit():,}: raise that limit, with '{command}' in the shell that starts it"
