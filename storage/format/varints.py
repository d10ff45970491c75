"""Encodes a number as a varint, for batches and messages that are written by plain Python."""

from __future__ import annotations


def unsigned_varint(value: int) -> bytes:
    """Encodes a number from 0 on as Kafka's unsigned varint: 7 bits per byte, the lowest first.

    More bytes follow a byte above 127.

    The zigzag varint of such a number is the unsigned varint of its double.
    """
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
