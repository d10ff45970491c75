"""Partitioners: choose the partition of a key (``partitioner.class``).

:func:`java_hash` equals Java's ``hashCode``, so keys go where Kafka's old producers send them.
"""

from __future__ import annotations

import struct
from typing import Any, Protocol

from ...storage import BinaryColumn, partitions_of
from ..errors import InvalidMessageError

_INT32_MIN = -(2**31)


class Partitioner(Protocol):
    """Chooses partitions. Not called for messages without a key."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """Returns an index into the sorted partitions of the topic, from 0 to ``num_partitions`` - 1."""
        ...


class DefaultPartitioner:
    """The partitioner of Kafka 0.7 and 0.8: the key's ``hashCode`` without its sign, modulo the partitions."""

    def partition(self, key: object, num_partitions: int) -> int:
        hashed = java_hash(key)
        return 0 if hashed == _INT32_MIN else abs(hashed) % num_partitions  # as 0.8.2: Java's abs leaves it negative


class Murmur2Partitioner:
    """The partitioner of Kafka since 0.9: murmur2 of the key's bytes. Text counts as UTF-8."""

    def partition(self, key: object, num_partitions: int) -> int:
        data = key.encode() if isinstance(key, str) else key
        if not isinstance(data, bytes):
            raise InvalidMessageError(
                f"a key of type {type(key).__name__} has no partition: give bytes or text, or set partitioner.class"
            )
        return int(partitions_of(BinaryColumn.from_list([data]), num_partitions)[0])


def java_hash(key: object) -> int:
    """Returns ``hashCode`` of the Java object that corresponds to ``key``, from -2^31 to 2^31 - 1.

    A str is a String, an int an Integer or else a Long, a float a Double, a bool a Boolean. Bytes are hashed as by
    ``Arrays.hashCode``, because the hash of a byte[] itself differs in every process. Raises InvalidMessageError for
    other types.
    """
    if isinstance(key, str):
        return _folded(key.encode("utf-16-be", "surrogatepass"), ">H", 0)
    if isinstance(key, bytes):
        return _folded(key, "b", 1)
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, int) and -(2**31) <= key < 2**31:
        return key
    if isinstance(key, int) and -(2**63) <= key < 2**63:
        return _folded_long(key)
    if isinstance(key, float):
        return _folded_long(struct.unpack(">q", struct.pack(">d", key))[0])
    raise InvalidMessageError(
        f"a key of type {type(key).__name__} has no hash in Java: give text, a number or bytes, or set "
        "partitioner.class"
    )


def _folded(data: bytes, unit: str, start: int) -> int:
    hashed = start
    for (each,) in struct.iter_unpack(unit, data):
        hashed = (31 * hashed + each) & 0xFFFFFFFF
    return _signed(hashed)


def _folded_long(number: int) -> int:
    bits = number & 0xFFFFFFFFFFFFFFFF
    return _signed((bits ^ (bits >> 32)) & 0xFFFFFFFF)


def _signed(bits: int) -> int:
    return bits - 2**32 if bits >= 2**31 else bits
