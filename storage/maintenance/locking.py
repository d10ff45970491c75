"""The maintenance lock of a log that is not opened: opening one to write would repair, one after the other, what tasks
are to repair side by side.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_commitlog.storage.errors import LogDirLockedError
from pyspark_commitlog.storage.filesystem import Lock, read_file
from pyspark_commitlog.storage.format import names
from pyspark_commitlog.storage.segment_reader import LogContext
from pyspark_commitlog.storage.shared_log import MAINTENANCE_LOCK_FILE, WORK_BYTES_MAX

logger = logging.getLogger(__name__)


@contextmanager
def maintenance_lock(context: LogContext, work: str, *, wait: bool) -> Iterator[None]:
    """Hold it, with ``work`` told to whoever comes meanwhile. Raises LogDirLockedError, unless it is to wait."""
    path = names.join(context.directory, MAINTENANCE_LOCK_FILE)
    with _locked(context, path, wait=wait), context.filesystem.open(path, "write") as note:
        note.truncate(0)
        note.write(0, work.encode())
        yield


def _locked(context: LogContext, path: str, *, wait: bool) -> Lock:
    lock = context.filesystem.lock(path, wait=False)
    if lock is None:
        holder = read_file(context.filesystem, path, WORK_BYTES_MAX).decode(errors="replace")
        told = f"{path}: another process works on the partition" + (f": {holder}" if holder else "")
        if not wait:
            raise LogDirLockedError(told)
        logger.warning("%s; waiting for it", told)
        lock = context.filesystem.lock(path)
        assert lock is not None  # it waited
    return lock
