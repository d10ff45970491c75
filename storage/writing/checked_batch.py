"""Checks one record batch of a client by plain numbers, without the log, so that several threads can do it at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..config import LogConfig
from ..errors import InvalidRecordError
from ..filesystem import Buffer
from ..format import v2
from ..format.checksums import crc32c
from ..format.compression import decompress
from ..format.constants import (
    CODEC_MASK,
    LOG_OVERHEAD,
    MAGIC_AT,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    Codec,
)
from ..kernels import canonical, frozen
from ..recovery import Origin
from .batch_checks import analyze
from .record_checks import target_compression, timestamp_limits

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


def check_batch(data: Buffer, config: LogConfig) -> CheckedBatch:
    """Checks what a client sent for a topic: checksum, structure and records of one batch of magic 2.

    ``config``: of the topic. The result is for :meth:`Log.append_checked`, which needs few steps for a plain batch: one
    that the log stores as it is, except for base offset and leader epoch. Others (several batches, old messages, a
    codec that is not the topic's, LogAppendTime, any doubt) are left to :meth:`Log.append`.

    Raises what that raises for damage and sizes that show without the log, as :func:`.batch_checks.analyze` does.
    Needs no lock, and runs mostly without the GIL.
    """
    view = memoryview(data).cast("B")
    checked = _check_plain(view, config)
    if checked is not None:
        return checked
    headers = analyze(np.frombuffer(view, dtype=np.uint8), Origin.CLIENT, config).headers
    producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    if len(headers):
        first = headers.table[0]
        producer = (int(first["producer_id"]), int(first["producer_epoch"]))
    return CheckedBatch(view, config, None, NO_TIMESTAMP, bool(headers.is_transactional.any()), *producer)


def _check_plain(data: memoryview, config: LogConfig) -> CheckedBatch | None:
    """Returns the checked batch; None unless it is plain."""
    if not v2.LAYOUT.itemsize < len(data) <= config.batch_size_max or data[MAGIC_AT] != v2.MAGIC:
        return None
    header = v2.read_header(data)
    if not _is_plain(header, len(data), config) or crc32c(data[v2.CHECKED_FROM :]) != header.crc:
        return None
    records, start = np.frombuffer(data.toreadonly(), dtype=np.uint8), v2.LAYOUT.itemsize
    codec = header.attributes & CODEC_MASK
    if codec != Codec.NONE:
        try:
            records, start = decompress(codec, records[start:], limit=config.max_decompressed_bytes), 0
        except InvalidRecordError:
            return None
    is_plain, largest, smallest, keyless = canonical.survey(
        frozen(records), start, len(records), header.records, header.base_timestamp
    )
    if not is_plain or largest != header.max_timestamp or (keyless and config.compact):
        return None
    is_transactional = bool(header.attributes & TRANSACTIONAL_MASK)
    return CheckedBatch(data, config, header, smallest, is_transactional, header.producer_id, header.producer_epoch)


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
        and config.message_timestamp_type != "LogAppendTime"
        and config.record_magic == v2.MAGIC
        and (config.compression_type == "producer" or target_compression(config, Codec(codec)).codec == codec)
    )
