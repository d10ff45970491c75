"""What a log directory has of a topic."""

from __future__ import annotations

from pathlib import Path

from pyspark_commitlog.storage import LogManager, Records


def records_in(directory: Path, topic: str = "t", partition: int = 0) -> list[Records]:
    """The tables of a partition."""
    with LogManager.open(str(directory)) as manager:
        reader = manager.open_reader(topic, partition)
        return list(reader.records(0, 10**9))


def values_in(directory: Path, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    """The values of a partition, in order."""
    found = []
    for table in records_in(directory, topic, partition):
        assert table.values is not None
        found += table.values.to_list()
    return found
