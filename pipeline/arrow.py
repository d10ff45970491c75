"""Records to Arrow and back: the same buffers under another name, so that handing them on copies nothing.

Only timestamps (milliseconds in records, microseconds in Spark) and null masks (a byte there, a bit here) are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_commitlog.pipeline.offsets import TopicPartition
from pyspark_commitlog.storage import BinaryColumn, HeadersColumn, InvalidRecordError, LogStoreError, Records

T = TypeVar("T")

_US_PER_MS = 1000
_MS_MIN, _MS_MAX = -(2**63 // _US_PER_MS), 2**63 // _US_PER_MS  # years -290,308 to 294,247
_TIMESTAMP = pa.timestamp("us", tz="UTC")
CREATE_TIME = 0
_KEPT_ROWS_MAX = 2**17  # twice the small records of 8 MiB; with the longest topic names 32 MB


class TimeBeyondSparkError(LogStoreError):
    """A record's time that is no timestamp in microseconds: Kafka takes any number of milliseconds."""


def to_batch(
    records: Records, source: TopicPartition, schema: pa.Schema, *, null_times: bool = False
) -> pa.RecordBatch:
    """The columns of ``schema``, which are some of the source's (``schema.arrow_schema``).

    Raises TimeBeyondSparkError for a time that the column timestamp cannot hold; with ``null_times`` it is null.
    """
    arrays = [
        _times(records, source, null_times) if name == "timestamp" else _TO_ARROW[name](records, source)
        for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def is_beyond_spark(time_ms: int) -> bool:
    return not _MS_MIN <= time_ms <= _MS_MAX


def time_beyond_spark(time_ms: int, what: str, source: TopicPartition, offset: int) -> TimeBeyondSparkError:
    """The error for a time of the record at ``offset``; ``what`` is the time's name."""
    return TimeBeyondSparkError(
        f"offset {offset} of {source}: {what} is {time_ms} ms, which no timestamp in microseconds holds "
        f"({_MS_MIN} to {_MS_MAX} ms); what wrote it perhaps took another unit. Read past it, leave the column out, or "
        "take mode=permissive, which makes it null"
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


@dataclass(frozen=True)
class OverMessages(Generic[T]):
    """``function`` of Arrow batches, for a task that is given Arrow's messages: each is one with columns of ``schema``.

    Answers a single None where a row has more bytes than ``limits``. It stands here, and not where it is used, so that
    it travels to the workers by its name, and what they load for it they have.
    """

    function: Callable[[Iterator[pa.RecordBatch]], Iterable[T]]
    schema: pa.Schema
    limits: Mapping[str, int]

    def __call__(self, messages: Iterable[bytes]) -> Iterable[T | None]:
        buffers = map(pa.py_buffer, messages)  # nothing is copied
        batches = (pa.ipc.read_record_batch(buffer, self.schema) for buffer in buffers)
        try:
            return self.function(short_only(batches, self.limits))
        except LongRowError:
            return [None]


class LongRowError(Exception):
    """A row has more bytes than its way into a task takes."""


def short_only(batches: Iterable[pa.RecordBatch], limits: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
    """The batches, as long as no string of a column is longer than its limit in bytes; else raises LongRowError."""
    for batch in batches:
        for name, limit in limits.items():
            if longest(batch.column(name)) > limit:
                raise LongRowError(f"column {name!r} has more than {limit} bytes in a row")
        yield batch


def longest(array: pa.Array) -> int:
    """The bytes of the longest string of a column of bytes or text; 0 where there is none."""
    if not len(array):
        return 0
    offsets = _offsets(as_binary(array))
    return int((offsets[1:] - offsets[:-1]).max())


def check_nulls(batch: pa.RecordBatch, where: str) -> None:
    """Raise InvalidRecordError for a null in a column that is NOT NULL: Spark believes that there is none, and does not
    look. ``where`` is what the error calls the records.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise InvalidRecordError(
                f"{where}: column {field.name!r} is null in {column.null_count} of {batch.num_rows} records, "
                "and the schema given says NOT NULL: leave that out of it"
            )


def to_records(batch: pa.RecordBatch, now_ms: int) -> Records:
    """The rows of a batch with the columns of ``schema.WriteColumns``; offsets count from 0, as an append wants them.

    A row without a timestamp gets ``now_ms``. Raises InvalidRecordError for a header without a key.
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
    """A column of bytes or text as the bytes it has, which need not be UTF-8; they are not copied.

    Its offsets have 64 bits where ``spark.sql.execution.arrow.useLargeVarTypes`` is set.
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
    """A list a record, null where it has no headers, as Spark's Kafka source has it."""
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
    """A column of one topic. One for up to as many rows is made once and kept, if it is not large."""
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
    """The offsets and timestamp types of every table of so many rows; not to be written to."""
    offsets, timestamp_types = np.arange(rows, dtype=np.int64), np.full(rows, CREATE_TIME, dtype=np.int8)
    offsets.flags.writeable = timestamp_types.flags.writeable = False
    return offsets, timestamp_types


@lru_cache(maxsize=1)
def _same_times(rows: int, now_ms: int) -> npt.NDArray[np.int64]:
    """The timestamps of every table of so many rows that came at one time; not to be written to."""
    times = np.full(rows, now_ms, dtype=np.int64)
    times.flags.writeable = False
    return times


def _timestamps(array: pa.Array | None, rows: int, now_ms: int) -> npt.NDArray[np.int64]:
    if array is None:
        return _same_times(rows, now_ms)
    times_us: npt.NDArray[np.int64] = array.view(pa.int64()).fill_null(now_ms * _US_PER_MS).to_numpy()
    return times_us // _US_PER_MS


def _binary_column(array: pa.Array) -> BinaryColumn:
    """``array`` is perhaps a slice of a longer one."""
    array = as_binary(array)
    mask, _, data = array.buffers()
    return BinaryColumn(
        data=np.empty(0, np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8),
        offsets=_offsets(array),
        valid=None if mask is None or array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False),
    )


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    """Where each string of a binary array begins in its data, and where the last one ends; shape (rows + 1,)."""
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
