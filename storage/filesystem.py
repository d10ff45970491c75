"""The file system port: the few operations this engine needs, and the local file system behind them.

A path is a ``str`` with ``/``; nothing above this module assumes that it is local. Any operation may raise
``OSError``; the caller decides what that means for the log. Names made, renamed or removed are durable only after
:meth:`FileSystem.sync_directory`; bytes only after :meth:`File.sync`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class FileStatus(NamedTuple):
    """What the file system knows of a name."""

    size: int  # bytes
    modified_ms: int  # last modification, ms since the epoch
    inode: int  # tells a file from another that took its name
    is_directory: bool


class File(Protocol):
    """An open file. Positions are bytes from its beginning."""

    path: str

    def size(self) -> int:
        """Bytes now."""
        ...

    def read(self, position: int, length: int) -> memoryview:
        """Up to ``length`` bytes from ``position``; fewer only where the file ends."""
        ...

    def write(self, position: int, data: Buffer) -> None:
        """All of ``data`` at ``position``, or OSError; a hole before it reads as zeros."""
        ...

    def truncate(self, size: int) -> None:
        """Cut to ``size`` bytes, or extend with zeros (sparse)."""
        ...

    def sync(self) -> None:
        """Return when data and size are on the disk (fsync)."""
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    """A lock that is held until released; also a context manager."""

    def release(self) -> None: ...

    def __enter__(self) -> Lock: ...

    def __exit__(self, *exc: object) -> None: ...


class FileSystem(Protocol):
    """What a log directory is kept on."""

    def list(self, directory: str) -> list[str]:
        """Names in ``directory``, sorted."""
        ...

    def status(self, path: str) -> FileStatus | None:
        """None where there is no such name."""
        ...

    def open(self, path: str, mode: Literal["read", "write", "create"]) -> File:
        """``read``: must exist, cannot be written. ``write``: must exist. ``create``: made (empty) if missing."""
        ...

    def make_directory(self, path: str) -> None:
        """With its parents; no error if it is there."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomically, replacing ``target``."""
        ...

    def link(self, source: str, target: str) -> None:
        """A hard link."""
        ...

    def remove(self, path: str) -> None:
        """A file, or an empty directory; no error if it is not there."""
        ...

    def set_modified(self, path: str, modified_ms: int) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Return when the names in ``path`` are on the disk."""
        ...

    def lock(self, path: str, *, exclusive: bool = True, wait: bool = True) -> Lock | None:
        """``flock`` on ``path``, made if missing; None if ``wait`` is False and another holds it."""
        ...

    def lock_shared_with_broker(self, path: str) -> Lock | None:
        """A shared open-file-description lock, which Java's FileChannel.lock respects; None if a broker holds it."""
        ...
