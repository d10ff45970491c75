"""Message sets for clients that know no record batches, or no timestamps (Kafka's RecordsUtil.downConvert)."""

from __future__ import annotations

from .. import format as formats
from ..config import INT64_MAX
from ..errors import UnsupportedCompressionTypeError
from .constants import LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, Codec
from .tables import BatchHeaders, Bytes, Records

OVERFLOW = (-1).to_bytes(8, "big", signed=True) + (61).to_bytes(4, "big")  # the beginning of a batch that did not fit


def to_older_format(buffer: Bytes, magic: int, first_offset: int, decompressed_bytes_max: int) -> bytes | None:
    """Returns the result of a fetch as message sets of ``magic`` 0 or 1; None if none of it is newer than that.

    ``buffer`` begins with a batch, and may end within one, which is left out. Each batch is encoded with its own codec.
    Record headers and control batches are left out, and so are plain records below ``first_offset`` and batches with
    none from it on. The result is at most as large as the buffer or the first batch in it; the rest is cut off, perhaps
    within a batch. If not even the first batch is whole in the buffer, the result is the beginning of one: a client
    then asks for more bytes. The result is empty if no batch that is whole has a record from ``first_offset`` on.

    Raises UnsupportedCompressionTypeError if the first batch has zstd, which old formats do not know, and
    CorruptionError for a batch that does not decode, or decompresses to more than ``decompressed_bytes_max``.
    """
    headers = formats.scan(buffer).headers
    if not len(headers):
        return OVERFLOW if len(buffer) > MAGIC_AT and buffer[MAGIC_AT] > magic else None
    if (headers.table["magic"] <= magic).all():
        return None
    found, limit = bytearray(), len(buffer)
    for row in range(len(headers)):
        batch = headers[row : row + 1]
        if found and (len(found) >= limit or batch.codec[0] == Codec.ZSTD):
            break
        converted = _converted(buffer, batch, magic, first_offset, decompressed_bytes_max)
        limit = limit if found else max(limit, len(converted))
        found += converted
    return bytes(found[:limit])


def to_message_set(records: Records, codec: Codec = Codec.NONE) -> bytes:
    """Returns keys and values as a message set of magic 0, as clients of Kafka 0.8 send it.

    Raises UnsupportedCompressionTypeError for a codec that brokers of 0.8 do not know.
    """
    if codec > Codec.SNAPPY:
        raise UnsupportedCompressionTypeError(f"Kafka 0.8 has no codec {codec.name.lower()}; use gzip or snappy")
    encoded: Bytes = formats.by_magic(0).encode(records, codec)
    return encoded.tobytes()


def begins_whole(buffer: Bytes) -> bool:
    """Whether the batch or message at the start of a buffer ends within it, according to its length."""
    head = buffer[:LOG_OVERHEAD].tobytes()
    return len(head) == LOG_OVERHEAD and int.from_bytes(head[LENGTH_AT:], "big") <= len(buffer) - LOG_OVERHEAD


def _converted(buffer: Bytes, batch: BatchHeaders, magic: int, first_offset: int, limit: int) -> bytes:
    row = batch.table[0]
    if row["magic"] <= magic:
        return buffer[int(row["position"]) : int(row["position"] + row["size"])].tobytes()
    if batch.is_control[0]:
        return b""
    codec = Codec(int(batch.codec[0]))
    if codec is Codec.ZSTD:
        raise UnsupportedCompressionTypeError("records with zstd cannot be read by clients of Kafka before 2.1")
    records = formats.decode(buffer, batch, columns=("key", "value"), decompressed_bytes_max=limit).records
    if not len(records) or records.offsets[-1] < first_offset:
        return b""
    if codec is Codec.NONE:
        records = records.between(first_offset, INT64_MAX)
    encoded: Bytes = formats.by_magic(magic).encode(records, codec)
    return encoded.tobytes()
