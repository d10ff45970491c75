"""Makes directories of files that a crash leaves complete or not at all.

A directory is created with ``.unfinished`` at the end of its name, and renamed when everything is on disk. A crash
leaves that name, and the next attempt removes the directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from ...errors import SnapshotError
from ...filesystem.holders import lock_holders
from ...filesystem.local import is_within
from ...filesystem.operations import make_directory_durably, not_a_link, parent_of, remove_tree
from ...filesystem.port import FileSystem
from ...format.files import file_names
from ...paths import is_store_url, local_path
from ...prefetch import in_order
from ..log_directory import LogDirectory

BUILDING_LOCK_FILE = ".building.lock"
COPY_BYTES = 1024 * 1024
SYNCED_AT_ONCE = 8


@contextmanager
def whole_directory(filesystem: FileSystem, target: str) -> Iterator[str]:
    """Yields a directory to fill; renames it to ``target`` at the end of the ``with`` block.

    After a crash, ``target`` is missing and ``target`` + ``.unfinished`` has a part, or ``target`` is complete.
    """
    status = filesystem.status(target)
    if not target or (status is not None and (not status.is_directory or filesystem.list(target))):
        raise SnapshotError(f"{target}: this is not an empty directory; give one that is missing or empty")
    if status is not None:
        _remove_empty(filesystem, target)
    building = target.rstrip("/") + file_names.UNFINISHED
    make_directory_durably(filesystem, not_a_link(filesystem, building))
    lock_path = file_names.join(building, BUILDING_LOCK_FILE)
    lock = filesystem.lock(lock_path, wait=False)
    if lock is None:
        holders = lock_holders(lock_path)
        raise SnapshotError(f"{building}: another process is creating {target}; wait until it has ended{holders}")
    with lock:
        for name in filesystem.list(building):
            if name != BUILDING_LOCK_FILE:
                remove_tree(filesystem, file_names.join(building, name))
        yield building
        filesystem.remove(file_names.join(building, BUILDING_LOCK_FILE))
        filesystem.sync_directory(building)
        filesystem.rename(building, target.rstrip("/"))
        filesystem.sync_directory(parent_of(target))


def check_outside(address: str, manager: LogDirectory) -> None:
    """Raises SnapshotError for a copy in its own log: it would be lost with the log, and no broker would start there.

    ``address``: a path, or the URL of an object store.
    """
    if manager.bucket is None and not is_store_url(address) and is_within(local_path(address), manager.directory):
        raise SnapshotError(f"{address}: is in the log directory {manager.directory}; give a folder elsewhere")


def _remove_empty(filesystem: FileSystem, target: str) -> None:
    """Removes an empty directory before anything is copied: a link or a mount point cannot be replaced at the end."""
    if filesystem.is_link(target.rstrip("/")):
        raise SnapshotError(f"{target}: is a link, which cannot be replaced; give the directory that it leads to")
    try:
        filesystem.remove(target)
    except OSError as error:
        raise SnapshotError(f"{target}: cannot be replaced, as a mount point ({error}); give a folder in it") from error


def sync_all(filesystem: FileSystem, folder: str, files: Iterable[str]) -> None:
    """Syncs all files, including linked ones, and their directories."""
    paths = [file_names.join(folder, path) for path in files]
    sync_files(filesystem, paths)
    directories = {folder, *map(parent_of, paths)}
    for directory in sorted(directories, reverse=True):
        filesystem.sync_directory(directory)


def sync_files(filesystem: FileSystem, paths: Iterable[str]) -> None:
    """Syncs files, several at once, so that the disk can choose their order."""

    def sync(path: str) -> None:
        with filesystem.open(path, "write") as file:
            file.sync()

    with closing(in_order(sync, paths, SYNCED_AT_ONCE)) as synced:
        for _ in synced:
            pass


def copy_file(filesystem: FileSystem, source: str, target: str, modified_ms: int) -> int:
    """Copies a file; returns its size in bytes. Blocks of zeros, as in preallocated indexes, take no space there."""
    with filesystem.open(source, "read") as reading, filesystem.open(target, "create") as writing:
        size = reading.size()
        for position in range(0, size, COPY_BYTES):
            piece = bytes(reading.read(position, min(COPY_BYTES, size - position)))
            if piece.strip(b"\0"):
                writing.write(position, piece)
        writing.truncate(size)
    filesystem.set_modified(target, modified_ms)
    return size
