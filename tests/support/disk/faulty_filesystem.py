"""A file system that fails as told: errors of any operation, reads that come short, writes that stop half way.

::

    disk = FaultyFileSystem(LocalFileSystem(), [
        fail("sync", "*.log", call=3, error=errno.EIO),     # the third sync of any .log
        shorten("*/00000000000000000000.log", by=1),
        tear("*.log", after=100, error=errno.ENOSPC),
    ])
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, Self

from pyspark_commitlog.storage.filesystem.port import (
    Buffer,
    ByteLocks,
    File,
    FileStatus,
    FileSystem,
    Held,
    Lock,
    OpenMode,
)

OperationName = Literal[
    "list", "status", "open", "make_directory", "rename", "link", "remove", "set_modified", "sync_directory", "lock",
    "lock_shared_with_broker", "size", "read", "write", "truncate", "sync",
]  # fmt: skip


@dataclass
class Rule:
    """One fault; made by :func:`fail`, :func:`shorten` and :func:`tear`.

    It is about the operation named, on a path that matches the pattern (of a rename or link: source or target), and
    strikes at the ``call``-th of those, at every one from there on if ``lasting``. ``struck`` counts how often it did:
    a test that wants its fault to have happened asserts it.
    """

    operation: OperationName
    path: str
    call: int
    lasting: bool
    error: int | None  # None: no error, a short read
    amount: int | None  # bytes that a short read lacks, or that a torn write writes
    struck: int = 0
    seen: int = field(default=0, repr=False)

    def strikes(self, operation: str, paths: tuple[str, ...]) -> bool:
        """Whether the fault is due in this call, which is counted."""
        if operation != self.operation or not any(fnmatchcase(path, self.path) for path in paths):
            return False
        self.seen += 1
        due = self.seen == self.call or (self.lasting and self.seen > self.call)
        self.struck += due
        return due


def fail(
    operation: OperationName, path: str = "*", *, call: int = 1, error: int = errno.EIO, lasting: bool = False
) -> Rule:
    """OSError ``error`` instead of the operation; nothing is done."""
    return Rule(operation, path, call, lasting, error, None)


def shorten(path: str = "*", *, by: int, call: int = 1, lasting: bool = False) -> Rule:
    """A read that lacks its last ``by`` bytes, as if the file ended there."""
    return Rule("read", path, call, lasting, None, by)


def tear(path: str = "*", *, after: int, call: int = 1, error: int = errno.ENOSPC, lasting: bool = False) -> Rule:
    """A write that writes ``after`` bytes and then raises OSError ``error``."""
    return Rule("write", path, call, lasting, error, after)


class FaultyFile:
    """A file of a FaultyFileSystem."""

    def __init__(self, inner: File, filesystem: FaultyFileSystem) -> None:
        self._inner = inner
        self._filesystem = filesystem

    @property
    def path(self) -> str:
        return self._inner.path

    def size(self) -> int:
        self._filesystem.meet("size", self.path)
        return self._inner.size()

    def read(self, position: int, length: int) -> memoryview:
        rule = self._filesystem.meet("read", self.path)
        data = self._inner.read(position, length)
        return data[: max(len(data) - rule.amount, 0)] if rule is not None and rule.amount is not None else data

    def write(self, position: int, *data: Buffer) -> None:
        rule = self._filesystem.meet("write", self.path)
        if rule is None:
            self._inner.write(position, *data)
        else:
            self._inner.write(position, b"".join(data)[: rule.amount])
            raise _error(rule, self.path)

    def truncate(self, size: int) -> None:
        self._filesystem.meet("truncate", self.path)
        self._inner.truncate(size)

    def begin_sync(self) -> None:
        self._inner.begin_sync()

    def sync(self) -> None:
        self._filesystem.meet("sync", self.path)
        self._inner.sync()

    def hold(self) -> Held:
        return self._inner.hold()

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class FaultyLock:
    """A lock of a FaultyFileSystem."""

    def __init__(self, inner: Lock, filesystem: FaultyFileSystem, path: str) -> None:
        self._inner = inner
        self._filesystem = filesystem
        self._path = path

    @property
    def is_inherited(self) -> bool:
        return self._inner.is_inherited

    def release(self) -> None:
        self._inner.release()

    def unlock(self) -> None:
        self._inner.unlock()

    def lock_again(self, *, wait: bool = True) -> bool:
        self._filesystem.meet("lock", self._path)
        return self._inner.lock_again(wait=wait)

    def read(self, length: int) -> bytes:
        return self._inner.read(length)

    def write(self, data: bytes) -> None:
        self._inner.write(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


class FaultyFileSystem:
    """``inner``, save where one of ``rules`` strikes (the first that does). Rules may be added at any time."""

    def __init__(self, inner: FileSystem, rules: list[Rule] | None = None) -> None:
        self.inner = inner
        self.rules = rules if rules is not None else []

    def meet(self, operation: OperationName, *paths: str) -> Rule | None:
        """Raise the error of a rule that strikes; a rule that is more than an error comes back for the caller to do."""
        struck = [rule for rule in self.rules if rule.strikes(operation, paths)]
        if not struck:
            return None
        if struck[0].amount is None:
            raise _error(struck[0], paths[0])
        return struck[0]

    def list(self, directory: str) -> list[str]:
        self.meet("list", directory)
        return self.inner.list(directory)

    def status(self, path: str) -> FileStatus | None:
        self.meet("status", path)
        return self.inner.status(path)

    def is_link(self, path: str) -> bool:
        self.meet("status", path)
        return self.inner.is_link(path)

    def open(self, path: str, mode: OpenMode) -> FaultyFile:
        self.meet("open", path)
        return FaultyFile(self.inner.open(path, mode), self)

    def make_directory(self, path: str) -> None:
        self.meet("make_directory", path)
        self.inner.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        self.meet("rename", source, target)
        self.inner.rename(source, target)

    def link(self, source: str, target: str) -> None:
        self.meet("link", source, target)
        self.inner.link(source, target)

    def remove(self, path: str) -> None:
        self.meet("remove", path)
        self.inner.remove(path)

    def set_modified(self, path: str, modified_ms: int) -> None:
        self.meet("set_modified", path)
        self.inner.set_modified(path, modified_ms)

    def sync_directory(self, path: str) -> None:
        self.meet("sync_directory", path)
        self.inner.sync_directory(path)

    def lock(self, path: str, *, exclusive: bool = True, wait: bool = True) -> Lock | None:
        self.meet("lock", path)
        lock = self.inner.lock(path, exclusive=exclusive, wait=wait)
        return lock and FaultyLock(lock, self, path)

    def byte_locks(self, path: str) -> ByteLocks:
        self.meet("lock", path)
        return self.inner.byte_locks(path)

    def lock_shared_with_broker(self, path: str) -> Lock | None:
        self.meet("lock_shared_with_broker", path)
        return self.inner.lock_shared_with_broker(path)


def _error(rule: Rule, path: str) -> OSError:
    assert rule.error is not None
    return OSError(rule.error, f"{rule.operation}: {os.strerror(rule.error)}", path)
