"""The file system port: the few operations this engine needs, and the local file system behind them.

A path is a ``str`` with ``/``; nothing above this module assumes that it is local. Any operation may raise ``OSError``
with the path as its ``filename`` and the operation in its text; the caller decides what that means for the log. Names
made, renamed or removed are durable only after :meth:`FileSystem.sync_directory` of the directory they are in; bytes,
and a file's size, only after :meth:`File.sync`. There is no append: who writes keeps the position, so that a write can
be repeated over a torn one. Why a port, and what was left out of it: docs/decisions/file_system_port.md.

(Longer than modules here should be by the words of the port, which whoever writes another file system must have before
them; the code is two hundred lines.)
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import getpass
import os
import socket
import stat
import struct
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, Literal, NamedTuple, Protocol, Self
from weakref import ref

import numpy as np

from pyspark_commitlog.storage.errors import CorruptionError, NotALogDirError
from pyspark_commitlog.storage.open_files import OPEN_FILES, TOO_MANY, advice

Buffer = bytes | bytearray | memoryview
OpenMode = Literal["read", "write", "create"]

# Linux's lock of an open file description. A Python built against an old libc (conda's) knows the kernel's command,
# but not its name; the number is part of the kernel's interface and does not change.
_F_OFD_SETLK: int = getattr(fcntl, "F_OFD_SETLK", 37)
_FLOCK = struct.Struct("@hhqqi4x")  # struct flock: l_type, l_whence, l_start, l_len, l_pid (0 for this command)
_WHOLE_FILE = (os.SEEK_SET, 0, 0, 0)  # from byte 0, length 0: to the end, however far it moves


def _system_call(name: str, *arguments: type) -> Callable[..., int] | None:
    """A function of the C library that Python does not offer; None where the library lacks it."""
    found: Any = getattr(ctypes.CDLL(None), name, None)
    if found is not None:
        found.argtypes = arguments
    return found  # type: ignore[no-any-return]


# Linux's call to begin writing pages back.
_sync_file_range = _system_call("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_SYNC_FILE_RANGE_WRITE = 2  # begin, wait for nothing; from byte 0, length 0: the whole file

# Linux's call to give a file blocks; Python's makes the file longer.
_fallocate = _system_call("fallocate", ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_FALLOC_FL_KEEP_SIZE = 1  # until they are written, they are no part of the file
_LARGE_WRITE_BYTES = 1 << 18  # from here on it pays to ask for all blocks at once

# A read above this asks for the file's size first: a damaged length field must not reserve memory. Below, one call of
# the system is all (measured: 1.5 µs for 100 bytes, against 3.6 µs).
_SMALL_READ_BYTES = 1 << 20

# Linux keeps what one larger write brings in pieces of memory of up to 2 MiB, which it may first have to make room for,
# or to get from a virtual machine's host (measured on ext4, 240 MB by 4 MiB: 42 to 694 ms; by 1 MiB: 42 to 44).
_WRITTEN_AT_ONCE_BYTES = 1 << 20


class FileStatus(NamedTuple):
    """What the file system knows of a name."""

    size: int  # bytes
    modified_ms: int  # last modification, ms since the epoch
    inode: int  # tells a file from another that took its name
    is_directory: bool


class File(Protocol):
    """An open file; also a context manager that closes it. Positions are bytes from its beginning.

    Reading does not move anything, so threads may share a file. It goes on working when the name is removed or given
    to another file.
    """

    @property
    def path(self) -> str:
        """The name it was opened by."""
        ...

    def size(self) -> int:
        """Bytes now."""
        ...

    def read(self, position: int, length: int) -> memoryview:
        """Up to ``length`` bytes from ``position``; fewer only where the file ends, none behind its end.

        The view is of memory that nobody else changes. It may be read-only.
        """
        ...

    def write(self, position: int, data: Buffer) -> None:
        """All of ``data`` at ``position``, or OSError; a hole before it reads as zeros."""
        ...

    def truncate(self, size: int) -> None:
        """Cut to ``size`` bytes, or extend with zeros (sparse)."""
        ...

    def begin_sync(self) -> None:
        """Let what was written go to the disk from now on, without waiting, so that :meth:`sync` has less to wait for.

        Promises nothing, and tells of no failure: :meth:`sync` does.
        """
        ...

    def sync(self) -> None:
        """Return when data and size are on the disk (fsync).

        After an OSError nobody knows what is on the disk, and a second call may lie: the writer must not go on.
        """
        ...

    def close(self) -> None:
        """Give the file back; syncs nothing. Closing twice does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Lock(Protocol):
    """A lock that is held until released; also a context manager that releases it.

    A child that is forked while it is held does not hold it: else a driver that dies would leave it to its children.
    """

    def release(self) -> None:
        """Let others in. Releasing twice does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class FileSystem(Protocol):
    """What a log directory is kept on."""

    def list(self, directory: str) -> list[str]:
        """Names in ``directory``, sorted; not a snapshot: names that change meanwhile may be missed."""
        ...

    def status(self, path: str) -> FileStatus | None:
        """None where there is no such name. Follows a link."""
        ...

    def is_link(self, path: str) -> bool:
        """Whether the name is a link, wherever it leads."""
        ...

    def open(self, path: str, mode: OpenMode) -> File:
        """``read``: must exist, cannot be written. ``write``: must exist. ``create``: made (empty) if missing.

        A link in the last place of the path is not followed (OSError): what is opened lies in the directory named.
        """
        ...

    def make_directory(self, path: str) -> None:
        """With its parents; no error if it is there. Each is durable after a sync of the directory it is in."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomically, replacing the file ``target``; across two directories both need a sync."""
        ...

    def link(self, source: str, target: str) -> None:
        """A second name for the file ``source``; FileExistsError if ``target`` is there."""
        ...

    def remove(self, path: str) -> None:
        """A file, or an empty directory; no error if it is not there."""
        ...

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Give ``path`` another time of modification, ms since the epoch (the cleaner keeps that of its source)."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return when the names in ``path`` are on the disk."""
        ...

    def lock(self, path: str, *, exclusive: bool = True, wait: bool = True) -> Lock | None:
        """``flock`` on ``path``, made if missing; None if ``wait`` is False and another holds it.

        Two locks of one process exclude each other as those of two do. The file that is locked is the one that has the
        name when the lock is granted.
        """
        ...

    def lock_shared_with_broker(self, path: str) -> Lock | None:
        """A shared open-file-description lock on ``path``, made if missing; None if a broker holds it.

        Java's FileChannel.lock and this one keep each other out, both ways (``flock`` and Java's never meet). Closing
        another descriptor of the same file does not lose it, as it would a plain POSIX lock.
        """
        ...


class Mount(NamedTuple):
    """What a directory lies on."""

    kind: str  # "ext4", "nfs4", "tmpfs", …; "unknown" where the kernel does not say, as of a btrfs subvolume
    source: str  # the device, or server and path
    options: tuple[str, ...]  # "rw", "nobarrier", "local_lock=all", …


class LocalFileSystem:
    """The file system of this machine, and whatever it mounts (Linux)."""

    def list(self, directory: str) -> list[str]:
        with _Telling("list", directory):
            return sorted(OPEN_FILES.retrying(lambda: os.listdir(directory)))

    def status(self, path: str) -> FileStatus | None:
        try:
            with _Telling("status", path):
                found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileStatus(found.st_size, found.st_mtime_ns // 1_000_000, found.st_ino, stat.S_ISDIR(found.st_mode))

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def open(self, path: str, mode: OpenMode) -> LocalFile:
        with _Telling("open", path):
            return LocalFile(path, _opened(path, _OPEN_FLAGS[mode]), mode)

    def make_directory(self, path: str) -> None:
        with _Telling("make directory", path):
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        with _Telling("rename", source):
            os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        with _Telling("link", source):
            os.link(source, target)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError), _Telling("remove", path):
            try:
                os.unlink(path)
            except IsADirectoryError:
                os.rmdir(path)

    def set_modified(self, path: str, modified_ms: int) -> None:
        with _Telling("set time of", path):
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def sync_directory(self, path: str) -> None:
        with _Telling("sync", path):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            descriptor = OPEN_FILES.retrying(lambda: os.open(path, flags))
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def lock(self, path: str, *, exclusive: bool = True, wait: bool = True) -> LocalLock | None:
        operation = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB)
        while True:
            with ExitStack() as undo, _Telling("lock", path):
                descriptor = _open_lock_file(path, undo)
                try:
                    fcntl.flock(descriptor, operation)
                except BlockingIOError:
                    return None
                # Meanwhile the file may have been removed and made again: a lock on the old one would guard nothing.
                if _has_name(descriptor, path):
                    undo.pop_all()
                    return LocalLock(descriptor, _unlock_flock)

    def lock_shared_with_broker(self, path: str) -> LocalLock | None:
        return self._lock_like_java(path, fcntl.F_RDLCK)

    def lock_as_broker(self, path: str) -> LocalLock | None:
        """The exclusive lock that a broker takes at its start, or None if it is not to be had.

        Beside the port: only who proves a file system takes it.
        """
        return self._lock_like_java(path, fcntl.F_WRLCK)

    def _lock_like_java(self, path: str, kind: int) -> LocalLock | None:
        with ExitStack() as undo, _Telling("lock", path):
            descriptor = _open_lock_file(path, undo)
            try:
                _set_ofd_lock(descriptor, kind)
            except (BlockingIOError, PermissionError):  # EAGAIN or, as POSIX allows, EACCES: another holds it
                return None
            undo.pop_all()
            return LocalLock(descriptor, _unlock_ofd)

    def mount(self, path: str) -> Mount:
        """What ``path`` lies on, as the kernel tells it (proc(5), mountinfo)."""
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


class LocalFile:
    """A file descriptor and the name it was opened by.

    A process with too many open files closes those that nobody uses at the moment, and opens them again by their name.
    Where another file has the name by then, there is no such file any more (FileNotFoundError). ``_identity``, device
    and inode, is set where the file rests so.
    """

    __slots__ = ("__weakref__", "_descriptor", "_failure", "_identity", "_mode", "_path", "_users")

    def __init__(self, path: str, descriptor: int, mode: OpenMode) -> None:
        self._path = path
        self._mode = mode
        self._descriptor = descriptor
        self._users: list[None] = []  # an element for each call that uses the descriptor: both ways are atomic
        self._failure: OSError | None = None  # of the sync before a rest
        OPEN_FILES.files[descriptor] = ref(self)

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        self._users.append(None)  # as _Using does it, which would cost a tenth more
        try:
            descriptor = self._descriptor
            return os.fstat(self._wake() if descriptor == _RESTING else descriptor).st_size
        except OSError as error:
            _tell(error, "size of", self._path)
            raise
        finally:
            self._users.pop()

    def read(self, position: int, length: int) -> memoryview:
        if length <= _SMALL_READ_BYTES:
            self._users.append(None)  # as _Using does it, which would cost a small read a tenth more
            try:
                descriptor = self._descriptor
                data = os.pread(self._wake() if descriptor == _RESTING else descriptor, length, position)
            except OSError as error:
                _tell(error, "read", self._path)
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
            # The kernel stops at 2 GiB, a network mount where it likes, and the file may have been cut meanwhile.
            while filled < length and (got := os.preadv(descriptor, [buffer[filled:]], position + filled)):
                filled += got
        return buffer[:filled]

    def write(self, position: int, data: Buffer) -> None:
        left = memoryview(data).cast("B")
        with _Using(self, "write") as descriptor:
            if len(left) >= _LARGE_WRITE_BYTES and _fallocate is not None:
                # What the file system cannot do, or has no room for, the write does, or tells.
                _fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, position, len(left))
            while left:
                written = os.pwrite(descriptor, left[:_WRITTEN_AT_ONCE_BYTES], position)
                position += written
                left = left[written:]

    def truncate(self, size: int) -> None:
        with _Using(self, "truncate") as descriptor:
            os.ftruncate(descriptor, size)

    def begin_sync(self) -> None:
        if _sync_file_range is not None and self._descriptor != _RESTING:  # before it rested, all was synced
            with _Using(self, "sync") as descriptor:
                _sync_file_range(descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE)

    def sync(self) -> None:
        with _Using(self, "sync") as descriptor:
            if self._failure is not None:  # the system tells of it once: not again to whoever syncs now
                raise self._failure
            os.fsync(descriptor)

    def close(self) -> None:
        if self._descriptor == _CLOSED:
            return
        with OPEN_FILES.lock:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            if descriptor not in (_CLOSED, _RESTING):
                OPEN_FILES.files.pop(descriptor, None)
                with _Telling("close", self._path):
                    os.close(descriptor)

    def rest(self) -> bool:
        """Close the descriptor until the next use, once what was written is on the disk. False where it is in use.

        Whoever uses it says so before it takes the descriptor, and this takes the descriptor away before it looks.
        """
        descriptor = self._descriptor
        if descriptor in (_CLOSED, _RESTING) or self._failure is not None:
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
        """The descriptor of a file that rests, opened again."""
        with OPEN_FILES.lock:
            if self._descriptor != _RESTING:
                return self._descriptor
            flags = _OPEN_FLAGS[self._mode] & ~os.O_CREAT
            descriptor = _opened(self._path, flags)
            status = os.fstat(descriptor)
            if (status.st_dev, status.st_ino) != self._identity:
                os.close(descriptor)
                raise FileNotFoundError(errno.ENOENT, "another file has its name", self._path)
            self._descriptor = descriptor
            OPEN_FILES.files[descriptor] = ref(self)
            return descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class LocalLock:
    """A descriptor with a lock on it, and how to undo that one."""

    def __init__(self, descriptor: int, unlock: Callable[[int], None]) -> None:
        self._descriptor = descriptor
        self._unlock = unlock
        self._process = os.getpid()

    def release(self) -> None:
        if self._descriptor == _CLOSED or self._process != os.getpid():
            return  # a forked child closed its copy, and may have another file under this number
        descriptor, self._descriptor = self._descriptor, _CLOSED
        try:
            # Closing alone would leave the lock to a child that a library forked without Python's knowledge.
            self._unlock(descriptor)
        finally:
            _close_lock_file(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _opened(path: str, flags: int) -> int:
    """A descriptor, for which others are closed where this process has too many."""
    files = OPEN_FILES
    if len(files.files) >= files.files_max:
        files.make_room()
    try:
        return os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno not in TOO_MANY:
            raise
        return files.retrying(lambda: os.open(path, flags, 0o666))


_CLOSED = 2**31 - 1  # no descriptor: the system answers EBADF (Python answers -1 by ValueError), never for another file
_RESTING = 2**31 - 2
_OPEN_FLAGS: dict[OpenMode, int] = {
    "read": os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC,
    "write": os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC,
    "create": os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
}


class _Telling:
    """Tells which operation on which file an error is about; a class, since a generator costs every read more.

    That there is no such file needs no more words, and is often no error to who asked.
    """

    __slots__ = ("_operation", "_path")

    def __init__(self, operation: str, path: str) -> None:
        self._operation = operation
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            _tell(error, self._operation, self._path)


class _Using:
    """A use of a file's descriptor, which stays open meanwhile; tells what :class:`_Telling` does."""

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
            _tell(error, self._operation, self._file._path)


def _tell(error: OSError, operation: str, path: str) -> None:
    if isinstance(error, FileNotFoundError):
        return
    is_limit = error.errno == errno.EMFILE
    error.strerror = f"{operation}: {error.strerror}" + (f"; {advice()}" if is_limit else "")
    if error.filename is None:
        error.filename = path


def _open_lock_file(path: str, undo: ExitStack) -> int:
    descriptor = OPEN_FILES.retrying(lambda: os.open(path, _OPEN_FLAGS["create"], 0o666))
    OPEN_FILES.locks.add(descriptor)
    undo.callback(_close_lock_file, descriptor)
    return descriptor


def _close_lock_file(descriptor: int) -> None:
    OPEN_FILES.locks.discard(descriptor)
    os.close(descriptor)


def _close_inherited_lock_files() -> None:
    """In a forked child: a lock lasts as long as any process has the file open as its holder opened it.

    Closing a copy leaves the lock to the parent, for both kinds of lock.
    """
    for descriptor in OPEN_FILES.locks:
        with suppress(OSError):
            os.close(descriptor)
    OPEN_FILES.locks.clear()


os.register_at_fork(after_in_child=_close_inherited_lock_files)
# No file is on its way to rest when a child begins: it gets the descriptors as they are noted.
os.register_at_fork(
    before=OPEN_FILES.lock.acquire, after_in_parent=OPEN_FILES.lock.release, after_in_child=OPEN_FILES.lock.release
)


def _has_name(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _set_ofd_lock(descriptor: int, kind: int) -> None:
    fcntl.fcntl(descriptor, _F_OFD_SETLK, _FLOCK.pack(kind, *_WHOLE_FILE))


def _unlock_ofd(descriptor: int) -> None:
    _set_ofd_lock(descriptor, fcntl.F_UNLCK)


def _unlock_flock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def this_process() -> str:
    """Who works here, for whoever waits for it on the same file system: process, user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        user = f"user {os.getuid()}"
    return f"process {os.getpid()} of {user} on {socket.gethostname()}"


def parent_of(path: str) -> str:
    """The directory that ``path`` is a name in."""
    return os.path.dirname(path.rstrip("/")) or ("/" if path.startswith("/") else ".")


def not_a_link(filesystem: FileSystem, directory: str) -> str:
    """``directory``; NotALogDirError where it is a link, which may lead out of the log directory."""
    if filesystem.is_link(directory):
        raise NotALogDirError(
            f"{directory} is a link, which is not followed out of a log directory; mount what it names"
        )
    return directory


def make_directory_durably(filesystem: FileSystem, path: str) -> None:
    """The directory and its parents; whichever were missing are durable when it returns."""
    missing = []
    while filesystem.status(path) is None:
        missing.append(path)
        path = parent_of(path)
    if missing:
        filesystem.make_directory(missing[0])
        for made in missing:
            filesystem.sync_directory(parent_of(made))


def remove_tree(filesystem: FileSystem, path: str) -> None:
    """A file, or a directory with everything in it; no error if it is not there. Syncs nothing."""
    status = filesystem.status(path)
    if status is not None and status.is_directory:
        for name in filesystem.list(path):
            remove_tree(filesystem, f"{path}/{name}")
    filesystem.remove(path)


def read_file(filesystem: FileSystem, path: str, limit: int) -> bytes:
    """The whole of a small file.

    Raises CorruptionError if it is larger than ``limit`` bytes (nothing that large is read), and OSError, such as
    FileNotFoundError.
    """
    with filesystem.open(path, "read") as file:
        data = bytes(file.read(0, limit + 1))
        if len(data) > limit:
            raise CorruptionError(f"{file.size()} bytes, where such a file has at most {limit}", path=path)
        return data


def write_atomically(filesystem: FileSystem, path: str, data: Buffer) -> None:
    """Replace the content of ``path``, so that a crash leaves the old content or the new, never a mixture.

    What is on the disk after a crash that follows each step:

    1. ``<path>.tmp`` written: the old content; the ``.tmp`` may be missing, empty, torn or whole.
    2. ``.tmp`` synced: the old content; the ``.tmp`` may still be missing, since its name is not synced.
    3. ``.tmp`` renamed to ``path``: the old content or the new, each whole.
    4. directory synced: the new content.

    A ``.tmp`` that a crash or an error left is overwritten by the next call and means nothing. Callers exclude each
    other: two at once would write the same ``.tmp``.
    """
    temporary = path + ".tmp"
    with filesystem.open(temporary, "create") as file:
        file.truncate(0)
        file.write(0, data)
        file.sync()
    filesystem.rename(temporary, path)
    filesystem.sync_directory(parent_of(path))
