"""Log directories for tests."""

from __future__ import annotations

from pathlib import Path

from pyspark_commitlog.storage import COORDINATOR_TOPICS, LogManager
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import NOW_MS


def managed(directory: Path, filesystem: LocalFileSystem | FaultyFileSystem | None = None) -> LogManager:
    """A log directory, created if it is missing, at the time of the tests."""
    return LogManager.open(str(directory), create=True, clock=ManualClock(NOW_MS), filesystem=filesystem)


def directory_with_internal_topics(path: Path, partitions: int = 1) -> str:
    """A log directory whose internal topics are there, with a few partitions: fifty of each take long to make."""
    with LogManager.open(str(path), create=True) as manager:
        for name in COORDINATOR_TOPICS:
            manager.create_topic(name, partitions=partitions)
    return str(path)


def memory_disk_with_topics(directory: str, topic: str, partitions: int) -> MemoryFileSystem:
    """A disk with a topic, and the internal ones of a partition each, whose indexes take next to no memory."""
    disk = MemoryFileSystem()
    with LogManager.open(directory, create=True, filesystem=disk) as manager:
        for name in (topic, *COORDINATOR_TOPICS):
            configs = {**COORDINATOR_TOPICS.get(name, {}), "segment.index.bytes": "1000"}
            manager.create_topic(name, partitions=partitions if name == topic else 1, configs=configs)
    return disk
