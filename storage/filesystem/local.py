"""LocalFileSystem: lists, renames, links, removes, opens and locks files of this machine (Linux)."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from types import MappingProxyType

from .local_file import OPEN_FLAGS, AddingContext, LocalFile, add_context, opened, sync_file_system
from .locks import (
    LocalByteLocks,
    LocalLock,
    Waits,
    has_name,
    open_lock_file,
    set_ofd_lock,
    unlock_flock,
    unlock_ofd,
)
from .open_files import OPEN_FILES
from .port import FileStatus, Mount, OpenMode


def real_path(path: str) -> str:
    """Returns the absolute path without links; the last parts may be missing."""
    return os.path.realpath(path)


def is_within(path: str, directory: str) -> bool:
    """Whether a path, which may be missing, leads to a directory or into it."""
    above = real_path(directory)
    return os.path.commonpath([real_path(path), above]) == above


class LocalFileSystem:
    """The file system of this machine, including what is mounted (Linux); implements :class:`.port.FileSystem`."""

    def __init__(self, *, lock_waits_s: Mapping[str, float] = MappingProxyType({})) -> None:
        """``lock_waits_s``: how long :meth:`lock` waits at most, by the names of files; then it raises LockHeldError.

        After that error, there is no wait for that lock until it has been free.
        """
        self._waits = Waits(lock_waits_s)

    def list(self, directory: str) -> list[str]:
        with AddingContext("list", directory):
            return sorted(OPEN_FILES.retrying(lambda: os.listdir(directory)))

    def status(self, path: str) -> FileStatus | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # nothing can have such a name
                return None
            add_context(error, "status", path)
            raise
        return FileStatus(found.st_size, found.st_mtime_ns // 1_000_000, found.st_ino, stat.S_ISDIR(found.st_mode))

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def open(self, path: str, mode: OpenMode) -> LocalFile:
        with AddingContext("open", path):
            return LocalFile(path, opened(path, OPEN_FLAGS[mode]), mode)

    def make_directory(self, path: str) -> None:
        with AddingContext("make directory", path):
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        with AddingContext("rename", source):
            os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        with AddingContext("link", source):
            os.link(source, target)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError), AddingContext("remove", path):
            try:
                os.unlink(path)
            except IsADirectoryError:
                os.rmdir(path)

    def set_modified(self, path: str, modified_ms: int) -> None:
        with AddingContext("set time of", path):
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def sync_directory(self, path: str) -> None:
        with AddingContext("sync", path):
            _in_directory(path, os.fsync)

    def sync_all(self, path: str) -> None:
        """Wait until everything that any process wrote to the file system of the directory ``path`` is on disk.

        Not part of the port: for files of other programs, which sync nothing. (Before Linux 5.8, the kernel reports no
        failure of it.)
        """
        with AddingContext("sync the file system of", path):
            _in_directory(path, sync_file_system)

    def lock(self, path: str, *, exclusive: bool = True, wait: bool = True) -> LocalLock | None:
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        while True:
            with ExitStack() as undo, AddingContext("lock", path):
                descriptor = open_lock_file(path, undo)
                try:
                    self._waits.flock(path, kind, descriptor, wait)
                except BlockingIOError:
                    return None
                # The file may have been removed and recreated in the meantime: a lock on the old one guards nothing.
                if has_name(descriptor, path):
                    undo.pop_all()
                    return LocalLock(path, descriptor, partial(self._waits.flock, path, kind), unlock_flock)

    def byte_locks(self, path: str) -> LocalByteLocks:
        return LocalByteLocks(path)

    def lock_shared_with_broker(self, path: str) -> LocalLock | None:
        return self._lock_like_java(path, fcntl.F_RDLCK)

    def lock_as_broker(self, path: str) -> LocalLock | None:
        """Takes the exclusive lock that a broker takes when it starts; None if another process holds it.

        Not part of the port: only a test of a file system takes it.
        """
        return self._lock_like_java(path, fcntl.F_WRLCK)

    def _lock_like_java(self, path: str, kind: int) -> LocalLock | None:
        with ExitStack() as undo, AddingContext("lock", path):
            descriptor = open_lock_file(path, undo)
            try:
                set_ofd_lock(descriptor, kind)
            except (BlockingIOError, PermissionError):  # EAGAIN or, as POSIX allows, EACCES: another holds it
                return None
            undo.pop_all()
            return LocalLock(path, descriptor, lambda each, _: set_ofd_lock(each, kind), unlock_ofd)

    def mount(self, path: str) -> Mount:
        """The mount that contains ``path``, according to the kernel (proc(5), mountinfo)."""
        device = os.stat(path).st_dev
        wanted = f"{os.major(device)}:{os.minor(device)}"
        found = Mount("unknown", "unknown", ())
        with open("/proc/self/mountinfo") as lines:
            for line in lines:
                before, _, after = line.partition(" - ")
                if before.split()[2] == wanted:  # the last of several mounts of a device has the newest options
                    kind, source, options = after.split()
                    found = Mount(kind, source, tuple(options.split(",")))
        return found


def _in_directory(path: str, call: Callable[[int], None]) -> None:
    """Calls a function with the descriptor of a directory, which is closed afterwards."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = OPEN_FILES.retrying(lambda: os.open(path, flags))
    try:
        call(descriptor)
    finally:
        os.close(descriptor)
