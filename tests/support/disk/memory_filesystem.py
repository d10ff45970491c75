"""A disk in memory that can lose power: the FileSystem port, and what a power cut may leave of it.

:meth:`MemoryFileSystem.crash` makes the disk that is left; disk_model.py says which ones are possible. In short: what
was synced is there, and of the rest any part may be, block by block and name by name, torn as power cuts tear.

``cut_power_at(n)`` stops a program at its n-th change, and :func:`crash_points` does so for every n::

    for operation, disk in crash_points(lambda disk: write_atomically(disk, "/file", b"new"), start):
        for seed in range(20):
            assert read_file(disk.crash(seed), "/file", 10) in (b"old", b"new"), operation
"""

from __future__ import annotations

import copy
import errno
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Literal, NamedTuple, Self

from pyspark_commitlog.storage.clock import Clock
from pyspark_commitlog.storage.filesystem.port import Buffer, FileStatus, Held, Mount, OpenMode
from tests.support.clock import ManualClock
from tests.support.disk.disk_model import Crash, DirectoryNode, FileNode, Node, Truncate, Unsynced, Write

_SYNCS = {"sync", "sync_directory"}
_MUTATIONS = _SYNCS | {"create", "write", "truncate", "make_directory", "rename", "link", "remove", "set_modified"}


class PowerCut(BaseException):
    """The power failed during the operation named. Every later operation raises this again.

    No Exception, so that no code under test takes it for an error and carries on.
    """


class Operation(NamedTuple):
    """One call of the port; ``mutates`` tells those that a power cut can interrupt."""

    kind: str
    path: str
    target: str | None = None
    position: int | None = None
    length: int | None = None

    @property
    def mutates(self) -> bool:
        return self.kind in _MUTATIONS

    def __str__(self) -> str:
        return " ".join(str(part) for part in self if part is not None)


@dataclass(eq=False)
class _Held:
    """One lock; ``family`` keeps flock and the broker's kind apart, which never meet."""

    family: Literal["flock", "broker"]
    node: FileNode
    exclusive: bool
    thread: int


class MemoryByteLocks:
    """Locks on bytes; ``held``: those of all objects, which are not part of the disk."""

    def __init__(self, held: dict[tuple[str, int], MemoryByteLocks], path: str) -> None:
        self._all, self._path = held, path

    def take(self, byte: int) -> bool:
        return self._all.setdefault((self._path, byte), self) is self

    def give(self, byte: int) -> None:
        if self._all.get((self._path, byte)) is self:
            del self._all[self._path, byte]

    def close(self) -> None:
        for key in [key for key, holder in self._all.items() if holder is self]:
            del self._all[key]


class MemoryLock:
    """A lock of a MemoryFileSystem."""

    is_inherited = False

    def __init__(self, filesystem: MemoryFileSystem, path: str, held: _Held) -> None:
        self._filesystem = filesystem
        self._path = path
        self._held = held
        self._is_open = True

    def release(self) -> None:
        self._is_open = False
        self._filesystem._release(self._held)

    def unlock(self) -> None:
        self._filesystem._release(self._held)

    def lock_again(self, *, wait: bool = True) -> bool:
        with self._filesystem._doing(Operation("lock", self._path)):
            if not self._is_open or self._filesystem._find(self._path) is not self._held.node:
                return False
            self._held.thread = threading.get_ident()
            return self._filesystem._take(self._held, self._path, wait=wait)

    def read(self, length: int) -> bytes:
        with self._filesystem._doing(Operation("read", self._path, None, 0, length)):
            return bytes(self._held.node.content[:length])

    def write(self, data: bytes) -> None:
        with self._filesystem._doing(Operation("write", self._path, None, 0, len(data))):
            self._held.node.change(Truncate(0), self._filesystem.clock.now_ms())
            self._held.node.change(Write(0, data), self._filesystem.clock.now_ms())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


class MemoryFile:
    """An open file of a MemoryFileSystem; it outlives its name."""

    def __init__(self, filesystem: MemoryFileSystem, path: str, node: FileNode, mode: OpenMode) -> None:
        self._filesystem = filesystem
        self._path = path
        self._node = node
        self._writable = mode != "read"
        self._closed = False

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        with self._doing("size"):
            return len(self._node.content)

    def read(self, position: int, length: int) -> memoryview:
        with self._doing("read", position, length):
            _check(position >= 0 and length >= 0, errno.EINVAL, self._path)
            return memoryview(bytes(self._node.content[position : position + length]))

    def write(self, position: int, *data: Buffer) -> None:
        written = b"".join(data)
        with self._doing("write", position, len(written), writes=True):
            _check(position >= 0, errno.EINVAL, self._path)
            if written:
                self._node.change(Write(position, written), self._filesystem.clock.now_ms())

    def truncate(self, size: int) -> None:
        with self._doing("truncate", length=size, writes=True):
            _check(size >= 0, errno.EINVAL, self._path)
            self._node.change(Truncate(size), self._filesystem.clock.now_ms())

    def begin_sync(self) -> None:
        """Nothing is sure before :meth:`sync`: a crash already keeps or loses what was written, by chance."""
        with self._doing("begin_sync"):
            pass

    def sync(self) -> None:
        with self._doing("sync"):
            self._node.sync()

    def hold(self) -> Held:
        raise io.UnsupportedOperation(f"{self._path}: a file in memory has no descriptor")

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def _doing(
        self, kind: str, position: int | None = None, length: int | None = None, *, writes: bool = False
    ) -> Iterator[None]:
        with self._filesystem._doing(Operation(kind, self._path, None, position, length)):
            _check(not self._closed, errno.EBADF, self._path)
            _check(self._writable or not writes, errno.EBADF, self._path)
            yield


class MemoryFileSystem:
    """The port over a disk in memory. Paths begin at its root, with or without a ``/``; threads may share it.

    ``operations`` lists every call so far, in order. File times come from ``clock``.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or ManualClock()
        self.operations: list[Operation] = []
        self._root = DirectoryNode(1, self.clock.now_ms())
        self._last_inode = 1
        self._locks: list[_Held] = []
        self._byte_locks: dict[tuple[str, int], MemoryByteLocks] = {}
        self._changed = threading.Condition()  # also the one mutex: over an RLock
        self._mutations_left: int | None = None  # until the power goes
        self._cut_during: Operation | None = None

    def crash(self, seed: int, *, unsynced: Unsynced = "chance") -> MemoryFileSystem:
        """The disk after a power cut now, as ``seed`` has it; this one stays as it is and can crash again.

        ``unsynced="lost"`` keeps only what is sure, ``"kept"`` everything.
        """
        with self._changed:
            root = Crash(Random(seed), unsynced).node(self._root)
            return self._with_root(root)

    def copy(self) -> MemoryFileSystem:
        """The same disk, unsynced changes included, without locks and open files."""
        with self._changed:
            return self._with_root(copy.deepcopy(self._root))

    def _with_root(self, root: Node) -> MemoryFileSystem:
        assert isinstance(root, DirectoryNode)
        other = MemoryFileSystem(self.clock)
        other._root = root
        other._last_inode = self._last_inode
        return other

    def cut_power_at(self, n: int) -> None:
        """Raise PowerCut during the n-th change from now (1 is the next), and at every operation after it.

        A sync that is interrupted has not synced. Any other change is made, unsynced as it is: the crash decides.
        """
        self._mutations_left = n

    def lose_locks(self) -> None:
        """Take all locks from their holders, who are not told: what a network mount may do."""
        with self._changed:
            self._locks.clear()
            self._changed.notify_all()

    def list(self, directory: str) -> list[str]:
        with self._doing(Operation("list", directory)):
            return sorted(self._directory(directory).entries)

    def status(self, path: str) -> FileStatus | None:
        with self._doing(Operation("status", path)):
            node = self._find(path)
            if node is None:
                return None
            size = len(node.content) if isinstance(node, FileNode) else 0
            return FileStatus(size, node.modified_ms, node.inode, isinstance(node, DirectoryNode))

    def is_link(self, path: str) -> bool:
        return False

    def open(self, path: str, mode: OpenMode) -> MemoryFile:
        with self._changed:
            makes = mode == "create" and self._find(path) is None
            with self._doing(Operation("create" if makes else "open", path)):
                return MemoryFile(self, path, self._make_file(path) if makes else self._file(path), mode)

    def make_directory(self, path: str) -> None:
        with self._doing(Operation("make_directory", path)):
            directory = self._root
            for name in _names(path):
                node = directory.entries.get(name)
                if node is None:
                    node = DirectoryNode(self._new_inode(), self.clock.now_ms())
                    directory.change({name: node}, self.clock.now_ms())
                if not isinstance(node, DirectoryNode):
                    raise _error(errno.EEXIST, path)
                directory = node

    def rename(self, source: str, target: str) -> None:
        with self._doing(Operation("rename", source, target)):
            (origin, old_name), (destination, new_name) = self._place(source), self._place(target)
            node, replaced = self._get(source), destination.entries.get(new_name)
            _check_replaces(node, replaced, target)
            if node is replaced:
                return  # two names of one file: POSIX leaves both
            now_ms = self.clock.now_ms()
            if origin is destination:
                origin.change({old_name: None, new_name: node}, now_ms)
            else:
                destination.change({new_name: node}, now_ms)
                origin.change({old_name: None}, now_ms)

    def link(self, source: str, target: str) -> None:
        with self._doing(Operation("link", source, target)):
            node = self._get(source)
            _check(isinstance(node, FileNode), errno.EPERM, source)
            directory, name = self._place(target)
            _check(name not in directory.entries, errno.EEXIST, target)
            directory.change({name: node}, self.clock.now_ms())

    def remove(self, path: str) -> None:
        with self._doing(Operation("remove", path)):
            node = self._find(path)
            if node is None:
                return
            _check(not (isinstance(node, DirectoryNode) and node.entries), errno.ENOTEMPTY, path)
            directory, name = self._place(path)
            directory.change({name: None}, self.clock.now_ms())

    def set_modified(self, path: str, modified_ms: int) -> None:
        with self._doing(Operation("set_modified", path)):
            self._get(path).modified_ms = modified_ms

    def sync_directory(self, path: str) -> None:
        with self._doing(Operation("sync_directory", path)):
            self._directory(path).sync()

    def lock(self, path: str, *, exclusive: bool = True, wait: bool = True) -> MemoryLock | None:
        return self._lock("flock", path, exclusive=exclusive, wait=wait)

    def byte_locks(self, path: str) -> MemoryByteLocks:
        return MemoryByteLocks(self._byte_locks, path)

    def lock_shared_with_broker(self, path: str) -> MemoryLock | None:
        return self._lock("broker", path, exclusive=False, wait=False)

    def lock_as_broker(self, path: str) -> MemoryLock | None:
        """What a broker does at its start: the exclusive lock of Java, or None if it is not to be had."""
        return self._lock("broker", path, exclusive=True, wait=False)

    def mount(self, path: str) -> Mount:
        return Mount("memory", "this process", ())

    def _lock(self, family: Literal["flock", "broker"], path: str, *, exclusive: bool, wait: bool) -> MemoryLock | None:
        with self.open(path, "create"), self._doing(Operation("lock", path)):
            wanted = _Held(family, self._file(path), exclusive, threading.get_ident())
            return MemoryLock(self, path, wanted) if self._take(wanted, path, wait=wait) else None

    def _take(self, wanted: _Held, path: str, *, wait: bool) -> bool:
        while in_the_way := self._in_the_way_of(wanted):
            if not wait:
                return False
            if wanted.thread in in_the_way:
                raise RuntimeError(f"{path}: this thread would wait for itself, for ever")
            self._changed.wait()
            self._check_power()
        self._locks.append(wanted)
        return True

    def _in_the_way_of(self, wanted: _Held) -> set[int]:
        """The threads that hold a lock which excludes the one wanted."""
        return {
            held.thread
            for held in self._locks
            if held.node is wanted.node and held.family == wanted.family and (held.exclusive or wanted.exclusive)
        }

    def _release(self, held: _Held) -> None:
        with self._changed:
            if held in self._locks:
                self._locks.remove(held)
                self._changed.notify_all()

    @contextmanager
    def _doing(self, operation: Operation) -> Iterator[None]:
        """Record an operation, keep other threads out of it, and cut the power when it is due."""
        with self._changed:
            self._check_power()
            self.operations.append(operation)
            if operation.mutates and self._mutations_left is not None:
                self._mutations_left -= 1
            due = operation.mutates and self._mutations_left == 0
            if not (due and operation.kind in _SYNCS):
                yield
            if due:
                self._cut_during = operation
                self._changed.notify_all()
            self._check_power()

    def _check_power(self) -> None:
        if self._cut_during is not None:
            raise PowerCut(self._cut_during)

    def _new_inode(self) -> int:
        self._last_inode += 1
        return self._last_inode

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in _names(path):
            node = node.entries.get(name) if isinstance(node, DirectoryNode) else None
        return node

    def _get(self, path: str) -> Node:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        return node

    def _file(self, path: str) -> FileNode:
        node = self._get(path)
        if not isinstance(node, FileNode):
            raise _error(errno.EISDIR, path)
        return node

    def _directory(self, path: str) -> DirectoryNode:
        node = self._get(path)
        if not isinstance(node, DirectoryNode):
            raise _error(errno.ENOTDIR, path)
        return node

    def _place(self, path: str) -> tuple[DirectoryNode, str]:
        """The directory a name is in, and the name."""
        *parents, name = _names(path)
        return self._directory("/".join(parents)), name

    def _make_file(self, path: str) -> FileNode:
        directory, name = self._place(path)
        node = FileNode(self._new_inode(), self.clock.now_ms(), durable_modified_ms=self.clock.now_ms())
        directory.change({name: node}, self.clock.now_ms())
        return node


def crash_points(
    program: Callable[[MemoryFileSystem], object],
    start: MemoryFileSystem | None = None,
    *,
    every: int = 1,
    first: int = 1,
) -> Iterator[tuple[Operation, MemoryFileSystem]]:
    """Run ``program`` again and again from ``start``, the power going at its ``first`` change, the next one, and so on.

    With ``every``, only at each such change: the 1st, the 4th, the 7th for 3.

    Yields the operation during which it went, and the disk, which the caller lets :meth:`~MemoryFileSystem.crash` by as
    many seeds as it likes; ends when the program does.
    """
    for n in count(first, every):
        filesystem = (start or MemoryFileSystem()).copy()
        filesystem.cut_power_at(n)
        try:
            program(filesystem)
        except PowerCut as cut:
            yield cut.args[0], filesystem
        else:
            return


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


def _check(holds: bool, code: int, path: str) -> None:
    if not holds:
        raise _error(code, path)


def _check_replaces(node: Node, replaced: Node | None, target: str) -> None:
    """What rename(2) allows to be replaced: a file by a file, an empty directory by a directory."""
    if isinstance(replaced, DirectoryNode):
        _check(isinstance(node, DirectoryNode), errno.EISDIR, target)
        _check(not replaced.entries, errno.ENOTEMPTY, target)
    elif replaced is not None:
        _check(isinstance(node, FileNode), errno.ENOTDIR, target)
