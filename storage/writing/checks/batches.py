"""Checks batches before they are appended, and assigns their offsets, as a Kafka leader does.

As in Kafka's ``LogValidator`` and ``UnifiedLog.analyzeAndValidateRecords``. Data reaches a log in two ways:

- as encoded batches from anywhere: :func:`analyze`, then :func:`validate_and_assign_offsets`;
- as columns that this process encodes: ``records.validate_columns`` before encoding, :func:`check_batch_sizes`
  after it. What these accept need not be decoded again, and both ways refuse the same records for the same reasons.

What clients send is written in the topic's format: magic 2, unless ``message.format.version`` is older. Other messages
are rewritten as one batch of magic 2, or as one message set (``old_formats``). Nothing of a refused set is written, and
no caller's buffer is changed.

Stricter than Kafka in four cases in which Kafka would store what no reader can interpret: uncompressed records whose
inner offsets do not count up from 0 are rewritten, like compressed ones; a batch without records, or with incomplete
producer fields, is refused from any sender; so is a negative timestamp other than -1; and so is a batch flagged
LogAppendTime, since newer Kafka may clear the flag and expose unchecked timestamps.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import NamedTuple

import numpy as np

from ... import format as formats
from ...config import LogConfig
from ...errors import CorruptRecordError, OffsetsOutOfOrderError, RecordTooLargeError, RecordValidationError
from ...format import ALL_COLUMNS, StopReason, v2
from ...format.constants import (
    CONTROL_MASK,
    HEADER_UP_TO_MAGIC,
    INT32_MAX,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    Codec,
    TimestampType,
)
from ...format.record_columns import MESSAGE_BYTES_MIN
from ...format.tables import BatchHeaders, Bytes, Records
from ...kernels import records as reading
from ...recovery.producer_state import Origin
from .old_formats import Assigned, check_fits_old_format, to_message_set
from .records import UNCOMPRESSED, Compression, check_records, target_compression

UNKNOWN_OFFSET = -1
FOLLOWING = (Origin.REPLICATION, Origin.RAFT_LEADER)  # batches from these origins already have their offsets


class Analysis(NamedTuple):
    """The content of a set of batches according to their headers; the checksums are correct."""

    headers: BatchHeaders
    valid_bytes: int  # of whole batches; a partial batch after them is to be dropped; 0: nothing to append
    first_offset: int  # -1 if the first batch is older than magic 2, since only decoding would find it
    last_offset: int  # -1: no batch
    max_timestamp: int  # ms; -1: no batch has one
    offset_of_max_timestamp: int  # the last offset of the first batch that reaches it; -1: no batch has one
    source_codec: Codec  # the last one that is not NONE


class Validated(NamedTuple):
    """A set of batches ready to be written, with the log's offsets, leader epoch and timestamps."""

    buffer: Bytes
    headers: BatchHeaders
    max_timestamp: int  # ms; -1: no record has one
    offset_of_max_timestamp: int  # the last offset of the batch that reaches it; -1: no record has a timestamp
    log_append_time_ms: int  # -1 unless the log sets the time
    sizes_changed: bool  # the batches were encoded again


def analyze(buffer: Bytes, origin: Origin, config: LogConfig) -> Analysis:
    """Checks the headers of a set of batches from any sender, and summarizes them; needs nothing of the log.

    Raises CorruptRecordError (UnsupportedMagicError for a newer format) for an invalid size, magic or checksum,
    RecordTooLargeError for a batch above ``max.message.bytes`` unless it is replicated, RecordValidationError for a
    client's batch with a base offset other than 0, OffsetsOutOfOrderError if the sender assigns offsets and they do not
    increase, and UnsupportedCompressionTypeError for a codec that Kafka does not have.
    """
    scan = formats.scan(buffer)
    if (reason := _tail_reason(buffer, scan)) not in (StopReason.END, StopReason.TRUNCATED):
        raise formats.stop_error(scan._replace(reason=reason), buffer)
    headers = scan.headers
    if not len(headers):
        return _analysis(headers)
    if origin is Origin.CLIENT:
        _check_base_offsets(headers)
    if origin in FOLLOWING:
        _check_offsets_increase(headers)
    if origin is not Origin.REPLICATION:
        check_batch_sizes(headers, config)
    formats.verify(buffer, headers)
    return _analysis(headers)


def _tail_reason(buffer: Bytes, scan: formats.Scan) -> StopReason:
    """Returns why a scan stopped: TRUNCATED only if the bytes after the whole batches can begin a batch.

    A scan takes any bytes that are too short for a whole batch for a partial one. Here, as in Kafka's
    ByteBufferLogInputStream, the length and magic in these bytes must be valid too.
    """
    tail = buffer[scan.end : scan.end + HEADER_UP_TO_MAGIC].tobytes()
    if scan.reason is StopReason.TRUNCATED and len(tail) >= LOG_OVERHEAD:
        if int.from_bytes(tail[LENGTH_AT:LOG_OVERHEAD], "big", signed=True) < MESSAGE_BYTES_MIN:
            return StopReason.BAD_SIZE
        if len(tail) > MAGIC_AT and tail[MAGIC_AT] > v2.MAGIC:
            return StopReason.UNKNOWN_MAGIC if tail[MAGIC_AT] < 0x80 else StopReason.BAD_MAGIC
    return scan.reason


def _analysis(headers: BatchHeaders) -> Analysis:
    if not len(headers):
        return Analysis(headers, 0, UNKNOWN_OFFSET, UNKNOWN_OFFSET, NO_TIMESTAMP, UNKNOWN_OFFSET, Codec.NONE)
    table = headers.table
    largest = table[np.argmax(table["max_timestamp"])]  # the first batch that reaches it
    timed = largest["max_timestamp"] > NO_TIMESTAMP
    compressed = headers.codec[headers.codec != Codec.NONE]
    return Analysis(
        headers,
        valid_bytes=headers.end,
        first_offset=int(table["base_offset"][0]) if table["magic"][0] >= v2.MAGIC else UNKNOWN_OFFSET,
        last_offset=int(table["last_offset"][-1]),
        max_timestamp=int(largest["max_timestamp"]) if timed else NO_TIMESTAMP,
        offset_of_max_timestamp=int(largest["last_offset"]) if timed else UNKNOWN_OFFSET,
        source_codec=formats.codec_of(int(compressed[-1])) if len(compressed) else Codec.NONE,
    )


def check_batch_sizes(headers: BatchHeaders, config: LogConfig) -> None:
    """Raises RecordTooLargeError for the first batch above ``max.message.bytes``."""
    sizes = headers.table["size"]
    for row in np.flatnonzero(sizes > config.max_message_bytes)[:1]:
        raise RecordTooLargeError(
            f"the batch at position {headers.table['position'][row]} of the append has {sizes[row]} bytes, but "
            f"max.message.bytes allows {config.max_message_bytes}: write smaller records or raise that setting"
        )


def _check_base_offsets(headers: BatchHeaders) -> None:
    """Raises RecordValidationError for a client's batch of magic 2 with a base offset other than 0.

    Accepts batches of magic 0 and 1 with any offsets, as Kafka does: they are rewritten anyway.
    """
    base_offsets = headers.table["base_offset"]
    for row in np.flatnonzero((base_offsets != 0) & (headers.table["magic"] >= v2.MAGIC))[:1]:
        raise RecordValidationError(f"a client's batch must have base offset 0, not base offset {base_offsets[row]}")


def _check_offsets_increase(headers: BatchHeaders) -> None:
    last_offsets = headers.table["last_offset"]
    for row in np.flatnonzero(last_offsets[1:] <= last_offsets[:-1])[:1]:
        raise OffsetsOutOfOrderError(
            f"the batch at position {headers.table['position'][row + 1]} of the append has last offset "
            f"{last_offsets[row + 1]}, which is not above {last_offsets[row]}, that of the batch before"
        )


def validate_and_assign_offsets(
    buffer: Bytes,
    analysis: Analysis,
    *,
    start_offset: int,
    now_ms: int,
    leader_epoch: int,
    origin: Origin,
    config: LogConfig,
) -> Validated:
    """Checks a set of batches record by record, and returns it with the log's offsets.

    If the batch has the codec of the topic and inner offsets 0, 1, 2, …, the result is a copy with another base offset
    and leader epoch and, if they differ, another largest timestamp or the append time. Otherwise, the records are
    encoded again as one batch. Control batches are never compressed.

    Raises

    - RecordValidationError for a set that is not one batch of magic 2, one wrapper, or plain old messages; for an
      inconsistent batch; and for records that the topic refuses, with the index of each;
    - InvalidTimestampError instead, if one of these is refused for its time;
    - InvalidRecordError for records that do not decode;
    - CorruptRecordError for a wrong checksum inside a wrapper;
    - RecordTooLargeError if encoding again makes the batch too large;
    - UnsupportedForMessageFormatError for what an older ``message.format.version`` has no place for.
    """
    headers = analysis.headers
    _check_set(headers, analysis.source_codec)
    _check_batches(headers, origin)
    target = target_compression(config, analysis.source_codec)
    if headers.is_control[0]:
        target = UNCOMPRESSED
    append_time_ms = now_ms if config.message_timestamp_type == "LogAppendTime" else NO_TIMESTAMP
    assigned = Assigned(start_offset, leader_epoch, append_time_ms)
    magic = config.record_magic if origin is Origin.CLIENT else v2.MAGIC
    may_stay = magic == headers.table["magic"][0] == v2.MAGIC and headers.codec[0] == target.codec
    decode = partial(formats.decode, buffer, headers, decompressed_bytes_max=config.max_decompressed_bytes)
    records = decode(columns=("key",) if may_stay else ALL_COLUMNS).records
    if headers.table["magic"][0] < v2.MAGIC and analysis.source_codec is not Codec.NONE:
        _check_inner_messages(buffer, headers, config)
    flagged = records.timestamp_types == TimestampType.LOG_APPEND_TIME
    check_records(records, flagged=flagged, now_ms=now_ms, config=config)
    if magic < v2.MAGIC:
        check_fits_old_format(headers, records, config.message_format_version)
        rebuilt = to_message_set(buffer, headers, records, magic, target, assigned)
        check_batch_sizes(rebuilt.headers, config)
        return _validated(rebuilt, assigned, sizes_changed=True)
    if may_stay and _counts_up(headers, records):
        return _validated(_stamp_copy(buffer, headers, records, assigned), assigned, sizes_changed=False)
    if may_stay:
        records = decode().records
    rebuilt = _rebuild(headers, records, target, assigned)
    check_batch_sizes(rebuilt.headers, config)
    return _validated(rebuilt, assigned, sizes_changed=True)


def _validated(batches: v2.EncodedBatches, assigned: Assigned, *, sizes_changed: bool) -> Validated:
    found = _analysis(batches.headers)
    return Validated(
        *batches, found.max_timestamp, found.offset_of_max_timestamp, assigned.append_time_ms, sizes_changed
    )


def _check_set(headers: BatchHeaders, source_codec: Codec) -> None:
    if not len(headers):
        raise RecordValidationError("the append has no complete batch: send at least one")
    magics = headers.table["magic"]
    if (magics != magics[0]).any():
        raise RecordValidationError(f"all batches of an append must have the same magic, but these have {set(magics)}")
    if len(headers) > 1 and (magics[0] >= v2.MAGIC or source_codec is not Codec.NONE):
        raise RecordValidationError(
            f"an append of magic 2, or of compressed messages, must be one batch, but has {len(headers)}"
        )


def _check_batches(headers: BatchHeaders, origin: Origin) -> None:
    for row in headers.table[headers.table["magic"] >= v2.MAGIC]:
        count, first, last = row["count"], row["base_offset"], row["last_offset"]
        if count <= 0 or not 0 <= first <= last or (origin is Origin.CLIENT and count != last - first + 1):
            raise RecordValidationError(f"a batch with {count} records cannot have offsets {first} to {last}")
        control, transactional = row["attributes"] & CONTROL_MASK, row["attributes"] & TRANSACTIONAL_MASK
        producer_id, epoch, sequence = row["producer_id"], row["producer_epoch"], row["base_sequence"]
        if control and origin is Origin.CLIENT:
            raise RecordValidationError("a client may not write control records")
        if min(producer_id, epoch, sequence) < -1 or (
            producer_id >= 0 and (epoch < 0 or (sequence < 0 and not control))
        ):
            raise RecordValidationError(
                f"a batch has producer {producer_id}, epoch {epoch} and sequence {sequence}: give all three or none"
            )
        if producer_id < 0 and transactional:
            raise RecordValidationError("a batch is marked as transactional, but has no producer id")


def _check_inner_messages(buffer: Bytes, headers: BatchHeaders, config: LogConfig) -> None:
    """Checks the checksum and magic of each message in a wrapper, which readers ignore."""
    magic = int(headers.table["magic"][0])
    for part in formats.by_magic(magic).parts(buffer, headers, config.max_decompressed_bytes):
        inner = memoryview(part.source)
        for index, (start, stop) in enumerate(part.table[:, [reading.MESSAGE_START, reading.MESSAGE_STOP]].tolist()):
            crc = zlib.crc32(inner[start + 4 : stop])
            stored = int.from_bytes(inner[start : start + 4], "big")
            if crc != stored:
                raise CorruptRecordError(
                    f"message {index} of a wrapper: {formats.checksum_text(crc, stored)}", position=0
                )
            if inner[start + reading.MESSAGE_MAGIC_AT] != magic:
                raise RecordValidationError(f"message {index} of a wrapper does not have the wrapper's magic, {magic}")


def _counts_up(headers: BatchHeaders, records: Records) -> bool:
    """Whether the inner offsets of a batch are 0, 1, 2, … up to the last offset in its header."""
    first, last = int(headers.table["base_offset"][0]), int(headers.table["last_offset"][0])
    return last - first + 1 == len(records) and np.array_equal(records.offsets, np.arange(first, last + 1))


def _stamp_copy(buffer: Bytes, headers: BatchHeaders, records: Records, assigned: Assigned) -> v2.EncodedBatches:
    batch = buffer[: headers.end].copy()
    max_timestamps = records.timestamps.max(keepdims=True)
    if headers.table["max_timestamp"] != max_timestamps:  # the producer stated a wrong one
        headers = v2.set_max_timestamp(batch, headers, max_timestamps)
    return _stamp(batch, headers, assigned)


def _rebuild(headers: BatchHeaders, records: Records, target: Compression, assigned: Assigned) -> v2.EncodedBatches:
    """Returns the records as one new batch of magic 2, with the old batch's producer, sequence and attributes."""
    first = headers.table[0]
    fields = v2.BatchFields(
        codec=target.codec,
        level=target.level,
        producer_id=int(first["producer_id"]),
        producer_epoch=int(first["producer_epoch"]),
        base_sequence=int(first["base_sequence"]),
        transactional=bool(headers.is_transactional[0]),
        control=bool(headers.is_control[0]),
    )
    return _stamp(*v2.encode_batches(records, fields, batch_bytes_max=INT32_MAX), assigned)


def _stamp(batch: Bytes, headers: BatchHeaders, assigned: Assigned) -> v2.EncodedBatches:
    headers = v2.stamp(batch, headers, base_offset=assigned.start_offset, leader_epoch=assigned.leader_epoch)
    if assigned.append_time_ms != NO_TIMESTAMP:
        headers = v2.set_append_time(batch, headers, assigned.append_time_ms)
    return v2.EncodedBatches(batch, headers)
