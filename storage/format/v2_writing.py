"""Writing record batches: records as columns in, whole batches out (spec 1; Kafka's MemoryRecordsBuilder)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from pyspark_commitlog.storage.errors import OffsetsOutOfOrderError, RecordTooLargeError
from pyspark_commitlog.storage.format.compression import compress
from pyspark_commitlog.storage.format.fields import (
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
from pyspark_commitlog.storage.format.tables import (
    BatchHeaders,
    BinaryColumn,
    Bools,
    Bytes,
    HeadersColumn,
    Int32s,
    Int64s,
    Records,
    put_rows_at,
)
from pyspark_commitlog.storage.format.v2_header import LAYOUT, MAGIC, headers, sequences, signed
from pyspark_commitlog.storage.kernels import frozen, writing

RECORD_OVERHEAD_MAX = 5 + 1 + 10 + 5 + 5 + 5 + 5  # length, attributes, two deltas, three lengths
HEADER_OVERHEAD_MAX = 5 + 5  # two lengths
_BITS = {"leader_epoch": 32, "producer_id": 64, "producer_epoch": 16, "base_sequence": 32}


@dataclass(frozen=True)
class BatchFields:
    """What a batch says of all its records. ValueError for what no writer may say, or no field can hold (spec 1.4)."""

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
                raise ValueError(f"producer {self.producer_id} with epoch {self.producer_epoch}")
            if self.base_sequence < 0 and not self.control:
                raise ValueError(f"producer {self.producer_id} with base sequence {self.base_sequence}")
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
    """Batches one behind the other, and their headers, whose positions count from the start of the buffer."""

    buffer: Bytes
    headers: BatchHeaders


class Shares(NamedTuple):
    """Rows of a table in shares, one for each partition; some may be empty."""

    rows: Int64s  # their indexes, share by share, each in the order in which it is written
    ends: Int64s  # shape (shares,): where in ``rows`` each one ends; the last ends them

    @classmethod
    def single(cls, rows: Int64s) -> Self:
        """All rows for one partition."""
        return cls(rows, np.array([len(rows)]))

    @property
    def starts(self) -> Int64s:
        return np.concatenate(([0], self.ends[:-1]))


class Scratch:
    """Memory that one encoding after the other is written to: fresh memory costs as much as what is written there."""

    def __init__(self) -> None:
        self._memory = np.empty(0, dtype=np.uint8)

    def take(self, size: int) -> Bytes:
        """``size`` bytes, whatever is in them; good until the next call."""
        if len(self._memory) < size:
            self._memory = np.empty(size, dtype=np.uint8)
        return self._memory[:size]


def encode(
    records: Records,
    fields: BatchFields,
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    max_timestamp: int | None = None,
) -> Bytes:
    """All records as one batch; offsets are kept, gaps and all (spec 1.4).

    ``base_offset`` and ``last_offset`` are those of the first and last record unless given, as compaction does;
    ``max_timestamp`` the largest of the records. No records give no bytes.

    Raises OffsetsOutOfOrderError for offsets that do not increase, lie outside those given or span 2^31 and more, and
    RecordTooLargeError for more bytes than the length field can say.
    """
    if not len(records):
        return np.empty(0, dtype=np.uint8)
    base = int(records.offsets[0]) if base_offset is None else base_offset
    last = int(records.offsets[-1]) if last_offset is None else last_offset
    _check_offsets(records.offsets, base, last)
    scratch = Scratch()
    shares = Shares.single(np.arange(len(records)))
    target, batches = _write(records, shares, base, fields, 2**62, scratch)
    raw = _raw_headers(fields, batches)
    raw["base_offset"], raw["last_offset_delta"] = base, last - base
    if max_timestamp is not None:
        raw["max_timestamp"] = max_timestamp
    return _signed(_finish(target, batches, raw, fields, scratch)).buffer


def _check_offsets(offsets: Int64s, base: int, last: int) -> None:
    if np.any(offsets[1:] <= offsets[:-1]):
        raise OffsetsOutOfOrderError(
            f"offsets from {offsets[0]} to {offsets[-1]} do not increase from record to record"
        )
    if offsets[0] < base or offsets[-1] > last:
        raise OffsetsOutOfOrderError(f"offsets {offsets[0]} to {offsets[-1]} in a batch of {base} to {last}")
    if last - base > INT32_MAX:
        raise OffsetsOutOfOrderError(f"offsets {base} to {last} in one batch, which spans {INT32_MAX} at most")


def encode_batches(
    records: Records,
    fields: BatchFields,
    *,
    rows: Int64s | None = None,
    batch_bytes_max: int,
) -> EncodedBatches:
    """Rows of a table, in their order, as batches of at most ``batch_bytes_max`` bytes of records before compression.

    A larger record gets a batch of its own. Offsets count from 0, sequences from ``fields.base_sequence`` where there
    is a producer; ``records.offsets`` are not looked at. Timestamps of LogAppendTime are set by
    :func:`set_append_time`.
    """
    shares = Shares.single(np.arange(len(records)) if rows is None else rows)
    encoded, _ = _encode_shares(records, fields, shares, batch_bytes_max, Scratch())
    return _signed(encoded)


def encode_shares(
    records: Records, fields: BatchFields, shares: Shares, *, batch_bytes_max: int, scratch: Scratch
) -> Iterator[tuple[int, EncodedBatches]]:
    """The index of each share that has rows, and what :func:`encode_batches` makes of these, without its checksum:
    :func:`stamp_producer` computes that of everything it changes.

    All lies in ``scratch``, and is good until more is taken of it. Raises IndexError for shares that are not of
    ``shares.rows``.
    """
    rows, ends = shares
    if (np.diff(ends, prepend=0) < 0).any() or ends[-1] != len(rows):
        raise IndexError(f"shares of {len(rows)} rows that end at {ends.tolist()}")
    (buffer, headers), share_of = _encode_shares(records, fields, shares, batch_bytes_max, scratch)
    found, firsts = np.unique(share_of, return_index=True)
    for share, (first, last) in zip(found.tolist(), pairwise([*firsts, len(share_of)]), strict=True):
        part = headers[first:last]
        start, end = part.table["position"][0], part.end
        part.table["position"] -= start
        yield share, EncodedBatches(buffer[start:end], part)


def _encode_shares(
    records: Records, fields: BatchFields, shares: Shares, batch_bytes_max: int, scratch: Scratch
) -> tuple[EncodedBatches, Int64s]:
    """All shares, one behind the other, not signed, and the index of the share that each batch is of."""
    target, batches = _write(records, shares, writing.CONSECUTIVE, fields, batch_bytes_max, scratch)
    raw = _raw_headers(fields, batches)
    share_of = np.searchsorted(shares.ends, batches[:, writing.FIRST_ROW], side="right")
    raw["base_offset"] = firsts = batches[:, writing.FIRST_ROW] - shares.starts[share_of]
    raw["last_offset_delta"] = batches[:, writing.COUNT] - 1
    if fields.producer_id != NO_PRODUCER_ID:
        raw["base_sequence"] = sequences(fields.base_sequence, firsts)
    return _finish(target, batches, raw, fields, scratch), share_of


def _write(
    records: Records, shares: Shares, base_offset: int, fields: BatchFields, batch_bytes_max: int, scratch: Scratch
) -> tuple[Bytes, Int64s]:
    """Record bytes with room for a header before each batch, and the table of batches."""
    rows = shares.rows.astype(np.int64, copy=False)
    if len(rows) and not 0 <= rows.min() <= rows.max() < len(records):
        raise IndexError(f"rows {rows.min()} to {rows.max()} of a table of {len(records)}")
    base_timestamp = writing.OF_FIRST if fields.delete_horizon_ms is None else fields.delete_horizon_ms
    source = source_of(records)
    target = scratch.take(room_for(source, rows))
    batches = np.empty((len(rows), writing.BATCH_FIELDS), dtype=np.int64)
    cut = writing.Cut(base_offset, base_timestamp, LAYOUT.itemsize, batch_bytes_max)
    found = writing.write_batches(source, frozen(rows), frozen(shares.ends), cut, target, batches)
    return target, batches[:found]


def room_for(source: writing.Source, rows: Int64s) -> int:
    """Bytes that the rows take at most, however they are cut into batches."""
    room = len(rows) * (RECORD_OVERHEAD_MAX + LAYOUT.itemsize) + LAYOUT.itemsize
    room += writing.bytes_at(source.key_offsets, frozen(rows)) + writing.bytes_at(source.value_offsets, frozen(rows))
    return room + _header_bytes_of(source, rows)


def _header_bytes_of(source: writing.Source, rows: Int64s) -> int:
    if not len(source.header_offsets):
        return 0
    first, last = source.header_offsets[rows], source.header_offsets[rows + 1]
    keys = source.header_key_offsets[last].astype(np.int64) - source.header_key_offsets[first]
    values = source.header_value_offsets[last].astype(np.int64) - source.header_value_offsets[first]
    return int((keys + values + HEADER_OVERHEAD_MAX * (last - first)).sum())


def source_of(records: Records) -> writing.Source:
    """The columns as the kernels take them."""
    count = len(records)
    keys = _nulls(count) if records.keys is None else records.keys
    values = _nulls(count) if records.values is None else records.values
    headers = records.headers or _NO_HEADERS
    header_key_data, header_key_offsets, _ = _strings(headers.keys)
    return writing.Source(
        frozen(records.offsets),
        frozen(records.timestamps),
        *_strings(keys),
        *_strings(values),
        frozen(headers.offsets),
        header_key_data,
        header_key_offsets,
        *_strings(headers.values),
    )


def _strings(column: BinaryColumn) -> tuple[Bytes, Int32s, Bools]:
    valid = np.empty(0, dtype=np.bool_) if column.valid is None else column.valid
    return frozen(column.data), frozen(column.offsets), frozen(valid)


def _nulls(count: int) -> BinaryColumn:
    return BinaryColumn(
        np.empty(0, dtype=np.uint8), np.zeros(count + 1, dtype=np.int32), np.zeros(count, dtype=np.bool_)
    )


_NO_HEADERS = HeadersColumn(np.empty(0, dtype=np.int32), _nulls(0), _nulls(0))


def _raw_headers(fields: BatchFields, batches: Int64s) -> np.ndarray:
    raw = np.zeros(len(batches), dtype=LAYOUT)
    raw["magic"] = MAGIC
    raw["leader_epoch"] = fields.leader_epoch
    raw["attributes"] = fields.attributes
    raw["base_timestamp"] = batches[:, writing.BASE_TIMESTAMP]
    raw["max_timestamp"] = batches[:, writing.MAX_TIMESTAMP]
    raw["producer_id"] = fields.producer_id
    raw["producer_epoch"] = fields.producer_epoch
    raw["base_sequence"] = fields.base_sequence
    raw["count"] = batches[:, writing.COUNT]
    return raw


def _finish(target: Bytes, batches: Int64s, raw: np.ndarray, fields: BatchFields, scratch: Scratch) -> EncodedBatches:
    """Compress where asked, and put the headers where there is room for them; without checksums."""
    if fields.codec != Codec.NONE:
        target, batches = _compressed(target, batches, fields, scratch)
    starts, sizes = batches[:, writing.START], batches[:, writing.END] - batches[:, writing.START]
    if len(sizes) and sizes.max() - LOG_OVERHEAD > INT32_MAX:
        raise RecordTooLargeError(f"a batch of {sizes.max()} bytes, its length field takes {INT32_MAX}")
    raw["length"] = sizes - LOG_OVERHEAD
    put_rows_at(target, starts, raw)
    buffer = target[: int(batches[-1, writing.END]) if len(batches) else 0]
    return EncodedBatches(buffer, BatchHeaders(headers(buffer, starts.copy(), sizes)))


def _signed(encoded: EncodedBatches) -> EncodedBatches:
    return EncodedBatches(encoded.buffer, signed(encoded.buffer, encoded.headers.table))


def _compressed(target: Bytes, batches: Int64s, fields: BatchFields, scratch: Scratch) -> tuple[Bytes, Int64s]:
    """Written over what they are made of: every piece is complete by then."""
    pieces, moved, at = [], batches.copy(), 0
    room = np.empty(LAYOUT.itemsize, dtype=np.uint8)
    for batch, (start, end) in zip(moved, batches[:, : writing.END + 1].tolist(), strict=True):
        body = compress(fields.codec, target[start + LAYOUT.itemsize : end], fields.level, magic=MAGIC)
        pieces += [room, body]
        batch[writing.START], at = at, at + LAYOUT.itemsize + len(body)
        batch[writing.END] = at
    target = scratch.take(at)
    return np.concatenate(pieces, out=target) if pieces else target, moved
