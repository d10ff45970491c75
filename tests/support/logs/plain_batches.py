"""A slow reader of batches of magic 2, by ``struct`` alone: for tests of what lies above the formats."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pyspark_commitlog.storage.format.tables import HEADERS, BatchHeaders
from pyspark_commitlog.storage.recovery.producer_state import Marker

HEADER = struct.Struct(">qiibIhiqqqhii")
CODEC, CONTROL = 0x07, 0x20


class PlainRecord(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def headers(data: bytes) -> BatchHeaders:
    """Of all batches in ``data``, which holds nothing else."""
    rows = []
    for position, fields in batches(data):
        base, length, leader_epoch, magic, crc, attributes, last_delta, *times_and_producer = fields
        size = length + 12
        rows.append(
            (position, size, base, base + last_delta, magic, crc, attributes, leader_epoch, *times_and_producer)
        )
    return BatchHeaders(np.array(rows, dtype=HEADERS))


def batches(data: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(position, fields of the header) of each batch."""
    position = 0
    while position < len(data):
        fields = HEADER.unpack_from(data, position)
        assert fields[3] == 2
        yield position, fields
        position += fields[1] + 12
    assert position == len(data)


def markers(data: bytes) -> dict[int, Marker]:
    """The commit and abort markers in ``data`` by base offset."""
    found = {}
    for position, fields in batches(data):
        if fields[5] & CONTROL and fields[-1]:
            (record,) = batch_records(data, position)
            _, kind = struct.unpack(">hh", record.key or b"")
            _, coordinator_epoch = struct.unpack_from(">hi", record.value or b"")
            found[record.offset] = Marker(kind == 1, coordinator_epoch, record.timestamp)
    return found


def records(data: bytes) -> Iterator[PlainRecord]:
    """All records of data batches, which must not be compressed."""
    for position, fields in batches(data):
        if not fields[5] & CONTROL:
            yield from batch_records(data, position)


def batch_records(data: bytes, position: int) -> Iterator[PlainRecord]:
    fields = HEADER.unpack_from(data, position)
    assert not fields[5] & CODEC
    at = position + HEADER.size
    for _ in range(fields[-1]):
        size, at = varint(data, at)
        end = at + size
        timestamp_delta, at = varint(data, at + 1)
        offset_delta, at = varint(data, at)
        key, at = byte_string(data, at)
        value, at = byte_string(data, at)
        yield PlainRecord(fields[0] + offset_delta, fields[7] + timestamp_delta, key, value)
        at = end


def byte_string(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = varint(data, at)
    return (None, at) if length < 0 else (data[at : at + length], at + length)


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
