"""Files that are read and replaced as a whole: of users, ACLs and quotas."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

from ...storage import InvalidConfigError, LocalFileSystem

T = TypeVar("T")

_OWNER_ONLY = 0o600
LOOK_S = 0.5  # how often files are checked, so that changes by other nodes are in force within a second

Stamp = tuple[int, int, int]

logger = logging.getLogger(__name__)


def stamp(path: str) -> Stamp | None:
    """Returns a value that changes whenever the file is replaced; None if it does not exist. Raises other OSErrors."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Holds the lock for changes of a file, which excludes all other processes; waits for it."""
    lock_path = path + ".lock"
    os.close(_private(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC))
    lock = LocalFileSystem().lock(lock_path)
    assert lock is not None  # it waits
    with lock:
        yield


def replace(path: str, text: str) -> None:
    """Replaces a file, which only its owner may read; it is complete at every moment, and synced on return.

    The caller holds the lock. A crash leaves the old file or the new one, and perhaps one that ends with ``.tmp``,
    which the next change overwrites.
    """
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8", opener=_private) as file:
        file.write(text)
        file.flush()
        _set_time_after(path, file.fileno())
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_folder(path)


def _set_time_after(path: str, descriptor: int) -> None:
    """Makes a file newer than the one it replaces, so that their stamps differ even if both have one inode and size.

    The system's own times are too coarse for that: several files may be written within one of its ticks.
    """
    old = stamp(path)
    now_ns = time.time_ns() if old is None else max(time.time_ns(), old[1] + 1_000)
    os.utime(descriptor, ns=(now_ns, now_ns))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, _OWNER_ONLY)


def _sync_folder(path: str) -> None:
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Watched(Generic[T]):
    """A file's content, read again when it has changed."""

    def __init__(self, path: str, read: Callable[[], T], what: str) -> None:
        """``what``: a name for the file's content in the log, such as rules. Raises the errors of ``read``."""
        self.path, self._read, self._what = path, read, what
        self.seen: Stamp | None = stamp(path)  # before it is read
        self.content = read()
        self._reported = ""

    def look(self) -> bool:
        """Reads the file if it has changed; returns whether it has. A file that cannot be used changes nothing."""
        try:
            found = stamp(self.path)
            if found == self.seen:
                return False
            if found is None:
                raise FileNotFoundError(f"{self.path} is missing")
            self.content = self._read()
        except (OSError, InvalidConfigError) as error:
            self._report(str(error))
            return False
        self.seen, self._reported = found, ""
        return True

    def _report(self, problem: str) -> None:
        """Logs a problem once, although each check finds it."""
        if problem != self._reported:
            self._reported = problem
            logger.error("the new %s are not used, the old ones stay: %s", self._what, problem)


class Form(NamedTuple, Generic[T]):
    """The encoding of a file's content, as JSON with a version."""

    version: int
    empty: T  # the content of a missing file
    read: Callable[[Any], T]  # from the document; raises ValueError, TypeError, KeyError or AttributeError
    write: Callable[[T], str]


class KeptFile(Watched[T]):
    """A file that the gateway writes for its clients; all nodes over a log share it. Missing until the first change."""

    def __init__(self, path: str, what: str, form: Form[T]) -> None:
        """``what``: a name for the content, such as ACLs.

        Raises OSError, and InvalidConfigError if it is another kind of file.
        """
        self._form = form
        super().__init__(path, lambda: self._read_form(path, what), what)

    def _read_form(self, path: str, what: str) -> T:
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            if document["version"] != self._form.version:
                raise ValueError(f"version {document['version']}")
            return self._form.read(document)
        except FileNotFoundError:
            return self._form.empty
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidConfigError(f"{path}: not a file of {what}, as the gateway writes it: {error!r}") from None

    def change(self, change: Callable[[T], T]) -> None:
        """Replaces the content by what ``change`` returns for it; it is synced on return.

        Raises OSError, the errors of ``change`` and of the form, and InvalidConfigError if the file is of another kind,
        or has disappeared. Then nothing is written.
        """
        with locked(self.path):
            if self.seen is not None and stamp(self.path) is None:
                raise InvalidConfigError(
                    f"{self.path}: the file of {self._what} is missing; put it back, or start again"
                )
            before = self._read()
            after = change(before)
            if after != before:
                replace(self.path, self._form.write(after))
            self.content, self.seen = after, stamp(self.path)  # before others may change it


class Looks:
    """Decides when watched files are checked: twice per second, by one thread, and not while ``lock`` is held."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.lock = Lock()  # of those who change the files
        self._now_s, self._at_s = now_s, now_s() + LOOK_S

    def run(self, look: Callable[[], None]) -> None:
        """Calls ``look`` if a check is due."""
        if self._now_s() >= self._at_s and self.lock.acquire(blocking=False):
            try:
                look()
            finally:
                self._at_s = self._now_s() + LOOK_S
                self.lock.release()
