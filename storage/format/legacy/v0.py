"""Message format 0: messages without a timestamp, plain or in compressed wrappers (Kafka's LegacyRecord).

A plain message is a batch of its own. A wrapper holds a compressed message set; its offset is that of the last message
in it, and the offsets inside are absolute. LZ4 frames of this format have a wrong header checksum, since Kafka computes
it over the frame's magic number too.
"""

from __future__ import annotations

import zlib

import numpy as np

from ..constants import NO_TIMESTAMP, Codec
from ..record_columns import Part
from ..tables import BatchHeaders, Bytes, Int64s, Records
from . import messages

MAGIC = 0

# This must not change: it is the layout of Kafka's files.
LAYOUT = np.dtype(
    [  #                    byte  meaning
        ("offset", ">i8"),  #  0   of the message, or of the last message in a wrapper
        ("size", ">i4"),  #    8   bytes after this field
        ("crc", ">u4"),  #    12   CRC-32 from magic to the end
        ("magic", "i1"),  #   16   0
        ("attributes", "i1"),  # 17  codec
    ]
)
assert LAYOUT.itemsize == 18
CHECKED_FROM = 16
CRC_AT = 12


def headers(buffer: Bytes, positions: Int64s, sizes: Int64s) -> np.ndarray:
    """Returns the headers of the messages at ``positions``; shape (messages,), dtype HEADERS."""
    return messages.headers(LAYOUT, buffer, positions, sizes)


def checksums(buffer: Bytes, headers: BatchHeaders) -> list[int]:
    """Returns the CRC-32 of each message, shape (messages,)."""
    view = memoryview(buffer)
    starts, sizes = headers.table["position"].tolist(), headers.table["size"].tolist()
    return [zlib.crc32(view[at + CHECKED_FROM : at + size]) for at, size in zip(starts, sizes, strict=True)]


def value_of(buffer: Bytes, headers: BatchHeaders) -> Bytes:
    """Returns the value of the first message; raises InvalidRecordError if it has none."""
    return messages.value_of(MAGIC, buffer, headers)


def parts(buffer: Bytes, headers: BatchHeaders, decompressed_bytes_max: int) -> list[Part]:
    """Returns the parts that contain the messages.

    Raises InvalidRecordError, with its position, for a wrapper that cannot be decompressed and read.
    """
    return messages.parts(MAGIC, buffer, headers, decompressed_bytes_max, _absolute_offsets)


def _absolute_offsets(_wrapper_offset: int, inner: Int64s) -> Int64s:
    return inner


def encode(records: Records, codec: Codec = Codec.NONE, level: int | None = None) -> Bytes:
    """Encodes records as plain messages or, with a codec, as one wrapper.

    Only compaction and tests write this format.
    """
    inner = messages.messages(MAGIC, records, records.offsets, append_time=False)
    if codec == Codec.NONE or not len(records):
        return inner
    return messages.wrapper(MAGIC, inner, codec, level, int(records.offsets[-1]), NO_TIMESTAMP, append_time=False)
