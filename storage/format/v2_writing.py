"""Writing record batches: records as columns in, whole batches out (spec 1; Kafka's MemoryRecordsBuilder)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
SCRATCH_BYTES_MAX = 64 * 2**20  # kept by whoever encodes again and again: twice what common tables take
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


class Divided(NamedTuple):
    """A table, and which share each of its rows goes to: a partition's, for example."""

    records: Records
    shares: Int32s  # shape (rows,); below zero: to none

    @classmethod
    def single(cls, records: Records, only: Bools | None = None) -> Self:
        """All rows, or some, for one share."""
        return cls(records, np.zeros(len(records), dtype=np.int32) if only is None else only.astype(np.int32) - 1)


class Scratch:
    """Memory that one encoding after the other is written to: fresh memory costs as much as what is written there."""

    def __init__(self) -> None:
        self._memory = np.empty(0, dtype=np.uint8)

    def take(self, size: int) -> Bytes:
        """``size`` bytes, whatever is in them; good until the next call. What a few large records take is not kept."""
        if size > SCRATCH_BYTES_MAX:
            return np.empty(size, dtype=np.uint8)
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
    target, batches = _write([Divided.single(records)], 1, base, fields, 2**62, scratch)
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
    only: Bools | None = None,
    batch_bytes_max: int,
) -> EncodedBatches:
    """The rows of a table, or those of ``only``, as batches of at most ``batch_bytes_max`` bytes of records before
    compression.

    A larger record gets a batch of its own. Offsets count from 0, sequences from ``fields.base_sequence`` where there
    is a producer; ``records.offsets`` are not looked at. Timestamps of LogAppendTime are set by
    :func:`set_append_time`.
    """
    encoded, _ = _encode_shares([Divided.single(records, only)], 1, fields, batch_bytes_max, Scratch())
    return _signed(encoded)


def encode_shares(
    tables: Sequence[Divided], count: int, fields: BatchFields, *, batch_bytes_max: int, scratch: Scratch
) -> Iterator[tuple[int, EncodedBatches]]:
    """Of ``count`` shares the index of each that has rows, and what :func:`encode_batches` makes of these, table by
    table in one go, without its checksum: :func:`stamp_producer` computes that of everything it changes.

    All lies in ``scratch``, and is good until more is taken of it. Raises IndexError for rows of other shares.
    """
    (buffer, headers), share_of = _encode_shares(tables, count, fields, batch_bytes_max, scratch)
    found, firsts = np.unique(share_of, return_index=True)
    for share, (first, last) in zip(found.tolist(), pairwise([*firsts, len(share_of)]), strict=True):
        part = headers[first:last]
        start, end = part.table["position"][0], part.end
        part.table["position"] -= start
        yield share, EncodedBatches(buffer[start:end], part)


def _encode_shares(
    tables: Sequence[Divided], count: int, fields: BatchFields, batch_bytes_max: int, scratch: Scratch
) -> tuple[EncodedBatches, Int64s]:
    """All shares, one behind the other, not signed, and the index of the share that each batch is of."""
    target, batches = _write(tables, count, writing.CONSECUTIVE, fields, batch_bytes_max, scratch)
    share_of, counts = batches[:, writing.SHARE], batches[:, writing.COUNT]
    before = np.cumsum(counts) - counts
    firsts = before - before[np.searchsorted(share_of, share_of)]
    raw = _raw_headers(fields, batches)
    raw["base_offset"], raw["last_offset_delta"] = firsts, counts - 1
    if fields.producer_id != NO_PRODUCER_ID:
        raw["base_sequence"] = sequences(fields.base_sequence, firsts)
    return _finish(target, batches, raw, fields, scratch), share_of


def _write(
    tables: Sequence[Divided], count: int, base_offset: int, fields: BatchFields, batch_bytes_max: int, scratch: Scratch
) -> tuple[Bytes, Int64s]:
    """Record bytes with room for a header before each batch, and the table of batches, share by share."""
    sources = [(source_of(table.records), _checked(table, count)) for table in tables]
    sizes = np.zeros((count, 2), dtype=np.int64)
    for source, shares in sources:
        writing.add_sizes(source, shares, sizes)
    rows, record_bytes = sizes.T
    # Any two neighbours hold more than ``batch_bytes_max``.
    most = np.minimum(rows, 2 * (record_bytes // max(batch_bytes_max, 1)) + 1)
    room = record_bytes + most * LAYOUT.itemsize
    target = scratch.take(int(room.sum()))
    batches = np.empty((count + int(most.sum()), writing.BATCH_FIELDS), dtype=np.int64)
    batches[:count], opened = 0, np.arange(count)
    batches[:count, writing.END], batches[:count, writing.FULL_AT] = np.cumsum(room) - room, -1
    base_timestamp = writing.OF_FIRST if fields.delete_horizon_ms is None else fields.delete_horizon_ms
    cut, found = writing.Cut(base_offset, base_timestamp, LAYOUT.itemsize, batch_bytes_max), count
    for source, shares in sources:
        found = writing.write_batches(source, shares, cut, target, batches, opened, found)
    written = batches[count:found]
    return target, written[np.argsort(written[:, writing.SHARE], kind="stable")]


def _checked(table: Divided, count: int) -> Int32s:
    """The shares of a table's rows, for the kernels, which look at nothing."""
    records, shares = table
    if len(shares) != len(records) or (len(shares) and shares.max() >= count):
        raise IndexError(f"{len(records)} records in {len(shares)} shares up to {max(shares, default=-1)} of {count}")
    return frozen(shares.astype(np.int32, copy=False))


def source_of(records: Records) -> writing.Source:
    """The columns as the kernels take them."""
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
