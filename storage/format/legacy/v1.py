"""Message format 1: messages with a timestamp, plain or in compressed wrappers (Kafka's LegacyRecord).

A plain message is a batch of its own. A wrapper holds a compressed message set; its offset is that of the last message
in it, and the offsets inside are relative. The timestamp type of a wrapper applies to all its messages.
"""

from __future__ import annotations

import numpy as np

from ...errors import InvalidRecordError
from .. import checksums as crc
from ..constants import Codec, TimestampType
from ..record_columns import Part
from ..tables import BatchHeaders, Bytes, Int64s, Records
from . import messages

MAGIC = 1

# This must not change: it is the layout of Kafka's files.
LAYOUT = np.dtype(
    [  #                    byte  meaning
        ("offset", ">i8"),  #  0   of the message, or of the last message in a wrapper
        ("size", ">i4"),  #    8   bytes after this field
        ("crc", ">u4"),  #    12   CRC-32 from magic to the end
        ("magic", "i1"),  #   16   1
        ("attributes", "i1"),  # 17  codec, timestamp type
        ("timestamp", ">i8"),  # 18  ms, -1: none; of a wrapper the largest inside, or the append time
    ]
)
assert LAYOUT.itemsize == 26
CHECKED_FROM = 16
CRC_AT = 12


def headers(buffer: Bytes, positions: Int64s, sizes: Int64s) -> np.ndarray:
    """Headers of the messages at ``positions``; shape (messages,), dtype HEADERS."""
    return messages.headers(LAYOUT, buffer, positions, sizes)


def checksums(buffer: Bytes, headers: BatchHeaders) -> list[int]:
    """CRC-32 of each message."""
    starts, sizes = headers.table["position"], headers.table["size"]
    return crc.of_parts(crc.crc32, buffer, starts + CHECKED_FROM, starts + sizes)


def parts(buffer: Bytes, headers: BatchHeaders, decompressed_bytes_max: int) -> list[Part]:
    """Locates the messages. Raises InvalidRecordError with the position of a wrapper that does not unwrap."""
    return messages.parts(MAGIC, buffer, headers, decompressed_bytes_max, _absolute_offsets)


def _absolute_offsets(wrapper_offset: int, inner: Int64s) -> Int64s:
    """Absolute offsets, relative to the wrapper's, which is that of the last message; old librdkafka wrote 0 there."""
    last = int(inner[-1])
    if wrapper_offset == 0:
        return inner
    if not 0 <= last <= wrapper_offset:
        raise InvalidRecordError(f"wrapper offset {wrapper_offset} contradicts its last inner offset {last}")
    return inner + (wrapper_offset - last)


def encode(records: Records, codec: Codec = Codec.NONE, level: int | None = None) -> Bytes:
    """Plain messages, or all in one wrapper. Written by tests and by compaction, which keeps a segment's format.

    If ``records.timestamp_types`` is LogAppendTime, so is the wrapper's type. No records give no bytes.
    """
    append_time = len(records) > 0 and records.timestamp_types[0] == TimestampType.LOG_APPEND_TIME
    if codec == Codec.NONE or not len(records):
        return messages.messages(MAGIC, records, records.offsets, append_time)
    inner = messages.messages(MAGIC, records, records.offsets - records.offsets[0], append_time)
    largest = int(records.timestamps.max())
    return messages.wrapper(MAGIC, inner, codec, level, int(records.offsets[-1]), largest, append_time)
