"""The 61-byte batch header of magic 2: reading it, computing its checksum, and changing it in place."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from ...filesystem.port import Buffer
from .. import checksums as crc
from ..constants import (
    CODEC_MASK,
    DELETE_HORIZON_MASK,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from ..tables import HEADERS, BatchHeaders, Bytes, Int64s, put_rows_at, rows_at

MAGIC = 2

# This must not change: it is the layout of Kafka's files.
LAYOUT = np.dtype(
    [  #                          byte  meaning
        ("base_offset", ">i8"),  #   0   offset of the first record as first written: compaction keeps it
        ("length", ">i4"),  #        8   bytes after this field
        ("leader_epoch", ">i4"),  # 12   outside the checksum: every leader sets it again
        ("magic", "i1"),  #         16   2
        ("crc", ">u4"),  #          17   CRC-32C from attributes to the end
        ("attributes", ">i2"),  #   21   codec, timestamp type, transactional, control, delete horizon
        ("last_offset_delta", ">i4"),  # 23
        ("base_timestamp", ">i8"),  # 27  what record timestamps are relative to; or the delete horizon
        ("max_timestamp", ">i8"),  # 35  of the records; or the append time
        ("producer_id", ">i8"),  #  43   -1: none
        ("producer_epoch", ">i2"),  # 51  -1: none
        ("base_sequence", ">i4"),  # 53  -1: none
        ("count", ">i4"),  #        57   records present: 0 is possible after compaction
    ]
)
assert LAYOUT.itemsize == 61
_HEADER = struct.Struct(">qiibIhiqqqhii")  # the same fields
_PLACED = struct.Struct(">qii")  # base offset, length, leader epoch: all that a log changes, outside the checksum
assert _HEADER.size == LAYOUT.itemsize
CHECKED_FROM = 21
CRC_AT = 17

_SAME_FIELDS = (
    "base_offset",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)


def headers(buffer: Bytes, positions: Int64s, sizes: Int64s) -> np.ndarray:
    """Returns the headers of the batches at ``positions``; shape (batches,), dtype HEADERS."""
    raw = rows_at(LAYOUT, buffer, positions)
    table = np.empty(len(positions), dtype=HEADERS)
    for name in _SAME_FIELDS:
        table[name] = raw[name]
    table["position"], table["size"] = positions, sizes
    table["last_offset"] = table["base_offset"] + raw["last_offset_delta"]
    return table


class Header(NamedTuple):
    """The header of one batch, as plain numbers; the fields of :data:`LAYOUT`."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int  # how many


def header_of(headers: BatchHeaders) -> Header:
    """Returns the header of the first batch of a table."""
    row = dict(zip(headers.table.dtype.names or (), headers.table[0].item(), strict=True))
    row |= {"length": row["size"] - LOG_OVERHEAD, "last_offset_delta": row["last_offset"] - row["base_offset"]}
    return Header(*(row[name] for name in _FIELDS))


def read_header(data: Buffer) -> Header:
    """Returns the header at the start of ``data``, which has at least 61 bytes; checks nothing."""
    return Header._make(_HEADER.unpack_from(data))


_FIELDS = tuple("count" if name == "records" else name for name in Header._fields)


def placed(data: memoryview, base_offset: int, leader_epoch: int) -> tuple[bytes, memoryview]:
    """Returns the batch ``data`` with another base offset and leader epoch, as two buffers; copies no records."""
    length = len(data) - LOG_OVERHEAD
    return _PLACED.pack(base_offset, length, leader_epoch), data[_PLACED.size :]


def produced(data: memoryview, header: Header) -> tuple[bytes, memoryview]:
    """Returns the batch ``data`` with ``header`` and a computed checksum; copies no records."""
    records = data[_HEADER.size :]
    return encode_header(header, records), records


def encode_header(header: Header, records: Buffer) -> bytes:
    """Returns the bytes of a header with the checksum of a batch in which the encoded ``records`` follow it."""
    data = _HEADER.pack(*header)
    checked = data[CHECKED_FROM:]
    return data[:CRC_AT] + crc.crc32c(records, crc.crc32c(checked)).to_bytes(4) + checked


def put_headers(buffer: Bytes, table: np.ndarray) -> None:
    """Write whole headers from ``table`` at the batch positions that it contains. Checks no position."""
    raw = np.empty(len(table), dtype=LAYOUT)
    for name in _SAME_FIELDS:
        raw[name] = table[name]
    raw["length"] = table["size"] - LOG_OVERHEAD
    raw["last_offset_delta"] = table["last_offset"] - table["base_offset"]
    put_rows_at(buffer, table["position"], raw)


def checksums(buffer: Bytes, headers: BatchHeaders) -> list[int]:
    """Returns the CRC-32C of each batch, shape (batches,)."""
    starts, sizes = headers.table["position"], headers.table["size"]
    return crc.of_parts(crc.crc32c, buffer, starts + CHECKED_FROM, starts + sizes)


def sign(buffer: Bytes, starts: Int64s, sizes: Int64s) -> np.ndarray:
    """Write the checksum of each batch into its header. Returns the checksums, shape (batches,)."""
    found = np.array(crc.of_parts(crc.crc32c, buffer, starts + CHECKED_FROM, starts + sizes), dtype=">u4")
    put_rows_at(buffer, starts + CRC_AT, found)
    return found


def empty_batch(headers: BatchHeaders) -> Bytes:
    """Returns the empty batch with which compaction replaces a batch without remaining records that must not disappear.

    Clears codec and delete horizon, and keeps all other fields of the given header.
    """
    table = headers.table[:1].copy()
    table["attributes"] &= ~(CODEC_MASK | DELETE_HORIZON_MASK)
    table["base_timestamp"], table["count"] = NO_TIMESTAMP, 0
    table["position"], table["size"] = 0, LAYOUT.itemsize
    buffer = np.empty(LAYOUT.itemsize, dtype=np.uint8)
    put_headers(buffer, table)
    signed(buffer, table)
    return buffer


# Changes to encoded batches. Each function returns the new headers. They raise ValueError, and change nothing, for a
# read-only buffer and for batches of other magics, whose fields have other positions.


def stamp(buffer: Bytes, headers: BatchHeaders, *, base_offset: int, leader_epoch: int) -> BatchHeaders:
    """Shift the batches so that the first begins at ``base_offset``, and set their leader epoch (not checksummed)."""
    table = _changeable(buffer, headers)
    _place(table, base_offset, leader_epoch)
    _put(buffer, table, "base_offset", "leader_epoch")
    return BatchHeaders(table)


def stamp_producer(
    buffer: Bytes,
    headers: BatchHeaders,
    *,
    base_offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool,
) -> BatchHeaders:
    """Do what :func:`stamp` does, and set the producer; sequence numbers continue from batch to batch.

    Writes whole headers, so that the buffer need not contain headers yet.
    """
    table = _changeable(buffer, headers)
    _place(table, base_offset, leader_epoch)
    table["producer_id"], table["producer_epoch"] = producer_id, producer_epoch
    spans = table["last_offset"] - table["base_offset"] + 1
    table["base_sequence"] = sequences(base_sequence, np.cumsum(spans) - spans)
    table["attributes"] = (table["attributes"] & ~TRANSACTIONAL_MASK) | TRANSACTIONAL_MASK * transactional
    put_headers(buffer, table)
    return signed(buffer, table)


def set_append_time(buffer: Bytes, headers: BatchHeaders, now_ms: int) -> BatchHeaders:
    """Make ``now_ms`` the time of all records (LogAppendTime); like Kafka, keeps the base timestamp and the deltas."""
    table = _changeable(buffer, headers)
    table["attributes"] |= TIMESTAMP_TYPE_MASK
    table["max_timestamp"] = now_ms
    _put(buffer, table, "attributes", "max_timestamp")
    return signed(buffer, table)


def set_max_timestamp(buffer: Bytes, headers: BatchHeaders, max_timestamps: Int64s) -> BatchHeaders:
    """Set the largest timestamp of each batch."""
    table = _changeable(buffer, headers)
    table["max_timestamp"] = max_timestamps
    _put(buffer, table, "max_timestamp")
    return signed(buffer, table)


def sequences(base_sequence: int, records_before: Int64s) -> Int64s:
    """Returns the sequence number after each number of records; wraps from 2^31 - 1 to 0, and stays -1 if it is -1."""
    if base_sequence == NO_SEQUENCE:
        return np.full(len(records_before), NO_SEQUENCE, dtype=np.int64)
    return (base_sequence + records_before) % 2**31


def _changeable(buffer: Bytes, headers: BatchHeaders) -> np.ndarray:
    """Returns a copy of the table to change. Checks buffer and positions, because the kernel that writes does not."""
    table = headers.table.copy()
    if not (buffer.flags.writeable and buffer.flags.c_contiguous):
        raise ValueError("the batches are in a read-only or non-contiguous buffer")
    if len(table) and (table["magic"] != MAGIC).any():
        raise ValueError(f"only batches of magic {MAGIC} can be changed in place")
    if len(table) and (table["position"].min() < 0 or (table["position"] + table["size"]).max() > len(buffer)):
        raise ValueError("the headers do not belong to this buffer")
    return table


def _place(table: np.ndarray, base_offset: int, leader_epoch: int) -> None:
    shift = base_offset - int(table["base_offset"][0]) if len(table) else 0
    table["base_offset"] += shift
    table["last_offset"] += shift
    table["leader_epoch"] = leader_epoch


def _put(buffer: Bytes, table: np.ndarray, *names: str) -> None:
    """Write the named fields of the table into the headers."""
    raw = rows_at(LAYOUT, buffer, table["position"])
    for name in names:
        raw[name] = table[name]
    put_rows_at(buffer, table["position"], raw)


def signed(buffer: Bytes, table: np.ndarray) -> BatchHeaders:
    """Write the checksum of each batch into its header, and into its row of ``table``."""
    table["crc"] = sign(buffer, table["position"], table["size"])
    return BatchHeaders(table)
