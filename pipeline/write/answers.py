"""Answers of a write's tasks to the driver: the offsets they wrote, or the reason not to commit."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from ...storage import InvalidRecordError

Blob = bytes  # an alias, because a field below is named bytes


class UnwritableRowError(InvalidRecordError):
    """A row that no topic accepts; the message names the row, its topic and partition, and the reason."""


class Written(NamedTuple):
    """The records that one task wrote to one partition."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int  # other tasks may have written some of the offsets in between
    records: int
    bytes: int
    newest_ms: int  # the largest time of the records; -1 if none has one

    def plus(self, later: Written) -> Written:
        return self._replace(
            last_offset=later.last_offset,
            records=self.records + later.records,
            bytes=self.bytes + later.bytes,
            newest_ms=max(self.newest_ms, later.newest_ms),
        )


class Answer(NamedTuple):
    """A row that a task returns: its records in a partition, or the reason why none of its records may be committed."""

    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    records: int | None = None
    bytes: int | None = None
    newest_ms: int | None = None
    refused: str | None = None  # the task must not write: it is late, or a second attempt
    unwritable: str | None = None  # names a row of the task's input that no topic accepts, with the reason
    misplaced: str | None = None  # what is wrong with the user's partitioner
    staged: Blob | None = None  # the objects that the task put in an object store, for the commit


ARROW_ANSWER = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        *[(name, pa.int64()) for name in ("first_offset", "last_offset", "records", "bytes", "newest_ms")],
        ("refused", pa.string()),
        ("unwritable", pa.string()),
        ("misplaced", pa.string()),
        ("staged", pa.binary()),
    ]
)
ANSWER = from_arrow_schema(ARROW_ANSWER)  # the same for Spark
