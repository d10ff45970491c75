"""Log directories for tests."""

from __future__ import annotations

from pathlib import Path

from pyspark_commitlog.storage import INTERNAL_TOPICS, LogManager


def directory_with_internal_topics(path: Path, partitions: int = 1) -> str:
    """A log directory whose internal topics are there, with a few partitions: fifty of each take long to make."""
    with LogManager.open(str(path), create=True) as manager:
        for name in INTERNAL_TOPICS:
            manager.create_topic(name, partitions=partitions)
    return str(path)
