"""One version of an exported table, and the next offset of each partition in that version.

A commit of a Delta table that adds rows records the offsets (``next_offsets``). A commit that only moves, edits or
deletes rows keeps those of the commits before it. After any other commit, such as one by an older version of this
package or by another program, the offsets after the last row of each partition count. Offsets without a row may follow
them, which are then read again. A load of Parquet files has the offsets in a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from ....storage import InvalidConfigError, LogManager, TopicPartition
from ...job.delta_jars import check_delta, check_reachable
from ...rows.topic_ids import KnownOffsets
from ..command.words import LOADED_PROPERTY, MODE_PROPERTY, TableMode
from ..parquet_folder import ParquetFolder
from ..provenance.commits import Commit, local_commits, local_folder, local_version, newest_recorded
from ..provenance.next_offsets import NextOffsets
from ..provenance.table_serde import Decoding
from ..table_ends import check_same_log, last_rows
from ..table_progress import properties_of
from ..upserts import deleted_keys, has_deleted_keys
from .plan import Seam

_ASKED_FIRST = 10  # commits of a table that is not local; the newest one with rows is nearly always among them


class PinnedTable(Protocol):
    """One version of a table, without later commits."""

    @property
    def name(self) -> str:
        """The kind and path of the table, for errors."""

    @property
    def mode(self) -> TableMode: ...

    @property
    def decoding(self) -> Decoding: ...

    @property
    def rows(self) -> DataFrame: ...

    def tombstones(self) -> DataFrame | None:
        """Returns the newest tombstone of each key that ever had one; None for a table without tombstones."""

    def seam(self, manager: LogManager, topic: str) -> Seam:
        """Returns the next offset of each partition that the table knows.

        Raises ProgressMismatchError if the table's last rows did not come from this log.
        """


def pinned(session: SparkSession, path: str) -> PinnedTable:
    """Returns the newest version of the Delta table, or of the folder of Parquet files, at ``path``.

    Raises InvalidConfigError if there is neither, or if the session has no file system for it.
    """
    check_reachable(session, path)
    found = PinnedDelta.of(session, path)
    folder = _folder(path)
    current = ParquetFolder(path).current() if found is None and folder is not None else None
    if current is not None:
        return PinnedParquet(session, path, current)
    if found is None:
        raise InvalidConfigError(
            f"{path} is neither a Delta table nor a folder of Parquet files that the export job writes: name what its "
            "--table named"
        )
    return found


@dataclass(frozen=True)
class PinnedParquet:
    """One load of a folder of Parquet files. The load after the next one removes its files."""

    session: SparkSession
    path: str
    load: Path

    mode = TableMode.APPEND

    @property
    def name(self) -> str:
        return f"folder {self.path}"

    @property
    def decoding(self) -> Decoding:
        return Decoding(ParquetFolder(self.path).serde_of(self.load))

    @cached_property
    def rows(self) -> DataFrame:
        return self.session.read.parquet(f"file:{self.load}")

    def tombstones(self) -> None:
        return None

    def seam(self, manager: LogManager, topic: str) -> Seam:
        return Seam(ParquetFolder(self.path).next_offsets_of(self.load), is_complete=True)


@dataclass(frozen=True)
class PinnedDelta:
    """The version of the Delta table at ``path`` that was the newest when this object was created."""

    session: SparkSession
    path: str
    version: int
    rows: DataFrame
    properties: dict[str, str]

    @classmethod
    def of(cls, session: SparkSession, path: str) -> PinnedDelta | None:
        """Returns None if there is no Delta table."""
        newest = _newest_version(session, path)
        version = newest()
        if version is not None:
            check_delta(session)
        while version is not None:
            rows = session.read.format("delta").option("versionAsOf", version).load(path)
            # Needs no Spark job if this is still the newest version that Delta knows.
            if (properties := _known_properties(session, path, version)) is not None:
                return cls(session, path, version, rows, properties)
            properties, again = properties_of(session, path), newest()
            if version == again:  # no other commit came, so the properties belong to this version
                return cls(session, path, version, rows, properties)
            version = again
        return None

    @property
    def name(self) -> str:
        return f"table {self.path}"

    @property
    def decoding(self) -> Decoding:
        return Decoding.of(self.properties)

    @property
    def mode(self) -> TableMode:
        return TableMode(self.properties.get(MODE_PROPERTY, TableMode.APPEND.value))

    def tombstones(self) -> DataFrame | None:
        path, reader = deleted_keys(self.path), self.session.read.format("delta")
        if self._recorded is None:
            return reader.load(path) if has_deleted_keys(self.properties) else None
        if self._recorded.tombstones is None:
            return None
        return reader.option("versionAsOf", self._same_as(path, self._recorded.tombstones)).load(path)

    def _same_as(self, path: str, version: int) -> int:
        """Returns the newest version with the rows of ``version``, whose files VACUUM may have removed since."""
        newest = _newest_version(self.session, path)()
        for commit in _commits(self.session, path, version if newest is None else newest):
            if commit.version <= version:
                return newest or version
            if not commit.keeps_rows:
                break
        return version

    @cached_property
    def _recorded(self) -> NextOffsets | None:
        return newest_recorded(_commits(self.session, self.path, self.version))

    def seam(self, manager: LogManager, topic: str) -> Seam:
        """With recorded offsets, no row is read: ``plan`` compares the topic's id and the log's end."""
        if self._recorded is not None:
            return Seam(self._recorded.known, is_complete=True)
        tombstones, loaded = self.tombstones(), self.properties.get(LOADED_PROPERTY)
        known = KnownOffsets({}, {}) if loaded is None else KnownOffsets.from_json(loaded, LOADED_PROPERTY)
        found = dict(known.offsets)
        for rows in [self.rows] if tombstones is None else [self.rows, tombstones]:
            for last in last_rows(rows):
                check_same_log(manager, topic, last, self.path)
                partition = TopicPartition(topic, last.partition)
                found[partition] = max(found.get(partition, 0), last.offset + 1)
        return Seam(KnownOffsets(found, known.ids), is_complete=False)


def _folder(path: str) -> Path | None:
    """Returns the local folder of a table; None for one on another file system, or of a server of Spark Connect."""
    return None if is_remote() else local_folder(path)


def _known_properties(session: SparkSession, path: str, version: int) -> dict[str, str] | None:
    if is_remote():
        return None
    from ...write.classic_session import properties_at  # noqa: PLC0415  needs py4j, which Connect's clients lack

    return properties_at(session, path, version)


def _newest_version(session: SparkSession, path: str) -> Callable[[], int | None]:
    folder = _folder(path)
    if folder is not None:
        return partial(local_version, folder)
    if not DeltaTable.isDeltaTable(session, path):
        return lambda: None
    if not is_remote():
        from ...write.classic_session import newest_version  # noqa: PLC0415  as above

        return partial(newest_version, session, path)
    table = DeltaTable.forPath(session, path)
    return lambda: int(table.history(1).collect()[0].version)


def _commits(session: SparkSession, path: str, newest: int) -> Iterator[Commit]:
    folder = _folder(path)
    if folder is not None:
        yield from local_commits(folder, newest)
        return
    table, below = DeltaTable.forPath(session, path), newest + 1
    for most in (_ASKED_FIRST, None):
        rows = table.history(most).collect()  # the newest first
        for row in (each for each in rows if each.version < below):
            below = int(row.version)
            yield Commit.of(below, row.asDict())
