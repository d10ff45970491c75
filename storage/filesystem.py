"""The file system port: the few operations that this engine needs, and the local file system that implements it.

A path is a ``str`` with ``/``; nothing above this module assumes that it is local. Any operation may raise ``OSError``
with the path as its ``filename`` and the operation in its text; the caller decides what that means for the log. Names
that were created, renamed or removed are durable only after :meth:`FileSystem.sync_directory` of their directory;
bytes, and a file's size, only after :meth:`File.sync`. There is no append: the writer keeps the position, so that it
can repeat a write over a torn one. For the reasons behind the port, and what it leaves out, see
docs/decisions/file_system_port.md.

(Longer than modules should be here because of the port's contract, which authors of other file systems need; the code
is two hundred lines.)
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

from .errors import CorruptionError, NotALogDirError
from .open_files import OPEN_FILES, TOO_MANY, advice

Buffer = bytes | bytearray | memoryview
OpenMode = Literal["read", "write", "create"]

# Linux's lock of an open file description. A Python built against an old libc (conda's) lacks the name of the kernel's
# command; its number is part of the kernel's interface and does not change.
_F_OFD_SETLK: int = getattr(fcntl, "F_OFD_SETLK", 37)
_FLOCK = struct.Struct("@hhqqi4x")  # struct flock: l_type, l_whence, l_start, l_len, l_pid (0 for this command)
_WHOLE_FILE = (os.SEEK_SET, 0, 0, 0)  # from byte 0, length 0: to the end, however far it moves


def _system_call(name: str, *arguments: type) -> Callable[..., int] | None:
    """A function of the C library that Python does not offer; None if the library lacks it."""
    found: Any = getattr(ctypes.CDLL(None), name, None)
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

# Larger reads ask for the file's size first: a damaged length field must not reserve memory. Smaller ones take a single
# system call (measured: 1.5 µs for 100 bytes, against 3.6 µs).
_SMALL_READ_BYTES = 1 << 20

# Linux stores a larger write in memory chunks of up to 2 MiB, for which it may first have to free memory or get it from
# a virtual machine's host (measured on ext4, 240 MB by 4 MiB: 42 to 694 ms; by 1 MiB: 42 to 44 ms).
_WRITTEN_AT_ONCE_BYTES = 1 << 20


class FileStatus(NamedTuple):
    """What the file system knows about a name."""

    size: int  # bytes
    modified_ms: int  # last modification, ms since the epoch
    inode: int  # distinguishes a file from another that took its name
    is_directory: bool


class File(Protocol):
    """An open file; also a context manager that closes it. Positions are bytes from its beginning.

    Reading moves no file position, so threads may share a file. It keeps working after the name is removed or given to
    another file.
    """

    @property
    def path(self) -> str:
        """The name that was opened."""
        ...

    def size(self) -> int:
        """The present size in bytes."""
        ...

    def read(self, position: int, length: int) -> memoryview:
        """Up to ``length`` bytes from ``position``; fewer only at the end of the file, none after it.

        Nobody else changes the memory of the view. It may be read-only.
        """
        ...

    def write(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` at ``position``, or raise OSError; a hole before it reads as zeros."""
        ...

    def truncate(self, size: int) -> None:
        """Cut to ``size`` bytes, or extend with zeros (sparse)."""
        ...

    def begin_sync(self) -> None:
        """Start to write data to disk without waiting, so that :meth:`sync` has less to wait for.

        Guarantees nothing and reports no failure; :meth:`sync` does.
        """
        ...

    def sync(self) -> None:
        """Wait until data and size are on disk (fsync).

        After an OSError it is unknown what is on disk, and a second call may wrongly succeed: the writer must stop.
        """
        ...

    def close(self) -> None:
        """Close the file; syncs nothing. Closing twice does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Lock(Protocol):
    """A lock that is held until released; also a context manager that releases it.

    A child process forked in the meantime does not hold it; otherwise a dying driver would pass it to its children.
    """

    def release(self) -> None:
        """Release the lock. Releasing twice does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class FileSystem(Protocol):
    """The storage of a log directory."""

    def list(self, directory: str) -> list[str]:
        """Names in ``directory``, sorted; not a snapshot: may miss names that change in the meantime."""
        ...

    def status(self, path: str) -> FileStatus | None:
        """The status of a name; None if it does not exist. Follows a link."""
        ...

    def is_link(self, path: str) -> bool:
        """Whether the name is a link, wherever it leads."""
        ...

    def open(self, path: str, mode: OpenMode) -> File:
        """``read``: must exist, cannot be written. ``write``: must exist. ``create``: created (empty) if missing.

        Raises OSError if the last part of the path is a link, so the opened file is really in the directory named.
        """
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents if missing. Each is durable after a sync of its parent directory."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename atomically, replacing the file ``target``; across two directories both need a sync."""
        ...

    def link(self, source: str, target: str) -> None:
        """Give the file ``source`` a second name. Raises FileExistsError if ``target`` exists."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory; no error if it does not exist."""
        ...

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Set the modification time of ``path``, ms since the epoch (the cleaner keeps that of its source)."""
        ...

    def sync_directory(self, path: str) -> None:
        """Wait until the names in ``path`` are on disk."""
        ...

    def lock(self, path: str, *, exclusive: bool = True, wait: bool = True) -> Lock | None:
        """``flock`` on ``path``, created if missing; None if ``wait`` is False and another process holds it.

        Two locks in one process exclude each other as in two processes. The locked file is the one that has the name
        when the lock is granted.
        """
        ...

    def lock_shared_with_broker(self, path: str) -> Lock | None:
        """A shared open-file-description lock on ``path``, created if missing; None if a broker holds it.

        This lock and Java's FileChannel.lock exclude each other (``flock`` and Java's never conflict). Unlike a plain
        POSIX lock, it is not lost when another descriptor of the same file is closed.
        """
        ...


class Mount(NamedTuple):
    """The mount that a directory is on."""

    kind: str  # "ext4", "nfs4", "tmpfs", …; "unknown" if the kernel does not report it, as for a btrfs subvolume
    source: str  # the device, or server and path
    options: tuple[str, ...]  # "rw", "nobarrier", "local_lock=all", …


class LocalFileSystem:
    """The file system of this machine, including everything mounted (Linux)."""

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
                # The file may have been removed and recreated in the meantime: a lock on the old one guards nothing.
                if _has_name(descriptor, path):
                    undo.pop_all()
                    return LocalLock(descriptor, _unlock_flock)

    def lock_shared_with_broker(self, path: str) -> LocalLock | None:
        return self._lock_like_java(path, fcntl.F_RDLCK)

    def lock_as_broker(self, path: str) -> LocalLock | None:
        """The exclusive lock that a broker takes when it starts; None if it is not available.

        Not part of the port: only a test of a file system takes it.
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
        """The mount of ``path`` as the kernel reports it (proc(5), mountinfo)."""
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
    """A file descriptor and the name that was opened.

    A process with too many open files closes those that are not in use at the moment, and reopens them by name. If
    another file has the name by then, the file no longer exists (FileNotFoundError). ``_identity``, device and inode,
    is set while the file is closed in this way ("resting").
    """

    __slots__ = ("__weakref__", "_descriptor", "_failure", "_identity", "_mode", "_path", "_users")

    def __init__(self, path: str, descriptor: int, mode: OpenMode) -> None:
        self._path = path
        self._mode = mode
        self._descriptor = descriptor
        self._users: list[None] = []  # one element per call that uses the descriptor: append and pop are atomic
        self._failure: OSError | None = None  # of the sync before resting
        OPEN_FILES.files[descriptor] = ref(self)

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        self._users.append(None)  # as _Using does, which would cost a tenth more
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
            self._users.append(None)  # as _Using does, which would cost a small read a tenth more
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
            # The kernel stops at 2 GiB, a network mount anywhere, and the file may have been truncated in the meantime.
            while filled < length and (got := os.preadv(descriptor, [buffer[filled:]], position + filled)):
                filled += got
        return buffer[:filled]

    def write(self, position: int, data: Buffer) -> None:
        left = memoryview(data).cast("B")
        with _Using(self, "write") as descriptor:
            if len(left) >= _LARGE_WRITE_BYTES and _fallocate is not None:
                # If the file system does not support it or has no space, the write below succeeds or reports the error.
                _fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, position, len(left))
            while left:
                written = os.pwrite(descriptor, left[:_WRITTEN_AT_ONCE_BYTES], position)
                position += written
                left = left[written:]

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
        """Close the descriptor until its next use, once all writes are on disk. Returns False if it is in use.

        A user registers before it takes the descriptor, and this method takes the descriptor away before it checks.
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
        """Reopen a resting file and return its descriptor."""
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
    """A locked descriptor, and the function that unlocks it."""

    def __init__(self, descriptor: int, unlock: Callable[[int], None]) -> None:
        self._descriptor = descriptor
        self._unlock = unlock
        self._process = os.getpid()

    def release(self) -> None:
        if self._descriptor == _CLOSED or self._process != os.getpid():
            return  # a forked child closed its copy, and may have another file under this number
        descriptor, self._descriptor = self._descriptor, _CLOSED
        try:
            # Closing alone would leave the lock with a child that a library forked without Python's knowledge.
            self._unlock(descriptor)
        finally:
            _close_lock_file(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _opened(path: str, flags: int) -> int:
    """A descriptor; closes others first if this process has too many open files."""
    files = OPEN_FILES
    if len(files.files) >= files.files_max:
        files.make_room()
    try:
        return os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno not in TOO_MANY:
            raise
        return files.retrying(lambda: os.open(path, flags, 0o666))


_CLOSED = 2**31 - 1  # no descriptor: the system answers EBADF (Python answers -1 by ValueError), never another file
_RESTING = 2**31 - 2
_OPEN_FLAGS: dict[OpenMode, int] = {
    "read": os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC,
    "write": os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC,
    "create": os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
}


class _Telling:
    """Adds operation and path to an OSError; a class, since a generator would make every read slower.

    Leaves FileNotFoundError unchanged: it needs no explanation, and callers often expect it.
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
    """Use of a file's descriptor, which stays open until the end; adds to errors what :class:`_Telling` adds."""

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
    """Runs in a forked child: a lock lasts as long as any process has its holder's open file.

    Closing the copy leaves both kinds of lock with the parent.
    """
    for descriptor in OPEN_FILES.locks:
        with suppress(OSError):
            os.close(descriptor)
    OPEN_FILES.locks.clear()


os.register_at_fork(after_in_child=_close_inherited_lock_files)
# Hold the lock so that no file is about to rest during a fork: the child inherits the descriptors as recorded.
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
    """A description of this process for processes that wait for it: process id, user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        user = f"user {os.getuid()}"
    return f"process {os.getpid()} of {user} on {socket.gethostname()}"


def parent_of(path: str) -> str:
    """The parent directory of ``path``."""
    return os.path.dirname(path.rstrip("/")) or ("/" if path.startswith("/") else ".")


def not_a_link(filesystem: FileSystem, directory: str) -> str:
    """Return ``directory``. Raises NotALogDirError if it is a link, which may lead out of the log directory."""
    if filesystem.is_link(directory):
        raise NotALogDirError(
            f"{directory} is a link, and links out of a log directory are not followed; mount its target instead"
        )
    return directory


def make_directory_durably(filesystem: FileSystem, path: str) -> None:
    """Create the directory and missing parents, all durable on return."""
    missing = []
    while filesystem.status(path) is None:
        missing.append(path)
        path = parent_of(path)
    if missing:
        filesystem.make_directory(missing[0])
        for made in missing:
            filesystem.sync_directory(parent_of(made))


def remove_tree(filesystem: FileSystem, path: str) -> None:
    """Remove a file, or a directory with everything in it; no error if it does not exist. Syncs nothing."""
    status = filesystem.status(path)
    if status is not None and status.is_directory:
        for name in filesystem.list(path):
            remove_tree(filesystem, f"{path}/{name}")
    filesystem.remove(path)


def read_file(filesystem: FileSystem, path: str, limit: int) -> bytes:
    """The whole content of a small file.

    Raises CorruptionError if it has more than ``limit`` bytes (without reading all of it), and OSError, such as
    FileNotFoundError.
    """
    with filesystem.open(path, "read") as file:
        data = bytes(file.read(0, limit + 1))
        if len(data) > limit:
            raise CorruptionError(f"{file.size()} bytes, but this kind of file has at most {limit}", path=path)
        return data


def write_atomically(filesystem: FileSystem, path: str, data: Buffer) -> None:
    """Replace the content of ``path`` so that a crash leaves the old or the new content, never a mixture.

    The state on disk after a crash that follows each step:

    1. ``<path>.tmp`` written: the old content; the ``.tmp`` may be missing, empty, torn or complete.
    2. ``.tmp`` synced: the old content; the ``.tmp`` may still be missing, since its name is not synced.
    3. ``.tmp`` renamed to ``path``: the old or the new content, complete.
    4. directory synced: the new content.

    A ``.tmp`` left by a crash or an error has no meaning, and the next call overwrites it. Callers must exclude each
    other: two at once would write the same ``.tmp``.
    """
    temporary = path + ".tmp"
    with filesystem.open(temporary, "create") as file:
        file.truncate(0)
        file.write(0, data)
        file.sync()
    filesystem.rename(temporary, path)
    filesystem.sync_directory(parent_of(path))
