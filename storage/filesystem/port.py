"""The file system port: the few operations on files that this engine needs.

A path is a ``str`` with ``/``; nothing above this module assumes that it is local. Any operation may raise ``OSError``
with the path as its ``filename`` and the operation in its text; the caller decides what that means for the log. Names
that were created, renamed or removed are durable only after :meth:`FileSystem.sync_directory` of their directory;
bytes, and a file's size, only after :meth:`File.sync`. There is no append: the writer keeps the position, so that it
can repeat a write over a torn one. For the reasons behind the port, and what it leaves out, see
docs/decisions/file_system_port.md.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, Self

Buffer = bytes | bytearray | memoryview
OpenMode = Literal["read", "write", "create"]


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
