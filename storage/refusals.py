"""Which records a topic refuses, and why: known from their columns, before anything is encoded (spec 6.3).

A topic refuses a record for its size, for a null key where it is compacted, and for a timestamp outside its limits.
What is let pass here is what ``validator.validate_and_assign_offsets`` lets pass when it comes encoded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pyspark_commitlog.storage.config import INT64_MAX, LogConfig
from pyspark_commitlog.storage.errors import InvalidTimestampError, RecordTooLargeError, RecordValidationError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.fields import NO_TIMESTAMP, Codec
from pyspark_commitlog.storage.format.tables import Bools, Int64s, Records

LISTED_MAX = 1000  # refused records that an error lists; its message counts them all
_GROWTH_MAX = 8  # compression makes records larger by less than an eighth, and this much
_GROWTH_BYTES_MAX = 256


class Compression(NamedTuple):
    """A codec and how hard it tries."""

    codec: Codec
    level: int | None  # None: the codec knows no levels


UNCOMPRESSED = Compression(Codec.NONE, None)


class Refused(NamedTuple):
    """A record that a topic does not take."""

    row: int  # its place in the table
    reason: str


def find_refused(records: Records, *, now_ms: int, config: LogConfig, compression: Compression) -> list[Refused]:
    """Every record of a table that the topic refuses, by index; of several reasons the first that Kafka would tell.

    ``compression`` is what they will be encoded with: a record may be too large that would fit compressed.
    """
    found = dict(_oversized(records, config, compression))
    found |= dict(_invalid(records, None, now_ms, config))
    return [Refused(index, found[index]) for index in sorted(found)]


def target_compression(config: LogConfig, source: Codec) -> Compression:
    """What batches are compressed with in the log: as the topic says, or, by ``producer``, as they came."""
    codecs = {"producer": source, "uncompressed": Codec.NONE} | {codec.name.lower(): codec for codec in Codec}
    codec = codecs[config.compression_type]
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return Compression(codec, levels.get(codec))


def validate_columns(records: Records, *, now_ms: int, config: LogConfig, source_codec: Codec = Codec.NONE) -> None:
    """Check records before they are encoded, as ``validator.validate_and_assign_offsets`` would check them after it.

    ``source_codec`` is what the caller compresses with where ``compression.type`` is ``producer``. Offsets and
    timestamp types are not looked at: the log sets both.

    Raises RecordTooLargeError for the first record that, alone in a batch, is above ``max.message.bytes`` or
    ``segment.bytes``, or would decompress to more than ``max.decompressed.bytes``; InvalidTimestampError or
    RecordValidationError with the index of each record refused.
    """
    for index, reason in _oversized(records, config, target_compression(config, source_codec))[:1]:
        raise RecordTooLargeError(f"record {index} {reason}")
    check_records(records, flagged=None, now_ms=now_ms, config=config)


def _oversized(records: Records, config: LogConfig, compression: Compression) -> list[Refused]:
    """Only records near the limit, hardly ever any, are encoded for their exact size, each in a batch of its own."""
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
            found.append(Refused(row, f"alone makes a batch of {size} bytes, {limiting} allows {limit}"))
        elif compression.codec is not Codec.NONE and decompressed > decompressed_max:
            what = f"takes up to {decompressed} bytes uncompressed"
            found.append(Refused(row, f"{what}, max.decompressed.bytes allows {decompressed_max} to be read again"))
    return found


def bytes_in_batch(batch_size_max: int, compression: Compression) -> int:
    """How many bytes of records make a batch of at most ``batch_size_max``, however badly they compress."""
    room = batch_size_max - v2.LAYOUT.itemsize
    if compression.codec is not Codec.NONE:
        room -= room // _GROWTH_MAX + _GROWTH_BYTES_MAX
    return max(room, 0)


def _all_content_max(records: Records) -> int:
    """What the content of all records together takes at most, headers with their sizes; of a small table not much."""
    if records.headers is not None:
        return INT64_MAX
    columns = [column for column in (records.keys, records.values) if column is not None]
    return sum(int(column.offsets[-1]) - int(column.offsets[0]) for column in columns)


def _largest_content_max(records: Records) -> int:
    """What no record's content exceeds: the largest key and the largest value together, in two quick passes."""
    if records.headers is not None:
        return int(_content_bytes_max(records).max(initial=0))
    columns = [column for column in (records.keys, records.values) if column is not None]
    return sum(int((column.offsets[1:] - column.offsets[:-1]).max(initial=0)) for column in columns)


def _content_bytes_max(records: Records) -> Int64s:
    """What key, value and headers of each record take at most."""
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
    """Refuse null keys on a compacted topic, times outside the limits, and records that are ``flagged`` LogAppendTime
    (None: none is).

    Raises as :func:`validate_columns` does.
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
    """Of a record Kafka tells the key first."""
    low, high = _timestamp_limits(now_ms, config)
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
    """Records that lack the key that the topic wants; None: no record does."""
    valid = np.zeros(len(records), dtype=np.bool_) if records.keys is None else records.keys.valid
    return None if valid is None or not config.compact else ~valid


def _outside(timestamps: Int64s, low: int, high: int) -> Bools | None:
    """Timestamps that are outside; None: none is."""
    if len(timestamps) and low <= timestamps.min() and timestamps.max() <= high:  # the usual case, in two quick passes
        return None
    outside: Bools = (timestamps != NO_TIMESTAMP) & ((timestamps < low) | (timestamps > high))
    return outside


def _timestamp_limits(now_ms: int, config: LogConfig) -> tuple[int, int]:
    """The smallest and largest timestamp allowed beside -1; both fit 64 bits, as differences from now may not."""
    if config.message_timestamp_type == "LogAppendTime":
        return 0, INT64_MAX
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return max(now_ms - before_ms, 0), min(now_ms + after_ms, INT64_MAX)
