"""The file system port: the few operations on files that this engine needs.

A path is a ``str`` with ``/``; nothing above this module assumes that it is local. Any operation may raise ``OSError``
with the path as its ``filename`` and the operation in its text; the caller decides what that means for the log. A name
that was created, renamed or removed is durable only after :meth:`FileSystem.sync_directory` of its directory; the bytes
and the size of a file only after :meth:`File.sync`. There is no append: the writer keeps the position, so that it can
repeat a write over a torn one. docs/decisions/file_system_port.md has the reasons for the port, and what it lacks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol, Self

Buffer = bytes | bytearray | memoryview
OpenMode = Literal["read", "write", "create"]


class FileStatus(NamedTuple):
    """Size, modification time and kind of a file or directory."""

    size: int  # bytes
    modified_ms: int  # last modification, ms since the epoch
    inode: int  # distinguishes a file from another that took its name
    is_directory: bool


class Held(NamedTuple):
    """An open file's descriptor, for system calls that the port lacks (sendfile); any thread may release it, once."""

    descriptor: int
    release: Callable[[], None]


class File(Protocol):
    """An open file; also a context manager that closes the file. Positions count bytes from its beginning.

    Reading moves no file position, so threads may share a file. An open file can still be used after its name was
    removed or given to another file.
    """

    @property
    def path(self) -> str:
        """The path that was opened."""
        ...

    def size(self) -> int:
        """The present size in bytes."""
        ...

    def read(self, position: int, length: int) -> memoryview:
        """Returns ``length`` bytes from ``position``, or fewer if the file ends before that; no bytes after its end.

        The memory of the view belongs to the caller. The view may be read-only.
        """
        ...

    def write(self, position: int, *data: Buffer) -> None:
        """Write all of ``data``, one buffer after the other, at ``position``, or raise OSError.

        A gap between the end and ``position`` reads as zeros.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut to ``size`` bytes, or extend with zeros (sparse)."""
        ...

    def begin_sync(self) -> None:
        """Start to write data to disk without waiting, so that :meth:`sync` has less to wait for.

        Guarantees nothing, and raises no error if writing to disk fails; :meth:`sync` does.
        """
        ...

    def sync(self) -> None:
        """Wait until data and size are on disk (fsync).

        After an OSError it is unknown what is on disk, and a second call may wrongly succeed: the writer must stop.
        """
        ...

    def hold(self) -> Held:
        """Returns the file's descriptor, which stays open until it is released, even after :meth:`close`.

        Raises io.UnsupportedOperation if this file system has no descriptors.
        """
        ...

    def close(self) -> None:
        """Close the file; syncs nothing. Closing twice does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Lock(Protocol):
    """A lock that is held until :meth:`release`; also a context manager that releases the lock.

    A child process that is forked while the lock is held does not hold it; otherwise the children of a driver that dies
    would keep its locks.
    """

    @property
    def is_inherited(self) -> bool:
        """Whether the process that took the lock is the parent of this forked one, and may still hold it."""
        ...

    def release(self) -> None:
        """Release the lock. Releasing twice does nothing, nor does releasing it in a child of its process."""
        ...

    def unlock(self) -> None:
        """Release the lock, but keep its file open for :meth:`lock_again` as long as the process has room for it."""
        ...

    def lock_again(self, *, wait: bool = True) -> bool:
        """Takes the lock after :meth:`unlock`, as soon as it is free; cheaper than :meth:`FileSystem.lock`.

        Returns False, without the lock, if its file is no longer open, has no name any more, or belongs to the process
        that this one was forked from. Does not notice if the file was moved to another name. With ``wait=False``, also
        returns False if another holds the lock, which may be tried again.
        """
        ...

    def read(self, length: int) -> bytes:
        """The first ``length`` bytes of the lock's file, or fewer."""
        ...

    def write(self, data: bytes) -> None:
        """Replace the content of the lock's file, while the lock is held; syncs nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class ByteLocks(Protocol):
    """Locks on single bytes of a file, which may be shorter: many locks with one open file. For one thread."""

    def take(self, byte: int) -> bool:
        """Takes the lock of a byte, below 2^62, without waiting; False if another object of this kind holds it."""
        ...

    def give(self, byte: int) -> None:
        """Releases the lock of a byte, which may be free."""
        ...

    def close(self) -> None:
        """Releases all. The end of the process does so too."""
        ...


class FileSystem(Protocol):
    """A file system: the operations on names, and on locks, that a log directory needs."""

    def list(self, directory: str) -> list[str]:
        """The names in ``directory``, sorted; may or may not include names that change during the call."""
        ...

    def status(self, path: str) -> FileStatus | None:
        """The status of a file or directory; None if it does not exist. Follows links."""
        ...

    def is_link(self, path: str) -> bool:
        """Whether ``path`` is a symbolic link, even if its target does not exist."""
        ...

    def open(self, path: str, mode: OpenMode) -> File:
        """Opens a file to read, to read and write, or (``create``) to read and write, created empty if missing.

        Raises FileNotFoundError if the file is missing, except for ``create``. Raises OSError if the last part of the
        path is a link, so that the file is in the directory that was named.
        """
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents if missing. Each is durable after a sync of its parent directory."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename atomically, replacing the file ``target`` if it exists; between two directories, both need a sync."""
        ...

    def link(self, source: str, target: str) -> None:
        """Give the file ``source`` a second name. Raises FileExistsError if ``target`` exists."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory; no error if it does not exist."""
        ...

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Set the modification time of ``path``, ms since the epoch (compaction keeps that of its source)."""
        ...

    def sync_directory(self, path: str) -> None:
        """Wait until the names in ``path`` are on disk."""
        ...

    def lock(self, path: str, *, exclusive: bool = True, wait: bool = True) -> Lock | None:
        """Takes an ``flock`` on ``path``, which is created if missing.

        Returns None if ``wait`` is False and another lock excludes this one. Two locks in one process exclude each
        other like those of two processes. The locked file is the one that has the name when the lock is granted.
        """
        ...

    def byte_locks(self, path: str) -> ByteLocks:
        """Returns locks on the bytes of ``path``, which is created if missing; none is taken yet."""
        ...

    def lock_shared_with_broker(self, path: str) -> Lock | None:
        """Takes a shared open-file-description lock on ``path``, created if missing; None if a broker holds its lock.

        This lock and Java's FileChannel.lock exclude each other (``flock`` and Java's never conflict). Unlike a plain
        POSIX lock, it is not lost when another descriptor of the same file is closed.
        """
        ...


class MadeFileSystem(ABC):
    """A file system whose files are computed from other data, and change only when it is updated."""

    @property
    @abstractmethod
    def root(self) -> str:
        """The path of the one log directory that it has."""

    @abstractmethod
    def catch_up(self) -> None:
        """Updates this object with others' changes."""

    @abstractmethod
    def pin(self) -> None:
        """In an object for a reader of one partition: keeps its files as they are now until the next call."""

    @abstractmethod
    def is_made(self, path: str) -> bool:
        """Whether the content of ``path`` was checked when it was computed, so other files need not confirm it."""

    def shown_path(self, path: str) -> str:
        """Returns the name for a file in errors: that of the object that has all its bytes, if there is one."""
        return path

    def holds_from_log_start(self, directory: str) -> bool:
        """Whether a partition's directory should have all offsets from its log start on; a missing one is then lost."""
        return False


class MadeFile(ABC):
    """An open file of a :class:`MadeFileSystem`, which may cache the bytes that were read."""

    @abstractmethod
    def forget(self) -> None:
        """Drops cached bytes, so that they are read again: they may have been damaged on their way here."""


class Mount(NamedTuple):
    """The mount that a directory is on."""

    kind: str  # "ext4", "nfs4", "tmpfs", …; "unknown" if the kernel does not report it, as for a btrfs subvolume
    source: str  # the device, or server and path
    options: tuple[str, ...]  # "rw", "nobarrier", "local_lock=all", …
