"""One version of an exported Delta table, read by delta-rs, in processes that have no session of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import pyarrow as pa
from pyspark.sql.types import StructType

from ....storage import InvalidConfigError, TopicPartition, local_path, needs_extra
from ...rows.topic_ids import KnownOffsets
from ..command.words import MODE_PROPERTY, TableMode
from ..provenance.commits import Commit, local_commits, newest_recorded
from ..provenance.table_serde import Decoding

with needs_extra("A stream that begins in a table"):
    from deltalake import DeltaTable, QueryBuilder
    from deltalake.exceptions import DeltaError, TableNotFoundError

_TABLE = "rows"  # the name of the table in SQL


@dataclass(frozen=True)
class TableFiles:
    """The version of the table at ``path`` (an absolute path or a URI) that was newest when this object was created."""

    path: str
    table: DeltaTable

    @classmethod
    def newest(cls, path: str) -> Self:
        """Raises InvalidConfigError if there is no table that a stream can begin in."""
        try:
            found = cls(path, DeltaTable(_uri(path)))
        except TableNotFoundError:
            raise InvalidConfigError(f"option table: there is no Delta table at {path}") from None
        except (DeltaError, OSError) as error:
            raise InvalidConfigError(f"option table: {path} cannot be read: {error}") from None
        if found.properties.get(MODE_PROPERTY) == TableMode.UPSERT.value:
            raise InvalidConfigError(
                f"option table: {path} has only the newest record of each key, so it has no history to begin a stream "
                "in. Stream the log alone, or export to a table of mode append"
            )
        return found

    @property
    def name(self) -> str:
        return f"table {self.path}"

    @property
    def version(self) -> int:
        return self.table.version()

    @cached_property
    def properties(self) -> dict[str, str]:
        return {name: value for name, value in self.table.metadata().configuration.items() if value is not None}

    @property
    def decoding(self) -> Decoding:
        return Decoding.of(self.properties)

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.table.schema().to_json()))

    @cached_property
    def known(self) -> KnownOffsets:
        """The next offset of each partition, from which the table lacks records.

        Raises InvalidConfigError if it records none.
        """
        recorded = newest_recorded(self._commits())
        if recorded is None or not recorded.known.offsets:
            raise InvalidConfigError(
                f"table {self.path} does not record up to which offsets it goes: its newest rows are by an older "
                "version, by a program without a checkpoint, or by a load. Let the export job add to it once"
            )
        return recorded.known

    def _commits(self) -> Iterator[Commit]:
        try:
            yield from local_commits(Path(local_path(self.path)), self.version)
        except InvalidConfigError:  # it is on another file system
            for info in self.table.history():
                yield Commit.of(int(info["version"]), info)

    @cached_property
    def first_offsets(self) -> dict[int, int]:
        """A lower bound of the offsets of each partition's rows, from the statistics of files; 0 without them."""
        files = pa.table(self.table.get_add_actions(flatten=True))
        names = ["min._partition", "max._partition", "min._offset"]
        if not set(names) <= set(files.column_names) or any(files[name].null_count for name in names):
            return dict.fromkeys((each.partition for each in self.known.offsets), 0)
        found: dict[int, int] = {}
        for least, most, first in zip(*(files[name].to_pylist() for name in names), strict=True):
            for number in range(least, most + 1):
                found[number] = min(first, found.get(number, first))
        return found

    def first_offset(self, partition: TopicPartition) -> int:
        """Returns the offset at which the table's rows of a partition begin, or a smaller one."""
        end = self.known.offsets[partition]
        return min(end, self.first_offsets.get(partition.partition, end))

    @cached_property
    def bytes_per_offset(self) -> float:
        """The bytes of a row in files, on average."""
        files = pa.table(self.table.get_add_actions(flatten=True))
        rows = sum(count or 0 for count in files["num_records"].to_pylist())
        return float(sum(files["size_bytes"].to_pylist()) / max(rows, 1))

    def offset_at(self, number: int, timestamp_ms: int) -> int | None:
        """Returns the offset of the first row of a partition at or after a time; None if there is none."""
        time = f"to_timestamp_micros({timestamp_ms * 1000})"
        where = f'"_partition" = {number} AND "_timestamp" >= {time}'
        batches = self._query(f'SELECT min("_offset") AS "_offset" FROM {_TABLE} WHERE {where}')
        found = [offset for batch in batches for offset in batch.column("_offset").to_pylist()]
        return found[0] if found else None

    def rows(self, number: int, start: int, end: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yields ``columns`` of the rows of a partition from ``start`` up to, not including, ``end``, by offset.

        Files without such rows are not opened. The rows are sorted in memory, or on disk if they are many.
        """
        names = ", ".join('"{}"'.format(name.replace('"', '""')) for name in columns)
        where = f'"_partition" = {number} AND "_offset" >= {start} AND "_offset" < {end}'
        yield from self._query(f'SELECT {names} FROM {_TABLE} WHERE {where} ORDER BY "_offset"')

    def _query(self, sql: str) -> Iterator[pa.RecordBatch]:
        for batch in QueryBuilder().register(_TABLE, self.table).execute(sql):
            yield pa.record_batch(batch)


def _uri(path: str) -> str:
    """Returns ``path`` with the scheme that delta-rs knows: Hadoop's names for S3 are its own."""
    return path.replace("s3a://", "s3://", 1) if path.startswith("s3a://") else path
