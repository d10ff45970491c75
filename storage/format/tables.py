"""The two tables that every format fills: batch headers, and records in Arrow-shaped columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..kernels import memory
from .constants import (
    CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    INT32_MAX,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# One row per batch, in native byte order, whatever the magic. A field that a format lacks holds its "none" value.
HEADERS = np.dtype(
    [
        ("position", np.int64),  # of the batch, in the buffer that was scanned
        ("size", np.int64),  # bytes of the batch, including the 12 of offset and length
        ("base_offset", np.int64),  # legacy: equals last_offset, since only decoding finds the first inner offset
        ("last_offset", np.int64),
        ("magic", np.int8),
        ("crc", np.uint32),
        ("attributes", np.int16),
        ("leader_epoch", np.int32),
        ("base_timestamp", np.int64),  # the delete horizon if the attributes have its bit set
        ("max_timestamp", np.int64),  # legacy: the outer timestamp; magic 0: -1
        ("producer_id", np.int64),
        ("producer_epoch", np.int16),
        ("base_sequence", np.int32),
        ("count", np.int64),  # records according to the header; legacy: -1, unknown
    ],
    align=True,
)


def rows_at(layout: np.dtype, buffer: Bytes, positions: Int64s) -> npt.NDArray[np.void]:
    """Returns a row of dtype ``layout`` read from ``buffer`` at each of ``positions``; shape (positions,).

    Raises IndexError for a position so near the end that its row would reach beyond it.
    """
    # NumPy copies rows of plain bytes by memcpy, but rows of many fields field by field.
    windows = max(len(buffer) - layout.itemsize + 1, 0)
    rows = np.ndarray(windows, f"V{layout.itemsize}", np.ascontiguousarray(buffer), strides=(1,))
    found: npt.NDArray[np.void] = rows[positions].view(layout)
    return found


def put_rows_at(buffer: Bytes, positions: Int64s, rows: npt.NDArray[Any]) -> None:
    """Write each of ``rows`` to ``buffer`` at its position, as :func:`rows_at` reads them. Checks no position."""
    memory.put_rows(buffer, positions, rows.view(np.uint8).reshape(-1, rows.itemsize))


@dataclass(frozen=True)
class BatchHeaders:
    """Headers of consecutive batches in a buffer.

    ``table`` has the dtype :data:`HEADERS`, shape (batches,). Indexing with a slice, a mask or indices gives another
    ``BatchHeaders``; read a field as ``headers.table["last_offset"]``.
    """

    table: npt.NDArray[np.void]

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, rows: Any) -> BatchHeaders:
        return BatchHeaders(self.table[rows])

    @property
    def codec(self) -> npt.NDArray[np.int16]:
        return self.table["attributes"] & CODEC_MASK

    @property
    def timestamp_type(self) -> npt.NDArray[np.int8]:
        """The timestamp type of each batch, shape (n,): 0 CreateTime, 1 LogAppendTime, -1 for magic 0."""
        appended = (self.table["attributes"] & TIMESTAMP_TYPE_MASK) != 0
        return np.where(self.table["magic"] == 0, np.int8(-1), appended.astype(np.int8))

    @property
    def is_transactional(self) -> Bools:
        return self._has(TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> Bools:
        return self._has(CONTROL_MASK)

    @property
    def has_delete_horizon(self) -> Bools:
        return self._has(DELETE_HORIZON_MASK)

    @property
    def end(self) -> int:
        """Position after the last batch; 0 if there are no batches."""
        return int(self.table["position"][-1] + self.table["size"][-1]) if len(self) else 0

    @property
    def next_offset(self) -> int:
        """The offset after the last batch. Raises IndexError if there are no batches."""
        return int(self.table["last_offset"][-1]) + 1

    def _has(self, mask: int) -> Bools:
        found: Bools = ((self.table["attributes"] & mask) != 0) & (self.table["magic"] >= 2)
        return found


@dataclass(frozen=True)
class BinaryColumn:
    """n byte strings, some of them null, in Arrow's binary layout.

    String i is ``data[offsets[i]:offsets[i + 1]]``. A null string has no bytes.
    """

    data: Bytes  # shape (bytes,)
    offsets: Int32s  # shape (n + 1,)
    valid: Bools | None  # shape (n,); None: no nulls

    @classmethod
    def from_list(cls, strings: list[bytes | None]) -> BinaryColumn:
        """A column of these strings. Raises ValueError for more bytes than 32-bit offsets can address."""
        lengths = [0 if s is None else len(s) for s in strings]
        if sum(lengths) > INT32_MAX:
            raise ValueError(f"{sum(lengths)} bytes in one column, at most {INT32_MAX} fit: make smaller tables")
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        valid = None if None not in strings else np.array([s is not None for s in strings], dtype=np.bool_)
        return cls(np.frombuffer(b"".join(s or b"" for s in strings), dtype=np.uint8), offsets, valid)

    def to_list(self) -> list[bytes | None]:
        first, last = int(self.offsets[0]), int(self.offsets[-1])  # a slice shares the data of the whole column
        data, offsets = self.data[first:last].tobytes(), (self.offsets - first).tolist()
        strings: list[bytes | None] = [data[a:b] for a, b in pairwise(offsets)]
        if self.valid is None:
            return strings
        return [s if there else None for s, there in zip(strings, self.valid.tolist(), strict=True)]

    def slice(self, start: int, stop: int) -> BinaryColumn:
        """The strings [start, stop) as a column that shares the memory of this one."""
        valid = None if self.valid is None else self.valid[start:stop]
        return BinaryColumn(self.data, self.offsets[start : stop + 1], valid)

    def take(self, rows: Int64s) -> BinaryColumn:
        """The strings with these indices, in the order of ``rows``, as a column with its own memory."""
        positions, offsets = _taken(self.offsets, rows)
        return BinaryColumn(self.data[positions], offsets, None if self.valid is None else self.valid[rows])

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class HeadersColumn:
    """The record headers of n records: record i has ``keys`` and ``values`` [offsets[i], offsets[i + 1])."""

    offsets: Int32s  # shape (n + 1,)
    keys: BinaryColumn  # UTF-8, never null
    values: BinaryColumn

    @classmethod
    def repeated(cls, headers: Sequence[tuple[bytes, bytes | None]], count: int) -> HeadersColumn:
        """The same headers for each of ``count`` records."""
        every = [*headers] * count
        keys, values = BinaryColumn.from_list([key for key, _ in every]), [value for _, value in every]
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(headers))
        return cls(offsets, keys, BinaryColumn.from_list(values))

    @classmethod
    def from_list(cls, headers: Sequence[Sequence[tuple[bytes, bytes | None]]]) -> HeadersColumn:
        """The headers of each record, as pairs of a name and a value. Raises like ``BinaryColumn.from_list``."""
        flat = [header for each in headers for header in each]
        keys, values = BinaryColumn.from_list([key for key, _ in flat]), [value for _, value in flat]
        return cls(np.cumsum([0, *map(len, headers)]).astype(np.int32), keys, BinaryColumn.from_list(values))

    def to_list(self) -> list[list[tuple[bytes, bytes | None]]]:
        keys = [key or b"" for key in self.keys.to_list()]
        pairs = list(zip(keys, self.values.to_list(), strict=True))
        return [pairs[first:end] for first, end in pairwise(self.offsets.tolist())]

    def slice(self, start: int, stop: int) -> HeadersColumn:
        """The headers of records [start, stop) as a column that shares the memory of this one."""
        return HeadersColumn(self.offsets[start : stop + 1], self.keys, self.values)

    def take(self, rows: Int64s) -> HeadersColumn:
        """The headers of the records with these indices, in the order of ``rows``, as a column with its own memory."""
        headers, offsets = _taken(self.offsets, rows)
        return HeadersColumn(offsets, self.keys.take(headers), self.values.take(headers))


@dataclass(frozen=True)
class Records:
    """n records in columns, in the layout of Arrow's arrays, so that passing them on copies nothing."""

    offsets: Int64s  # shape (n,)
    timestamps: Int64s  # shape (n,), ms, -1: none
    timestamp_types: npt.NDArray[np.int8]  # shape (n,), as TimestampType
    keys: BinaryColumn | None  # None: not asked for
    values: BinaryColumn | None  # None: not asked for
    headers: HeadersColumn | None  # None: not asked for, or no record has any

    @classmethod
    def to_append(
        cls,
        keys: list[bytes | None],
        values: list[bytes | None],
        timestamp_ms: int,
        headers: Sequence[tuple[bytes, bytes | None]] = (),
    ) -> Records:
        """Records that all have one time and the same headers; a log assigns their offsets.

        Raises like ``from_list``.
        """
        count = len(keys)
        return cls(
            offsets=np.arange(count, dtype=np.int64),
            timestamps=np.full(count, timestamp_ms, dtype=np.int64),
            timestamp_types=np.zeros(count, dtype=np.int8),
            keys=BinaryColumn.from_list(keys),
            values=BinaryColumn.from_list(values),
            headers=HeadersColumn.repeated(headers, count) if headers else None,
        )

    def __len__(self) -> int:
        return len(self.offsets)

    def slice(self, start: int, stop: int) -> Records:
        """The records in rows [start, stop), as a table that shares the memory of this one."""
        return Records(
            self.offsets[start:stop],
            self.timestamps[start:stop],
            self.timestamp_types[start:stop],
            None if self.keys is None else self.keys.slice(start, stop),
            None if self.values is None else self.values.slice(start, stop),
            None if self.headers is None else self.headers.slice(start, stop),
        )

    def take(self, rows: Int64s) -> Records:
        """The records with these indices, in the order of ``rows``, as a table of its own memory."""
        return Records(
            self.offsets[rows],
            self.timestamps[rows],
            self.timestamp_types[rows],
            None if self.keys is None else self.keys.take(rows),
            None if self.values is None else self.values.take(rows),
            None if self.headers is None else self.headers.take(rows),
        )

    def between(self, start_offset: int, end_offset: int) -> Records:
        """The rows from the first to the last record with ``start_offset <= offset < end_offset``.

        Shares the memory of this table.
        """
        if not len(self) or (self.offsets.min() >= start_offset and self.offsets.max() < end_offset):
            return self
        inside = np.flatnonzero((self.offsets >= start_offset) & (self.offsets < end_offset))
        return self.slice(int(inside[0]), int(inside[-1]) + 1) if len(inside) else self.slice(0, 0)


def _taken(offsets: Int32s, rows: Int64s) -> tuple[Int64s, Int32s]:
    """Returns the positions of all elements of the lists ``rows``, and the offsets of these lists without others.

    List i has the elements [offsets[i], offsets[i + 1]). Raises ValueError for more elements than fit 32-bit offsets.
    """
    firsts = offsets[rows].astype(np.int64)
    ends = np.cumsum(offsets[rows + 1] - firsts)
    total = int(ends[-1]) if len(ends) else 0
    if total > INT32_MAX:
        raise ValueError(f"{total} elements in one column, at most {INT32_MAX} fit: take fewer rows")
    found = np.concatenate(([0], ends))
    positions = np.repeat(firsts - found[:-1], np.diff(found)) + np.arange(total)
    return positions, found.astype(np.int32)


class Decoded(NamedTuple):
    """The result of decoding a run of batches."""

    records: Records
    counts: Int64s  # shape (batches,): records found in each batch, in the order of the headers given


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Returns the sequence number of the last record of a batch; sequence numbers wrap from 2^31 - 1 to 0."""
    if base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return (base_sequence + last_offset_delta) % 2**31
