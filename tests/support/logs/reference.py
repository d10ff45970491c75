"""Slow twins of the kernels: the same formats written down a second time, one byte string at a time, without NumPy.

Nothing here shares code with ``storage``; a test that compares the two compares two readings of the format.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

HEADER = struct.Struct(">qiibIhiqqqhii")  # of a batch of magic 2, 61 bytes


class Malformed(Exception):  # noqa: N818  what a reader says of bytes that are no records
    """The bytes are no records."""


@dataclass(frozen=True)
class Record:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


# Numbers


def varint(value: int) -> bytes:
    """Zig-zag, 7 bits a byte, the lowest first; of a number of 64 bits."""
    raw = ((value << 1) ^ (value >> 63)) % 2**64
    groups = []
    while raw > 0x7F:
        groups.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*groups, raw])


def read_varint(data: bytes, at: int, bits: int = 32) -> tuple[int, int]:
    """The number at ``at`` and the position behind it; Malformed where it is cut or has too many bytes."""
    raw = 0
    for i in range(5 if bits == 32 else 10):
        if at + i >= len(data):
            raise Malformed("cut")
        raw |= (data[at + i] & 0x7F) << 7 * i
        if data[at + i] < 0x80:
            raw %= 2**bits
            return (raw >> 1) ^ -(raw & 1), at + i + 1
    raise Malformed("too long")


def murmur2(key: bytes) -> int:
    """Kafka's hash of a key, signed."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(key)) & mask
    words = len(key) // 4 * 4
    for (word,) in struct.iter_unpack("<I", key[:words]):
        k = word * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if tail := key[words:]:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return h - 2**32 if h >= 2**31 else h


def matches(text: bytes | None, wanted: bytes, how: int) -> bool:
    """Whether a string is (0), begins with (1) or contains (2) another."""
    return text is not None and (text == wanted, text.startswith(wanted), wanted in text)[how]


def crc32c(data: bytes) -> int:
    """CRC-32C bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# Records of magic 2


def _string(text: bytes | None) -> bytes:
    return varint(-1) if text is None else varint(len(text)) + text


def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    body = b"\0" + varint(record.timestamp - base_timestamp) + varint(record.offset - base_offset)
    body += _string(record.key) + _string(record.value) + varint(len(record.headers))
    body += b"".join(_string(key) + _string(value) for key, value in record.headers)
    return varint(len(body)) + body


def encode_batch(records: list[Record], leader_epoch: int = -1) -> bytes:
    """One uncompressed batch of CreateTime without a producer."""
    first, last = records[0], records[-1]
    body = b"".join(encode_record(record, first.offset, first.timestamp) for record in records)
    largest = max(record.timestamp for record in records)
    checked = struct.pack(
        ">hiqqqhii", 0, last.offset - first.offset, first.timestamp, largest, -1, -1, -1, len(records)
    )
    checked += body
    return struct.pack(">qiibI", first.offset, len(checked) + 9, leader_epoch, 2, crc32c(checked)) + checked


def decode_batch(batch: bytes) -> list[Record]:
    """Records of one uncompressed batch; Malformed where any field, length or count is not right."""
    head = HEADER.unpack_from(batch)
    base_offset, attributes, base_timestamp, max_timestamp, count = head[0], head[5], head[7], head[8], head[12]
    records, at = [], HEADER.size
    if count < 0:
        raise Malformed("negative count")
    for _ in range(count):
        size, at = read_varint(batch, at)
        if size < 0 or size > len(batch) - at:
            raise Malformed("record beyond the batch")
        offset, timestamp, key, value, headers = _decode_body(batch[at : at + size])
        timestamp = max_timestamp if attributes & 8 else (base_timestamp + timestamp + 2**63) % 2**64 - 2**63
        records.append(Record(base_offset + offset, timestamp, key, value, headers))
        at += size
    if at != len(batch):
        raise Malformed("bytes left")
    return records


def survey(body: bytes, count: int, base_timestamp: int) -> tuple[int, int, int] | None:
    """Largest timestamp, smallest one other than -1 (2^63 - 1: none), and records without a key, of these records.

    None unless they are ``count`` records with offsets 0, 1, 2, …, encoded as :func:`encode_record` does.
    """
    head = HEADER.pack(0, len(body) + 49, 0, 2, 0, 0, count - 1, base_timestamp, 0, -1, -1, -1, count)
    try:
        records = decode_batch(head + body)
    except Malformed:
        return None
    deltas = [(record.timestamp - base_timestamp + 2**63) % 2**64 - 2**63 for record in records]
    again = [
        encode_record(
            Record(place, base_timestamp + delta, record.key, record.value, record.headers), 0, base_timestamp
        )
        for place, (delta, record) in enumerate(zip(deltas, records, strict=True))
    ]
    if b"".join(again) != body:
        return None
    times = [record.timestamp for record in records]
    return max(times), min((t for t in times if t != -1), default=2**63 - 1), sum(r.key is None for r in records)


def _decode_body(body: bytes) -> tuple[int, int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]:
    timestamp, at = read_varint(body, 1, bits=64)
    offset, at = read_varint(body, at)
    key, at = _read_string(body, at)
    value, at = _read_string(body, at)
    count, at = read_varint(body, at)
    if count < 0 or count > len(body) - at:
        raise Malformed("header count")
    headers = []
    for _ in range(count):
        name, at = _read_string(body, at)
        text, at = _read_string(body, at)
        if name is None:
            raise Malformed("null header key")
        headers.append((name, text))
    if at != len(body):
        raise Malformed("record longer than its fields")
    return offset, timestamp, key, value, tuple(headers)


def _read_string(body: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(body, at)
    if size > len(body) - at:
        raise Malformed("string beyond the record")
    return (None, at) if size < 0 else (body[at : at + size], at + size)


# The walk


def walk(data: bytes) -> tuple[list[tuple[int, int, int]], str]:
    """(position, size, magic) of each whole batch, and why the walk stopped, by the name of the reason."""
    found: list[tuple[int, int, int]] = []
    at = 0
    while at < len(data):
        if len(data) - at < 18:
            return found, "TRUNCATED"
        length, magic = int.from_bytes(data[at + 8 : at + 12], "big", signed=True), data[at + 16]
        if length < 14:
            return found, "BAD_SIZE"
        if at + 12 + length > len(data):
            return found, "TRUNCATED"
        if magic > 2:
            return found, "BAD_MAGIC" if magic > 127 else "UNKNOWN_MAGIC"
        if length < (14, 22, 49)[magic]:
            return found, "BAD_SIZE"
        found.append((at, length + 12, magic))
        at += length + 12
    return found, "END"


# Legacy messages


def encode_message(magic: int, record: Record) -> bytes:
    """A plain message of magic 0 or 1, with its offset and size."""
    checked = bytes([magic, 0]) + (struct.pack(">q", record.timestamp) if magic == 1 else b"")
    for text in (record.key, record.value):
        checked += b"\xff" * 4 if text is None else struct.pack(">i", len(text)) + text
    return struct.pack(">qiI", record.offset, len(checked) + 4, zlib.crc32(checked)) + checked


# Kafka 0.7


def walk_positions(data: bytes) -> tuple[list[tuple[int, int]], int, str]:
    """(position, size) of each whole entry of 0.7, where they stop and why, by the name of the reason."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(data):
        if len(data) - at < 4:
            return found, at, "TRUNCATED"
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if size < 5:
            return found, at, "BAD_SIZE"
        if at + 4 + size > len(data):
            return found, at, "TRUNCATED"
        magic = data[at + 4]
        if magic > 1:
            return found, at, "BAD_MAGIC" if magic > 127 else "UNKNOWN_MAGIC"
        if magic == 1 and size == 5:
            return found, at, "NO_CHECKSUM"
        found.append((at, size + 4))
        at += size + 4
    return found, at, "END"
