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
    """Returns the headers of the messages at ``positions``; shape (messages,), dtype HEADERS."""
    return messages.headers(LAYOUT, buffer, positions, sizes)


def checksums(buffer: Bytes, headers: BatchHeaders) -> list[int]:
    """Returns the CRC-32 of each message, shape (messages,)."""
    starts, sizes = headers.table["position"], headers.table["size"]
    return crc.of_parts(crc.crc32, buffer, starts + CHECKED_FROM, starts + sizes)


def value_of(buffer: Bytes, headers: BatchHeaders) -> Bytes:
    """Returns the value of the first message; raises InvalidRecordError if it has none."""
    return messages.value_of(MAGIC, buffer, headers)


def parts(buffer: Bytes, headers: BatchHeaders, decompressed_bytes_max: int) -> list[Part]:
    """Returns the parts that contain the messages.

    Raises InvalidRecordError, with its position, for a wrapper that cannot be decompressed and read.
    """
    return messages.parts(MAGIC, buffer, headers, decompressed_bytes_max, _absolute_offsets)


def _absolute_offsets(wrapper_offset: int, inner: Int64s) -> Int64s:
    """Returns the absolute offsets of the messages in a wrapper, whose own offset is that of the last message.

    A wrapper by an old librdkafka has offset 0 instead.
    """
    last = int(inner[-1])
    if wrapper_offset == 0:
        return inner
    if not 0 <= last <= wrapper_offset:
        raise InvalidRecordError(
            f"the wrapper has offset {wrapper_offset}, which contradicts its last inner offset {last}"
        )
    return inner + (wrapper_offset - last)


def encode(records: Records, codec: Codec = Codec.NONE, level: int | None = None) -> Bytes:
    """Encodes records as plain messages or, with a codec, as one wrapper. Only compaction and tests write this format.

    The wrapper has LogAppendTime if ``records.timestamp_types`` is that. Returns no bytes if there are no records.
    """
    append_time = len(records) > 0 and records.timestamp_types[0] == TimestampType.LOG_APPEND_TIME
    if codec == Codec.NONE or not len(records):
        return messages.messages(MAGIC, records, records.offsets, append_time)
    inner = messages.messages(MAGIC, records, records.offsets - records.offsets[0], append_time)
    largest = int(records.timestamps.max())
    return messages.wrapper(MAGIC, inner, codec, level, int(records.offsets[-1]), largest, append_time)
