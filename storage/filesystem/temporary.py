"""Temporary folders, which the next one removes if the process that made them was killed.

A folder has a lock file, which its process holds as long as it uses the folder. The file gets its name only after it is
locked, so a folder whose lock file nobody holds is abandoned.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LOCK = "in-use.lock"
_FILES = "files"  # the folder that is yielded


@contextmanager
def temporary_folder(prefix: str, parent: str | None = None) -> Iterator[str]:
    """Yields an empty folder within a new one in ``parent``, whose name begins with ``prefix``; removes it afterwards.

    ``parent`` is by default the folder for temporary files (``TMPDIR``). First removes folders with the same prefix
    there whose processes, of this user, have ended without that. Raises OSError.
    """
    parent = tempfile.gettempdir() if parent is None else parent
    _remove_abandoned(prefix, parent)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as folder:
        lock = _locked(folder)
        try:
            os.mkdir(f"{folder}/{_FILES}")
            yield f"{folder}/{_FILES}"
        finally:
            os.close(lock)


def _locked(folder: str) -> int:
    """Makes the lock file of a new folder; returns its descriptor, which holds the lock until it is closed."""
    unnamed = f"{folder}/{LOCK}.new"
    descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.rename(unnamed, f"{folder}/{LOCK}")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove_abandoned(prefix: str, parent: str) -> None:
    """Removes what it can; what is wrong with ``parent`` shows when a folder is made there."""
    with suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(prefix):
                with suppress(OSError):  # in use, removed in the meantime, or not one of these folders
                    _remove_if_abandoned(f"{parent}/{name}")


def _remove_if_abandoned(folder: str) -> None:
    """Removes a folder of this user that is not in use. Raises OSError if it is, or if it has no lock file."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return  # a link, or another user's: both can be made in the folder for temporary files
    descriptor = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(descriptor)
