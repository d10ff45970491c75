"""Local tables and their recorded offsets, without Spark, for commands that compare them with a log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ....storage import (
    InvalidConfigError,
    LocalFileSystem,
    LogManager,
    NextOffsets,
    TablesKept,
    find_made_again,
    topic_ids,
)
from ...rows.topic_ids import KnownOffsets
from ..parquet_folder import ParquetFolder
from ..provenance.commits import local_commits, local_folder, local_version, newest_recorded
from ..provenance.other_log import other_log


class KnownTable(NamedTuple):
    """A table as it is now: its description, for messages, and the next offset of each partition."""

    description: str
    known: KnownOffsets


def known_table(path: str) -> KnownTable:
    """Returns the Delta table or the folder of Parquet files at ``path``, which the export job writes.

    Raises InvalidConfigError if there is neither, and for a Delta table that records no next offsets.
    """
    folder = _folder(path)
    version = local_version(folder)
    if version is None:
        current = ParquetFolder(path).current()
        if current is None:
            raise InvalidConfigError(
                f"{path} has no Delta table, and no Parquet files of the export job: name what --table named there"
            )
        return KnownTable(f"Parquet, load {current.name}", ParquetFolder(path).next_offsets())
    recorded = newest_recorded(local_commits(folder, version))
    if recorded is None or not recorded.known.offsets:
        raise InvalidConfigError(
            f"table {path} does not record up to which offsets it goes: its newest rows are by an older version, by a "
            "program without a checkpoint, or by a load. Let the export job add to it once"
        )
    return KnownTable(f"Delta, version {version}", recorded.known)


def _folder(path: str) -> Path:
    folder = local_folder(path)
    if folder is None:
        raise InvalidConfigError(
            f"table {path}: only tables on a local file system can be compared with their log without Spark; "
            "topic_table reads others"
        )
    return folder


def tables_kept(paths: Sequence[str]) -> TablesKept:
    """Returns the function by which ``retain_partitions`` finds the records that ``paths`` do not have yet.

    Spark syncs nothing that it writes to a Delta table. So this brings to disk what the tables have, with all else on
    their file systems, before retention deletes it from the log: after a power cut, the table would otherwise lack it
    too.
    """

    def read(manager: LogManager) -> dict[str, NextOffsets]:
        found = {path: _next_offsets(manager, path) for path in paths}
        for path in paths:  # after all were read: a later commit does not count
            LocalFileSystem().sync_all(str(_folder(path)))
        return found

    return read


def _next_offsets(manager: LogManager, path: str) -> NextOffsets:
    """Raises InvalidConfigError for a table of no topic in this log, ProgressMismatchError if only the name matches."""
    known, topics = known_table(path).known, manager.topics()
    if missing := {each.topic for each in known.offsets} - topics.keys():
        raise InvalidConfigError(
            f"--keep-for-tables {path} has rows of topic {', '.join(sorted(missing))}, which "
            f"{manager.directory} does not have"
        )
    there = [each for topic in {each.topic for each in known.offsets} for each in topics[topic].topic_partitions]
    if text := find_made_again(known.ids, topic_ids(manager, there)):
        raise other_log(f"--keep-for-tables {path}: {text} in {manager.directory}")
    return known.offsets
