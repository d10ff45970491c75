"""Encodes a number as a varint, for batches and messages that are written by plain Python."""

from __future__ import annotations


def unsigned_varint(value: int) -> bytes:
    """Returns a number, which is not negative, in 7 bits per byte, the lowest first; more follow a byte above 127.

    That is Kafka's unsigned varint. A number that is not negative has twice itself as its zigzag varint.
    """
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
