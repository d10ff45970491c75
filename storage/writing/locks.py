"""The two locks of a partition: *append*, held briefly, and *maintenance*, held while segments are replaced or deleted.

A process that opens a log for writing holds the append lock and, within it, tries to hold the maintenance lock.
"""

from __future__ import annotations

from ..errors import LogDirLockedError
from ..filesystem import Lock
from ..format.files import file_names
from ..segment import LogContext

APPEND_LOCK_FILE = ".append.lock"
MAINTENANCE_LOCK_FILE = ".maintenance.lock"
HOLDER_BYTES_MAX = 1000  # of the text that names the holder


def wait_for_lock(context: LogContext, name: str) -> Lock:
    """Waits until one of the two locks is free, takes it and returns it. ``name``: of the lock file."""
    lock = context.filesystem.lock(file_names.join(context.directory, name))
    assert lock is not None  # since it waits
    return lock


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
