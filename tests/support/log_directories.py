"""Log directories for tests."""

from __future__ import annotations

from pathlib import Path

from pyspark_commitlog.storage import INTERNAL_TOPICS, FileSystem, LogManager


def directory_with_internal_topics(path: Path, partitions: int = 1) -> str:
    """A log directory whose internal topics are there, with a few partitions: fifty of each take long to make."""
    make_internal_topics(str(path), partitions)
    return str(path)


def make_internal_topics(directory: str, partitions: int = 1, filesystem: FileSystem | None = None) -> None:
    """The same on any file system."""
    with LogManager.open(directory, create=True, filesystem=filesystem) as manager:
        for name in INTERNAL_TOPICS:
            manager.create_topic(name, partitions=partitions)
