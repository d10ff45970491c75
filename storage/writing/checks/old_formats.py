"""Message sets for topics whose ``message.format.version`` is older than record batches.

As Kafka 0.10 to 2.8 converted what producers send (``LogValidator``). Old formats have no place for record headers and
for idempotent or transactional producers: what needs one is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ... import format as formats
from ...errors import UnsupportedForMessageFormatError
from ...format import v2
from ...format.checksums import crc32
from ...format.constants import NO_TIMESTAMP, TIMESTAMP_TYPE_MASK, Codec, TimestampType
from ...format.legacy import v1
from ...format.tables import BatchHeaders, Bytes, Records
from .records import Compression


class Assigned(NamedTuple):
    """What the log assigns to a set of batches."""

    start_offset: int
    leader_epoch: int  # message sets have none
    append_time_ms: int  # -1: records keep their own


def check_fits_old_format(headers: BatchHeaders, records: Records, version: str) -> None:
    """Raises UnsupportedForMessageFormatError for what the format of ``version`` cannot hold."""
    reason = None
    if (headers.table["producer_id"] >= 0).any():
        reason = "records of idempotent or transactional producers"
    elif records.headers is not None and records.headers.offsets[-1] > records.headers.offsets[0]:
        reason = "record headers"
    if reason is not None:
        raise UnsupportedForMessageFormatError(
            f"the topic has message.format.version {version}, which cannot hold {reason}: raise that setting to 0.11.0 "
            "or later, or send without them"
        )


def to_message_set(
    buffer: Bytes, headers: BatchHeaders, records: Records, magic: int, target: Compression, assigned: Assigned
) -> v2.EncodedBatches:
    """Returns the records of one append as a message set of ``magic`` 0 or 1, with the log's offsets.

    With a codec it is one wrapper. A wrapper of magic 1 with the topic's codec keeps its compressed bytes, if its
    offsets count up from 0.
    """
    start_offset, append_time_ms = assigned.start_offset, assigned.append_time_ms
    if _may_stay(headers, records, magic, target.codec):
        written = _stamped(buffer[: headers.end], records, start_offset + len(records) - 1, append_time_ms)
    else:
        numbered = _numbered(records, start_offset, append_time_ms)
        written = formats.by_magic(magic).encode(numbered, target.codec, target.level)
    return v2.EncodedBatches(written, formats.scan(written).headers)


def _may_stay(headers: BatchHeaders, records: Records, magic: int, codec: Codec) -> bool:
    is_wrapper = magic == v1.MAGIC and len(headers) == 1 and codec is not Codec.NONE
    return (
        is_wrapper
        and headers.table["magic"][0] == magic
        and headers.codec[0] == codec
        and np.array_equal(records.offsets, np.arange(len(records)))
    )


def _stamped(wrapper: Bytes, records: Records, last_offset: int, append_time_ms: int) -> Bytes:
    """Returns a copy of a wrapper of magic 1 with its last offset, and with the time that its records say."""
    stamped = wrapper.copy()
    header = stamped[: v1.LAYOUT.itemsize].view(v1.LAYOUT)[0]
    is_append_time = append_time_ms != NO_TIMESTAMP
    header["offset"] = last_offset
    header["attributes"] |= TIMESTAMP_TYPE_MASK * is_append_time
    header["timestamp"] = append_time_ms if is_append_time else records.timestamps.max()
    header["crc"] = crc32(stamped[v1.CHECKED_FROM :].data)
    return stamped


def _numbered(records: Records, start_offset: int, append_time_ms: int) -> Records:
    count, is_append_time = len(records), append_time_ms != NO_TIMESTAMP
    kind = TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
    return replace(
        records,
        offsets=np.arange(start_offset, start_offset + count, dtype=np.int64),
        timestamps=np.full(count, append_time_ms, dtype=np.int64) if is_append_time else records.timestamps,
        timestamp_types=np.full(count, kind, dtype=np.int8),
    )
