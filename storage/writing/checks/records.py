"""Finds the records that a topic refuses, and why, from columns, before anything is encoded.

A topic refuses a record because of its size, a null key if the topic is compacted, or a timestamp outside its limits.
Records accepted here are also accepted by ``batches.validate_and_assign_offsets`` in encoded form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...config import INT64_MAX, LogConfig
from ...errors import InvalidTimestampError, RecordTooLargeError, RecordValidationError
from ...format import v2
from ...format.constants import NO_TIMESTAMP, Codec
from ...format.tables import Bools, Int64s, Records

LISTED_MAX = 1000  # refused records that an error lists; its message has the total
_GROWTH_MAX = 8  # compression makes records larger by less than an eighth plus the number of bytes below
_GROWTH_BYTES_MAX = 256


class Compression(NamedTuple):
    """A codec and its level."""

    codec: Codec
    level: int | None  # None: the codec has no levels


UNCOMPRESSED = Compression(Codec.NONE, None)


class Refused(NamedTuple):
    """A record that a topic refuses."""

    row: int  # its index in the table
    reason: str


def find_refused(records: Records, *, now_ms: int, config: LogConfig, compression: Compression) -> list[Refused]:
    """Returns every record of a table that the topic refuses, in row order, with the reason that Kafka would report.

    ``compression`` is what the records will be encoded with.
    """
    found = dict(_oversized(records, config, compression))
    found |= dict(_invalid(records, None, now_ms, config))
    return [Refused(index, found[index]) for index in sorted(found)]


def target_compression(config: LogConfig, source: Codec) -> Compression:
    """Returns the compression of batches in the log: the topic's, or ``source`` if ``compression.type=producer``."""
    codecs = {"producer": source, "uncompressed": Codec.NONE} | {codec.name.lower(): codec for codec in Codec}
    codec = codecs[config.compression_type]
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return Compression(codec, levels.get(codec))


def validate_columns(records: Records, *, now_ms: int, config: LogConfig, source_codec: Codec = Codec.NONE) -> None:
    """Checks records before encoding, as ``batches.validate_and_assign_offsets`` would check them afterwards.

    ``source_codec`` is the caller's codec, used if ``compression.type`` is ``producer``. Ignores offsets and timestamp
    types, because the log sets both.

    Raises RecordTooLargeError for the first record that, alone in a batch, is above ``max.message.bytes`` or
    ``segment.bytes``, or would decompress to more than ``max.decompressed.bytes``; InvalidTimestampError or
    RecordValidationError with the index of each refused record.
    """
    for index, reason in _oversized(records, config, target_compression(config, source_codec))[:1]:
        raise RecordTooLargeError(f"record {index} {reason}")
    check_records(records, flagged=None, now_ms=now_ms, config=config)


def _oversized(records: Records, config: LogConfig, compression: Compression) -> list[Refused]:
    """Returns the records that are too large for the topic, with the reason.

    To get exact sizes, encodes the records near the limit, which are rare, each in a batch of its own.
    """
    room = bytes_in_batch(config.batch_size_max, compression) - v2.RECORD_OVERHEAD_MAX
    if _all_content_max(records) <= room or _largest_content_max(records) <= room:  # the usual case
        return []
    contents = _content_bytes_max(records)
    near = contents > room
    if not near.any():
        return []
    fields = v2.BatchFields(codec=compression.codec, level=compression.level)
    sizes = v2.encode_batches(records, fields, only=near, batch_bytes_max=0).headers.table["size"]
    limit, decompressed_max = config.batch_size_max, config.max_decompressed_bytes
    limiting = "max.message.bytes" if limit == config.max_message_bytes else "segment.bytes"
    found = []
    for row, size in zip(np.flatnonzero(near).tolist(), sizes.tolist(), strict=True):
        decompressed = int(contents[row]) + v2.RECORD_OVERHEAD_MAX
        if size > limit:
            found.append(Refused(row, f"alone makes a batch of {size} bytes, but {limiting} allows {limit}"))
        elif compression.codec is not Codec.NONE and decompressed > decompressed_max:
            what = f"takes up to {decompressed} bytes uncompressed"
            found.append(Refused(row, f"{what}, but max.decompressed.bytes lets readers take {decompressed_max}"))
    return found


def bytes_in_batch(batch_size_max: int, compression: Compression) -> int:
    """Returns how many bytes of records fit a batch of ``batch_size_max`` bytes, even if they do not compress."""
    room = batch_size_max - v2.LAYOUT.itemsize
    if compression.codec is not Codec.NONE:
        room -= room // _GROWTH_MAX + _GROWTH_BYTES_MAX
    return max(room, 0)


def _all_content_max(records: Records) -> int:
    """Returns an upper bound for the bytes of all keys and values together; INT64_MAX if there are headers."""
    if records.headers is not None:
        return INT64_MAX
    columns = [column for column in (records.keys, records.values) if column is not None]
    return sum(int(column.offsets[-1]) - int(column.offsets[0]) for column in columns)


def _largest_content_max(records: Records) -> int:
    """Returns an upper bound for the bytes of any record: the largest key plus the largest value, in two passes."""
    if records.headers is not None:
        return int(_content_bytes_max(records).max(initial=0))
    columns = [column for column in (records.keys, records.values) if column is not None]
    return sum(int((column.offsets[1:] - column.offsets[:-1]).max(initial=0)) for column in columns)


def _content_bytes_max(records: Records) -> Int64s:
    """Returns an upper bound for the bytes of key, value and headers of each record; shape (records,)."""
    sizes = np.zeros(len(records), dtype=np.int64)
    for column in (records.keys, records.values):
        if column is not None:
            sizes += np.diff(column.offsets)
    if records.headers is not None:
        firsts = records.headers.offsets
        sizes += np.diff(firsts) * v2.HEADER_OVERHEAD_MAX
        sizes += np.diff(records.headers.keys.offsets[firsts])
        sizes += np.diff(records.headers.values.offsets[firsts])
    return sizes


def check_records(records: Records, *, flagged: Bools | None, now_ms: int, config: LogConfig) -> None:
    """Raises for records with a null key on a compacted topic, a time outside the limits, or the LogAppendTime flag.

    ``flagged``: which records have that flag; None: no record has it. The error is InvalidTimestampError, or
    RecordValidationError if only keys are missing, with the index of each record.
    """
    refused = _invalid(records, flagged, now_ms, config)
    if refused:
        keyless = _keyless(records, config)
        are_keyless = keyless is not None and keyless[[each.row for each in refused]].all()
        kind = RecordValidationError if are_keyless else InvalidTimestampError
        raise kind(
            f"{len(refused)} of {len(records)} records refused, the first is record {refused[0].row}: "
            f"{refused[0].reason}",
            tuple(refused[:LISTED_MAX]),
        )


def _invalid(records: Records, flagged: Bools | None, now_ms: int, config: LogConfig) -> list[Refused]:
    """Returns the records that the topic refuses for key or time; like Kafka, with a missing key as first reason."""
    low, high = timestamp_limits(now_ms, config)
    reasons = [
        (_keyless(records, config), "the topic is compacted and takes no record without a key"),
        (flagged, "its timestamp type is LogAppendTime, which a producer may not set"),
        (_outside(records.timestamps, low, high), f"its timestamp {{timestamp}} lies outside {low} to {high}"),
    ]
    found: dict[int, str] = {}
    for rows, reason in reasons:
        for row in [] if rows is None else np.flatnonzero(rows).tolist():
            found.setdefault(row, reason)
    return [Refused(row, found[row].format(timestamp=records.timestamps[row])) for row in sorted(found)]


def _keyless(records: Records, config: LogConfig) -> Bools | None:
    """Returns which records lack the key that a compacted topic requires; None: all are acceptable."""
    valid = np.zeros(len(records), dtype=np.bool_) if records.keys is None else records.keys.valid
    return None if valid is None or not config.compact else ~valid


def _outside(timestamps: Int64s, low: int, high: int) -> Bools | None:
    """Returns which timestamps are outside the limits; None: no timestamp is."""
    if len(timestamps) and low <= timestamps.min() and timestamps.max() <= high:  # the usual case, in two quick passes
        return None
    outside: Bools = (timestamps != NO_TIMESTAMP) & ((timestamps < low) | (timestamps > high))
    return outside


def timestamp_limits(now_ms: int, config: LogConfig) -> tuple[int, int]:
    """Returns the smallest and largest timestamp, in ms, that the topic accepts besides -1.

    Both fit 64 bits, unlike differences of timestamps and the present.
    """
    if config.message_timestamp_type == "LogAppendTime":
        return 0, INT64_MAX
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return max(now_ms - before_ms, 0), min(now_ms + after_ms, INT64_MAX)
