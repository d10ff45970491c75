"""LocalFile: an open file of this machine, which is read, written and synced by its descriptor."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Self
from weakref import ref

import numpy as np

from .open_files import OPEN_FILES, TOO_MANY, advice
from .port import Buffer, Held, OpenMode

CLOSED = 2**31 - 1  # no descriptor: the system answers EBADF (Python answers -1 by ValueError), never another file
_RESTING = 2**31 - 2
OPEN_FLAGS: dict[OpenMode, int] = {
    "read": os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC,
    "write": os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC,
    "create": os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
}


def _system_call(name: str, *arguments: type) -> Callable[..., int] | None:
    """Returns a function of the C library that Python does not offer; None if the library lacks it."""
    found: Any = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if found is not None:
        found.argtypes = arguments
    return found  # type: ignore[no-any-return]


# Linux's call to start writing pages back.
_sync_file_range = _system_call("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_SYNC_FILE_RANGE_WRITE = 2  # start, wait for nothing; from byte 0, length 0: the whole file

# Linux's call to allocate blocks to a file; unlike Python's, it need not make the file longer.
_fallocate = _system_call("fallocate", ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_FALLOC_FL_KEEP_SIZE = 1  # blocks that are not written yet are not part of the file
_LARGE_WRITE_BYTES = 1 << 18  # from this size on, it pays to allocate all blocks at once

# Linux's call to sync one file system; Python's ``os.sync`` waits for all of them, and reports no error.
_syncfs = _system_call("syncfs", ctypes.c_int)

# Larger reads ask for the file's size first: a damaged length field must not reserve memory. Smaller ones take a single
# system call (measured: 1.5 µs for 100 bytes, against 3.6 µs).
_SMALL_READ_BYTES = 1 << 20

# Linux stores a larger write in memory chunks of up to 2 MiB, for which it may first have to free memory or get it from
# a virtual machine's host (measured on ext4, 240 MB by 4 MiB: 42 to 694 ms; by 1 MiB: 42 to 44 ms).
_WRITTEN_AT_ONCE_BYTES = 1 << 20


class LocalFile:
    """An open file: its path and its descriptor; implements :class:`.port.File`.

    If the process has too many open files, the descriptor of a file that is not in use is closed until the next use,
    which opens the file again by its path ("resting"). If the path then belongs to another file, that use raises
    FileNotFoundError. ``_identity`` is the device and inode of a resting file.
    """

    __slots__ = ("__weakref__", "_descriptor", "_failure", "_holders", "_identity", "_mode", "_path", "_users")

    def __init__(self, path: str, descriptor: int, mode: OpenMode) -> None:
        self._path = path
        self._mode = mode
        self._descriptor = descriptor
        self._users: list[None] = []  # one element per call that uses the descriptor: append and pop are atomic
        self._holders = 0  # of the descriptor; changed under OPEN_FILES.lock
        self._failure: OSError | None = None  # of the sync before resting
        OPEN_FILES.files[descriptor] = ref(self)

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        self._users.append(None)  # like _Using, which would take a tenth longer
        try:
            descriptor = self._descriptor
            return os.fstat(self._wake() if descriptor == _RESTING else descriptor).st_size
        except OSError as error:
            add_context(error, "size of", self._path)
            raise
        finally:
            self._users.pop()

    def read(self, position: int, length: int) -> memoryview:
        if length <= _SMALL_READ_BYTES:
            self._users.append(None)  # like _Using, which would make a small read a tenth slower
            try:
                descriptor = self._descriptor
                data = os.pread(self._wake() if descriptor == _RESTING else descriptor, length, position)
            except OSError as error:
                add_context(error, "read", self._path)
                raise
            finally:
                self._users.pop()
            if len(data) == length:
                return memoryview(data)
        return self._read_large(position, min(length, max(self.size() - position, 0)))

    def _read_large(self, position: int, length: int) -> memoryview:
        buffer = np.empty(length, np.uint8).data  # not zeroed: the kernel's copy is the only pass over it
        filled = 0
        with _Using(self, "read") as descriptor:
            # The kernel stops at 2 GiB, a network mount anywhere, and the file may have been truncated in the meantime.
            while filled < length and (got := os.preadv(descriptor, [buffer[filled:]], position + filled)):
                filled += got
        return buffer[:filled]

    def write(self, position: int, *data: Buffer) -> None:
        unwritten = [memoryview(each).cast("B") for each in data]
        size = sum(map(len, unwritten))
        with _Using(self, "write") as descriptor:
            if size >= _LARGE_WRITE_BYTES and _fallocate is not None:
                # If the file system does not support it or has no space, the write below succeeds or reports the error.
                _fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, position, size)
            while size:
                some = unwritten if size <= _WRITTEN_AT_ONCE_BYTES else _first_bytes(unwritten, _WRITTEN_AT_ONCE_BYTES)
                written = os.pwritev(descriptor, some, position)
                position, size = position + written, size - written
                if size:
                    unwritten = _without_first_bytes(unwritten, written)

    def truncate(self, size: int) -> None:
        with _Using(self, "truncate") as descriptor:
            os.ftruncate(descriptor, size)

    def begin_sync(self) -> None:
        if _sync_file_range is not None and self._descriptor != _RESTING:  # everything was synced before it rested
            with _Using(self, "sync") as descriptor:
                _sync_file_range(descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE)

    def sync(self) -> None:
        with _Using(self, "sync") as descriptor:
            if self._failure is not None:  # the system reports the failure only once, not to the present caller
                raise self._failure
            os.fsync(descriptor)

    def hold(self) -> Held:
        with OPEN_FILES.lock, AddingContext("open", self._path):
            descriptor = self._wake() if self._descriptor == _RESTING else self._descriptor
            if descriptor == CLOSED:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
            self._holders += 1
        return Held(descriptor, partial(self._let_go, descriptor))

    def _let_go(self, descriptor: int) -> None:
        with OPEN_FILES.lock:
            self._holders -= 1
            if self._descriptor == CLOSED and not self._holders:
                os.close(descriptor)

    def close(self) -> None:
        if self._descriptor == CLOSED:
            return
        with OPEN_FILES.lock:
            descriptor, self._descriptor = self._descriptor, CLOSED
            if descriptor not in (CLOSED, _RESTING):
                OPEN_FILES.files.pop(descriptor, None)
                if not self._holders:  # otherwise, the last one closes it
                    with AddingContext("close", self._path):
                        os.close(descriptor)

    def rest(self) -> bool:
        """Sync the file and close its descriptor until the next use. Returns False, closing nothing, if it is in use.

        No lock is needed: a user of the file adds itself to ``_users`` before it takes the descriptor, and this method
        takes the descriptor away before it reads ``_users``.
        """
        descriptor = self._descriptor
        if descriptor in (CLOSED, _RESTING) or self._failure is not None or self._holders:
            return False
        self._descriptor = _RESTING
        if self._users:
            self._descriptor = descriptor
            return False
        try:
            status = os.fstat(descriptor)
            if self._mode != "read":
                os.fsync(descriptor)
        except OSError as error:
            self._failure, self._descriptor = error, descriptor
            return False
        self._identity = (status.st_dev, status.st_ino)
        os.close(descriptor)
        return True

    def _wake(self) -> int:
        """Open a resting file again and return its descriptor.

        Raises FileNotFoundError if its path has another file.
        """
        with OPEN_FILES.lock:
            if self._descriptor != _RESTING:
                return self._descriptor
            flags = OPEN_FLAGS[self._mode] & ~os.O_CREAT
            descriptor = opened(self._path, flags)
            status = os.fstat(descriptor)
            if (status.st_dev, status.st_ino) != self._identity:
                os.close(descriptor)
                raise FileNotFoundError(
                    errno.ENOENT,
                    "the file was replaced by another one of the same name; open the log again",
                    self._path,
                )
            self._descriptor = descriptor
            OPEN_FILES.files[descriptor] = ref(self)
            return descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _first_bytes(buffers: list[memoryview], count: int) -> list[memoryview]:
    """Returns the first ``count`` bytes of these buffers, or all if they have fewer."""
    if sum(map(len, buffers)) <= count:
        return buffers
    found = []
    for buffer in buffers:
        found.append(buffer[:count])
        count -= len(buffer)
        if count <= 0:
            break
    return found


def _without_first_bytes(buffers: list[memoryview], count: int) -> list[memoryview]:
    """Returns the bytes after the first ``count`` of these buffers."""
    found = []
    for buffer in buffers:
        if count < len(buffer):
            found.append(buffer[count:])
        count = max(count - len(buffer), 0)
    return found


def opened(path: str, flags: int) -> int:
    """Opens a file and returns its descriptor; if the process has too many open files, closes others first."""
    files = OPEN_FILES
    if len(files.files) >= files.files_max:
        files.make_room()
    try:
        return os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno not in TOO_MANY:
            raise
        return files.retrying(lambda: os.open(path, flags, 0o666))


class AddingContext:
    """Adds the operation and the path to an OSError that is raised inside the ``with`` block.

    Leaves FileNotFoundError unchanged: it needs no explanation, and callers often expect it. This is a class because a
    generator would make every read slower.
    """

    __slots__ = ("_operation", "_path")

    def __init__(self, operation: str, path: str) -> None:
        self._operation = operation
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            add_context(error, self._operation, self._path)


class _Using:
    """Returns a file's descriptor and keeps it open inside the ``with`` block; explains errors like AddingContext."""

    __slots__ = ("_file", "_operation")

    def __init__(self, file: LocalFile, operation: str) -> None:
        self._file = file
        self._operation = operation

    def __enter__(self) -> int:
        file = self._file
        file._users.append(None)
        descriptor = file._descriptor
        if descriptor != _RESTING:
            return descriptor
        try:
            return file._wake()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._file._users.pop()
        if isinstance(error, OSError):
            add_context(error, self._operation, self._file._path)


def sync_file_system(descriptor: int) -> None:
    """Wait until everything that was written to the file system of an open file or directory is on disk."""
    if _syncfs is None:
        os.sync()
    elif _syncfs(descriptor):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def add_context(error: OSError, operation: str, path: str) -> None:
    if isinstance(error, FileNotFoundError):
        return
    is_limit = error.errno == errno.EMFILE
    error.strerror = f"{operation}: {error.strerror}" + (f"; {advice()}" if is_limit else "")
    if error.filename is None:
        error.filename = path
