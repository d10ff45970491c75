"""Small things to do with a disk in memory: put and get a file, and see what crashes leave of it."""

from __future__ import annotations

import hashlib

from pyspark_commitlog.storage.filesystem.operations import read_file
from tests.support.disk.memory_filesystem import MemoryFileSystem

SEEDS = range(200)  # enough to see every outcome of a few changes; a fixed range, so that a test never wavers
LIMIT = 1 << 20


def put(disk: MemoryFileSystem, path: str, data: bytes, *, position: int = 0, sync: bool = False) -> None:
    """Write into a file, made if missing."""
    with disk.open(path, "create") as file:
        file.write(position, data)
        if sync:
            file.sync()


def get(disk: MemoryFileSystem, path: str) -> bytes | None:
    """The content of a file, or None."""
    return None if disk.status(path) is None else read_file(disk, path, LIMIT)


def disk_with(path: str, data: bytes) -> MemoryFileSystem:
    """A disk that surely holds one file."""
    disk = MemoryFileSystem()
    put(disk, path, data, sync=True)
    disk.sync_directory("/")
    return disk


def outcomes(disk: MemoryFileSystem, path: str) -> set[bytes | None]:
    """The contents that crashes by all SEEDS leave; None where they leave no such file."""
    return {get(disk.crash(seed), path) for seed in SEEDS}


def digest_of(disk: MemoryFileSystem) -> bytes:
    """Alike for two disks with the same names and contents."""
    digest = hashlib.blake2b(digest_size=16)

    def take(path: str) -> None:
        for name in disk.list(path):
            below = f"{path}/{name}"
            status = disk.status(below)
            assert status is not None
            content = None if status.is_directory else get(disk, below)
            digest.update(repr((below, content)).encode())
            if status.is_directory:
                take(below)

    take("")
    return digest.digest()
