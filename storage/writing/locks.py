"""The two locks of a partition: *append*, held briefly, and *maintenance*, held while segments are replaced or deleted.

A process that opens a log for writing holds the append lock and, within it, tries to hold the maintenance lock.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from ..errors import LogDirLockedError
from ..filesystem.holders import lock_holders
from ..filesystem.port import FileSystem, Lock
from ..format.files import file_names
from ..segment.walk import LogContext

APPEND_LOCK_FILE = ".append.lock"
MAINTENANCE_LOCK_FILE = ".maintenance.lock"
HOLDER_BYTES_MAX = 1000  # of the text that names the holder


def wait_for_lock(context: LogContext, name: str) -> Lock:
    """Waits until one of the two locks is free, takes it and returns it. ``name``: of the lock file."""
    lock = context.filesystem.lock(file_names.join(context.directory, name))
    assert lock is not None  # since it waits
    if name == APPEND_LOCK_FILE and lock.read(1):
        lock.write(b"")  # removes the mark of a KeptLock
    return lock


def is_append_lock_taken(filesystem: FileSystem, directory: str) -> bool:
    """Whether a process has the append lock of a partition now. Takes the lock for a moment if none has."""
    lock = filesystem.lock(file_names.join(directory, APPEND_LOCK_FILE), wait=False)
    if lock is None:
        return True
    lock.release()
    return False


class KeptLock:
    """The append lock of one open log: its file stays open, and shows whether others had the lock in between.

    Taking the lock by its name removes the mark in its file, and a log writes its own mark once it has caught up. As
    long as that mark is there, nobody else has had the lock. No two objects ever write the same mark.
    """

    def __init__(self, context: LogContext) -> None:
        """Takes no lock yet."""
        self._context = context
        self._lock: Lock | None = None
        self._mark = b""

    def take(self, is_as_left: Callable[[], bool]) -> bool:
        """Waits for the lock and takes it; returns whether nobody else had it since :meth:`mark`.

        ``is_as_left``: whether the log's file seems to be as this process left it, which is looked at under the lock:
        nobody can be trusted to keep to the lock where the file is another one.
        """
        if self._lock is not None and self._lock.lock_again():
            if self._lock.read(len(self._mark)) == self._mark and is_as_left():
                return True
            self._lock.release()
        self._lock = wait_for_lock(self._context, APPEND_LOCK_FILE)
        self._mark = uuid4().bytes
        return False

    def take_if_alone(self, is_as_left: Callable[[], bool]) -> bool:
        """Takes the lock if it is free and nobody else had it since :meth:`mark`; returns whether it has it.

        Never waits. ``is_as_left``: as for :meth:`take`.
        """
        if self._lock is None or not self._lock.lock_again(wait=False):
            return False
        if self._lock.read(len(self._mark)) == self._mark and is_as_left():
            return True
        self._lock.unlock()
        return False

    def mark(self) -> None:
        """Writes to the lock's file that this object knows the present state of the log. The lock is held."""
        assert self._lock is not None
        self._lock.write(self._mark)

    def unlock(self) -> None:
        """Lets others take the lock."""
        if self._lock is not None:
            self._lock.unlock()

    def close(self) -> None:
        """Closes the lock's file."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def take_maintenance_lock(context: LogContext) -> Lock:
    """Takes and returns the maintenance lock. Raises LogDirLockedError, with the holder, if another process has it.

    Does not wait for the holder, except for a process that is just opening the log.
    """
    path = file_names.join(context.directory, MAINTENANCE_LOCK_FILE)
    lock = context.filesystem.lock(path, wait=False)
    if lock is None:
        with wait_for_lock(context, APPEND_LOCK_FILE):
            lock = context.filesystem.lock(path, wait=False)
    if lock is None:
        raise LogDirLockedError(
            f"{path}: another process works on the partition{_read_holder(context, path)}; try again when it has ended"
            f"{lock_holders(path)}"
        )
    return lock


def write_holder(context: LogContext, holder: str) -> None:
    """Writes to the maintenance lock file what holds the lock and since when, for the errors of other processes."""
    with context.filesystem.open(file_names.join(context.directory, MAINTENANCE_LOCK_FILE), "write") as file:
        file.truncate(0)
        file.write(0, holder.encode())


def _read_holder(context: LogContext, path: str) -> str:
    with context.filesystem.open(path, "read") as file:
        holder = bytes(file.read(0, HOLDER_BYTES_MAX)).decode(errors="replace")
    return f": {holder}" if holder else ""
