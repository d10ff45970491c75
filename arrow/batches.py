"""Converts records to Arrow batches and back without copying keys and values: both sides share their buffers.

Only timestamps (milliseconds in records, microseconds in Spark) and null masks (bytes in records, bits in Arrow) are
copied.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..storage import BinaryColumn, HeadersColumn, InvalidRecordError, LogStoreError, Records, TopicPartition

_US_PER_MS = 1000
_MS_MIN, _MS_MAX = -(2**63 // _US_PER_MS), 2**63 // _US_PER_MS  # years -290,308 to 294,247
_TIMESTAMP = pa.timestamp("us", tz="UTC")
CREATE_TIME = 0
_KEPT_ROWS_MAX = 2**17  # rows of a cached column: twice the small records in 8 MiB; 32 MB with the longest topic name


class TimeBeyondSparkError(LogStoreError):
    """A record's time does not fit Spark's timestamps in microseconds: Kafka accepts any number of milliseconds."""


def to_batch(
    records: Records, source: TopicPartition, schema: pa.Schema, *, null_times: bool = False
) -> pa.RecordBatch:
    """Returns the records with the columns of ``schema``, which are some of ``columns.READ_TYPES``.

    Raises TimeBeyondSparkError for a time that the column timestamp cannot hold; with ``null_times``, it is null.
    """
    arrays = [
        _times(records, source, null_times) if name == "timestamp" else _TO_ARROW[name](records, source)
        for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def is_beyond_spark(time_ms: int) -> bool:
    return not _MS_MIN <= time_ms <= _MS_MAX


def time_beyond_spark(time_ms: int, what: str, source: TopicPartition, offset: int) -> TimeBeyondSparkError:
    """Returns the error for a time that Spark cannot hold, in the record at ``offset``; ``what`` names the time."""
    return TimeBeyondSparkError(
        f"offset {offset} of {source}: {what} is {time_ms} ms, which does not fit a timestamp in "
        f"microseconds ({_MS_MIN} to {_MS_MAX} ms); perhaps the producer used another unit. Skip the record, or set "
        "mode=permissive, which reads the time as null"
    )


def _times(records: Records, source: TopicPartition, null_times: bool) -> pa.Array:
    times_ms = records.timestamps
    times = pa.array(times_ms * _US_PER_MS).view(_TIMESTAMP)
    if not len(times_ms) or (times_ms.min() >= _MS_MIN and times_ms.max() <= _MS_MAX):
        return times
    beyond = (times_ms < _MS_MIN) | (times_ms > _MS_MAX)
    if null_times:
        return pc.if_else(pa.array(beyond), None, times)
    first = int(beyond.argmax())
    raise time_beyond_spark(int(times_ms[first]), "its time", source, int(records.offsets[first]))


def longest(array: pa.Array) -> int:
    """Returns the bytes of the longest string in a column of bytes or text; 0 if the column is empty."""
    if not len(array):
        return 0
    offsets = _offsets(as_binary(array))
    return int((offsets[1:] - offsets[:-1]).max())


def check_nulls(batch: pa.RecordBatch, where: str) -> None:
    """Raises InvalidRecordError for a null in a column that the schema declares NOT NULL; Spark would not notice it.

    ``where`` names the records in the message.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise InvalidRecordError(
                f"{where}: column {field.name!r} is null in {column.null_count} of {batch.num_rows} records, "
                "but the given schema says NOT NULL: remove that from the schema"
            )


def to_records(batch: pa.RecordBatch, now_ms: int) -> Records:
    """Returns the rows of a batch as records with offsets from 0.

    The batch has a column ``value``, and may have ``key``, ``timestamp`` and ``headers``. A record without a timestamp
    gets ``now_ms``. Raises InvalidRecordError for a header without a key.
    """
    rows = batch.num_rows
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    offsets, timestamp_types = _same_for_all(rows)
    return Records(
        offsets=offsets,
        timestamps=_timestamps(columns.get("timestamp"), rows, now_ms),
        timestamp_types=timestamp_types,
        keys=_binary_column(columns["key"]) if "key" in columns else _nulls(rows),
        values=_binary_column(columns["value"]),
        headers=_headers_column(columns["headers"]) if "headers" in columns else None,
    )


def as_binary(array: pa.Array) -> pa.Array:
    """Returns a column of bytes or text as a binary column with 32-bit offsets; does not copy the bytes.

    ``array`` has 64-bit offsets if ``spark.sql.execution.arrow.useLargeVarTypes`` is set.
    """
    if pa.types.is_binary(array.type):  # the usual case
        return array
    if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        return array.view(pa.large_binary()).cast(pa.binary())
    return array.view(pa.binary())


def _binary(column: BinaryColumn, kind: pa.DataType) -> pa.Array:
    buffers = [_bitmap(column.valid), _buffer(column.offsets), _buffer(column.data)]
    return pa.Array.from_buffers(kind, len(column), buffers)


def _column_or_nulls(column: BinaryColumn | None, rows: int) -> pa.Array:
    return pa.nulls(rows, pa.binary()) if column is None else _binary(column, pa.binary())


def _headers(records: Records, _source: TopicPartition) -> pa.Array:
    """Returns the column ``headers``: a list per record, null if a record has none, as in Spark's Kafka source."""
    kind = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    headers = records.headers
    if headers is None:
        return pa.nulls(len(records), kind)
    pairs = pa.StructArray.from_arrays(
        [_binary(headers.keys, pa.string()), _binary(headers.values, pa.binary())], fields=list(kind.value_type)
    )
    some = np.diff(headers.offsets) > 0
    return pa.Array.from_buffers(kind, len(records), [_bitmap(some), _buffer(headers.offsets)], children=[pairs])


def _topics(topic: str, rows: int) -> pa.Array:
    """Returns a column that repeats ``topic``; up to 2**17 rows, it is a slice of a cached column."""
    if rows > _KEPT_ROWS_MAX:
        return pa.repeat(topic, rows)
    return _repeated(topic, 1 << (rows - 1).bit_length()).slice(0, rows)


@lru_cache(maxsize=4)
def _repeated(topic: str, rows: int) -> pa.Array:
    return pa.repeat(topic, rows)


_TO_ARROW: dict[str, Callable[[Records, TopicPartition], pa.Array]] = {
    "key": lambda records, _: _column_or_nulls(records.keys, len(records)),
    "value": lambda records, _: _column_or_nulls(records.values, len(records)),
    "topic": lambda records, source: _topics(source.topic, len(records)),
    "partition": lambda records, source: pa.array(np.full(len(records), source.partition, np.int32)),
    "offset": lambda records, _: pa.array(records.offsets),
    "timestampType": lambda records, _: pa.array(records.timestamp_types.astype(np.int32)),
    "headers": _headers,
}


@lru_cache(maxsize=1)
def _same_for_all(rows: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    """Returns the offsets and timestamp types of any table with this many rows, read-only."""
    offsets, timestamp_types = np.arange(rows, dtype=np.int64), np.full(rows, CREATE_TIME, dtype=np.int8)
    offsets.flags.writeable = timestamp_types.flags.writeable = False
    return offsets, timestamp_types


@lru_cache(maxsize=1)
def _same_times(rows: int, now_ms: int) -> npt.NDArray[np.int64]:
    """Returns the timestamps of a table whose rows all have the time ``now_ms``, read-only."""
    times = np.full(rows, now_ms, dtype=np.int64)
    times.flags.writeable = False
    return times


def _timestamps(array: pa.Array | None, rows: int, now_ms: int) -> npt.NDArray[np.int64]:
    if array is None:
        return _same_times(rows, now_ms)
    times_us: npt.NDArray[np.int64] = array.view(pa.int64()).fill_null(now_ms * _US_PER_MS).to_numpy()
    return times_us // _US_PER_MS


def _binary_column(array: pa.Array) -> BinaryColumn:
    """Returns a column of bytes or text, which may be a slice, as a BinaryColumn."""
    array = as_binary(array)
    mask, _, data = array.buffers()
    return BinaryColumn(
        data=np.empty(0, np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8),
        offsets=_offsets(array),
        valid=None if mask is None or array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False),
    )


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    """Returns the positions in the data at which each string begins, and the last one ends; shape (rows + 1,)."""
    return np.frombuffer(array.buffers()[1], dtype=np.int32, count=len(array) + 1, offset=array.offset * 4)


def _headers_column(array: pa.ListArray) -> HeadersColumn:
    pairs = array.values
    keys = pairs.field("key")
    if keys.null_count or pairs.null_count:
        raise InvalidRecordError("a record header has no key")
    return HeadersColumn(
        offsets=array.offsets.to_numpy(), keys=_binary_column(keys), values=_binary_column(pairs.field("value"))
    )


def _nulls(rows: int) -> BinaryColumn:
    return BinaryColumn(np.empty(0, np.uint8), np.zeros(rows + 1, np.int32), np.zeros(rows, np.bool_))


def _buffer(array: npt.NDArray[np.generic]) -> pa.Buffer:
    return pa.py_buffer(np.ascontiguousarray(array))


def _bitmap(valid: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
