"""The two locks of a partition: *append*, held for moments, and *maintenance*, held as long as work on segments takes.

Opening a log to write holds the maintenance lock too, within the append lock, and only for a moment.
"""

from __future__ import annotations

from pyspark_commitlog.storage.errors import LogDirLockedError
from pyspark_commitlog.storage.filesystem import Lock
from pyspark_commitlog.storage.format import names
from pyspark_commitlog.storage.segment_reader import LogContext

APPEND_LOCK_FILE = ".append.lock"
MAINTENANCE_LOCK_FILE = ".maintenance.lock"
WORK_BYTES_MAX = 1000  # of what its holder says it does


def wait_for_lock(context: LogContext, name: str) -> Lock:
    """One of the two, once nobody else has it."""
    lock = context.filesystem.lock(names.join(context.directory, name))
    assert lock is not None  # it waits
    return lock


def take_maintenance_lock(context: LogContext) -> Lock:
    """Without waiting for who compacts, deletes or rebuilds: LogDirLockedError tells what that one does.

    Who only opens the log is waited for.
    """
    path = names.join(context.directory, MAINTENANCE_LOCK_FILE)
    lock = context.filesystem.lock(path, wait=False)
    if lock is None:
        with wait_for_lock(context, APPEND_LOCK_FILE):
            lock = context.filesystem.lock(path, wait=False)
    if lock is None:
        raise LogDirLockedError(f"{path}: another process works on the partition{_work_of_holder(context, path)}")
    return lock


def tell_work(context: LogContext, work: str) -> None:
    """Leave in the maintenance lock's file, for whoever comes meanwhile, what its holder does and since when."""
    with context.filesystem.open(names.join(context.directory, MAINTENANCE_LOCK_FILE), "write") as note:
        note.truncate(0)
        note.write(0, work.encode())


def _work_of_holder(context: LogContext, path: str) -> str:
    with context.filesystem.open(path, "read") as note:
        work = bytes(note.read(0, WORK_BYTES_MAX)).decode(errors="replace")
    return f": {work}" if work else ""
