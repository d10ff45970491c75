"""What compaction writes: batches again, with some of their records (spec 12.7; Kafka's MemoryRecords.filterTo)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pyspark_commitlog.storage.format import v0, v1, v2
from pyspark_commitlog.storage.format.compression import compress
from pyspark_commitlog.storage.format.fields import (
    CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Codec,
)
from pyspark_commitlog.storage.format.tables import BatchHeaders, BinaryColumn, Bytes, Int64s, Records
from pyspark_commitlog.storage.kernels import memory, rebuilding, writing

NO_HORIZON = -1

_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK
_KEPT_FIELDS = ("base_offset", "leader_epoch", "magic", "producer_id", "producer_epoch", "base_sequence")


class Rebuilt(NamedTuple):
    """Batches in a buffer, one behind the other."""

    buffer: Bytes
    starts: Int64s  # shape (batches,)
    sizes: Int64s  # shape (batches,)


def rebuild(records: Records, rows: Int64s, counts: Int64s, headers: BatchHeaders, horizons: Int64s) -> Rebuilt:
    """Batches of magic 2 with what is left of their records: ``counts[i]`` > 0 of the ``rows`` in batch i, in order.

    ``headers`` are the originals, whose offsets, sequences and producers stay; ``horizons`` are their delete horizons
    in ms, or NO_HORIZON. Codecs stay, at Kafka's default levels.
    """
    source = v2.source_of(records)
    plan = np.empty((len(headers), rebuilding.PLAN_FIELDS), dtype=np.int64)
    plan[:, rebuilding.STOP_ROW] = np.cumsum(counts)
    plan[:, rebuilding.FIRST_ROW] = plan[:, rebuilding.STOP_ROW] - counts
    plan[:, rebuilding.BASE_OFFSET] = headers.table["base_offset"]
    plan[:, rebuilding.BASE_TIMESTAMP] = np.where(horizons == NO_HORIZON, writing.OF_FIRST, horizons)
    target = np.empty(v2.room_for(source, rows), dtype=np.uint8)
    batches = rebuilding.rebuild_batches(source, rows, plan, v2.LAYOUT.itemsize, target)
    return _signed(_compressed(target, batches, headers), _raw_headers(batches, headers, horizons))


def _compressed(target: Bytes, batches: Int64s, headers: BatchHeaders) -> Rebuilt:
    """The batches with their records compressed; the headers have room, and no content yet."""
    starts, ends = batches[:, writing.START], batches[:, writing.END]
    if not headers.codec.any():
        return Rebuilt(target[: ends[-1]], starts, ends - starts)
    room = np.empty(v2.LAYOUT.itemsize, dtype=np.uint8)
    pieces = []
    for start, end, codec in zip(starts.tolist(), ends.tolist(), headers.codec.tolist(), strict=True):
        body = target[start + len(room) : end]
        pieces += [room, body if codec == Codec.NONE else compress(Codec(codec), body, magic=v2.MAGIC)]
    sizes = np.array([len(body) for body in pieces[1::2]], dtype=np.int64) + len(room)
    return Rebuilt(np.concatenate(pieces), np.cumsum(sizes) - sizes, sizes)


def _raw_headers(batches: Int64s, headers: BatchHeaders, horizons: Int64s) -> np.ndarray:
    table = headers.table
    raw = np.zeros(len(table), dtype=v2.LAYOUT)
    for name in _KEPT_FIELDS:
        raw[name] = table[name]
    raw["attributes"] = (table["attributes"] & _ATTRIBUTES) | np.where(horizons == NO_HORIZON, 0, DELETE_HORIZON_MASK)
    raw["last_offset_delta"] = table["last_offset"] - table["base_offset"]
    raw["base_timestamp"] = batches[:, writing.BASE_TIMESTAMP]
    raw["max_timestamp"] = batches[:, writing.MAX_TIMESTAMP]
    raw["count"] = batches[:, writing.COUNT]
    return raw


def _signed(rebuilt: Rebuilt, raw: np.ndarray) -> Rebuilt:
    raw["length"] = rebuilt.sizes - LOG_OVERHEAD
    memory.put_rows(rebuilt.buffer, rebuilt.starts, raw.view(np.uint8).reshape(-1, v2.LAYOUT.itemsize))
    v2.sign(rebuilt.buffer, rebuilt.starts, rebuilt.sizes)
    return rebuilt


def rebuild_wrapper(records: Records, rows: Int64s, headers: BatchHeaders) -> Bytes:
    """One compressed message of magic 0 or 1 with what is left of its messages; its offset is that of the last one."""
    left = Records(
        records.offsets[rows],
        records.timestamps[rows],
        records.timestamp_types[rows],
        _taken(records.keys, rows),
        _taken(records.values, rows),
        None,
    )
    module = v0 if headers.table["magic"][0] == v0.MAGIC else v1
    encoded: Bytes = module.encode(left, Codec(int(headers.codec[0])))
    return encoded


def _taken(column: BinaryColumn | None, rows: Int64s) -> BinaryColumn:
    assert column is not None
    first, last = int(rows[0]), int(rows[-1])
    strings = column.slice(first, last + 1).to_list()
    return BinaryColumn.from_list([strings[row - first] for row in rows.tolist()])
