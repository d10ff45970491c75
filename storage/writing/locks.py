"""The two locks of a partition: *append*, held briefly, and *maintenance*, held as long as segments are processed.

Opening a log for writing briefly holds the maintenance lock too, within the append lock.
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
    """Take one of the two locks, waiting until it is free."""
    lock = context.filesystem.lock(file_names.join(context.directory, name))
    assert lock is not None  # since it waits
    return lock


def take_maintenance_lock(context: LogContext) -> Lock:
    """Take the lock without waiting. Raises LogDirLockedError, which names the holder, if it is held.

    Waits for a process that only opens the log.
    """
    path = file_names.join(context.directory, MAINTENANCE_LOCK_FILE)
    lock = context.filesystem.lock(path, wait=False)
    if lock is None:
        with wait_for_lock(context, APPEND_LOCK_FILE):
            lock = context.filesystem.lock(path, wait=False)
    if lock is None:
        raise LogDirLockedError(f"{path}: another process works on the partition{_read_holder(context, path)}")
    return lock


def write_holder(context: LogContext, holder: str) -> None:
    """Write what holds the lock, and since when, to the lock file; other processes show this text in their errors."""
    with context.filesystem.open(file_names.join(context.directory, MAINTENANCE_LOCK_FILE), "write") as file:
        file.truncate(0)
        file.write(0, holder.encode())


def _read_holder(context: LogContext, path: str) -> str:
    with context.filesystem.open(path, "read") as file:
        holder = bytes(file.read(0, HOLDER_BYTES_MAX)).decode(errors="replace")
    return f": {holder}" if holder else ""
