"""Directories copied as ``cp -r`` does, on any file system of the port."""

from __future__ import annotations

from pyspark_commitlog.storage.filesystem.operations import (
    make_directory_durably,
    parent_of,
    read_file,
    remove_tree,
    write_atomically,
)
from pyspark_commitlog.storage.filesystem.port import FileSystem

FILE_BYTES_MAX = 1 << 26


def copy_tree(disk: FileSystem, source: str, target: str, *, hidden: bool = False) -> None:
    """In place of what is at ``target``, durably; without ``hidden``, not those whose names begin with a dot: locks."""
    remove_tree(disk, target)
    make_directory_durably(disk, target)
    for name in disk.list(source):
        if is_directory(disk, f"{source}/{name}"):
            copy_tree(disk, f"{source}/{name}", f"{target}/{name}", hidden=hidden)
        elif hidden or not name.startswith("."):
            copy_file(disk, f"{source}/{name}", f"{target}/{name}")
    disk.sync_directory(parent_of(target))


def copy_file(disk: FileSystem, source: str, target: str) -> None:
    write_atomically(disk, target, read_file(disk, source, FILE_BYTES_MAX))


def is_directory(disk: FileSystem, path: str) -> bool:
    status = disk.status(path)
    return status is not None and status.is_directory
