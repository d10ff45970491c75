"""Decodes the readable part of a damaged batch.

Elsewhere, reading stops at a wrong checksum. A dump is used to examine damage, so like Kafka's tool it shows the
records of a damaged batch as far as they decode, and an error for the first one that does not.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..errors import CorruptionError, CorruptRecordError, LogStoreError
from ..filesystem.port import File
from ..format import v2
from ..format.checksums import crc32, crc32c
from ..format.compression import decompress
from ..format.constants import CODEC_MASK, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT
from ..format.legacy import v1
from ..format.tables import BatchHeaders, Bytes, Records
from .files import BatchAt

_COUNT_AT, _RECORDS_AT = 57, v2.LAYOUT.itemsize


class Salvaged(NamedTuple):
    """The first records of a batch, and the error that ends them, if any."""

    records: Records
    error: LogStoreError | None


def records_of(file: File, batch: BatchAt) -> Records:
    """Returns the records of one batch, whatever its checksum. Raises CorruptionError if one does not decode."""
    buffer = np.frombuffer(file.read(batch.position, batch.size), dtype=np.uint8)
    try:
        records, error = salvage(buffer, _one_batch(buffer), ())
    except CorruptionError as damage:
        raise damage.located(file.path, batch.position) from damage
    if error is not None:
        raise error.located(file.path, batch.position) if isinstance(error, CorruptionError) else error
    return records


def salvage(buffer: Bytes, header: BatchHeaders, columns: tuple[str, ...]) -> Salvaged:
    """Returns the records of one batch as far as they decode, and the error that ends them.

    ``header``, of one row, describes the batch in ``buffer``. ``columns``: those to decode, as in ``format.decode``.
    """
    position, size = int(header.table["position"][0]), int(header.table["size"][0])
    batch = bytearray(buffer[position : position + size].tobytes())
    try:
        return Salvaged(_decode(batch, columns), None)
    except LogStoreError as error:
        return Salvaged(_longest_prefix(batch, columns), error)


def _longest_prefix(batch: bytearray, columns: tuple[str, ...]) -> Records:
    """Returns the records before the first that does not decode, by bisection: any prefix of good records decodes."""
    starts = _record_starts(batch)
    good, bad = 0, len(starts)
    records = _decode(_first_records(batch, starts, 0), columns) if starts else _none(columns)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            records, good = _decode(_first_records(batch, starts, middle), columns), middle
        except LogStoreError:
            bad = middle
    return records


def _record_starts(batch: bytearray) -> list[int]:
    """Returns the position in ``batch`` of each record, as far as the lengths of the records lead.

    If the batch ends before the count in its header, the end of the batch is added. Empty for a compressed batch or one
    of magic 0 or 1, which is read as a whole or not at all.
    """
    if batch[MAGIC_AT] != 2 or _is_compressed(batch):
        return []
    (count,) = struct.unpack_from(">i", batch, _COUNT_AT)
    starts: list[int] = []
    at = _RECORDS_AT
    while at < len(batch) and len(starts) < count:
        starts.append(at)
        length, at = _varint(batch, at)
        if length < 0:
            break
        at += length
    if at == len(batch) and len(starts) < count:
        starts.append(at)  # all present records are whole, but the header states more
    return starts


def _varint(batch: bytearray, at: int) -> tuple[int, int]:
    """Returns the zig-zag varint at ``at`` and the position after it; (-1, ``at``) if it is cut off or too long."""
    raw = 0
    for shift, byte in enumerate(batch[at : at + 5]):
        raw |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + shift + 1
    return -1, at


def _first_records(batch: bytearray, starts: list[int], count: int) -> bytearray:
    """Returns the batch with only its first ``count`` records, which must be fewer than it has."""
    prefix = batch[: starts[count]]
    struct.pack_into(">i", prefix, LENGTH_AT, len(prefix) - LOG_OVERHEAD)
    struct.pack_into(">i", prefix, _COUNT_AT, count)
    return prefix


def _decode(batch: bytearray, columns: tuple[str, ...]) -> Records:
    """Decodes the batch with its checksum replaced by that of its bytes. Raises LogStoreError."""
    if batch[MAGIC_AT] == 2:
        struct.pack_into(">I", batch, v2.CRC_AT, crc32c(memoryview(batch)[v2.CHECKED_FROM :]))
    else:
        struct.pack_into(">I", batch, v1.CRC_AT, crc32(memoryview(batch)[v1.CHECKED_FROM :]))
    buffer = np.frombuffer(bytes(batch), dtype=np.uint8)
    return formats.decode(buffer, _one_batch(buffer), columns=columns).records


def _one_batch(buffer: Bytes) -> BatchHeaders:
    """Returns the header, one row, of the only batch in ``buffer``. Raises CorruptRecordError."""
    scan = formats.scan(buffer)
    if scan.reason is formats.StopReason.TRUNCATED:
        raise CorruptRecordError("the file was truncated while it was read; dump it again", position=0)
    if scan.reason is not formats.StopReason.END:
        raise formats.stop_error(scan, buffer)
    return scan.headers


def _none(columns: tuple[str, ...]) -> Records:
    empty = np.zeros(0, dtype=np.uint8)
    return formats.decode(empty, formats.scan(empty).headers, columns=columns).records


def _is_compressed(batch: bytearray) -> bool:
    return bool(batch[v2.CHECKED_FROM + 1] & CODEC_MASK)


class MessageChecksums(NamedTuple):
    """The stored checksum of each legacy message, and whether it is correct."""

    crcs: list[int]
    valid: list[bool]


def message_checksums(buffer: Bytes, headers: BatchHeaders) -> MessageChecksums:
    """Returns the checksums of all messages that consumers see, in order: those inside a wrapper, not the wrapper's."""
    outer = MessageChecksums(headers.table["crc"].tolist(), formats.checksums_match(buffer, headers).tolist())
    found = MessageChecksums([], [])
    for at, codec in enumerate(headers.codec.tolist()):
        messages = _inner_checksums(buffer, headers[at : at + 1]) if codec else outer
        rows = slice(None) if codec else slice(at, at + 1)
        found.crcs.extend(messages.crcs[rows])
        found.valid.extend(messages.valid[rows])
    return found


def _inner_checksums(buffer: Bytes, wrapper: BatchHeaders) -> MessageChecksums:
    row = wrapper.table[0]
    position, magic = int(row["position"]), int(row["magic"])
    message = buffer[position + LOG_OVERHEAD : position + int(row["size"])].tobytes()
    key_size_at = 14 if magic == 1 else 6
    (key_size,) = struct.unpack_from(">i", message, key_size_at)
    value_at = key_size_at + 4 + max(key_size, 0) + 4
    stream = np.frombuffer(message, dtype=np.uint8)[value_at:]
    inner = decompress(int(wrapper.codec[0]), stream, magic=magic)
    scan = formats.scan(inner)
    return MessageChecksums(scan.headers.table["crc"].tolist(), formats.checksums_match(inner, scan.headers).tolist())
