"""Message sets, and wrappers around them, for formats 0 and 1, whose layouts differ."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ...errors import InvalidRecordError
from ...kernels import records as reading
from ...kernels.arrays import frozen
from ..checksums import crc32
from ..compression import compress, decompress
from ..constants import (
    CODEC_MASK,
    LOG_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    Codec,
)
from ..record_columns import Part, describe
from ..tables import HEADERS, BatchHeaders, Bytes, Int64s, Records, rows_at

UNKNOWN_COUNT = -1
FIXED_BYTES = {0: 6, 1: 14}  # of a message before its key length: checksum, magic, attributes and, in 1, timestamp
ENTRY_BYTES_MIN = LOG_OVERHEAD + 14

AbsoluteOffsets = Callable[[int, Int64s], Int64s]


def headers(layout: np.dtype, buffer: Bytes, positions: Int64s, sizes: Int64s) -> np.ndarray:
    """Returns the headers of messages with ``layout``; fields that the layout lacks get the value that means "none"."""
    raw = rows_at(layout, buffer, positions)
    table = np.empty(len(positions), dtype=HEADERS)
    table["position"], table["size"] = positions, sizes
    table["base_offset"] = table["last_offset"] = raw["offset"]
    for name in ("magic", "crc", "attributes"):
        table[name] = raw[name]
    timestamps = raw["timestamp"] if "timestamp" in (layout.names or ()) else NO_TIMESTAMP
    table["base_timestamp"], table["max_timestamp"] = NO_TIMESTAMP, timestamps
    table["leader_epoch"] = NO_LEADER_EPOCH
    table["producer_id"], table["producer_epoch"] = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    table["base_sequence"], table["count"] = NO_SEQUENCE, UNKNOWN_COUNT
    return table


def parts(
    magic: int, buffer: Bytes, headers: BatchHeaders, limit: int, absolute_offsets: AbsoluteOffsets
) -> list[Part]:
    """Returns the parts of these messages: one for each run of plain messages, and one for each wrapper."""
    compressed = headers.codec != Codec.NONE
    bounds = np.flatnonzero(np.diff(compressed, prepend=~compressed[:1]) | compressed).tolist()
    found = []
    for first, last in pairwise([*bounds, len(headers)]):
        chosen = headers[first:last]
        if compressed[first]:
            found.append(_unwrapped(magic, buffer, chosen, limit, absolute_offsets))
        else:
            found.append(_plain(buffer, chosen))
    return found


def _plain(buffer: Bytes, headers: BatchHeaders) -> Part:
    table = headers.table
    messages = np.empty((len(headers), reading.MESSAGE_FIELDS), dtype=np.int64)
    messages[:, reading.MESSAGE_START] = table["position"] + LOG_OVERHEAD
    messages[:, reading.MESSAGE_STOP] = table["position"] + table["size"]
    messages[:, reading.MESSAGE_OFFSET] = table["last_offset"]
    messages[:, reading.MESSAGE_FIXED_TIMESTAMP] = table["max_timestamp"]
    messages[:, reading.MESSAGE_TYPE] = headers.timestamp_type
    return Part(buffer, messages, True, table["position"])


def _unwrapped(magic: int, buffer: Bytes, headers: BatchHeaders, limit: int, absolute_offsets: AbsoluteOffsets) -> Part:
    row = headers.table[0]
    position = int(row["position"])
    try:
        inner = _inner_set(magic, buffer, headers, limit)
        starts, sizes, offsets = _walk(inner)
        absolute = absolute_offsets(int(row["last_offset"]), offsets)
    except InvalidRecordError as error:
        raise type(error)(error.reason, position=position) from error
    messages = np.empty((len(starts), reading.MESSAGE_FIELDS), dtype=np.int64)
    messages[:, reading.MESSAGE_START], messages[:, reading.MESSAGE_STOP] = starts, starts + sizes
    messages[:, reading.MESSAGE_OFFSET] = absolute
    messages[:, reading.MESSAGE_FIXED_TIMESTAMP] = row["max_timestamp"]
    messages[:, reading.MESSAGE_TYPE] = headers.timestamp_type[0]
    return Part(inner, messages, True, np.full(len(starts), position, dtype=np.int64))


def _inner_set(magic: int, buffer: Bytes, headers: BatchHeaders, limit: int) -> Bytes:
    """Returns the decompressed value of a wrapper: its message set."""
    return decompress(int(headers.codec[0]), value_of(magic, buffer, headers), magic=magic, limit=limit)


def value_of(magic: int, buffer: Bytes, headers: BatchHeaders) -> Bytes:
    """Returns the value of the first message, which a wrapper must have. Ignores the key, as Kafka does."""
    at = int(headers.table["position"][0]) + LOG_OVERHEAD + FIXED_BYTES[magic]
    end = int(headers.table["position"][0] + headers.table["size"][0])
    key_size = int.from_bytes(buffer[at : at + 4].tobytes(), "big", signed=True)
    at += 4 + max(key_size, 0)
    value_size = int.from_bytes(buffer[at : at + 4].tobytes(), "big", signed=True)
    at += 4
    if at > end or value_size > end - at:
        raise InvalidRecordError("the key or value of a wrapper reaches beyond its end")
    if value_size < 0:
        raise InvalidRecordError("a wrapper has no value")
    return buffer[at : at + value_size]


def _walk(inner: Bytes) -> tuple[Int64s, Int64s, Int64s]:
    room = len(inner) // ENTRY_BYTES_MIN + 1
    starts, sizes, offsets = (np.empty(room, dtype=np.int64) for _ in range(3))
    found, reason = reading.walk_messages(frozen(inner), starts, sizes, offsets)
    if reason != reading.FINE:
        raise InvalidRecordError(describe(reason, found))
    if not found:
        raise InvalidRecordError("a wrapper contains no messages")
    return starts[:found], sizes[:found], offsets[:found]


def messages(magic: int, records: Records, offsets: Int64s, append_time: bool) -> Bytes:
    """Encodes records as plain messages, without record headers, which these formats lack.

    A missing column is all null.
    """
    attributes = TIMESTAMP_TYPE_MASK if append_time else 0
    nulls: list[bytes | None] = [None] * len(records)
    keys, values = (nulls if column is None else column.to_list() for column in (records.keys, records.values))
    columns = (offsets.tolist(), records.timestamps.tolist(), keys, values)
    entries = [
        _entry(magic, attributes, offset, timestamp, key, value)
        for offset, timestamp, key, value in zip(*columns, strict=True)
    ]
    return np.frombuffer(b"".join(entries), dtype=np.uint8)


def wrapper(
    magic: int, inner: Bytes, codec: Codec, level: int | None, offset: int, timestamp: int, append_time: bool
) -> Bytes:
    """Encodes a message set as one compressed message, a wrapper."""
    value = compress(codec, inner, level, magic=magic).tobytes()
    attributes = (codec & CODEC_MASK) | (TIMESTAMP_TYPE_MASK if append_time else 0)
    return np.frombuffer(_entry(magic, attributes, offset, timestamp, None, value), dtype=np.uint8)


def _entry(magic: int, attributes: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    checked = bytes((magic, attributes))
    if magic == 1:
        checked += timestamp.to_bytes(8, "big", signed=True)
    checked += _string(key) + _string(value)
    head = offset.to_bytes(8, "big", signed=True) + (len(checked) + 4).to_bytes(4, "big")
    return head + crc32(checked).to_bytes(4, "big") + checked


def _string(text: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if text is None else len(text).to_bytes(4, "big") + text
