"""Encodes records in columns to whole record batches (Kafka's MemoryRecordsBuilder)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from ...errors import OffsetsOutOfOrderError, RecordTooLargeError
from ...kernels import writing
from ...kernels.arrays import frozen
from ..compression import compress
from ..constants import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    INT32_MAX,
    LOG_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Codec,
    TimestampType,
)
from ..tables import HEADERS, BatchHeaders, BinaryColumn, Bools, Bytes, HeadersColumn, Int32s, Int64s, Records
from .header import LAYOUT, MAGIC, put_headers, sequences, signed

RECORD_OVERHEAD_MAX = 5 + 1 + 10 + 5 + 5 + 5 + 5  # length, attributes, two deltas, three lengths
HEADER_OVERHEAD_MAX = 5 + 5  # two lengths
_BITS = {"leader_epoch": 32, "producer_id": 64, "producer_epoch": 16, "base_sequence": 32}


_NO_BYTES = np.empty(0, dtype=np.uint8)


@dataclass(frozen=True)
class BatchFields:
    """The header fields that a writer chooses for a batch. Raises ValueError for a value that is not allowed."""

    codec: Codec = Codec.NONE
    level: int | None = None  # None: Kafka's default
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    leader_epoch: int = NO_LEADER_EPOCH
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    transactional: bool = False
    control: bool = False
    delete_horizon_ms: int | None = None

    def __post_init__(self) -> None:
        for name, bits in _BITS.items():
            if not -1 <= getattr(self, name) < 2 ** (bits - 1):
                raise ValueError(f"{name} {getattr(self, name)} is not from -1 to 2^{bits - 1} - 1")
        if self.producer_id != NO_PRODUCER_ID:
            if self.producer_epoch < 0:
                raise ValueError(f"producer {self.producer_id} needs an epoch from 0, not {self.producer_epoch}")
            if self.base_sequence < 0 and not self.control:
                raise ValueError(f"producer {self.producer_id} needs a base sequence from 0, not {self.base_sequence}")
        elif self.transactional:
            raise ValueError("a transactional batch needs a producer id")

    @property
    def attributes(self) -> int:
        return (
            self.codec
            | TIMESTAMP_TYPE_MASK * (self.timestamp_type == TimestampType.LOG_APPEND_TIME)
            | TRANSACTIONAL_MASK * self.transactional
            | CONTROL_MASK * self.control
            | DELETE_HORIZON_MASK * (self.delete_horizon_ms is not None)
        )


class EncodedBatches(NamedTuple):
    """Consecutive batches and their headers, whose positions are relative to the start of the buffer."""

    buffer: Bytes
    headers: BatchHeaders


class Divided(NamedTuple):
    """A table of records, and the number of the share to which each row belongs, such as its partition."""

    records: Records
    shares: Int32s  # shape (rows,); below zero: no share

    @classmethod
    def single(cls, records: Records, only: Bools | None = None) -> Self:
        """A table with one share, to which all rows belong, or only those of ``only``."""
        return cls(records, np.zeros(len(records), dtype=np.int32) if only is None else only.astype(np.int32) - 1)


def encode(
    records: Records,
    fields: BatchFields,
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    max_timestamp: int | None = None,
) -> Bytes:
    """Encodes all records as one batch; keeps their offsets, including gaps.

    ``base_offset`` and ``last_offset`` default to those of the first and last record; compaction passes others.
    ``max_timestamp`` defaults to the largest of the records. Returns no bytes if there are no records.

    Raises OffsetsOutOfOrderError for offsets that do not increase, are outside the given range or span 2^31 or more,
    and RecordTooLargeError for more bytes than the length field can state.
    """
    if not len(records):
        return np.empty(0, dtype=np.uint8)
    base = int(records.offsets[0]) if base_offset is None else base_offset
    last = int(records.offsets[-1]) if last_offset is None else last_offset
    _check_offsets(records.offsets, base, last)
    encoder = ShareEncoder(1, fields, batch_bytes_max=2**62, base_offset=base)
    [(_, encoded)] = encoder.encode([Divided.single(records)])
    table = encoded.headers.table
    table["base_offset"], table["last_offset"] = base, last
    if max_timestamp is not None:
        table["max_timestamp"] = max_timestamp
    return _signed(encoded).buffer


def _check_offsets(offsets: Int64s, base: int, last: int) -> None:
    if np.any(offsets[1:] <= offsets[:-1]):
        raise OffsetsOutOfOrderError(
            f"offsets from {offsets[0]} to {offsets[-1]} do not increase from record to record"
        )
    if offsets[0] < base or offsets[-1] > last:
        raise OffsetsOutOfOrderError(f"offsets {offsets[0]} to {offsets[-1]} are outside the batch's {base} to {last}")
    if last - base > INT32_MAX:
        raise OffsetsOutOfOrderError(
            f"one batch cannot contain offsets {base} to {last}: it can span at most {INT32_MAX}"
        )


def encode_batches(
    records: Records,
    fields: BatchFields,
    *,
    only: Bools | None = None,
    batch_bytes_max: int,
) -> EncodedBatches:
    """Encodes all rows of a table, or those of ``only``, as batches of at most ``batch_bytes_max`` bytes of records.

    The limit applies before compression; a larger record gets a batch of its own. Offsets count from 0 and, if there is
    a producer, sequences from ``fields.base_sequence``; ignores ``records.offsets``. Use :func:`set_append_time` for
    the timestamps of LogAppendTime.
    """
    encoder = ShareEncoder(1, fields, batch_bytes_max=batch_bytes_max)
    for _, encoded in encoder.encode([Divided.single(records, only)]):
        return _signed(encoded)
    return EncodedBatches(_NO_BYTES, BatchHeaders(np.empty(0, dtype=HEADERS)))


class ShareEncoder:
    """Encodes tables whose rows belong to several shares, such as partitions; yields the batches of each share."""

    def __init__(
        self,
        count: int,
        fields: BatchFields,
        *,
        batch_bytes_max: int,
        memory: Bytes = _NO_BYTES,
        base_offset: int | None = None,
    ) -> None:
        """Encodes for ``count`` shares, into ``memory`` if the batches fit there, otherwise into new memory.

        ``batch_bytes_max`` is as for :func:`encode_batches`. With a ``base_offset``, offsets are kept, relative
        to it.
        """
        self._fields, self._memory, self._count = fields, memory, count
        base_timestamp = writing.OF_FIRST if fields.delete_horizon_ms is None else fields.delete_horizon_ms
        base = writing.CONSECUTIVE if base_offset is None else base_offset
        self._cut = writing.Cut(base, base_timestamp, LAYOUT.itemsize, batch_bytes_max)

    def encode(self, tables: Sequence[Divided]) -> Iterator[tuple[int, EncodedBatches]]:
        """Yields each share that has rows, with its rows of all tables in order, encoded as by :func:`encode_batches`.

        Leaves space for the headers, which :func:`stamp_producer` fills. Valid until the next call. Raises IndexError
        for a row of a share that does not exist.
        """
        sources = [(source_of(records), _of_rows(records, shares)) for records, shares in tables]
        sizes = self._sizes(sources)
        counts = self._batches_at_most(sizes)
        rooms = sizes[:, 1] + counts * LAYOUT.itemsize + writing.BEHIND
        size = int(rooms.sum())
        target = self._memory if size <= len(self._memory) else np.empty(size, dtype=np.uint8)
        starts = np.cumsum(rooms) - rooms
        firsts, batches = _none_written(counts, starts)
        opened = firsts.copy()
        for source, shares in sources:
            writing.write_batches(source, shares, self._cut, target, batches, opened)
        for share in np.flatnonzero(opened > firsts).tolist():
            start, written = starts[share], batches[firsts[share] + 1 : opened[share] + 1]
            written[:, [writing.START, writing.END]] -= start
            yield share, _finished(target[start : start + rooms[share]], written, self._fields)

    def _sizes(self, sources: Sequence[tuple[writing.Source, Int32s]]) -> Int64s:
        """Returns the number of rows of each share, and the most bytes that their records take; shape (shares, 2)."""
        sizes = np.zeros((self._count, 2), dtype=np.int64)
        for source, shares in sources:
            if writing.add_sizes(source, shares, sizes) < len(shares):
                raise IndexError(
                    f"{len(shares)} records have shares up to {shares.max()}, but there are only {self._count}"
                )
        return sizes

    def _batches_at_most(self, sizes: Int64s) -> Int64s:
        """Returns the most batches that each share can have.

        Two neighbours together hold more than ``batch_bytes_max`` bytes.
        """
        rows, record_bytes = sizes.T
        counts: Int64s = np.minimum(rows, 2 * (record_bytes // max(self._cut.batch_bytes_max, 1)) + 1)
        return counts


def _none_written(counts: Int64s, starts: Int64s) -> tuple[Int64s, Int64s]:
    """Allocates batch rows for every share, each preceded by a "full" sentinel row that ends at the share's first byte.

    Returns the sentinel row numbers and the table.
    """
    firsts = np.cumsum(counts + 1) - counts - 1
    batches = np.empty((int(counts.sum()) + len(counts), writing.BATCH_FIELDS), dtype=np.int64)
    batches[firsts] = 0
    batches[firsts, writing.FULL_AT], batches[firsts, writing.END] = -1, starts
    return firsts, batches


def _of_rows(records: Records, shares: Int32s) -> Int32s:
    """Returns the share of each row of a table. Raises IndexError for wrong shares, which the kernels do not check."""
    if len(shares) != len(records):
        raise IndexError(f"the table has {len(records)} records, but there are shares for {len(shares)}")
    return frozen(shares.astype(np.int32, copy=False))


def source_of(records: Records) -> writing.Source:
    """Returns the columns of a table in the form that the kernels expect."""
    count = len(records)
    columns = (
        frozen(records.offsets),
        frozen(records.timestamps),
        *_strings(_nulls(count) if records.keys is None else records.keys),
        *_strings(_nulls(count) if records.values is None else records.values),
    )
    return writing.Source(*columns, *(_NO_HEADERS if records.headers is None else _header_columns(records.headers)))


def _header_columns(headers: HeadersColumn) -> tuple[Int32s, Bytes, Int32s, Bytes, Int32s, Bools]:
    key_data, key_offsets, _ = _strings(headers.keys)
    return frozen(headers.offsets), key_data, key_offsets, *_strings(headers.values)


def _strings(column: BinaryColumn) -> tuple[Bytes, Int32s, Bools]:
    return frozen(column.data), frozen(column.offsets), _NO_NULLS if column.valid is None else frozen(column.valid)


def _nulls(count: int) -> BinaryColumn:
    return BinaryColumn(
        np.empty(0, dtype=np.uint8), np.zeros(count + 1, dtype=np.int32), np.zeros(count, dtype=np.bool_)
    )


_NO_NULLS = frozen(np.empty(0, dtype=np.bool_))
_NO_HEADERS = _header_columns(HeadersColumn(np.empty(0, dtype=np.int32), _nulls(0), _nulls(0)))


def _finished(target: Bytes, batches: Int64s, fields: BatchFields) -> EncodedBatches:
    """Returns the batches, compressed if ``fields`` has a codec, with space for headers. Offsets count from 0."""
    counts = batches[:, writing.COUNT]
    firsts = np.cumsum(counts) - counts
    if fields.codec != Codec.NONE:
        target, batches = _compressed(target, batches, fields)
    table = np.empty(len(batches), dtype=HEADERS)
    table["position"], table["size"] = batches[:, writing.START], batches[:, writing.END] - batches[:, writing.START]
    if len(table) and table["size"].max() - LOG_OVERHEAD > INT32_MAX:
        raise RecordTooLargeError(
            f"a batch would have {table['size'].max()} bytes, but can have at most "
            f"{INT32_MAX}; write fewer records at once"
        )
    table["base_offset"], table["last_offset"], table["count"] = firsts, firsts + counts - 1, counts
    table["base_timestamp"] = batches[:, writing.BASE_TIMESTAMP]
    table["max_timestamp"] = batches[:, writing.MAX_TIMESTAMP]
    table["magic"], table["attributes"], table["leader_epoch"] = MAGIC, fields.attributes, fields.leader_epoch
    table["producer_id"], table["producer_epoch"] = fields.producer_id, fields.producer_epoch
    table["base_sequence"] = sequences(fields.base_sequence, firsts)
    table["crc"] = 0  # depends on all other fields
    headers = BatchHeaders(table)
    return EncodedBatches(target[: headers.end], headers)


def _signed(encoded: EncodedBatches) -> EncodedBatches:
    put_headers(encoded.buffer, encoded.headers.table)
    return EncodedBatches(encoded.buffer, signed(encoded.buffer, encoded.headers.table))


def _compressed(target: Bytes, batches: Int64s, fields: BatchFields) -> tuple[Bytes, Int64s]:
    """Returns the compressed batches; writes them over their source if they fit, after all of them are compressed."""
    pieces, moved, at = [], batches.copy(), 0
    room = np.empty(LAYOUT.itemsize, dtype=np.uint8)
    for batch, (start, end) in zip(moved, batches[:, : writing.END + 1].tolist(), strict=True):
        body = compress(fields.codec, target[start + LAYOUT.itemsize : end], fields.level, magic=MAGIC)
        pieces += [room, body]
        batch[writing.START], at = at, at + LAYOUT.itemsize + len(body)
        batch[writing.END] = at
    target = target[:at] if at <= len(target) else np.empty(at, dtype=np.uint8)
    return np.concatenate(pieces, out=target) if pieces else target, moved
