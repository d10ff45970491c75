"""Reads the keys and offsets of batches for compaction, and rebuilds the batches with fewer records.

For magic 2, keys are hashed without copying, and kept records are copied as bytes (Kafka's MemoryRecords.filterTo).
Messages of magic 0 and 1 are decoded to columns, and the kept ones are encoded again, in one wrapper.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import format as formats
from ..config import DECOMPRESSED_BYTES_MAX
from ..errors import InvalidRecordError
from ..kernels import records as reading
from ..kernels.arrays import frozen
from ..kernels.compaction import keys as compaction_keys, offset_map
from . import v2
from .compression import compressor
from .constants import (
    CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Codec,
)
from .legacy import v0, v1
from .record_columns import RECORD_BYTES_MIN, Part, describe
from .tables import BatchHeaders, BinaryColumn, Bools, Bytes, Decoded, Int64s, Records, put_rows_at

NO_HORIZON = -1
NO_SECRET = np.zeros(2, dtype=np.uint64)
Uint64s = npt.NDArray[np.uint64]

_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK
_KEPT_FIELDS = ("base_offset", "leader_epoch", "magic", "producer_id", "producer_epoch", "base_sequence")
_PREFIX_BYTES_MAX = 5 + 1 + 10  # length, attributes, timestamp delta


class Rebuilt(NamedTuple):
    """Consecutive batches in a buffer."""

    buffer: Bytes
    sizes: Int64s  # shape (batches,)


class Wanted(NamedTuple):
    """Which of some batches, and which of their records, to keep."""

    batches: Int64s  # indices of the batches, ascending; each keeps at least one record
    rows: Int64s  # rows of the records to keep, ascending
    counts: Int64s  # how many of the rows are in each batch
    headers: BatchHeaders  # the original headers, whose offsets, sequences and producers are kept
    horizons: Int64s  # delete horizons, ms, or NO_HORIZON


@dataclass(frozen=True)
class Keyed:
    """The keys and offsets of the records of some batches, and how to rebuild these batches."""

    hashes: Uint64s  # shape (records, 2), of the keys, undefined for a null key; (0, 2) if not asked for
    offsets: Int64s  # shape (records,)
    has_key: Bools  # shape (records,)
    has_value: Bools  # shape (records,)
    counts: Int64s  # shape (batches,): records in each batch

    def keys_alone(self) -> Keyed:
        """Returns the same without the bytes of the records, so these batches cannot be rebuilt."""
        return Keyed(self.hashes, self.offsets, self.has_key, self.has_value, self.counts)

    def rebuild(self, wanted: Wanted) -> Rebuilt:
        """Returns the batches of ``wanted``, in their codecs at Kafka's default levels.

        Each batch contains only the rows of ``wanted``.
        """
        raise AssertionError(f"{type(self).__name__} has no format")


def read(
    buffer: Bytes, headers: BatchHeaders, secret: Uint64s | None, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Keyed:
    """Returns the keys and offsets of the records of batches that are all of magic 2, or all older.

    ``secret``, shape (2,), seeds the key hashes; without it, no key of magic 2 is hashed. ``decompressed_bytes_max``
    bounds what a batch may decompress to. Verifies checksums.

    Raises CorruptRecordError or InvalidRecordError with the position of the batch.
    """
    asked = NO_SECRET if secret is None else secret
    if len(headers) and headers.table["magic"][0] < v2.MAGIC:
        return _read_messages(formats.decode(buffer, headers, decompressed_bytes_max=decompressed_bytes_max), asked)
    formats.verify(buffer, headers)
    parts = v2.parts(buffer, headers, decompressed_bytes_max)
    rooms = [(part.table[:, reading.STOP] - part.table[:, reading.START]) // RECORD_BYTES_MIN for part in parts]
    counts = [part.table[:, reading.COUNT] for part in parts]
    rows = sum(int(np.minimum(count, room).sum()) for count, room in zip(counts, rooms, strict=True)) + 1
    hashes = np.empty((0 if secret is None else rows, 2), dtype=np.uint64)
    offsets, has_key, has_value = np.empty(rows, np.int64), np.empty(rows, np.bool_), np.empty(rows, np.bool_)
    spans = np.empty((rows, compaction_keys.SPAN_FIELDS), dtype=np.int64)
    state = np.zeros(reading.STATE_CELLS, dtype=np.int64)
    for part in parts:
        arrays = (hashes, offsets, has_key, has_value, spans)
        done, why = compaction_keys.read_keys(frozen(part.source), part.table, asked, *arrays, state)
        if why != reading.FINE:
            reason = describe(why, int(state[reading.FAILED_RECORD]))
            raise InvalidRecordError(reason, position=int(part.positions[done]))
    found = slice(int(state[reading.ROWS]))
    counts_read = headers.table["count"].copy()
    return _KeyedBatches(
        hashes[found], offsets[found], has_key[found], has_value[found], counts_read, spans[found], parts
    )


@dataclass(frozen=True)
class _KeyedBatches(Keyed):
    """Batches of magic 2."""

    spans: Int64s  # in the kernel's layout
    parts: list[Part]

    def rebuild(self, wanted: Wanted) -> Rebuilt:
        plan = np.empty((len(wanted.batches), compaction_keys.PLAN_FIELDS), dtype=np.int64)
        plan[:, compaction_keys.STOP_ROW] = np.cumsum(wanted.counts)
        plan[:, compaction_keys.FIRST_ROW] = plan[:, compaction_keys.STOP_ROW] - wanted.counts
        plan[:, compaction_keys.NEW_BASE_TIMESTAMP] = np.where(
            wanted.horizons == NO_HORIZON, compaction_keys.OF_FIRST, wanted.horizons
        )
        of_rows = self.spans[wanted.rows]
        room = int((of_rows[:, compaction_keys.REST_STOP] - of_rows[:, compaction_keys.REST]).sum())
        room += len(of_rows) * _PREFIX_BYTES_MAX + len(plan) * v2.LAYOUT.itemsize
        target, copied = (
            np.empty(room, dtype=np.uint8),
            np.empty((len(plan), compaction_keys.COPY_FIELDS), dtype=np.int64),
        )
        bounds = np.searchsorted(wanted.batches, np.cumsum([0, *(len(part.table) for part in self.parts)])).tolist()
        rows, at = frozen(wanted.rows), 0
        for part, (first, last) in zip(self.parts, pairwise(bounds), strict=True):
            arguments = (frozen(part.source), self.spans, rows, plan[first:last], v2.LAYOUT.itemsize)
            at = compaction_keys.copy_records(*arguments, target, at, copied[first:last])
        return _signed(target, copied, wanted)


def _signed(target: Bytes, copied: Int64s, wanted: Wanted) -> Rebuilt:
    """Returns the rebuilt batches with headers and checksums, compressed if the original batches were."""
    table = wanted.headers.table
    raw = np.zeros(len(table), dtype=v2.LAYOUT)
    for name in _KEPT_FIELDS:
        raw[name] = table[name]
    has_horizon = wanted.horizons != NO_HORIZON
    raw["attributes"] = (table["attributes"] & _ATTRIBUTES) | np.where(has_horizon, DELETE_HORIZON_MASK, 0)
    raw["last_offset_delta"] = table["last_offset"] - table["base_offset"]
    raw["base_timestamp"] = copied[:, compaction_keys.COPY_BASE_TIMESTAMP]
    raw["max_timestamp"] = copied[:, compaction_keys.COPY_MAX_TIMESTAMP]
    raw["count"] = wanted.counts
    buffer, sizes = _compressed(target, copied, wanted.headers)
    raw["length"] = sizes - LOG_OVERHEAD
    starts = np.cumsum(sizes) - sizes
    put_rows_at(buffer, starts, raw)
    v2.sign(buffer, starts, sizes)
    return Rebuilt(buffer, sizes)


def _compressed(target: Bytes, copied: Int64s, headers: BatchHeaders) -> Rebuilt:
    """Returns the batches with their records compressed, each after space for a header that is not written yet."""
    starts, ends = copied[:, compaction_keys.COPY_START], copied[:, compaction_keys.COPY_STOP]
    if not headers.codec.any():
        return Rebuilt(target[: ends[-1]], ends - starts)
    room, view = bytes(v2.LAYOUT.itemsize), memoryview(target)
    shrink = {codec: compressor(Codec(codec)) if codec else bytes for codec in np.unique(headers.codec).tolist()}
    pieces: list[bytes] = []
    for start, end, codec in zip(starts.tolist(), ends.tolist(), headers.codec.tolist(), strict=True):
        pieces += [room, shrink[codec](view[start + len(room) : end])]
    sizes = np.array([len(body) for body in pieces[1::2]], dtype=np.int64) + len(room)
    return Rebuilt(np.frombuffer(bytearray().join(pieces), dtype=np.uint8), sizes)


@dataclass(frozen=True)
class _KeyedMessages(Keyed):
    """Messages of magic 0 and 1."""

    records: Records

    def rebuild(self, wanted: Wanted) -> Rebuilt:
        stops = np.cumsum(wanted.counts)
        pieces = [
            _wrapper(self.records, wanted.rows[stop - count : stop], wanted.headers[at : at + 1])
            for at, (stop, count) in enumerate(zip(stops.tolist(), wanted.counts.tolist(), strict=True))
        ]
        return Rebuilt(np.concatenate(pieces), np.array([len(piece) for piece in pieces], dtype=np.int64))


def _read_messages(decoded: Decoded, secret: Uint64s) -> Keyed:
    records, counts = decoded
    assert records.keys is not None
    assert records.values is not None
    has_key, has_value = (
        np.ones(len(records), dtype=np.bool_) if column.valid is None else column.valid
        for column in (records.keys, records.values)
    )
    hashes = offset_map.hash_all(records.keys, secret)
    return _KeyedMessages(hashes, records.offsets, has_key, has_value, counts, records)


def _wrapper(records: Records, rows: Int64s, headers: BatchHeaders) -> Bytes:
    """Returns a wrapper around the kept messages; its offset is that of the last of them."""
    kept = Records(
        records.offsets[rows],
        records.timestamps[rows],
        records.timestamp_types[rows],
        _taken(records.keys, rows),
        _taken(records.values, rows),
        None,
    )
    module = v0 if headers.table["magic"][0] == v0.MAGIC else v1
    encoded: Bytes = module.encode(kept, Codec(int(headers.codec[0])))
    return encoded


def _taken(column: BinaryColumn | None, rows: Int64s) -> BinaryColumn:
    assert column is not None
    first, last = int(rows[0]), int(rows[-1])
    strings = column.slice(first, last + 1).to_list()
    return BinaryColumn.from_list([strings[row - first] for row in rows.tolist()])
