"""Rows that cannot be written: why, and the records they become in a topic for bad records.

Such a record has the row's key, value and headers unchanged, and the time of the write. More headers, with text values,
have the :data:`REASON`; the :data:`TOPIC` and :data:`PARTITION` that the row was meant for, if known; the row's
:data:`TIMESTAMP` in milliseconds, if it had one; and the row's origin: :data:`APP_ID` and :data:`VERSION` of the write
(for a query, the query's id and the batch id), :data:`TASK` and :data:`ROW`, counted from 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ...arrow.batches import CREATE_TIME, as_binary
from ...storage import BinaryColumn, HeadersColumn, Records

REASON = "commitlog.error.reason"
TOPIC = "commitlog.error.topic"
PARTITION = "commitlog.error.partition"
TIMESTAMP = "commitlog.error.timestamp"
APP_ID = "commitlog.error.txnAppId"
VERSION = "commitlog.error.txnVersion"
TASK = "commitlog.error.task"
ROW = "commitlog.error.row"

_NO_KEY = "?"  # stands for the missing key of a header


class BadRow(NamedTuple):
    """A row that its topic rejects."""

    row: int  # its index in the table
    topic: str | None
    partition: int | None  # the partition named by the row or assigned to it; None: not assigned yet
    reason: str

    def message(self, number: int, task: int) -> str:
        """Returns the error message for this row, which is row ``number`` of the task, counted from 0."""
        partition = "" if self.partition is None else f", partition {self.partition}"
        return f"row {number} of task {task} cannot be written to topic {self.topic}{partition}: {self.reason}"


class Origin(NamedTuple):
    """The origin of an Arrow batch's rows: the write, the task, and their numbers in the task."""

    app_id: str
    version: int
    task: int
    rows_before: int  # how many rows of the task come before the batch


def to_bad_records(batch: pa.RecordBatch, bad: list[BadRow], origin: Origin, now_ms: int) -> Records:
    """Returns records for the bad rows of a table, in order. Works row by row, since there are few."""
    rows = _with_bytes(batch.take(pa.array([each.row for each in bad]))).to_pylist()
    headers = [[*_row_headers(row), *_error_headers(row, each, origin)] for row, each in zip(rows, bad, strict=True)]
    return Records(
        offsets=np.arange(len(rows), dtype=np.int64),
        timestamps=np.full(len(rows), now_ms, dtype=np.int64),
        timestamp_types=np.full(len(rows), CREATE_TIME, dtype=np.int8),
        keys=BinaryColumn.from_list([row.get("key") for row in rows]),
        values=BinaryColumn.from_list([row["value"] for row in rows]),
        headers=HeadersColumn.from_list([[(key.encode(), value) for key, value in each] for each in headers]),
    )


def keyless_headers(batch: pa.RecordBatch) -> list[int]:
    """Returns the indexes of rows that have a header without a key."""
    if "headers" not in batch.schema.names:
        return []
    column = batch.column("headers")
    pairs = column.values
    if not pairs.null_count and not pairs.field("key").null_count:
        return []
    return [
        index
        for index, headers in enumerate(column.to_pylist())
        if any(header is None or header["key"] is None for header in headers or ())
    ]


def _row_headers(row: dict[str, object]) -> Iterable[tuple[str, bytes | None]]:
    headers = row.get("headers")
    assert headers is None or isinstance(headers, list)
    for header in headers or ():
        yield ((header or {}).get("key") or _NO_KEY, (header or {}).get("value"))


def _error_headers(row: dict[str, object], bad: BadRow, origin: Origin) -> Iterable[tuple[str, bytes | None]]:
    timestamp = row.get("timestamp")
    found = {
        REASON: bad.reason,
        TOPIC: bad.topic,
        PARTITION: bad.partition,
        TIMESTAMP: None if timestamp is None else _milliseconds(timestamp),
        APP_ID: origin.app_id,
        VERSION: origin.version,
        TASK: origin.task,
        ROW: origin.rows_before + bad.row,
    }
    return [(name, str(value).encode()) for name, value in found.items() if value is not None]


def _milliseconds(timestamp: object) -> int:
    return int(pa.scalar(timestamp, pa.timestamp("us", tz="UTC")).cast(pa.int64()).as_py()) // 1000


def _with_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch with key and value as bytes, even if they are text."""
    columns = {
        name: as_binary(column) if name in ("key", "value") else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.RecordBatch.from_pydict(columns)
