"""Locks of the local file system: ``flock`` between our processes, and the lock that excludes a Kafka broker."""

from __future__ import annotations

import fcntl
import getpass
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Self
from weakref import ref

from ..errors import LockHeldError
from .holders import lock_holders
from .local_file import CLOSED, OPEN_FLAGS, AddingContext
from .open_files import OPEN_FILES

# Linux's lock of an open file description. A Python built against an old libc (conda's) lacks the name of the kernel's
# command; its number is part of the kernel's interface and does not change.
_F_OFD_SETLK: int = getattr(fcntl, "F_OFD_SETLK", 37)
_FLOCK = struct.Struct("@hhqqi4x")  # struct flock: l_type, l_whence, l_start, l_len, l_pid (0 for this command)
_TO_THE_END = 0  # as the length of a lock: up to the end of the file, however far that moves
_POLL_S, _POLL_MAX_S = 0.0005, 0.02  # pauses between two checks of a held lock: the first, and the longest


class LocalLock:
    """A lock on a file, held by an open descriptor; implements :class:`.port.Lock`.

    While it is unlocked, its descriptor may be closed to make room for other files.
    """

    def __init__(
        self, path: str, descriptor: int, lock: Callable[[int, bool], None], unlock: Callable[[int], None]
    ) -> None:
        """``descriptor``: that of the locked file.

        ``lock`` takes the lock of a descriptor; its second argument: whether to wait.
        """
        self._path = path
        self._descriptor = descriptor
        self._lock, self._unlock = lock, unlock
        self._is_held = True
        self._process = os.getpid()

    @property
    def is_inherited(self) -> bool:
        return self._process != os.getpid()

    @property
    def _is_open(self) -> bool:
        """False in a forked child too: it closed its copy, and may have another file under this number."""
        return self._descriptor != CLOSED and not self.is_inherited

    def release(self) -> None:
        if not self._is_open:
            return
        with OPEN_FILES.lock:
            descriptor, self._descriptor = self._descriptor, CLOSED
            OPEN_FILES.files.pop(descriptor, None)
        try:
            # Closing alone would leave the lock with a child that a library forked without Python's knowledge.
            self._unlock(descriptor)
        finally:
            _close_lock_file(descriptor)

    def unlock(self) -> None:
        if self._is_open and self._is_held:
            self._unlock(self._descriptor)
            self._may_rest()

    def _may_rest(self) -> None:
        """Lets the file be closed to make room for others."""
        with OPEN_FILES.lock:
            self._is_held = False
            OPEN_FILES.files[self._descriptor] = ref(self)

    def lock_again(self, *, wait: bool = True) -> bool:
        with OPEN_FILES.lock:
            if not self._is_open:
                return False
            self._is_held = True
            OPEN_FILES.files.pop(self._descriptor, None)
        try:
            with AddingContext("lock", self._path):
                self._lock(self._descriptor, wait)
                if os.fstat(self._descriptor).st_nlink:
                    return True
        except BlockingIOError:
            self._may_rest()
            return False
        except BaseException:
            self.release()
            raise
        self.release()
        return False

    def rest(self) -> bool:
        """Close the file of a lock that is not held; see :class:`.open_files.Resting`."""
        if self._is_held or not self._is_open:
            return False
        descriptor, self._descriptor = self._descriptor, CLOSED
        _close_lock_file(descriptor)
        return True

    def read(self, length: int) -> bytes:
        with AddingContext("read", self._path):
            return os.pread(self._descriptor, length, 0)

    def write(self, data: bytes) -> None:
        with AddingContext("write", self._path):
            os.ftruncate(self._descriptor, 0)
            if data:
                os.pwrite(self._descriptor, data, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __del__(self) -> None:
        if not self._is_held:
            self.release()


class Waits:
    """Takes ``flock`` locks, and waits for some of them only for a limited time.

    After a timeout, it does not wait for that lock until it has been free. So a process that is paused with a lock
    delays a thread once, and not at each use.
    """

    def __init__(self, limits_s: Mapping[str, float]) -> None:
        """``limits_s``: timeouts by the names of locks' files; waits for other locks are unlimited."""
        self._limits_s = limits_s
        self._given_up: set[str] = set()  # paths of locks that were held for longer

    def flock(self, path: str, operation: int, descriptor: int, wait: bool) -> None:
        """Takes the lock of an open file. Raises LockHeldError, and BlockingIOError if it must not wait."""
        if not wait:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
            self._given_up.discard(path)
            return
        limit_s = self._limits_s.get(path.rpartition("/")[2])
        if limit_s is None:
            fcntl.flock(descriptor, operation)
        else:
            self._flock_within(limit_s, path, descriptor, operation)

    def _flock_within(self, limit_s: float, path: str, descriptor: int, operation: int) -> None:
        until_s = time.monotonic() + (0 if path in self._given_up else limit_s)
        pause_s = _POLL_S
        while not self._takes(descriptor, operation):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                holders = "" if path in self._given_up else lock_holders(path)  # searched for once: that takes long
                self._given_up.add(path)
                raise LockHeldError(
                    f"{path}: another process has held this lock for more than {limit_s:g} s; is it paused?{holders}"
                )
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _POLL_MAX_S)
        self._given_up.discard(path)

    def _takes(self, descriptor: int, operation: int) -> bool:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class LocalByteLocks:
    """Implements :class:`.port.ByteLocks` by locks of an open file description."""

    def __init__(self, path: str) -> None:
        self._path = path
        with ExitStack() as undo, AddingContext("lock", path):
            self._descriptor = open_lock_file(path, undo)
            undo.pop_all()
        self._process = os.getpid()

    @property
    def _is_inherited(self) -> bool:
        """Whether this is the copy in a forked child, whose file is closed."""
        return self._process != os.getpid()

    def take(self, byte: int) -> bool:
        if self._is_inherited:
            return False
        try:
            with AddingContext("lock", self._path):
                set_ofd_lock(self._descriptor, fcntl.F_WRLCK, byte, 1)
        except (BlockingIOError, PermissionError):  # as for a broker's lock
            return False
        return True

    def give(self, byte: int) -> None:
        if self._is_inherited:
            return
        set_ofd_lock(self._descriptor, fcntl.F_UNLCK, byte, 1)

    def close(self) -> None:
        if not self._is_inherited:
            _close_lock_file(self._descriptor)


def open_lock_file(path: str, undo: ExitStack) -> int:
    """Opens a file for a lock. No other thread forks a child that knows nothing of the file yet."""
    with OPEN_FILES.lock:
        descriptor = OPEN_FILES.retrying(lambda: os.open(path, OPEN_FLAGS["create"], 0o666))
        OPEN_FILES.locks.add(descriptor)
    undo.callback(_close_lock_file, descriptor)
    return descriptor


def _close_lock_file(descriptor: int) -> None:
    OPEN_FILES.locks.discard(descriptor)
    os.close(descriptor)


def _close_inherited_lock_files() -> None:
    """Close the copies of lock files in a forked child: a lock lasts as long as any process has its open file.

    The parent keeps its locks, of both kinds, when a child closes its copies.
    """
    for descriptor in OPEN_FILES.locks:
        OPEN_FILES.files.pop(descriptor, None)
        with suppress(OSError):
            os.close(descriptor)
    OPEN_FILES.locks.clear()


os.register_at_fork(after_in_child=_close_inherited_lock_files)


def has_name(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def set_ofd_lock(descriptor: int, kind: int, start: int = 0, length: int = _TO_THE_END) -> None:
    fcntl.fcntl(descriptor, _F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))


def unlock_ofd(descriptor: int) -> None:
    set_ofd_lock(descriptor, fcntl.F_UNLCK)


def unlock_flock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def process_id() -> int:
    """Returns the id of this process; a forked child has its own."""
    return os.getpid()


def environment(name: str) -> str | None:
    """Returns a variable of this process's environment; None if it is not set."""
    return os.environ.get(name)


def this_process() -> str:
    """Describes this process, by process id, user and host, for messages of processes that wait for its locks."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        user = f"user {os.getuid()}"
    return f"process {os.getpid()} of {user} on {socket.gethostname()}"
