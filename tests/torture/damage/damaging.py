"""Ways to damage bytes, drawn by chance: what disks, cables, copies and people do, and what attackers would."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random

from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.checksums import crc32c
from pyspark_commitlog.storage.format.constants import LENGTH_AT, LOG_OVERHEAD
from pyspark_commitlog.storage.format.files import checkpoints
from pyspark_commitlog.storage.format.record_columns import MESSAGE_BYTES_MIN

INTERESTING = (0, 1, -1, 2, 127, 128, 255, 2**15 - 1, 2**31 - 1, -(2**31), 2**31 - 13, 2**30, 2**63 - 1, -(2**63))
VARINTS = (b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\x80" * 11, b"\xff" * 10 + b"\x01", b"\x01", b"\x80\x00")
BLOCKS = (16, 512, 4096)

Way = Callable[[Random, bytearray], None]


def damage(chance: Random, data: bytes) -> bytes:
    """``data`` damaged, in one way mostly, in a few sometimes."""
    damaged = bytearray(data)
    for _ in range(1 if chance.random() < 0.8 else chance.randint(2, 4)):
        chance.choice(WAYS)(chance, damaged)
    return bytes(damaged)


def _place(chance: Random, data: bytearray) -> int:
    """Often near the beginning, where headers are."""
    end = max(len(data) - 1, 0)
    return chance.randint(0, min(end, 70) if chance.random() < 0.4 else end)


def flip_a_bit(chance: Random, data: bytearray) -> None:
    if data:
        data[_place(chance, data)] ^= 1 << chance.randrange(8)


def set_a_byte(chance: Random, data: bytearray) -> None:
    if data:
        data[_place(chance, data)] = chance.choice((0, 0xFF, 0x80, 0x7F, chance.randrange(256)))


def set_a_number(chance: Random, data: bytearray) -> None:
    """Lengths, counts, offsets, times: a field of two, four or eight bytes holds the worst there is."""
    size = chance.choice((2, 4, 4, 8))
    number = chance.choice((*INTERESTING, chance.randrange(2**63), len(data), len(data) + 1, len(data) - LOG_OVERHEAD))
    at = _place(chance, data)
    data[at : at + size] = (number % 2 ** (8 * size)).to_bytes(size, "big")[: len(data) - at]


def set_a_varint(chance: Random, data: bytearray) -> None:
    worst = chance.choice(VARINTS)
    at = _place(chance, data)
    data[at : at + len(worst)] = worst[: len(data) - at]


def spoil_a_run(chance: Random, data: bytearray) -> None:
    at = _place(chance, data)
    run = min(chance.randint(1, 64), len(data) - at)
    data[at : at + run] = chance.choice((bytes(run), b"\xff" * run, chance.randbytes(run)))


def lose_a_block(chance: Random, data: bytearray) -> None:
    """A block of the disk is zeros, or what lay there before."""
    size = chance.choice(BLOCKS)
    at = chance.randrange(len(data) // size + 1) * size
    run = min(size, len(data) - at)
    data[at : at + run] = chance.choice((bytes(run), chance.randbytes(run)))


def swap_blocks(chance: Random, data: bytearray) -> None:
    size = chance.choice(BLOCKS)
    first, second = (chance.randrange(len(data) // size + 1) * size for _ in range(2))
    if first + size <= len(data) and second + size <= len(data):
        data[first : first + size], data[second : second + size] = (
            data[second : second + size],
            data[first : first + size],
        )


def repeat_a_block(chance: Random, data: bytearray) -> None:
    size = chance.choice(BLOCKS)
    at = _place(chance, data)
    data[at:at] = data[at : at + size]


def cut_the_end(chance: Random, data: bytearray) -> None:
    del data[chance.randint(0, len(data)) :]


def cut_the_middle(chance: Random, data: bytearray) -> None:
    at = _place(chance, data)
    del data[at : at + chance.choice((1, 2, 4, chance.randint(1, 600)))]


def insert(chance: Random, data: bytearray) -> None:
    at = _place(chance, data)
    data[at:at] = chance.choice((b"\0", chance.randbytes(chance.randint(1, 8)), bytes(chance.randint(1, 5000))))


def append(chance: Random, data: bytearray) -> None:
    data += chance.choice((bytes(chance.randint(1, 5000)), chance.randbytes(chance.randint(1, 200)), bytes(data)))


WAYS: tuple[Way, ...] = (
    flip_a_bit, flip_a_bit, set_a_byte, set_a_number, set_a_number, set_a_varint, spoil_a_run, lose_a_block,
    swap_blocks, repeat_a_block, cut_the_end, cut_the_middle, insert, append,
)  # fmt: skip


def sign_batches(data: bytes) -> bytes:
    """Batches of magic 2 with checksums that are right for what they hold now, as far as they can be walked."""
    signed, at = bytearray(data), 0
    while at + v2.LAYOUT.itemsize <= len(signed):
        size = int.from_bytes(signed[at + LENGTH_AT : at + LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
        if size < v2.LAYOUT.itemsize or at + size > len(signed):
            break
        checksum = crc32c(memoryview(signed)[at + v2.CHECKED_FROM : at + size])
        signed[at + v2.CRC_AT : at + v2.CRC_AT + 4] = checksum.to_bytes(4, "big")
        at += size
    return bytes(signed)


def sign_messages(data: bytes) -> bytes:
    """The same for messages of magic 0 and 1, whose checksum is that of zlib and covers what follows it."""
    signed, at = bytearray(data), 0
    while at + MESSAGE_BYTES_MIN <= len(signed):
        size = int.from_bytes(signed[at + LENGTH_AT : at + LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
        if size < MESSAGE_BYTES_MIN or at + size > len(signed):
            break
        checksum = zlib.crc32(memoryview(signed)[at + LOG_OVERHEAD + 4 : at + size])
        signed[at + LOG_OVERHEAD : at + LOG_OVERHEAD + 4] = checksum.to_bytes(4, "big")
        at += size
    return bytes(signed)


def sign_snapshot(data: bytes) -> bytes:
    """A producer snapshot with the checksum that is right for what it holds now."""
    if len(data) < checkpoints.SNAPSHOT_HEADER.itemsize:
        return data
    checksum = crc32c(data[checkpoints.CRC_FROM :])
    return data[:2] + checksum.to_bytes(4, "big") + data[checkpoints.CRC_FROM :]
