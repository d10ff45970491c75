"""The reserve of a log directory: a file that is removed when the disk is full, so that deletions have room to begin.

Before retention removes anything, it writes a little, above all the log start offset, which must be durable first. So
does the deletion of records and of topics. ``.commitlog.reserve`` is made with the first topic, while the disk has
space, and made again after a retention or the deletion of a topic. It has no meaning: anyone may remove it at any time.
Another process may take the room first; then the next deletion has none.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import TypeVar

from ..errors import LogStoreError
from ..filesystem.operations import size_of
from ..filesystem.port import FileSystem
from ..format.files import file_names

RESERVE_FILE = ".commitlog.reserve"
_TEXT = b"Room for retention on a full disk. May be removed.\n"
_BYTES_MIN = 64 * 1024  # for snapshots of producers, the holder of a lock, leader epochs
_CHECKPOINTS = 4  # two checkpoints are written, each beside the one that it replaces

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def keep_reserve(filesystem: FileSystem, directory: str) -> None:
    """Makes the reserve of a log directory if it is missing or much too small, as far as the disk has space."""
    path = file_names.join(directory, RESERVE_FILE)
    checkpoint_bytes = size_of(filesystem, file_names.join(directory, file_names.RECOVERY_POINT_CHECKPOINT))
    wanted, size = _BYTES_MIN + _CHECKPOINTS * checkpoint_bytes, size_of(filesystem, path)
    if size >= max(_BYTES_MIN, wanted // 2):  # it grows rarely
        return
    try:
        with filesystem.open(path, "create") as file:
            file.write(size, _TEXT * ((wanted - size) // len(_TEXT) + 1))  # written, not sparse
            file.sync()
    except OSError as error:
        if not is_disk_full(error):
            raise


def release_reserve(filesystem: FileSystem, directory: str) -> None:
    """Removes the reserve of a log directory, if it is there; its space is free on return."""
    filesystem.remove(file_names.join(directory, RESERVE_FILE))
    filesystem.sync_directory(directory)


def with_room(filesystem: FileSystem, directory: str, task: Callable[[], Result]) -> Result:
    """Returns the result of ``task``; if the disk is full, runs it again in the room of the directory's reserve.

    Also if the reserve is missing: a task beside this one may just have removed it.
    """
    try:
        return task()
    except (LogStoreError, OSError) as error:
        if not is_disk_full(error):
            raise
        logger.warning("the disk is full; removing %s/%s, and trying again: %s", directory, RESERVE_FILE, error)
    release_reserve(filesystem, directory)
    return task()


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, is that the disk is full, or the user's quota."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__
    return False
