"""Checks one record batch of a client by plain numbers, without the log, so that several threads can do it at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ... import format as formats
from ...config import LogConfig
from ...errors import InvalidRecordError, RecordTooLargeError
from ...filesystem.port import Buffer
from ...format import v2
from ...format.checksums import crc32c
from ...format.compression import decompress, likely_bytes_min
from ...format.constants import (
    CODEC_MASK,
    INT32_MAX,
    LOG_OVERHEAD,
    MAGIC_AT,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    Codec,
)
from ...format.tables import BatchHeaders, Bytes
from ...kernels import canonical
from ...kernels.arrays import frozen
from ...recovery.producer_state import Origin
from .batches import analyze
from .records import target_compression, timestamp_limits

SMALL_BYTES = 1 << 20  # records that are decompressed as a whole
_KNOWN_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL_MASK


class CheckedBatch(NamedTuple):
    """A batch that :func:`check_batch` has checked for one topic. Its buffer must not change until it is appended."""

    data: memoryview
    config: LogConfig  # of the topic
    header: v2.Header | None = None  # of a plain batch; None: appending it checks it as any bytes
    smallest_timestamp: int = NO_TIMESTAMP  # ms, other than -1; 2^63 - 1: no record has one; only of a plain batch
    is_transactional: bool = False  # whether it, or one of several, belongs to a transaction
    producer_id: int = NO_PRODUCER_ID  # of the first of several, which an append refuses unless they have no producer
    producer_epoch: int = NO_PRODUCER_EPOCH
    size: int = 0  # of the records of a compressed batch, decompressed, as far as the check decompressed them

    @property
    def is_plain(self) -> bool:
        return self.header is not None

    def may_stay(self, config: LogConfig, now_ms: int) -> bool:
        """Whether nothing of a plain batch but base offset and leader epoch would change, and no record is refused.

        ``config``: of the topic, now.
        """
        if self.header is None or (self.config is not config and self.config != config):
            return False
        earliest, latest = timestamp_limits(now_ms, config)
        return earliest <= self.smallest_timestamp and self.header.max_timestamp <= latest


class LongCheckError(Exception):
    """A check would decompress more than it may: it is to be made where that delays nobody."""


class CheckLimits(NamedTuple):
    """How much a check may decompress, and a rewriting later."""

    quick: int | None = None  # bytes, of a check that must not take long; None: it may
    rewritten: int = INT32_MAX  # bytes of records that are not stored as they are, and are held in memory for that


UNLIMITED = CheckLimits()


def check_batch(data: Buffer, config: LogConfig, limits: CheckLimits = UNLIMITED) -> CheckedBatch:
    """Checks what a client sent for a topic: checksum, structure and records of one batch of magic 2.

    ``config``: of the topic. The result is for :meth:`Log.append_checked`, which needs few steps for a plain batch: one
    that the log stores as it is, except for base offset and leader epoch. Others (several batches, old messages, a
    codec that is not the topic's, LogAppendTime, any doubt) are left to :meth:`Log.append`.

    Raises what that raises for damage and sizes that show without the log, as :func:`.batches.analyze` does;
    LongCheckError instead of decompressing more than ``limits.quick``; RecordTooLargeError for what would have to be
    rewritten and decompresses to more than ``limits.rewritten``. Needs no lock, and runs mostly without the GIL. Holds
    a small part of the decompressed records at a time.
    """
    view = memoryview(data).cast("B")
    checked = check_plain(view, config, limits.quick)
    if checked is not None:
        return checked
    buffer = np.frombuffer(view, dtype=np.uint8)
    headers = analyze(buffer, Origin.CLIENT, config).headers
    size = sum(_rewritten_size(buffer, headers[row : row + 1], limits) for row in np.flatnonzero(headers.codec))
    producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    if len(headers):
        first = headers.table[0]
        producer = (int(first["producer_id"]), int(first["producer_epoch"]))
    return CheckedBatch(view, config, None, NO_TIMESTAMP, bool(headers.is_transactional.any()), *producer, size)


def check_plain(data: memoryview, config: LogConfig, quick: int | None) -> CheckedBatch | None:
    """Returns the checked batch; None unless it is plain. Raises LongCheckError.

    ``quick``: as in :class:`CheckLimits`.
    """
    if not v2.LAYOUT.itemsize < len(data) <= config.batch_size_max or data[MAGIC_AT] != v2.MAGIC:
        return None
    header = v2.read_header(data)
    if not _is_plain(header, len(data), config) or crc32c(data[v2.CHECKED_FROM :]) != header.crc:
        return None
    found = _survey(data, header, config, quick)
    if found is None or found.largest_timestamp != header.max_timestamp or (found.keyless and config.compact):
        return None
    is_transactional = bool(header.attributes & TRANSACTIONAL_MASK)
    producer = header.producer_id, header.producer_epoch
    return CheckedBatch(data, config, header, found.smallest_timestamp, is_transactional, *producer, found.size)


def encoded_batch(batch: bytes, config: LogConfig) -> CheckedBatch:
    """Returns what :func:`check_batch` would find in a batch of :func:`.v2.encode_small`, whose records have keys.

    Looks at the header only: this process has encoded the rest.
    """
    data = memoryview(batch)
    header = v2.read_header(data)
    if len(data) > config.batch_size_max or not _is_plain(header, len(data), config):
        return check_batch(batch, config)
    return CheckedBatch(data, config, header, header.base_timestamp)


def surveyed_batch(data: memoryview, config: LogConfig, smallest_timestamp: int) -> CheckedBatch:
    """Returns what :func:`check_plain` finds in an uncompressed batch all of whose checks a kernel has made."""
    header = v2.read_header(data)
    is_transactional = bool(header.attributes & TRANSACTIONAL_MASK)
    return CheckedBatch(
        data, config, header, smallest_timestamp, is_transactional, header.producer_id, header.producer_epoch
    )


def _survey(data: memoryview, header: v2.Header, config: LogConfig, quick: int | None) -> v2.Survey | None:
    """Surveys a batch's records: small ones at once, and larger ones in pieces. Raises LongCheckError."""
    records, start = np.frombuffer(data.toreadonly(), dtype=np.uint8), v2.LAYOUT.itemsize
    codec, size, most = header.attributes & CODEC_MASK, 0, config.max_decompressed_bytes
    if codec != Codec.NONE:
        stream = records[start:]
        whole = _decompressed(codec, stream, min(most, SMALL_BYTES if quick is None else quick))
        if whole is None:
            if quick is not None:
                raise LongCheckError
            return v2.survey_stream(codec, stream, header.records, header.base_timestamp, most)
        records, start, size = whole, 0, len(whole)
    at, index, largest, smallest, keyless = canonical.survey(
        frozen(records), start, len(records), 0, header.records, header.base_timestamp
    )
    return v2.Survey(largest, smallest, keyless, size) if (at, index) == (len(records), header.records) else None


def _decompressed(codec: int, stream: Bytes, limit: int) -> Bytes | None:
    """Returns the records; None if they do not decompress, or exceed the limit. What likely exceeds it is not tried."""
    try:
        return None if likely_bytes_min(codec, stream) > limit else decompress(codec, stream, limit=limit)
    except InvalidRecordError:
        return None


def _rewritten_size(buffer: Bytes, headers: BatchHeaders, limits: CheckLimits) -> int:
    """Returns the decompressed size of a compressed batch that is to be rewritten, 0 if it is certainly small enough.

    Raises RecordTooLargeError if it is too large, and LongCheckError.
    """
    codec, magic = int(headers.codec[0]), int(headers.table["magic"][0])
    size = int(headers.table["size"][0])
    if v2.grows_to(codec, size) <= limits.rewritten or limits.rewritten == INT32_MAX:
        return 0
    if limits.quick is not None:
        raise LongCheckError
    try:
        stream = formats.by_magic(magic).value_of(buffer, headers)
        return len(decompress(codec, stream, magic=magic, limit=limits.rewritten))
    except InvalidRecordError as error:
        raise RecordTooLargeError(
            f"the batch must be rewritten for the topic, which needs at most {limits.rewritten} bytes of records: "
            f"{error.reason}; send smaller batches"
        ) from None


def _is_plain(header: v2.Header, size: int, config: LogConfig) -> bool:
    """Whether a header is that of a batch which the log would store as it is, if its records allow it."""
    codec, producer = header.attributes & CODEC_MASK, header[-4:-1]
    is_whole = header.length == size - LOG_OVERHEAD and header.base_offset == 0
    is_counted = header.records > 0 and header.last_offset_delta == header.records - 1
    has_producer = min(producer) >= 0
    has_none = producer == (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE) and header.attributes == codec
    return (
        is_whole
        and is_counted
        and not header.attributes & ~_KNOWN_ATTRIBUTES
        and (has_producer or has_none)
        and codec <= Codec.ZSTD
        and keeps_codec(config, Codec(codec))
    )


def keeps_codec(config: LogConfig, codec: Codec) -> bool:
    """Whether a topic stores batches of magic 2 of a codec as they arrive."""
    return (
        config.message_timestamp_type != "LogAppendTime"
        and config.record_magic == v2.MAGIC
        and (config.compression_type == "producer" or target_compression(config, codec).codec == codec)
    )
